"""A person's folders and a repository of theirs, for tests of what a session finds there."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from backstay import Session, open_session
from backstay.ports import ModelReply, ModelRequest
from backstay.providers.scripted import PLAYED, ScriptedModel
from backstay.vocab.deltas import Delta
from backstay.vocab.event import Event
from backstay.vocab.messages import Text
from tests.contracts.kit import Reply, scripted


class Listener:
    """A model that plays a script, another one for conversations that begin with certain words, and keeps what it was asked."""

    name, format, facts = "scripted:listener", "anthropic", PLAYED

    def __init__(self, *replies: Reply | str, **others: tuple[Reply | str, ...]) -> None:
        self._own = scripted(*replies)
        self._others = {words: scripted(*said) for words, said in others.items()}
        self.heard: list[ModelRequest] = []

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Answer."""
        self.heard.append(request)
        async for item in self._of(request).ask(request):
            yield item

    def _of(self, request: ModelRequest) -> ScriptedModel:
        first = "".join(part.text for part in request.messages[0].parts if isinstance(part, Text))
        return next((model for words, model in self._others.items() if words in first), self._own)


class Repository:
    """A git repository, a home and a data folder, all of them empty."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.home, self.config = folder / "work", folder / "home", folder / "config"
        self.store = f"sqlite:///{folder / 'sessions.db'}"
        for each in (self.root / ".git", self.home, self.config):
            each.mkdir(parents=True)
        self.write(".git/HEAD", "ref: refs/heads/main\n")
        for name, value in (
            ("HOME", self.home),
            ("BACKSTAY_CONFIG_DIR", self.config),
            ("BACKSTAY_DATA_DIR", folder / "data"),
        ):
            patch.setenv(name, str(value))

    def write(self, path: str | Path, content: str | Mapping[str, object]) -> Path:
        """Write a file of the repository, or of an absolute path."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
        target.chmod(0o600)
        return target

    def skill(self, name: str, body: str, **keys: str) -> Path:
        """Write a skill of the repository."""
        head = {"name": name, "description": f"About {name}.", **{key.replace("_", "-"): keys[key] for key in keys}}
        lines = "\n".join(f"{key}: {value}" for key, value in head.items())
        return self.write(f".backstay/skills/{name}/SKILL.md", f"---\n{lines}\n---\n{body}\n")

    def open(self, *replies: Reply | str, **options: Any) -> AbstractAsyncContextManager[Session]:
        """Open a trusted session there with a scripted model."""
        given = {"store": self.store, "cwd": self.root, "trust": True, **options}
        return open_session(**{"model": scripted(*replies), **given})


def named(log: tuple[Any, ...], kind: type[Event]) -> list[Any]:  # Any: each event has fields of its own
    """The events of a kind."""
    return [record.event for record in log if isinstance(record.event, kind)]
