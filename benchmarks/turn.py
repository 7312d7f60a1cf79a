"""What a turn costs beyond its model and its tools, as the history grows."""

import time
from collections.abc import Iterator
from pathlib import Path

import anyio

from backstay.logic.state.request_messages import Outgoing
from backstay.logic.state.session_state import State, state_of
from backstay.ports import ModelRequest
from backstay.session.assemble import open_session
from backstay.stores.sqlite.connection import Access, Db, connect_stdlib
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from benchmarks.frame import Aim, Bench, Figure, Row, figures
from benchmarks.histories import EVENTS_A_TURN, MESSAGES_A_TURN, NO_LIMIT, REPLIES_A_TURN, fill, look, past, script

LENGTHS = (10, 600, 5_000)


def measure(bench: Bench) -> Iterator[Row]:
    """CPU, wall and commits of a turn with one tool at three lengths, and the building of its requests."""
    turns = bench.pick(40, 2)
    lengths = bench.pick(LENGTHS, (10, 40))
    peers = bench.peers.measure("turns", folder=str(bench.folder), lengths=lengths, turns=bench.pick(15, 2))
    cpu: dict[int, Figure] = {}
    for length in lengths:
        cpu[length], wall, commits = anyio.run(_turns, bench.folder, length, turns)
        beside = {kind: _of_kind(peers, f"{kind}@{length} ") for kind in ("cpu", "wall")}
        aim = Aim(most=5) if length == 600 else None
        name = f"turn with one tool at {length:,} messages"
        yield Row(what=f"{name}: CPU", figure=cpu[length], aim=aim, beside=beside["cpu"])
        yield Row(what="... wall, its syncs included", figure=wall, beside=beside["wall"])
        yield Row(what=f"commits of a turn at {length:,} messages", figure=commits, aim=Aim(most=4))
    flat = Figure((cpu[lengths[-1]].median / cpu[lengths[0]].median,), "x")
    yield Row(what="turn CPU, longest against shortest history", figure=flat, aim=Aim(most=1.5), note="flat is 1")
    for length in lengths[1:]:
        first, next_one = _requests(length, bench.pick(30, 2))
        yield Row(what=f"request building at {length:,} messages", figure=next_one, aim=Aim(most=2))
        yield Row(what="... the first after opening", figure=first)


async def _turns(folder: Path, messages: int, turns: int) -> tuple[Figure, Figure, Figure]:
    before = max(1, messages // MESSAGES_A_TURN)
    commits = _Commits()
    store = await SqliteStore.open(folder / f"turn-{messages}.db", clock=SystemClock(), connect=commits.connect)
    await fill(store, "s1", before, folder)
    cpu, wall, written = [], [], []
    model = script(turns + 1, after=before * REPLIES_A_TURN)
    async with open_session(
        resume="s1",
        store=store,
        tools=[look],
        only_tools=True,
        model=model,
        cwd=folder,
        max_session_turns=NO_LIMIT,
    ) as session:
        await session.run("The first turn warms up.")
        for number in range(turns):
            counted, busy, start = commits.count, time.process_time(), time.perf_counter()
            await session.run(f"Turn {number}.")
            wall.append((time.perf_counter() - start) * 1000)
            cpu.append((time.process_time() - busy) * 1000)
            written.append(float(commits.count - counted))
    await store.close()
    return Figure(tuple(cpu), "ms"), Figure(tuple(wall), "ms"), Figure(tuple(written), "commits")


class _Commits:
    """Counts what really is committed, under the store."""

    def __init__(self) -> None:
        self.count = 0

    def connect(self, path: str, access: Access) -> Db:
        """Open a connection whose commits count."""
        db = connect_stdlib(path, access)
        commit = db.commit

        def counted() -> None:
            self.count += 1
            commit()

        db.commit = counted  # type: ignore[method-assign]  # the one method that is looked at
        return db


def _requests(messages: int, times: int) -> tuple[Figure, Figure]:
    """The first request of a process, and each that follows a turn."""
    turns = messages // MESSAGES_A_TURN
    records = past("s1", turns + times)
    cut = 1 + turns * EVENTS_A_TURN
    first, following = [], []
    for _ in range(min(times, 7)):
        first.append(_build(Outgoing(), state_of("s1", records[:cut])))
    state, outgoing = state_of("s1", records[:cut]), Outgoing()
    _build(outgoing, state)
    for at in range(cut, len(records), EVENTS_A_TURN):
        for record in records[at : at + EVENTS_A_TURN]:
            state.apply(record)
        following.append(_build(outgoing, state))
    return Figure(tuple(first), "ms"), Figure(tuple(following), "ms")


def _build(outgoing: Outgoing, state: State) -> float:
    start = time.perf_counter()
    outgoing.extend(outgoing.fresh(state.transcript), _no_blob)
    ModelRequest(model="m", messages=tuple(outgoing.messages))
    return (time.perf_counter() - start) * 1000


def _no_blob(sha256: str) -> bytes:
    raise AssertionError(f"{sha256!r} has no business here")


def _of_kind(peers: object, prefix: str) -> dict[str, Figure]:
    found = peers if isinstance(peers, dict) else {}
    return figures({name.removeprefix(prefix): values for name, values in found.items() if name.startswith(prefix)})
