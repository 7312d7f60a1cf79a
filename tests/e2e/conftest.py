"""A door for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.door import Door
from tests.e2e.warm import Nest


@pytest.fixture(scope="session")
def nest() -> Iterator[Nest]:
    """The process whose copies become the commands that the tests start."""
    nest = Nest()
    yield nest
    nest.close()


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nest: Nest) -> Door:
    """The command line in a folder of its own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))  # the settings that a person keeps for other agents are read from there
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("BACKSTAY_CONFIG_DIR", str(tmp_path / "config"))
    return Door(tmp_path, nest)
