"""The process behind `disk_full`: lets the disk run full before the k-th event of a session, for every k.

`python -m tests.torture.full '{"kind": "sqlite", "folder": "/tmp/x"}'` prints what it found as JSON.
"""

import random
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import anyio
import msgspec

from holdfast import shelf
from holdfast.assemble import open_session
from holdfast.providers.scripted import ScriptedModel
from holdfast.runtime.clock import SystemClock
from holdfast.session import Session
from holdfast.stores.trace import FileTrace
from holdfast.stores.urls import open_store
from holdfast.vocab.deltas import StoreWaiting
from holdfast.vocab.errors import HoldfastError, SessionBusy, StoreError, StoreReadOnly
from holdfast.vocab.events import Recorded
from tests.torture.judging import damage, judge_log
from tests.torture.lives import SHORT, entries, make_tools
from tests.torture.orders import Word
from tests.torture.small_disk import SmallDisk, small_disk
from tests.torture.through import through

SESSION: Final = "s1"
PROMPT: Final = "go " + "y" * 40_000
LIMIT_S: Final = 30.0
LEASE_S: Final = 0.2
MOST_ATTEMPTS: Final = 60
"""Appends that one event may take: more would be a loop."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What to do."""

    kind: Literal["sqlite", "jsonl"]
    folder: str
    restarts: tuple[bool, ...] = (False, True)
    """Whether nobody makes room before the session was given up and another process failed to open it."""


class Findings(msgspec.Struct, kw_only=True):
    """What became of the sessions."""

    how: str = ""
    """What made the disk small."""
    points: int = 0
    """Events before which the disk ran full, with and without a restart before there was room again."""
    refused: int = 0
    """Points at which the store took nothing more; at the others there was room left in a page."""
    waited: int = 0
    """Points at which the session waited, and said so, until there was room."""
    raised: int = 0
    """Points at which the caller was told."""
    wrongs: dict[str, list[str]] = {}


class Attempt:
    """One session whose disk runs full before event `at`."""

    def __init__(self, task: Task, disk: SmallDisk, at: int, *, restarts: bool) -> None:
        self.disk = disk
        self.at = at
        self.restarts = restarts
        self.place = Path(task.folder) / f"{task.kind}-{at}-{restarts}"
        self.store = Path(task.folder) / "disk" / "store"
        self.url = f"sqlite://{self.store}.db" if task.kind == "sqlite" else f"jsonl://{self.store}"
        self.acknowledged: list[Word] = []
        self.attempts = self.waits = 0
        self.told: list[str] = []
        self.filled = False
        self.wrongs: dict[str, list[str]] = {}

    @property
    def refused(self) -> bool:
        """Whether an append was tried that found no room."""
        return self.attempts > len({word.seq for word in self.acknowledged if word.text == "last"})

    async def run(self) -> None:
        """Talk, run out of space, get some, go on; then look whether anything is missing."""
        self.place.mkdir()
        while len(self.told) < 4:
            try:
                with anyio.fail_after(LIMIT_S):
                    async with self._session() as session:
                        await self._talk(session)
                break
            except SessionBusy:
                await anyio.sleep(LEASE_S / 4)  # it could not be given back on a full disk, and runs out by itself
            except StoreError as exc:
                self._hear(exc)
        else:
            self.wrongs["sessions that cannot go on"] = self.told[-1:]
        self.disk.free()
        if not self.wrongs:
            await self._judge()

    async def _talk(self, session: Session) -> None:
        """Say something; when there is no room for it, make some and say it again."""
        try:
            await session.finish()
            await session.run(PROMPT, input_id="go")
        except StoreError as exc:
            if self.restarts:
                raise
            self._hear(exc)
            await session.run(PROMPT, input_id="go")

    def _hear(self, exc: StoreError) -> None:
        self.told.append(f"{type(exc).__name__}: {exc}")
        if len(self.told) > 1 or not self.restarts:
            self.disk.free()

    async def _judge(self) -> None:
        store = await open_store(self.url, clock=SystemClock())
        try:
            records = (await store.read(SESSION)).records
            self.wrongs = judge_log(records, self.acknowledged, entries(self.place / "ledger"))
            self.wrongs["what verify finds"] = damage(await shelf.verify(store, SESSION))
        finally:
            await store.close()
        unsaid = self.filled and self.refused and not (self.told or self.waits)
        self.wrongs["full disks that nobody was told of"] = ["nothing was said"] if unsaid else []
        self.wrongs["loops"] = [f"{self.attempts} appends"] if self.attempts > MOST_ATTEMPTS else []

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        inner = await open_store(self.url, clock=SystemClock())
        trace = FileTrace(self.store.with_name("trace"))
        try:
            async with open_session(
                model=ScriptedModel.of(SHORT),
                store=through(inner, before=self._before, after=self._after),
                session_id=SESSION,
                cwd=str(self.place),
                tools=make_tools(self.place, random.Random(1)),
                only_tools=True,
                trace=trace,
                patience_s=0.15 if self.restarts else 20.0,
                lease_ttl_s=LEASE_S,
            ) as session:
                session.on("store_waiting", self._wait)
                yield session
        finally:
            await trace.close()
            await inner.close()

    def _before(self, _: str, records: Sequence[Recorded]) -> None:
        self.attempts += 1
        if records[-1].seq >= self.at and not self.filled:
            self.filled = True
            self.disk.fill()

    def _after(self, _: str, records: Sequence[Recorded]) -> None:
        self.acknowledged += [Word(life=1, kind="event", seq=record.seq, id=record.id) for record in records[:-1]]
        self.acknowledged.append(Word(life=1, kind="event", seq=records[-1].seq, id=records[-1].id, text="last"))

    def _wait(self, delta: object) -> None:
        assert isinstance(delta, StoreWaiting)
        self.waits += 1
        if self.waits > 1 and not self.restarts:
            self.disk.free()


async def try_all(task: Task) -> Findings:
    """Try every event of a session."""
    folder = Path(task.folder) / "disk"
    folder.mkdir()
    disk = small_disk(folder)
    found = Findings(how=disk.how)
    for restarts in task.restarts:
        at = 0
        while True:
            at += 1
            _empty(folder)
            attempt = Attempt(task, disk, at, restarts=restarts)
            await attempt.run()
            for name, wrong in attempt.wrongs.items():
                story = f"{task.kind} full before event {at}, restarts={restarts}, told {attempt.told}"
                found.wrongs.setdefault(name, []).extend(f"{story}: {each}" for each in wrong)
            if not attempt.filled:
                break
            found.points += 1
            found.refused += attempt.refused
            found.waited += attempt.waits > 0
            found.raised += bool(attempt.told)
    await _read_only(attempt, found)
    return found


async def _read_only(attempt: Attempt, found: Findings) -> None:
    """The last session again, on a disk that nothing can be written to: it can be read, and says why it goes no further."""
    problems = found.wrongs.setdefault("read-only stores that do not say so", [])
    if not attempt.disk.forbid_writing():
        return
    try:
        async with attempt._session() as session:
            await session.run("more")
        problems.append("it took an event")
    except StoreReadOnly:
        pass
    except HoldfastError as exc:
        problems.append(f"{type(exc).__name__}: {exc}")
    store = await open_store(attempt.url, clock=SystemClock())
    try:
        if not (await store.read(SESSION)).records:
            problems.append("nothing can be read")
    finally:
        await store.close()


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(anyio.run(try_all, msgspec.json.decode(sys.argv[1], type=Task))))
