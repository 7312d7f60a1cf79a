"""The wire names of events and deltas: the snake-case names of their classes."""

import re
from typing import Final

from backstay.vocab.deltas import DELTAS
from backstay.vocab.event import Event
from backstay.vocab.events import EVENTS


def snake(name: str) -> str:
    """`ToolStarted` -> `tool_started`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


NAME_OF: Final[dict[type, str]] = {cls: snake(cls.__name__) for cls in (*EVENTS, *DELTAS)}
EVENT_NAMED: Final[dict[str, type[Event]]] = {NAME_OF[cls]: cls for cls in EVENTS}
