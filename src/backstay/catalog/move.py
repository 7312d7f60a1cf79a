"""Move a session and its children to another store. At no time can one be opened in two places."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Final

import anyio

from backstay.catalog.hold import check_unneeded, fold_log, forget_trace, hold_session, whole_log
from backstay.logic.state.progress import stamp
from backstay.logic.stored_content import find_cited_blobs
from backstay.ports import Clock, EventStore, SessionQuery
from backstay.vocab import events
from backstay.vocab.errors import BlobMissing, NoSession, StoreError, StoreMismatch, UserError
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.ids import make_opening
from backstay.vocab.specs import Lease

TOGETHER: Final = 64 * 1024 * 1024
"""Bytes of blobs that a move has in memory."""


async def move(source: EventStore, target: EventStore, session: str, *, clock: Clock) -> tuple[str, ...]:
    """Bring a session and its children into another store, with their blobs, and delete them here once they are safe there.

    The source is told first that a session left, so that there is never more than one place where it can be opened. A move that fails
    brings it back; one that was cut off is finished by moving again. Return the blobs that are cited and gone: they stay gone.
    """
    if source.identity == target.identity:
        raise UserError(f"Session {session!r} is in {target.url!r} already.")
    await check_unneeded(source, await source.meta(session), "moved")
    async with AsyncExitStack() as holds:
        moves = [await _begin(source, target, one, holds) for one in await _family(source, session)]
        try:
            for each in moves:
                await each.leave(clock)
            for each in reversed(moves):
                await each.carry()
        except BaseException:
            with anyio.CancelScope(shield=True):
                for each in moves:
                    await each.stay(clock)
            raise
        for each in reversed(moves):
            await each.finish()
    return tuple(dict.fromkeys(sha for each in moves for sha in each.missing))


async def _family(source: EventStore, session: str) -> list[str]:
    """Return a session, its children, and theirs."""
    known = await source.list(SessionQuery(include_children=True))
    found = [session]
    for one in found:
        found += [meta.id for meta in known if meta.parent == one and meta.id not in found]
    return found


async def _begin(source: EventStore, target: EventStore, session: str, holds: AsyncExitStack) -> "_Move":
    """Prepare the move of one session, with both sides held. Raise before anything is written when it cannot be done."""
    here = await holds.enter_async_context(hold_session(source, session, "move"))
    records = await whole_log(source, session)
    home = _home(records, source)
    if home not in ("", target.identity):
        raise StoreMismatch(
            f"Session {session!r} left for the store {home!r} already, and may be open there. "
            f"Move it there once more to finish that, then move it on from there."
        )
    there = await holds.enter_async_context(hold_session(target, session, "move"))
    arrived = await _read_arrived(target, session)
    if records[: len(arrived)] != arrived[: len(records)] or (len(arrived) > len(records) and not home):
        raise UserError(f"The target store has another session {session!r} already.")
    return _Move(source, target, here, there, records, len(arrived), left=bool(home))


def _home(records: Sequence[Recorded], source: EventStore) -> str:
    """Return the store that a session left `source` for; empty when it did not leave."""
    changes = (record.event for record in reversed(records) if isinstance(record.event, events.StoreChanged))
    newest = next(changes, None)
    gone = newest is not None and newest.came_from == source.identity != newest.store
    return newest.store if newest is not None and gone else ""


async def _read_arrived(target: EventStore, session: str) -> tuple[Recorded, ...]:
    try:
        return (await target.read(session)).records
    except NoSession:
        return ()


class _Move:
    """One session on its way."""

    def __init__(
        self,
        source: EventStore,
        target: EventStore,
        here: Lease,
        there: Lease,
        records: tuple[Recorded, ...],
        arrived: int,
        *,
        left: bool,
    ) -> None:
        self.missing: list[str] = []
        """Blobs that are cited and gone."""
        self._source, self._target = source, target
        self._here, self._there = here, there
        self._session = here.session
        self._records = records
        self._arrived = arrived
        self._left = left
        self._was_there = left and arrived >= len(records)

    async def leave(self, clock: Clock) -> None:
        """Write down that the session goes to the target, unless that is written already."""
        if not self._left:
            await self._note(events.StoreChanged(store=self._target.identity, came_from=self._source.identity), clock)
            self._left = True

    async def carry(self) -> None:
        """Bring the events that have not arrived, with their blobs, as much at a time as memory should hold."""
        part: list[Recorded] = []
        blobs: dict[str, bytes] = {}
        size = 0
        for record in self._records[self._arrived :]:
            part.append(record)
            for sha in sorted(find_cited_blobs(record.event) - blobs.keys()):
                try:
                    blobs[sha] = await self._source.blob(sha)
                    size += len(blobs[sha])
                except BlobMissing:
                    self.missing.append(sha)
            if size >= TOGETHER:
                await self._put(part, blobs)
                part, blobs, size = [], {}, 0
        if part:
            await self._put(part, blobs)

    async def stay(self, clock: Clock) -> None:
        """Take the copy back after an error, and write that the session is at home again, unless it may be in the target."""
        if not self._left or self._was_there:
            return
        with suppress(StoreError):
            if await self._is_gone_there():
                await self._note(
                    events.StoreChanged(store=self._source.identity, came_from=self._target.identity), clock
                )

    async def finish(self) -> None:
        """Forget the session in the source."""
        await self._source.delete(self._session)
        await forget_trace(self._source, self._session)

    async def _put(self, part: list[Recorded], blobs: dict[str, bytes]) -> None:
        await self._target.append(self._there, self._arrived, part, blobs)
        self._arrived += len(part)

    async def _note(self, event: events.StoreChanged, clock: Clock) -> None:
        progress = (await fold_log(self._session, self._records)).progress
        last = stamp(
            progress,
            Draft(event=event, by="user"),
            nonce=make_opening(self._here.token, clock.nonce()),
            now=clock.now(),
        )
        await self._source.append(self._here, last.seq - 1, (last,))
        self._records = (*self._records, last)

    async def _is_gone_there(self) -> bool:
        """Return whether nothing of the target's copy can be opened. A part that cannot be deleted is never opened: it does not say that it
        came.
        """
        with suppress(StoreError):
            await self._target.delete(self._session)
            return True
        return len(await _read_arrived(self._target, self._session)) < len(self._records)
