"""What the disk holds for what was said."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import anyio

from backstay.session.assemble import open_session
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from backstay.wire import codec
from benchmarks.frame import Aim, Bench, Figure, Row
from benchmarks.histories import NO_LIMIT, QUESTION, look, script

MIB = 1024 * 1024


def measure(bench: Bench) -> Iterator[Row]:
    """The SQLite store against the lines it holds, at two lengths, then the peers at the shorter one."""
    few, many = bench.pick((200, 1_000), (3, 6))
    sizes = {turns: anyio.run(_live, bench.folder, turns) for turns in (few, many)}
    payload, store, snapshot = sizes[many]
    ratio = Figure(((store - snapshot) / payload,), "x")
    yield Row(what=f"store size of {many:,} turns, against its lines", figure=ratio, aim=Aim(most=1.2))
    with_cache = Figure((store / payload,), "x")
    yield Row(what="... with the fold snapshot, a deletable cache", figure=with_cache)
    peers = bench.peers.measure("sizes", folder=str(bench.folder), turns=few)
    beside = {name: Figure(tuple(value / MIB for value in values), "MiB") for name, values in peers.items()}
    total = Figure((sizes[few][1] / MIB,), "MiB")
    yield Row(
        what=f"store size of {few:,} turns, all of it",
        figure=total,
        beside=beside,
        note="ours: every intent, verdict and result",
    )
    slope = Figure(((store / many) / (sizes[few][1] / few),), "x")
    yield Row(
        what=f"bytes a turn at {many:,} turns against {few:,}", figure=slope, aim=Aim(most=1.2), note="linear is 1"
    )


async def _live(folder: Path, turns: int) -> tuple[int, int, int]:
    """Live through a conversation; the bytes of its lines, of the database, and of the snapshot in it."""
    path = folder / f"size-{turns}.db"
    store = await SqliteStore.open(path, clock=SystemClock(), synchronous="normal")
    model = script(turns)
    async with open_session(
        store=store, tools=[look], only_tools=True, model=model, cwd=folder, max_session_turns=NO_LIMIT
    ) as session:
        for number in range(turns):
            await session.run(f"{number} {QUESTION}")
        name = session.id
    records = (await store.read(name)).records
    await store.search("fox", 1)  # brings the index up to date, as an idle moment does
    await store.close()
    with sqlite3.connect(path) as connection:
        (cached,) = connection.execute("SELECT coalesce(sum(length(content)), 0) FROM snapshots").fetchone()
    connection.close()
    return sum(len(codec.encode(record)) + 1 for record in records), path.stat().st_size, cached
