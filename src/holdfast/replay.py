"""A log read back: folded whole, from a snapshot, or up to a point."""

import functools
import hashlib
from pathlib import Path
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from holdfast.logic.state import State, needs_whole_log, restore, state_of
from holdfast.ports import EventStore, FoldSnapshot
from holdfast.vocab.errors import HoldfastError, UserError
from holdfast.vocab.specs import Trouble

WORTH_A_SNAPSHOT: Final = 2_000
"""Events since the last snapshot that make a new one worth its cost."""


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
    """What the log means after seq `at`, or at its end, as plain data. Runs nothing."""
    if at is not None and at < 0:
        raise UserError(f"{at} is not a position in a log. The first event is 1.")
    part = await store.read(session, 0, at) if at != 0 else None
    records = part.records if part else ()
    return state_of(session, records).plain()


async def remember(store: EventStore, state: State, failure: HoldfastError | None = None) -> None:
    """Keep a snapshot of the folds when it is worth it: never of a session in the middle of a turn."""
    if failure is not None or state.progress.busy or state.progress.seq < WORTH_A_SNAPSHOT:
        return
    digest = code_digest()
    kept = await store.snapshot(state.progress.session, digest)
    if kept is None or state.progress.seq - kept.seq >= WORTH_A_SNAPSHOT:
        content = state.snapshot()
        taken = FoldSnapshot(tip=state.progress.tip, seq=state.progress.seq, digest=digest, content=content)
        await store.keep_snapshot(state.progress.session, taken)


async def _from_snapshot(store: EventStore, session: str) -> Loaded | None:
    kept = await store.snapshot(session, code_digest())
    if kept is None:
        return None
    part = await store.read(session, kept.seq - 1)
    if not part.records or part.records[0].id != kept.tip or needs_whole_log(part.records[1:]):
        return None
    try:
        state = restore(kept.content)
    except msgspec.DecodeError:
        return None  # a snapshot is a cache: one that cannot be read is not there
    return Loaded(state=state_of(session, part.records[1:], state), trouble=part.trouble, folded=len(part.records) - 1)


@functools.cache
def code_digest() -> str:
    """A digest of the code that gives a log its meaning."""
    here = Path(__file__).parent
    files = sorted(path for folder in ("vocab", "logic", "wire") for path in (here / folder).glob("*.py"))
    total = hashlib.sha256()
    for path in files:
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]
