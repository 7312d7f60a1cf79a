"""What the `log` commands do."""

import sys
from collections.abc import Iterable

import anyio
import click

from holdfast import replay as replaying
from holdfast import shelf
from holdfast.cli.place import Place
from holdfast.cli.telling import COULD_NOT, complain, harmless, say, say_json
from holdfast.headless import find, find_one
from holdfast.logic.words import counted
from holdfast.stores.trace import read_trace
from holdfast.stores.trace_files import trace_folder
from holdfast.view.following import Follower
from holdfast.view.one_line import one_line
from holdfast.view.validity import problems
from holdfast.wire.stream import Item, line


async def show(place: Place, *, session: str, after: int, limit: int | None, as_json: bool) -> int:
    """Print the events of a session."""
    async with place.opened(read_only=True) as store:
        meta = await find(store, session, complain)
        part = await store.read(meta.id, after, limit)
    _print(meta.id, part.records, as_json=as_json)
    if part.trouble is not None:
        complain(f"The log goes no further: {part.trouble.detail}")
        return COULD_NOT if part.trouble.kind != "torn" else 0
    return 0


async def tail(place: Place, *, session: str, after: int | None, as_json: bool) -> int:
    """Print what is there, then what comes, until nobody holds the session."""
    async with place.opened(read_only=True) as store:
        meta = await find(store, session, complain)
        start = max(0, meta.seq - 10) if after is None else after
        async for items in Follower(store, meta.id, start):
            _print(meta.id, items, as_json=as_json)
            await anyio.to_thread.run_sync(sys.stdout.flush)
    return 0


async def replay(place: Place, *, session: str, at: int | None, as_json: bool) -> int:
    """Print what the log means."""
    async with place.opened(read_only=True) as store:
        meta = await find(store, session, complain)
        if at is not None and at > meta.seq:
            raise click.UsageError(f"--at {at} is past the end: the last event of {meta.id} is {meta.seq}.")
        state = await replaying.replay(store, meta.id, at)
    say_json(state)
    return 0


async def validate(place: Place, *, session: str, as_json: bool) -> int:
    """Check the log."""
    async with place.opened(read_only=True) as store:
        meta = await find(store, session, complain)
        part = await store.read(meta.id)
        wrong = (*await shelf.verify(store, meta.id), *problems(part.records))
        folder = trace_folder(store.url)
    trace = read_trace(folder, meta.id) if folder is not None else None
    lost = trace.lost if trace is not None else 0
    notes = [f"Lost from the trace: {counted(lost, 'line')}; the log does not need them."] if lost else []
    if as_json:
        found = {"session": meta.id, "valid": not wrong, "events": len(part.records)}
        say_json(found | {"problems": list(wrong), "notes": notes})
        return COULD_NOT if wrong else 0
    for words in (*wrong, *notes):
        say(words)
    verdict = counted(len(wrong), "problem") if wrong else "valid"
    say(f"{meta.id}: {counted(len(part.records), 'event')}, {verdict}.")
    return COULD_NOT if wrong else 0


async def repair(place: Place, *, session: str, as_json: bool) -> int:
    """Make a damaged log writable again."""
    async with place.opened() as store:
        meta = await find_one(store, session)
        words = await store.repair(meta.id)
    if as_json:
        say_json({"session": meta.id, "done": words})
    else:
        say(words)
    return 0


def _print(session: str, items: Iterable[Item], *, as_json: bool) -> None:
    for item in items:
        if as_json:
            say(line(session, item).decode())
        elif words := one_line(item):
            say(harmless(words))
