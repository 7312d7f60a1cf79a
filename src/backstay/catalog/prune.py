"""Delete old and empty sessions. Each is checked again while it is held, so that none is deleted that was used meanwhile."""

from collections.abc import Callable, Collection
from typing import Final

from msgspec import Struct

from backstay.catalog.hold import forget_trace, hold_session, is_needed
from backstay.ports import Clock, EventStore, SessionQuery
from backstay.vocab.errors import NoSession, SessionBusy, UserError
from backstay.vocab.specs import SessionMeta

DAY: Final = 24 * 3600 * 1_000_000
_BUSY: Final = "somebody has it open"

Report = Callable[[str], None]
"""Takes a line about a session that stays, for a person."""


async def prune(
    store: EventStore,
    *,
    clock: Clock,
    older_than_days: float | None = None,
    empty: bool = False,
    dry_run: bool = False,
    report: Report | None = None,
) -> tuple[SessionMeta, ...]:
    """Delete old sessions, or empty ones, and return them. Call `report` with a line about each that stays all the same, and why.

    A session stays that is open, that is damaged, or that the open turn of its parent needs.
    """
    if older_than_days is None and not empty:
        raise UserError("Say what to prune: older_than_days, empty, or both.")
    horizon = None if older_than_days is None else clock.now() - int(older_than_days * DAY)
    pruning = _Pruning(store, horizon, empty)
    found = [meta for meta in await store.list(SessionQuery(include_children=True)) if pruning.wants(meta)]
    gone: dict[str, SessionMeta] = {}
    for meta in sorted(found, key=lambda meta: bool(meta.parent)):  # parents first: then no open turn needs the child
        why = await (pruning.look(meta.id, gone) if dry_run else pruning.take(meta.id, gone))
        if why is None:
            gone[meta.id] = meta
        elif why and report is not None:
            report(f"{meta.id} stays: {why}.")
    return tuple(gone.values())


class _Pruning(Struct, frozen=True):
    """The criteria of one prune of a store."""

    store: EventStore
    horizon: int | None
    """Sessions that were last used before then are old; microseconds since 1970."""
    empty: bool

    def wants(self, meta: SessionMeta) -> bool:
        """Return whether a session is to go."""
        old = self.horizon is not None and meta.updated < self.horizon
        return old or (self.empty and meta.empty)

    async def take(self, session: str, gone: Collection[str]) -> str | None:
        """Delete a session and return None, or return why it stays, as `_reason` does."""
        try:
            async with hold_session(self.store, session, "prune"):
                why = await self._reason(session, gone)
                if why is None:
                    await self.store.delete(session)
        except SessionBusy:
            return _BUSY
        if why is None:
            await forget_trace(self.store, session)
        return why

    async def look(self, session: str, gone: Collection[str]) -> str | None:
        """Return why a session would stay; None when it would go."""
        return _BUSY if await self.store.holder(session) is not None else await self._reason(session, gone)

    async def _reason(self, session: str, gone: Collection[str]) -> str | None:
        """Return why a session stays; None when it may be deleted; empty when it is gone already, so that nothing is left to report."""
        try:
            trouble = (await self.store.read(session)).trouble
            meta = await self.store.meta(session)
        except NoSession:
            return ""
        if trouble is not None:
            mend = f"`backstay log repair {session}` mends it, `backstay sessions delete {session}` deletes it"
            return f"not all of it can be read ({trouble.detail.rstrip('.')}). {mend}"
        if not self.wants(meta):
            return "it was used meanwhile"
        if meta.parent not in gone and await is_needed(self.store, meta):
            return f"it is a child of {meta.parent}, whose turn is open"
        return None
