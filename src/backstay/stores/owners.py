"""Identify the process that holds a session, and find out whether it still runs."""

import os
import platform
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from backstay.logic.stored_content import replace_surrogates
from backstay.system.machine import boot_id
from backstay.vocab.errors import UserError
from backstay.vocab.specs import Lease, Owner

MOST_TTL_S: Final = 24 * 3600
"""How long a lease lasts at most without a heartbeat."""
_PROC: Final = Path("/proc")


def this_process(label: str = "") -> Owner:
    """Return an owner for this process. Each call makes a new one: two owners of one process exclude each other too."""
    return Owner(
        id=secrets.token_hex(8),
        host=replace_surrogates(platform.node()),
        boot=boot_id(),
        pid=os.getpid(),
        started=start_ticks(os.getpid()) or 0,
        label=replace_surrogates(label or Path(sys.argv[0]).name),
        namespace=_namespace(),
    )


def is_dead(owner: Owner) -> bool:
    """Return whether `owner` certainly lives no more.

    An owner on another machine, or behind another namespace of process ids, is never certain: only its lease can run out.
    """
    if owner.host != replace_surrogates(platform.node()):
        return False
    if owner.boot and boot_id() and owner.boot != boot_id():
        return True
    if owner.namespace and owner.namespace != _namespace():
        return False
    started = start_ticks(owner.pid)
    return started is None or (started > 0 and owner.started not in (0, started))


def describe_holder(lease: Lease) -> str:
    """Say who holds a session and since when."""
    owner = lease.owner
    since = datetime.fromtimestamp(lease.since / 1_000_000, UTC).isoformat(timespec="seconds")
    return (
        f"Session {lease.session!r} is held by {owner.label or 'a process'!r} (pid {owner.pid} on {owner.host!r}) "
        f"since {since}. Close it there, or follow it with `backstay log tail {lease.session}`."
    )


def check_terms(owner: Owner, ttl_s: float) -> int:
    """Return the time that a lease lasts in microseconds. Raise `UserError` for an owner or a time that no store can keep."""
    try:
        msgspec.json.encode(owner)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError) as exc:
        raise UserError(f"An owner must be plain text and numbers to be written down: {exc}.") from exc
    if not 0 < ttl_s <= MOST_TTL_S:
        raise UserError(f"A lease lasts more than 0 and at most {MOST_TTL_S:,} seconds, not {ttl_s!r}.")
    return max(1, int(ttl_s * 1_000_000))


def start_ticks(pid: int) -> int | None:
    """Return when process `pid` started, in clock ticks since boot; None when it is gone, 0 where the system does not say.

    A zombie counts as gone: it will never write again. A process that cannot be looked at, for lack of file handles or of
    permission, is not gone for that.
    """
    if not _shows_us():
        return 0 if _answers(pid) else None
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0 if _answers(pid) else None  # it may be hidden from us
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _namespace() -> int:
    """Return the number of the namespace that gives this process its id; 0 where the system does not say."""
    try:
        return os.stat(_PROC / "self/ns/pid").st_ino
    except OSError:
        return 0


def _shows_us() -> bool:
    """Return whether `/proc` is there, and that of our own namespace: else its numbers are not the ids that we know."""
    try:
        return os.readlink(_PROC / "self") == str(os.getpid())
    except OSError:
        return False


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
