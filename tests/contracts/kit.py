"""What the contract tests share: scripted sessions, tools that count, and an order of events to look at."""

import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec

from backstay import Session, open_session, tool
from backstay.providers.scripted import ScriptedModel
from backstay.runtime.bus import Item
from backstay.vocab.deltas import Notice
from backstay.vocab.event import Recorded
from backstay.wire.codec import NAME_OF

Reply = Mapping[str, object]


def scripted(*replies: Reply | str) -> ScriptedModel:
    """A model that says `replies`; a string is a reply of that text."""
    return ScriptedModel.of([{"text": reply} if isinstance(reply, str) else reply for reply in replies])


def talk(*replies: Reply | str, **options: Any) -> AbstractAsyncContextManager[Session]:
    """A session with a scripted model, kept nowhere unless a store is named; the options are those of `open_session`."""
    return open_session(**{"store": None, "model": scripted(*replies), **options})


def replace_services(session: Session, **changes: object) -> None:
    """Let an open session go on with other services."""
    services = msgspec.structs.replace(session._services, **changes)
    session._runner.services = session._services = services


def settings_with(hooks: Mapping[str, object], folder: Path) -> Path:
    """Write a settings file with these hooks beside `folder`, as `--settings` names one."""
    path = folder.with_name(f"{folder.name}-settings.json")
    path.write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    return path


def call(name: str, **args: object) -> Reply:
    """A reply that calls one tool."""
    return {"calls": [{"name": name, "args": args}]}


def calls(*wanted: tuple[str, Mapping[str, object]]) -> Reply:
    """A reply that calls several tools."""
    return {"calls": [{"name": name, "args": args} for name, args in wanted]}


def kinds(items: Iterable[object]) -> list[str]:
    """The names of events and notices, in order; deltas are left out."""
    names: list[str] = []
    for item in items:
        if isinstance(item, Recorded):
            names.append(NAME_OF[type(item.event)])
        elif isinstance(item, Notice):
            names.append(item.notice)
    return names


async def stream(session: Session, prompt: str) -> list[Item]:
    """Everything that happens until the turn is over."""
    return [item async for item in session.send(prompt)]


@tool(effect="pure")
async def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


class Till:
    """A tool with an effect that can be counted."""

    def __init__(self) -> None:
        self.charged: list[int] = []

        @tool(name="charge")
        async def charge(amount: int) -> str:
            """Charge an amount."""
            self.charged.append(amount)
            return f"charged {amount}"

        self.tool = charge
