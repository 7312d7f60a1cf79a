"""A door for each test."""

from pathlib import Path

import pytest

from tests.e2e.door import Door


@pytest.fixture
def door(tmp_path: Path) -> Door:
    """The command line in a folder of its own."""
    return Door(tmp_path)
