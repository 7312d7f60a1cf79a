"""Leases in the SQLite store: a row for each owner, and a token for each session that only rises."""

from collections.abc import Callable
from typing import Final

import msgspec

from backstay.stores.owners import describe_holder
from backstay.stores.sqlite.connection import Db
from backstay.stores.sqlite.schema import value
from backstay.vocab.errors import SessionBusy
from backstay.vocab.specs import Lease, Owner

IsDead = Callable[[Owner], bool]
"""Whether an owner certainly lives no more."""
_owner_decoder: Final = msgspec.json.Decoder(Owner)


def take(db: Db, session: str, owner: Owner, ttl: int, now: int, is_dead: IsDead) -> Lease:
    """Give `owner` the session under a new token, unless a living owner holds it."""
    rows = db.execute("SELECT token, owner FROM sessions WHERE id = ?", (session,))
    if not rows:
        # the tokens of a deleted session are not above the floor: its last holder cannot write into a new one
        db.execute("INSERT INTO sessions (id, token) VALUES (?, ?)", (session, value(db, "floor")))
        rows = db.execute("SELECT token, owner FROM sessions WHERE id = ?", (session,))
    living = holder(db, session, now, is_dead)
    if living is not None:
        raise SessionBusy(describe_holder(living))
    token, previous = rows[0]
    db.execute("UPDATE sessions SET token = ?, owner = ?, since = ? WHERE id = ?", (token + 1, owner.id, now, session))
    if previous is not None and previous != owner.id:
        _forget_idle(db, previous)
    beat(db, owner, ttl, now)
    return Lease(session=session, token=token + 1, owner=owner, since=now)


def is_newest(db: Db, lease: Lease) -> bool:
    """Return whether `lease` is the newest one of its session."""
    wanted = (lease.session, lease.token, lease.owner.id)
    return bool(db.execute("SELECT 1 FROM sessions WHERE id = ? AND token = ? AND owner = ?", wanted))


def holder(db: Db, session: str, now: int, is_dead: IsDead) -> Lease | None:
    """Return who may write the session, if a living owner does."""
    rows = db.execute(
        "SELECT token, since, o.owner, heartbeat, ttl FROM sessions s JOIN owners o ON o.id = s.owner WHERE s.id = ?",
        (session,),
    )
    if not rows:
        return None
    token, since, content, heartbeat, ttl = rows[0]
    owner = _owner_decoder.decode(content)
    if heartbeat + ttl <= now or is_dead(owner):
        return None
    return Lease(session=session, token=token, owner=owner, since=since)


def beat(db: Db, owner: Owner, ttl: int, now: int) -> None:
    """Say that `owner` lives."""
    db.execute(
        "INSERT OR REPLACE INTO owners VALUES (?, ?, ?, ?)",
        (owner.id, msgspec.json.encode(owner), now, ttl),
    )


def release(db: Db, lease: Lease) -> None:
    """Give the session back, if the lease is still the newest."""
    db.execute("UPDATE sessions SET owner = NULL WHERE id = ? AND token = ?", (lease.session, lease.token))
    _forget_idle(db, lease.owner.id)


def _forget_idle(db: Db, owner: str) -> None:
    db.execute(
        "DELETE FROM owners WHERE id = ? AND NOT EXISTS (SELECT 1 FROM sessions WHERE owner = owners.id)", (owner,)
    )
