"""Load a stored session: fold its whole log, start from a snapshot, or fold up to a point."""

import functools
import hashlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import anyio
import anyio.from_thread
import anyio.to_thread
import msgspec
from msgspec import Struct

from backstay.catalog.paged_log import PagedLog
from backstay.logic.secrets.redact import PLAIN, Redactor
from backstay.logic.state.conversation import ConversationFold
from backstay.logic.state.results import Results, TurnResult
from backstay.logic.state.session_state import State, needs_whole_log, restore, state_of
from backstay.ports import EventStore, FoldSnapshot
from backstay.runtime.services import Services
from backstay.version import VERSION
from backstay.vocab.errors import StoreError, UserError
from backstay.vocab.specs import SessionMeta, Trouble
from backstay.wire.write_json import json_pieces

WORTH_A_SNAPSHOT: Final = 2_000
"""Events since the last snapshot that make a new one worth its cost."""
GROWTH: Final = 4
"""While a session goes on, a quarter of what the last snapshot covers must have come too: all of them together cost what a log costs."""


class Loaded(Struct, frozen=True, kw_only=True):
    """A session as its log tells it."""

    state: State
    trouble: Trouble | None
    folded: int
    """Events that were folded; those a snapshot covers are not."""


async def load(store: EventStore, session: str, *, whole: bool = False) -> Loaded:
    """Fold a session's log, from its snapshot when there is a good one and the `whole` log is not asked for."""
    if not whole and (loaded := await _from_snapshot(store, session)) is not None:
        return loaded
    part = await store.read(session)
    state = await anyio.to_thread.run_sync(state_of, session, part.records)
    return Loaded(state=state, trouble=part.trouble, folded=len(part.records))


async def replay(store: EventStore, session: str, at: int | None = None) -> dict[str, object]:
    """Return what the log means after seq `at`, or at its end, as plain data. Runs nothing."""
    if at is not None and at < 0:
        raise UserError(f"{at} is not a position in a log. The first event is 1.")
    part = await store.read(session, 0, at) if at != 0 else None
    records = part.records if part else ()
    return await anyio.to_thread.run_sync(lambda: state_of(session, records).plain())


def replay_pieces(log: PagedLog, *, indented: bool, redactor: Redactor = PLAIN) -> Iterator[bytes]:
    """Return what `replay` gives, without secrets, as JSON piece by piece: what grows with the log is not kept in memory."""
    state, fold = State(), ConversationFold()
    state.meta = SessionMeta(id=log.session)
    for records in log.pages():
        state.outline(records)
        for record in records:
            fold.apply(record)
            state.apply(record, transcribe=False)
        state.results.over()
    told = fold.over(log, log.session)
    state.transcript.todos = told.todos
    fields = state.plain() | {"messages": told.messages(), "turns": _turns(log)}
    return json_pieces(fields, indented=indented, redactor=redactor)


def _turns(log: PagedLog) -> Iterator[TurnResult]:
    results = Results()
    for records in log.pages():
        for record in records:
            results.apply(record)
        yield from results.over()
    yield from results.turns.values()


class Snapshots:
    """Keeps snapshots of a session's folds, so that a long log is not folded again; never within a turn."""

    def __init__(self, services: Services, covered: int) -> None:
        self._services = services
        self._covered = covered
        """The seq up to which the newest snapshot goes."""

    async def rest(self) -> None:
        """Keep one between two turns, when the log has grown enough."""
        await self.keep(more=self._covered // GROWTH)

    async def keep(self, more: int = 0) -> None:
        """Keep one when it is worth it, and `more` events came. One that cannot be kept is traced: it is only a cache."""
        progress = self._services.state.progress
        if progress.busy or progress.seq - self._covered < WORTH_A_SNAPSHOT + more:
            return
        content = self._services.state.snapshot()
        taken = FoldSnapshot(tip=progress.tip, seq=progress.seq, digest=code_digest(), content=content)
        try:
            await self._services.store.keep_snapshot(progress.session, taken)
        except StoreError as exc:
            self._services.tap("snapshot_failed", {"problem": str(exc)})
            return
        self._covered = taken.seq


async def _from_snapshot(store: EventStore, session: str) -> Loaded | None:
    kept = await store.snapshot(session, code_digest())
    if kept is None:
        return None
    part = await store.read(session, kept.seq - 1)
    if not part.records or part.records[0].id != kept.tip or needs_whole_log(part.records[1:]):
        return None
    later = part.records[1:]
    try:
        state = await anyio.to_thread.run_sync(lambda: state_of(session, later, restore(kept.content)))
    except msgspec.DecodeError:
        return None  # a snapshot is a cache: one that cannot be read is not there
    return Loaded(state=state, trouble=part.trouble, folded=len(later))


PURE: Final = (
    "vocab/*",
    "logic/*",
    "permissions/*",
    "hooks/events.py",
    "hooks/spec.py",
    "hooks/matching.py",
    "hooks/safe_pattern.py",
    "hooks/settings.py",
    "hooks/limits.py",
    "hooks/payload.py",
    "hooks/output.py",
    "hooks/merge.py",
    "hooks/gates.py",
    "checkpoints/points.py",
    "checkpoints/tree.py",
    "checkpoints/contents_at.py",
    "tools/patch.py",
)
"""The modules that compute from their arguments alone: what a log means is theirs to say. `tests/test_layers.py` holds them to it."""


def is_pure(path: str) -> bool:
    """Return whether a file of the package, by its path below it, is pure."""
    return any(fnmatchcase(path, pattern) for pattern in PURE)


@functools.cache
def code_digest() -> str:
    """Return a digest of the code that gives a log its meaning."""
    return digest_of(Path(__file__).parents[1])


def digest_of(package: Path) -> str:
    """Return a digest of the version and of the parts of `package` that give a log its meaning, with the folders in them."""
    files = ((path.relative_to(package).as_posix(), path) for path in package.rglob("*.py"))
    total = hashlib.sha256(VERSION.encode())
    for name, path in sorted((name, path) for name, path in files if is_pure(name) or name.startswith("wire/")):
        content = path.read_bytes()
        total.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:16]
