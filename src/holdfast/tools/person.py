"""Tell what the person types from what a session's programs run.

Every program of a session (a command, a hook, a server) starts with a mark that everything it starts inherits and that it cannot take
off: a hard limit on file locks. Linux keeps that limit for each process and has not applied it since version 2.4, so it disturbs nobody.
A hard limit can be lowered by anybody and raised by nobody but the superuser with `CAP_SYS_RESOURCE`, which programs of the superuser
lose with the mark. Other variables, a session or group of its own, a parent that ended, and the end of the session change nothing.

Where the system has no such limit, only the variables that a session sets are looked at.
"""

import contextlib
import os
import resource
import sys
from collections.abc import Callable
from typing import Final

from holdfast.tools.processes import CALL_VARIABLE, RUN_VARIABLE, die_with_parent, find_prctl
from holdfast.vocab.errors import UserError
from holdfast.vocab.event import By

HOOK_VARIABLE: Final = "HOLDFAST_HOOK_EVENT"
"""What every program of a hook is told: its moment."""
_FILE_LOCKS: Final = 10
"""`RLIMIT_LOCKS` of Linux, which Python has no name for."""
_MARK: Final = 0x401D_FA57
_CAPBSET_DROP: Final = 24
_SYS_RESOURCE: Final = 24
"""The capability to raise a hard limit."""


def prepare_program() -> Callable[[], None] | None:
    """Give a function for a new child to call before it becomes a program of a session: it is marked, and dies when we do.

    Call it on the thread that forks; see `die_with_parent`. None where the system knows neither.
    """
    die, prctl = die_with_parent(), find_prctl()
    if die is None or prctl is None:
        return None
    powerful = os.geteuid() == 0

    def prepare() -> None:
        die()
        if powerful:
            prctl(_CAPBSET_DROP, _SYS_RESOURCE)
        with contextlib.suppress(OSError, ValueError):  # it has a lower limit already, or the system has none
            resource.setrlimit(_FILE_LOCKS, (_MARK, _MARK))

    return prepare


def who_runs() -> By:
    """Who runs this process: the person, or a hook or a model of a session that started it."""
    if HOOK_VARIABLE in os.environ:
        return "hook"
    return "model" if _is_marked() or {CALL_VARIABLE, RUN_VARIABLE} & os.environ.keys() else "user"


def require_person(action: str) -> None:
    """Raise `UserError` when this process is a program of a session: only the person may do `action`."""
    if who_runs() != "user":
        raise UserError(
            f"Only a person may {action}, and this process was started by a session. Type it in a shell of your own."
        )


def _is_marked() -> bool:
    if sys.platform != "linux":
        return False
    return resource.getrlimit(_FILE_LOCKS)[1] != resource.RLIM_INFINITY
