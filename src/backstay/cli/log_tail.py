"""Follow another process's session for `log tail`, and format one item as one line: the log is polled, fragments come from the trace.

An event reaches the log at once, a fragment reaches the trace a little later. So events are held back for one round, until the fragments
before them have arrived.
"""

import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from backstay.logic.text import shorten_to_line
from backstay.ports import EventStore
from backstay.stores.trace import TraceLine, trace_folder, trace_path
from backstay.system.files import open_regular
from backstay.vocab.deltas import DELTAS, Delta, Notice
from backstay.vocab.event import Event, Recorded
from backstay.vocab.messages import iso
from backstay.wire.codec import NAME_OF
from backstay.wire.stream import Item

POLL_S: Final = 0.1
_KINDS: Final = {kind.__name__: kind for kind in DELTAS}


class Follower:
    """Iterate over batches of items, in order, until no process holds the session. Take no lease and write nothing."""

    def __init__(self, store: EventStore, session: str, after: int) -> None:
        self._store = store
        self._session = session
        self._read = after
        self._passed = after
        """The last event that was yielded."""
        self._held: tuple[Recorded, ...] = ()
        self._early: list[Delta] = []
        folder = trace_folder(store.url)
        self._trace = TraceTail(trace_path(folder, session)) if folder is not None else None

    async def __aiter__(self) -> AsyncIterator[Sequence[Item]]:
        while True:
            running = await self._store.holder(self._session) is not None
            fresh = (await self._store.read(self._session, self._read)).records
            self._read = fresh[-1].seq if fresh else self._read
            items = self._merge(await self._fragments())
            self._held = fresh
            if items:
                yield items
            if not running and not fresh:
                return
            if running:
                await anyio.sleep(POLL_S)

    async def _fragments(self) -> Sequence[Delta]:
        if self._trace is None:
            return ()
        return await anyio.to_thread.run_sync(self._trace.read)

    def _merge(self, fragments: Sequence[Delta]) -> list[Item]:
        """Return the events held back with the fragments around them, without fragments older than what was yielded."""
        last = self._held[-1].seq if self._held else self._passed
        found: list[tuple[tuple[int, int, int], Item]] = [((record.seq, 0, 0), record) for record in self._held]
        waiting = [*self._early, *fragments]
        found += [((one.after, 1, one.n), one) for one in waiting if self._passed <= one.after <= last]
        self._early = [one for one in waiting if one.after > last]
        self._passed = last
        return [item for _, item in sorted(found, key=lambda each: each[0])]


class TraceTail:
    """Read what is added to a session's trace."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = 0
        self._at = 0

    def read(self) -> Sequence[Delta]:
        """Return the fragments that were added since the last call."""
        try:
            with open_regular(self._path) as file:
                identity = os.fstat(file.fileno()).st_ino
                self._at = self._at if identity == self._file else 0
                self._file = identity
                file.seek(self._at)
                content = file.read()
        except OSError:
            return ()  # there is no trace: the log has everything that matters
        whole = content[: content.rfind(b"\n") + 1]
        self._at += len(whole)
        return [found for line in whole.splitlines() if (found := _delta(line)) is not None]


def _delta(line: bytes) -> Delta | None:
    try:
        traced = msgspec.json.decode(line, type=TraceLine)
        kind = _KINDS.get(traced.kind)
        return None if kind is None else msgspec.convert(traced.data["delta"], kind)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        return None  # a torn line: the trace may lose some


WIDTH: Final = 160
_LEFT_OUT: Final = frozenset({"instructions", "tools", "rules", "schema", "type", "usage"})


def format_item(item: Item) -> str:
    """Return an event, a delta or a notice on one line; empty for any other item."""
    match item:
        case Recorded():
            place = f"{item.seq:>5}  {iso(item.at)[11:23]}  {item.by:<6}"
            return f"{place}  {NAME_OF[type(item.event)]:<20}  {_summary(item.event)}".rstrip()
        case Delta():
            return f"    +  {NAME_OF[type(item)]}: {_summary(item)}"
        case Notice():
            return f"    *  {item.notice} ({item.state})"
        case _:
            return ""


def _summary(item: Event | Delta) -> str:
    """Return the fields of an item, without those for programs, on one short line."""
    return shorten_to_line(_values(msgspec.to_builtins(item)), WIDTH)


def _values(found: object) -> str:
    match found:
        case dict():
            pairs = [(key, _values(value)) for key, value in found.items() if key not in _LEFT_OUT]
            return " ".join(value if key in ("text", "parts", "content") else f"{key}={value}" for key, value in pairs)
        case list() | tuple():
            return " ".join(map(_values, found))
        case _:
            return str(found)
