"""Who may write a session of the JSONL store: claims, which are files that only one process can create.

In the folder of a session, `<token>.jsonl` is the segment that the lease with that token writes; its first line is the
claim. `<token>.released` says that the holder gave the lease back, and how many bytes of the segment counted then. A claim
is made with a hard link, which fails when the name is taken: of several processes that want token 8, one gets it and the
others look again. Nothing is ever locked, so a process that is stopped anywhere holds up nobody.

Segments stay. Only a deletion removes them: its claim says that nothing older counts, and stays; the segments below it
are removed in ascending order. So a lease with token 7 holds exactly while there is no `8.jsonl` and `7.jsonl` has its
claim, asked in this order: where 8 was removed, 7 had been removed before, and whoever made a 7 again by mistake made
it with another claim.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.stores.disk import open_regular, read_regular
from holdfast.stores.jsonl_files import create_file, make_folder, replace_file
from holdfast.stores.jsonl_lines import Claim, Flaw, read_head, seal_struct
from holdfast.stores.jsonl_log import HEAD_ROOM, name_of
from holdfast.stores.memory import busy
from holdfast.vocab.errors import SessionBusy
from holdfast.vocab.ids import check_session_id
from holdfast.vocab.specs import Lease, Owner

IsDead = Callable[[Owner], bool]
"""Whether an owner certainly lives no more."""
_LABEL: Final = 200
"""Characters of an owner's label that a claim keeps."""


class Names(Struct, frozen=True):
    """What the names in a session's folder say."""

    segments: tuple[int, ...]
    """Ascending."""
    released: frozenset[int]

    @property
    def newest(self) -> int:
        """The highest token that was claimed; 0 when none was."""
        return self.segments[-1] if self.segments else 0


def names_in(folder: Path) -> Names:
    """Read the names in a session's folder; a missing folder is an empty one."""
    try:
        names = [name.partition(".") for name in os.listdir(folder)]
    except FileNotFoundError:
        names = []
    segments = sorted(int(token) for token, _, kind in names if kind == "jsonl" and token.isdecimal())
    released = frozenset(int(token) for token, _, kind in names if kind == "released" and token.isdecimal())
    return Names(tuple(segments), released)


def holds(folder: Path, lease: Lease) -> bool:
    """Whether `lease` is the newest one of a session that still exists."""
    if os.path.exists(folder / name_of(lease.token + 1)):
        return False
    claim = claim_of(folder, lease.token)
    return (
        claim is not None and claim.owner is not None and (claim.owner.id, claim.since) == (lease.owner.id, lease.since)
    )


def claim_of(folder: Path, token: int) -> Claim | None:
    """The claim of a token; None when there is none that can be read."""
    try:
        with open_regular(folder / name_of(token)) as file:
            head = read_head(file.read(HEAD_ROOM))
    except FileNotFoundError:
        return None
    return None if isinstance(head, Flaw) else head.claim


class Owners:
    """The heartbeats: one file for each process that holds sessions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def beat(self, owner: Owner, ttl: int, now: int) -> None:
        """Say that `owner` lives. Not synced: after a power cut nobody lives."""
        make_folder(self._folder)
        record = msgspec.json.encode({"owner": owner, "until": now + ttl})
        replace_file(self._folder / f"{check_session_id(owner.id)}.json", record, durably=False)

    def until(self, claim: Claim, owner: Owner) -> int:
        """When the lease of `claim` runs out."""
        return self._read(self._folder / f"{owner.id}.json") or claim.since + claim.ttl

    def prune(self, before: int) -> None:
        """Forget the owners whose leases ran out before that time."""
        for path in self._folder.glob("*.json"):
            if (self._read(path) or before) < before:
                path.unlink(missing_ok=True)

    @staticmethod
    def _read(path: Path) -> int | None:
        try:
            until = msgspec.json.decode(read_regular(path), type=dict[str, object]).get("until")
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return until if isinstance(until, int) else None


class Claims(Struct, frozen=True):
    """The rules by which sessions change hands."""

    owners: Owners
    is_dead: IsDead
    now: Callable[[], int]

    def take(self, folder: Path, owner: Owner, ttl: int) -> Claim:
        """Claim the session in `folder` for `owner`, unless a living owner holds it."""
        known = msgspec.structs.replace(owner, label=owner.label[:_LABEL])
        while True:
            names = names_in(folder)
            living = self._living(folder, names)
            if living is not None:
                raise SessionBusy(busy(living))
            # after the look: an owner must not revive a lease that it let run out
            self.owners.beat(owner, ttl, self.now())
            claim = Claim(segment=names.newest + 1, session=folder.name, since=self.now(), ttl=ttl, owner=known)
            if _made(folder, claim):
                return claim

    def seize(self, folder: Path, *, gone: bool = False) -> Claim:
        """Claim the session for nobody, whoever holds it. With `gone`, the session is deleted from here on."""
        while True:
            claim = Claim(segment=names_in(folder).newest + 1, session=folder.name, since=self.now(), gone=gone)
            if _made(folder, claim):
                return claim

    def holder(self, folder: Path) -> Lease | None:
        """Who may write the session, if a living owner does."""
        return self._living(folder, names_in(folder))

    def _living(self, folder: Path, names: Names) -> Lease | None:
        token = names.newest
        claim = claim_of(folder, token) if token and token not in names.released else None
        if claim is None or claim.owner is None:
            return None
        if self.is_dead(claim.owner) or self.owners.until(claim, claim.owner) <= self.now():
            return None
        return Lease(session=folder.name, token=token, owner=claim.owner, since=claim.since)


def _made(folder: Path, claim: Claim) -> bool:
    """Make the file of a claim; False when somebody was faster.

    Looking again afterwards finds out the one who was so slow that the name had been used and removed meanwhile.
    """
    made = create_file(folder / name_of(claim.segment), seal_struct(claim))
    return made and names_in(folder).newest == claim.segment


def release(folder: Path, lease: Lease, length: int = 0) -> None:
    """Give a lease back, of whose segment `length` bytes count. Not synced: after a power cut its owner is dead."""
    if holds(folder, lease):
        mark_released(folder, lease.token, length)


def mark_released(folder: Path, token: int, length: int = 0) -> None:
    """Leave a file that says that a lease was given back, and how long its segment was, where that is known."""
    handle = os.open(
        folder / f"{token:08}.released", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, 0o600
    )
    try:
        if length:
            os.write(handle, b"%d\n" % length)
    finally:
        os.close(handle)


def accepted(folder: Path, token: int) -> int:
    """How many bytes of a segment counted when its lease was given back; 0 when nobody says."""
    try:
        said = read_regular(folder / f"{token:08}.released")
    except FileNotFoundError:
        return 0
    return int(said) if said.endswith(b"\n") and said.strip().isdigit() else 0


def unmark(folder: Path, names: Names, below: int) -> None:
    """Remove the releases of older leases."""
    for token in names.released:
        if token < below:
            (folder / f"{token:08}.released").unlink(missing_ok=True)
