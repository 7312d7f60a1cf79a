"""What the driver and its worker processes say to each other: one JSON line each."""

from typing import Literal

import msgspec

What = Literal["talk", "hold", "take", "join"]
"""The lives that a worker process can lead; `worker.py` says what they do."""
Kind = Literal["ready", "born", "event", "waits", "refused", "lost", "trouble", "end", "dead"]


class Order(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Start a life."""

    life: int
    what: What
    url: str
    session: str
    folder: str
    """The working folder, with the ledger of effects in it; never inside the store."""
    seed: int = 0
    turns: int = 1
    finish: bool = False
    """Whether an open turn is finished before anything new is said."""
    ttl_s: float = 15.0
    gate: str = ""
    """A file that must be there before the life begins."""


class Word(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a life, in the order in which it happened."""

    life: int
    kind: Kind
    seq: int = 0
    id: str = ""
    text: str = ""
