"""The process behind `io_errors`: lets one turn meet a failing disk at the n-th call, for every n.

`python -m tests.torture.tapped faults '{"error": "EIO", "stays": false, "folder": "/tmp/x"}'` prints what it found.
"""

import errno
import itertools
import random
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import anyio
import msgspec

from backstay.catalog import sessions
from backstay.ports import EventStore
from backstay.providers.scripted import ScriptedModel
from backstay.session.assemble import open_session
from backstay.session.session import Session
from backstay.stores.owners import is_dead
from backstay.stores.sqlite.store import SqliteStore
from backstay.stores.trace import NoTrace
from backstay.system.machine import SystemClock
from backstay.vocab.errors import BackstayError, SessionBusy
from backstay.vocab.event import Recorded
from backstay.vocab.specs import Owner
from tests.torture.apsw_db import TapedFiles, connector
from tests.torture.judging import judge_log
from tests.torture.lives import SHORT, entries, make_tools
from tests.torture.orders import Word
from tests.torture.tap import TAP, CountDown, Tape
from tests.torture.through import through

VFS: Final = "taped"
FILES: Final = TapedFiles(VFS)
SESSION: Final = "s1"
LIMIT_S: Final = 30.0


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What to do."""

    error: Literal["EIO", "ENOSPC"]
    stays: bool
    """Whether every later call fails too, until an error is shown or the session has said three times that it waits."""
    folder: str


class Findings(msgspec.Struct, kw_only=True):
    """What became of the turns."""

    calls: int = 0
    """Calls that were made to fail, one in each turn."""
    shown: int = 0
    """Turns that ended with an error which the caller saw."""
    survived: int = 0
    """Turns that were completed all the same."""
    held: int = 0
    """Turns after which the session stayed held: its lease could not be given back, and runs out by itself."""
    wrongs: dict[str, list[str]] = {}


class Brisk(SystemClock):
    """A clock that does not make a test wait."""

    async def sleep(self, seconds: float) -> None:
        """Wait a hundredth of it."""
        await anyio.sleep(seconds / 100)


class Attempt:
    """One turn on a disk that fails at one call."""

    def __init__(self, task: Task, number: int) -> None:
        self.task = task
        self.root = Path(task.folder) / f"{number}"
        self.fault = CountDown(number, getattr(errno, task.error), stays=task.stays)
        self.acknowledged: list[Word] = []
        self.wrongs: dict[str, list[str]] = {}
        self.shown = ""
        self.held = False
        self.waits = 0

    async def run(self) -> None:
        """Let the turn meet the fault, mend the disk, and go on."""
        (self.root / "disk").mkdir(parents=True)
        (self.root / "elsewhere").mkdir()
        TAP.tape = FILES.tape = Tape(self.root / "disk")
        TAP.fault = FILES.fault = self.fault
        try:
            with anyio.fail_after(LIMIT_S):
                async with self._session() as session:
                    text = await session.run("go " + "y" * 40_000)
                    if text != "done":
                        self.wrongs["wrong answers"] = [text]
        except BackstayError as exc:
            self.shown = f"{type(exc).__name__}: {exc}"
        except (OSError, ExceptionGroup) as exc:
            self.wrongs["errors that nobody explains"] = [repr(exc)]
        TAP.fault = FILES.fault = None
        await self._go_on()

    async def _go_on(self) -> None:
        """On the mended disk everything must work, with nothing lost."""
        try:
            with anyio.fail_after(LIMIT_S):
                try:
                    found = await self._talk_on()
                except SessionBusy:
                    self.held = True
                    found = await self._talk_on()
        except (BackstayError, OSError, ExceptionGroup) as exc:
            found = {"sessions that cannot go on": [f"{type(exc).__name__}: {exc}"]}
        for name, wrong in found.items():
            self.wrongs[name] = [*self.wrongs.get(name, []), *wrong]
        TAP.tape = FILES.tape = None

    async def _talk_on(self) -> dict[str, list[str]]:
        async with self._session() as session:
            await session.finish()
            await session.run("and now?")
            return await self._judge(session)

    async def _judge(self, session: Session) -> dict[str, list[str]]:
        part = await session.store.read(SESSION)
        wrong = judge_log(part.records, self.acknowledged, entries(self.root / "elsewhere" / "ledger"))
        wrong["what verify finds"] = list(await sessions.verify(session.store, SESSION))
        return wrong

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        elsewhere = self.root / "elsewhere"
        async with (
            self._store() as store,
            open_session(
                model=ScriptedModel.of(SHORT),
                store=through(store, after=self._acknowledge),
                session_id=SESSION,
                cwd=str(elsewhere),
                tools=make_tools(elsewhere, random.Random(1)),
                only_tools=True,
                trace=NoTrace(),
                patience_s=0.5,
                clock=Brisk(),
            ) as session,
        ):
            session.on("store_waiting", self._wait)
            yield session

    def _wait(self, _: object) -> None:
        """A session that waits says so, and somebody mends the disk."""
        self.waits += 1
        if self.waits > 2:
            TAP.fault = FILES.fault = None

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[EventStore]:
        path = self.root / "disk" / "data" / "store"
        clock, gone = SystemClock(), self._is_dead
        store = await SqliteStore.open(path, clock=clock, is_dead=gone, connect=connector(VFS), inline=True)
        try:
            yield store
        finally:
            await store.close()

    def _is_dead(self, owner: Owner) -> bool:
        """A lease that was not given back is taken over as if its process had died."""
        return self.held or is_dead(owner)

    def _acknowledge(self, _: str, records: Sequence[Recorded]) -> None:
        self.acknowledged += [
            Word(life=1, kind="event", seq=record.seq, id=record.id, text=type(record.event).__name__)
            for record in records
        ]


async def try_all(task: Task) -> Findings:
    """Try every call of a turn."""
    found = Findings()
    for number in itertools.count(1):
        attempt = Attempt(task, number)
        await attempt.run()
        for name, wrong in attempt.wrongs.items():
            story = f"{task.error}{' from' if task.stays else ''} call {number} ({attempt.fault.hit}), shown {attempt.shown!r}"
            found.wrongs.setdefault(name, []).extend(f"{story}: {each}" for each in wrong)
        if not attempt.fault.hit:
            if attempt.shown:
                found.wrongs.setdefault("errors without a fault", []).append(attempt.shown)
            return found
        shutil.rmtree(attempt.root)
        found.calls += 1
        found.shown += bool(attempt.shown)
        found.survived += not attempt.shown
        found.held += attempt.held
    return found


def main(text: str) -> Findings:
    """Do what the JSON of a task says."""
    return anyio.run(try_all, msgspec.json.decode(text, type=Task))
