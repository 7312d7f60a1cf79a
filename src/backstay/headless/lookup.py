"""Find the session that a person names by its id or its name."""

from collections.abc import Callable

from backstay.catalog import sessions
from backstay.ports import EventStore, SessionQuery
from backstay.vocab.errors import BadId, NoSession
from backstay.vocab.specs import SessionMeta


async def find(store: EventStore, wanted: str, warn: Callable[[str], None]) -> SessionMeta:
    """Return the session with that id or name; when several have the name, the newest, with a warning."""
    newest, *others = await _matching(store, wanted)
    if others:
        warn(f"{len(others) + 1} sessions are called {wanted!r}; the newest is meant: {newest.id}.")
    return newest


async def find_one(store: EventStore, wanted: str) -> SessionMeta:
    """Return the one session with that id or name, for what cannot be undone. Raise `BadId` when several have the name."""
    found, *others = await _matching(store, wanted)
    if others:
        ids = ", ".join(meta.id for meta in (found, *others))
        raise BadId(f"{len(others) + 1} sessions are called {wanted!r}: {ids}. Say which one by its id.")
    return found


def fork_warning(meta: SessionMeta) -> str:
    """Say what a copy of a session with an open turn does not have."""
    return (
        f"A turn of {meta.id} is open. The copy has it up to its last finished step; what was going on stays behind, "
        f"and so does what is queued. `backstay -r {meta.id} --finish` finishes it there."
    )


async def _matching(store: EventStore, wanted: str) -> tuple[SessionMeta, ...]:
    """Return the session with that id, or all with that name, newest first. Raise `BadId` for a text that can be neither."""
    try:
        found = await sessions.find(store, wanted)
    except NoSession:
        if not wanted.isprintable() or sessions.is_no_name(wanted):
            raise BadId(f"{wanted!r} is neither the id nor the name of a session.") from None
        raise
    if found.id == wanted:
        return (found,)
    return await store.list(SessionQuery(name=wanted, include_children=True)) or (found,)
