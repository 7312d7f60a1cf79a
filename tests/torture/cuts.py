"""The process behind `power_loss`: records a store at work, pulls the plug at random instants, and looks at what is left.

`python -m tests.torture.tapped cuts '{"kind": "sqlite", "seed": "1", "images": 250, "folder": "/tmp/x"}'` prints what it found as JSON.
"""

import random
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import anyio
import msgspec

from backstay.ports import EventStore
from backstay.providers.scripted import ScriptedModel
from backstay.session.assemble import open_session
from backstay.stores.owners import this_process
from backstay.stores.sqlite.store import SqliteStore
from backstay.stores.trace import NoTrace
from backstay.system.machine import SystemClock
from backstay.testing.builders import recorded
from backstay.vocab.errors import BackstayError
from backstay.vocab.event import Recorded
from backstay.vocab.events import Renamed
from tests.torture.apsw_db import TapedFiles, connector
from tests.torture.disk import DOUBTFUL, Acknowledged, Disk
from tests.torture.lives import REPLIES, make_tools
from tests.torture.tap import TAP, Tape
from tests.torture.through import through

Kind = Literal["sqlite", "sqlite-normal"]
CHECKPOINT_PAGES: Final = 40
"""Small, so that a short recording holds several checkpoints."""
SESSIONS: Final = 3
VFS: Final = "taped"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What to do."""

    kind: Kind
    seed: str
    images: int
    folder: str
    keep: bool = False
    """Whether images that show something wrong are kept."""


class Findings(msgspec.Struct, kw_only=True):
    """What the images showed."""

    images: int = 0
    events: int = 0
    """Events that the recording acknowledged."""
    losing: int = 0
    """Images in which an acknowledged event was lost."""
    worst: int = 0
    """The most events that one image had lost."""
    wrongs: dict[str, list[str]] = {}


class Work:
    """A recorded stretch of work: the tape, and every event that the store was given."""

    def __init__(self, root: Path) -> None:
        self.tape = Tape(root)
        self.written: dict[str, list[Recorded]] = {}

    def offered(self, session: str, records: Sequence[Recorded]) -> None:
        """Note what an append tries to write."""
        log = self.written.setdefault(session, [])
        del log[records[0].seq - 1 :]
        log.extend(records)

    def accepted(self, session: str, records: Sequence[Recorded]) -> None:
        """Note what is acknowledged."""
        self.tape.ops.append(Acknowledged(session, records[-1].seq))


async def record(task: Task, root: Path) -> Work:
    """Let sessions work on a store and write down all that happens to its files."""
    work, chance = Work(root), random.Random(task.seed)
    root.mkdir(parents=True)
    elsewhere = root.with_name("elsewhere")
    elsewhere.mkdir()
    TAP.tape = FILES.tape = work.tape
    async with _working_store(task.kind, root / "data" / "store", inline=chance.random() < 0.5) as inner:
        store = through(inner, before=work.offered, after=work.accepted)
        for visit in range(SESSIONS * 2):
            async with open_session(
                model=ScriptedModel.of(REPLIES, chance.randrange(500)),
                store=store,
                session_id=f"s{visit % SESSIONS}",
                cwd=str(elsewhere),
                tools=make_tools(elsewhere, chance),
                only_tools=True,
                trace=NoTrace(),
            ) as session:
                for turn in range(2):
                    await session.run(f"turn {turn} of visit {visit} " + "y" * chance.choice((10, 10, 40_000)))
                if chance.random() < 0.3:
                    await store.search("answer")
                    await anyio.sleep(0.3)  # long enough for the idle writer to tidy up and to check-point
    TAP.tape = FILES.tape = None
    return work


@asynccontextmanager
async def _working_store(kind: Kind, path: Path, *, inline: bool) -> AsyncIterator[EventStore]:
    store = await SqliteStore.open(
        path,
        clock=SystemClock(),
        synchronous="full" if kind == "sqlite" else "normal",
        connect=connector(VFS, checkpoint_pages=CHECKPOINT_PAGES),
        inline=inline,
    )
    try:
        yield store
    finally:
        await store.close()


async def cut(task: Task) -> Findings:
    """Record, then take images at random instants and look at each."""
    found = Findings(
        wrongs={"images that do not open": [], "logs that are not a prefix": [], "images that cannot go on": []}
    )
    chance = random.Random(f"{task.seed}:images")
    base = Path(task.folder)
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    work = await record(task, base / "work")
    ops = work.tape.ops
    first = next(place for place, op in enumerate(ops) if isinstance(op, Acknowledged))
    instants = sorted(
        chance.choices([at for at in range(first, len(ops)) if isinstance(ops[at], DOUBTFUL)], k=task.images)
    )
    disk, acknowledged, at = Disk(), dict[str, int](), 0
    for number, instant in enumerate(instants):
        for op in ops[at : instant + 1]:
            disk.do(op)
            if isinstance(op, Acknowledged):
                acknowledged[op.session] = op.seq
        at = instant + 1
        target = base / f"image-{number}"
        disk.image(target, chance)
        before = sum(map(len, found.wrongs.values())) + (found.losing if task.kind != "sqlite-normal" else 0)
        await _look(task, target / "data" / "store", acknowledged, work, found, f"seed {task.seed} image {number}")
        after = sum(map(len, found.wrongs.values())) + (found.losing if task.kind != "sqlite-normal" else 0)
        if not task.keep or before == after:
            shutil.rmtree(target)
    found.images = len(instants)
    found.events = sum(map(len, work.written.values()))
    shutil.rmtree(base / "work")
    return found


async def _look(task: Task, path: Path, acknowledged: dict[str, int], work: Work, found: Findings, story: str) -> None:
    """Open what a power cut left, compare it with what was acknowledged, and go on writing."""
    missing = 0
    try:
        store = await _survivor(path)
    except BackstayError as exc:
        found.wrongs["images that do not open"].append(f"{story}: {exc}")
        return
    try:
        for session, seq in acknowledged.items():
            there = await _events(store, session)
            missing += max(0, seq - len(there))
            if list(there) != work.written[session][: len(there)]:
                found.wrongs["logs that are not a prefix"].append(f"{story}: {session}")
        session = next(reversed(acknowledged))
        await _go_on(store, session, acknowledged[session] if task.kind != "sqlite-normal" else 0)
    except BackstayError as exc:
        found.wrongs["images that cannot go on"].append(f"{story}: {type(exc).__name__}: {exc}")
    finally:
        await store.close()
    found.losing += missing > 0
    found.worst = max(found.worst, missing)


async def _survivor(path: Path) -> EventStore:
    return await SqliteStore.open(path, clock=SystemClock(), is_dead=lambda _: True, create=False, inline=True)


async def _events(store: EventStore, session: str) -> tuple[Recorded, ...]:
    try:
        return (await store.read(session)).records
    except BackstayError:
        return ()


async def _go_on(store: EventStore, session: str, at_least: int) -> None:
    """Write one more event into a session, and read everything back."""
    lease = await store.lease(session, this_process())
    there = (await _events(store, session)) or ()
    if len(there) < at_least:
        raise BackstayError(f"{session} ends at {len(there)}, and {at_least} was acknowledged")
    if there:
        last = len(there) + 1
        await store.append(lease, last - 1, [recorded(Renamed(name="after the cut"), last, id=f"cut.{last}")])
        wrong = list(await store.verify(session))
        if wrong:
            raise BackstayError(f"verify finds {wrong}")


FILES: Final = TapedFiles(VFS)


def main(text: str) -> Findings:
    """Do what the JSON of a task says."""
    return anyio.run(cut, msgspec.json.decode(text, type=Task))
