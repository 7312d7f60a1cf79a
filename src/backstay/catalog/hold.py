"""Hold a session for a moment, to change it without resuming it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NoReturn

import anyio

from backstay.catalog.paged_log import pages
from backstay.logic.state.progress import Progress, fold_all
from backstay.logic.state.session_state import State, state_of
from backstay.ports import EventStore
from backstay.stores.owners import this_process
from backstay.stores.trace import delete_trace, trace_folder
from backstay.vocab.errors import LogDamaged, NeedsUpgrade, NoSession, StoreError, UserError
from backstay.vocab.event import Recorded
from backstay.vocab.specs import Lease, SessionMeta, Trouble


@asynccontextmanager
async def hold_session(store: EventStore, session: str, purpose: str = "") -> AsyncIterator[Lease]:
    """Hold the right to write a session, and give it back however the block is left."""
    with anyio.CancelScope(shield=True):  # a lease that is taken and not handed over would have no owner
        lease = await store.lease(session, this_process(purpose))
    try:
        yield lease
    except BaseException:
        with anyio.CancelScope(shield=True), suppress(StoreError):  # the error matters more
            await store.release(lease)
        raise
    with anyio.CancelScope(shield=True):
        await store.release(lease)


async def whole_log(store: EventStore, session: str) -> tuple[Recorded, ...]:
    """Return all events of a session. Raise `LogDamaged` or `NeedsUpgrade` when only a part of them can be read."""
    part = await store.read(session)
    _check_whole(session, part.trouble, empty=not part.records)
    return part.records


async def whole_progress(store: EventStore, session: str) -> Progress:
    """Return the progress of a session, its log read a page at a time. Raise as `whole_log` does."""
    progress = Progress()
    async for part in pages(store, session):
        progress = await anyio.to_thread.run_sync(fold_all, part.records, progress)
    _check_whole(session, part.trouble, empty=not progress.seq)
    return progress


def _check_whole(session: str, trouble: Trouble | None, *, empty: bool) -> None:
    if trouble is not None:
        refuse_writing(session, trouble)
    if empty:
        raise LogDamaged(f"The log of session {session!r} has no events. `backstay log repair {session}` may help.")


def refuse_writing(session: str, trouble: Trouble) -> NoReturn:
    """Say that a session can only be read, and what to do first."""
    said = f"Session {session!r} can only be read: {trouble.detail.rstrip('.')}."
    if trouble.kind == "newer":
        raise NeedsUpgrade(said)
    raise LogDamaged(f"{said} Mend it first: `backstay log repair {session}` keeps what was there.")


async def fold_log(session: str, records: Sequence[Recorded]) -> State:
    """Fold a log off the event loop."""
    return await anyio.to_thread.run_sync(state_of, session, records)


async def check_unneeded(store: EventStore, meta: SessionMeta, done: str) -> None:
    """Raise `UserError` when the open turn of a session's parent waits for it: `done` says what cannot be done."""
    if await is_needed(store, meta):
        raise UserError(
            f"Session {meta.id!r} cannot be {done}: it is a child of {meta.parent!r}, whose turn is open and needs it. "
            f"Finish that first: `backstay -r {meta.parent} --finish`."
        )


async def is_needed(store: EventStore, meta: SessionMeta) -> bool:
    """Return whether the session is a child whose parent has an open turn: without the child's log its calls could happen twice."""
    if not meta.parent:
        return False
    try:
        return (await store.meta(meta.parent)).open_turn
    except NoSession:
        return False


async def forget_trace(store: EventStore, session: str) -> None:
    """Delete what was traced of a session."""
    folder = trace_folder(store.url)
    if folder is not None:
        await anyio.to_thread.run_sync(delete_trace, folder, session)
