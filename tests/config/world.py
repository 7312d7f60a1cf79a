"""A person, a machine and a project of their own, for tests of settings."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from backstay.config.layers import Layered, read_layers
from backstay.config.trust.trust_store import TrustStore


class World:
    """A folder with a home, a project and a data folder, and the settings in them."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project, self.data = folder / "home", folder / "work", folder / "data"
        self.config, self.managed = folder / "config" / "settings.json", folder / "etc" / "settings.json"
        for each in (self.home, self.project / ".git", self.config.parent, self.managed.parent):
            each.mkdir(parents=True)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that lead there."""
        return {
            "HOME": str(self.home),
            "BACKSTAY_CONFIG_DIR": str(self.config.parent),
            "BACKSTAY_DATA_DIR": str(self.data),
        }

    def write(self, path: str | Path, content: object, *, mode: int = 0o600) -> Path:
        """Write a file: one of the project when the path is relative."""
        target = self.project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
        target.chmod(mode)
        return target

    def read(
        self, *, cwd: Path | None = None, given: Path | None = None, trust: bool | None = None, bare: bool = False
    ) -> Layered:
        """Read the settings of a run in the project."""
        return read_layers(
            cwd or self.project,
            given=given,
            trust=trust,
            bare=bare,
            environment=self.environment,
            managed=self.managed,
        )

    def trust(self, cwd: Path | None = None) -> None:
        """Trust the project as it is."""
        TrustStore(self.data).record(self.read(cwd=cwd).trust.survey, at=1_000_000)

    def hook(self, command: str, event: str = "PreToolUse") -> dict[str, object]:
        """A `hooks` section with one command."""
        return {event: [{"hooks": [{"type": "command", "command": command}]}]}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world for each test."""
    return World(tmp_path)


def rules(found: Layered) -> list[tuple[str, str, str]]:
    """The rules that count, in short."""
    return [(rule.decision, str(rule), rule.source) for rule in found.rules]


def run_as_root() -> bool:
    """Whether permission bits mean nothing here."""
    return os.geteuid() == 0
