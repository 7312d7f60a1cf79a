"""A world for each test."""

from pathlib import Path

import pytest

from tests.instructions.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A person and a repository."""
    return World(tmp_path)
