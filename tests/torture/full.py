"""The process behind `disk_full`: lets the disk run full before the k-th event of a session, for every k.

`python -m tests.torture.full '{"folder": "/tmp/x"}'` prints what it found as JSON.
"""

import os
import random
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import msgspec

from backstay.catalog import sessions
from backstay.providers.scripted import ScriptedModel
from backstay.session.assemble import open_session
from backstay.session.session import Session
from backstay.stores.open import open_store
from backstay.stores.trace import FileTrace
from backstay.system.machine import SystemClock
from backstay.vocab.deltas import StoreWaiting
from backstay.vocab.errors import BackstayError, SessionBusy, StoreError, StoreReadOnly
from backstay.vocab.event import Recorded
from tests.torture.judging import judge_log
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
        self.place = Path(task.folder) / f"{at}-{restarts}"
        self.store = Path(task.folder) / "disk" / "store"
        self.url = f"sqlite://{self.store}.db"
        self.wrongs: dict[str, list[str]] = {}
        self._mends = not restarts
        """Whether somebody makes room when the session says that there is none."""

    @property
    def filled(self) -> bool:
        """Whether the session came as far as that event."""
        return bool(self._notes("filled"))

    @property
    def waits(self) -> int:
        """How often the session said that it waits for room."""
        return len(self._notes("waits"))

    @property
    def told(self) -> list[str]:
        """What the caller was told."""
        return self._notes("told")

    @property
    def attempts(self) -> int:
        """Appends that were tried."""
        return len(self._notes("append"))

    @property
    def refused(self) -> bool:
        """Whether an append was tried that found no room."""
        return self.attempts > len(self._notes("taken"))

    def run(self) -> None:
        """Talk, run out of space, get some, go on; then look whether anything is missing."""
        self.place.mkdir()
        if self.restarts:
            self._run_out_and_die()
        self._mends = True
        anyio.run(self._go_on)
        self.disk.free()
        if not self.wrongs:
            anyio.run(self._judge)

    def _run_out_and_die(self) -> None:
        """Let a process run out of space and die on the spot, without tidying up."""
        child = os.fork()
        if child == 0:
            try:
                anyio.run(self._talk)
            finally:
                os._exit(0)
        os.waitpid(child, 0)

    async def _go_on(self) -> None:
        for _ in range(4):
            try:
                with anyio.fail_after(LIMIT_S):
                    return await self._talk()
            except SessionBusy:
                await anyio.sleep(LEASE_S * 2)  # it could not be given back on a full disk, and runs out by itself
            except StoreError as exc:
                self._hear(exc)
        self.wrongs["sessions that cannot go on"] = self.told[-1:]

    async def _talk(self) -> None:
        """Say something; when there is no room for it, make some and say it again."""
        async with self._session() as session:
            try:
                await session.finish()
                await session.run(PROMPT, input_id="go")
            except StoreError as exc:
                self._hear(exc)
                await session.run(PROMPT, input_id="go")

    def _hear(self, exc: StoreError) -> None:
        self._note("told", f"{type(exc).__name__}: {exc}")
        self._say_so()

    def _wait(self, delta: object) -> None:
        assert isinstance(delta, StoreWaiting)
        self._note("waits", delta.problem)
        if self.waits > 1:
            self._say_so()

    def _say_so(self) -> None:
        """Somebody learnt that there is no room: it is made, or the process dies."""
        if not self._mends:
            os._exit(0)
        self.disk.free()

    def _note(self, kind: str, text: str = "") -> None:
        with open(self.place / kind, "a", encoding="utf-8") as file:
            file.write(text.replace("\n", " ") + "\n")

    def _notes(self, kind: str) -> list[str]:
        path = self.place / kind
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    async def _judge(self) -> None:
        store = await open_store(self.url, clock=SystemClock())
        try:
            records = (await store.read(SESSION)).records
            self.wrongs = judge_log(records, self._acknowledged(), entries(self.place / "ledger"))
            self.wrongs["what verify finds"] = list(await sessions.verify(store, SESSION))
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
                patience_s=20.0,
                lease_ttl_s=LEASE_S,
            ) as session:
                session.on("store_waiting", self._wait)
                yield session
        finally:
            await trace.close()
            await inner.close()

    def _before(self, _: str, records: Sequence[Recorded]) -> None:
        self._note("append")
        if records[-1].seq >= self.at and not self.filled:
            self._note("filled")
            self.disk.fill()

    def _after(self, _: str, records: Sequence[Recorded]) -> None:
        self._note("taken", " ".join(f"{record.seq} {record.id}" for record in records))

    def _acknowledged(self) -> list[Word]:
        words = " ".join(self._notes("taken")).split()
        return [
            Word(life=1, kind="event", seq=int(seq), id=name) for seq, name in zip(words[::2], words[1::2], strict=True)
        ]


def try_all(task: Task) -> Findings:
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
            attempt.run()
            for name, wrong in attempt.wrongs.items():
                story = f"full before event {at}, restarts={restarts}, told {attempt.told}"
                found.wrongs.setdefault(name, []).extend(f"{story}: {each}" for each in wrong)
            if not attempt.filled:
                break
            found.points += 1
            found.refused += attempt.refused
            found.waited += attempt.waits > 0
            found.raised += bool(attempt.told)
    if disk.forbid_writing():
        anyio.run(_read_only, attempt, found)
    return found


async def _read_only(attempt: Attempt, found: Findings) -> None:
    """The last session again, on a disk that nothing can be written to: it can be read, and says why it goes no further."""
    problems = found.wrongs.setdefault("read-only stores that do not say so", [])
    try:
        async with attempt._session() as session:
            await session.run("more")
        problems.append("it took an event")
    except StoreReadOnly:
        pass
    except BackstayError as exc:
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
    sys.stdout.buffer.write(msgspec.json.encode(try_all(msgspec.json.decode(sys.argv[1], type=Task))))
