"""A ground for each test."""

from pathlib import Path

import pytest

from tests.skills.ground import Ground


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """A project and a person."""
    return Ground(tmp_path)
