"""Who holds a session: the identity of a process, and whether it still lives."""

import functools
import os
import platform
import secrets
import sys
from pathlib import Path
from typing import Final

from holdfast.vocab.specs import Owner

_PROC: Final = Path("/proc")


def this_process(label: str = "") -> Owner:
    """An owner for this process. Each call makes a new one: two owners of one process exclude each other too."""
    return Owner(
        id=secrets.token_hex(8),
        host=platform.node(),
        boot=boot_id(),
        pid=os.getpid(),
        started=start_ticks(os.getpid()) or 0,
        label=label or Path(sys.argv[0]).name,
    )


def is_dead(owner: Owner) -> bool:
    """Whether `owner` certainly lives no more. An owner on another machine is never certain: only its lease can run out."""
    if owner.host != platform.node():
        return False
    if owner.boot != boot_id():
        return True
    started = start_ticks(owner.pid)
    return started is None or (owner.started not in (0, started))


@functools.cache
def boot_id() -> str:
    """What tells this start of the machine from every other; empty where the system does not say."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def start_ticks(pid: int) -> int | None:
    """When process `pid` started, in clock ticks since boot; None when it is gone, 0 where the system does not say.

    A zombie counts as gone: it will never write again.
    """
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return 0 if not _PROC.joinpath("self").exists() and _answers(pid) else None
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
