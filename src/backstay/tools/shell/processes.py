"""Track the processes that tools start, and stop each with all its descendants.

Everything here asks `/proc`. Where there is none, a left-over group cannot be told from another one with the same
number, and is left alone.
"""

import contextlib
import ctypes
import functools
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct

from backstay.system.machine import boot_id

CALL_VARIABLE: Final = "BACKSTAY_CALL"
"""The environment variable that carries the id of the call to everything that it starts."""
RUN_VARIABLE: Final = "BACKSTAY_RUN"
"""The one that carries a word of its own for each command: a process that left its group is known by it."""
GRACE_S: Final = 2.0
"""Seconds that a process may take to end by itself after SIGTERM."""
KILL_S: Final = 2.0
"""Seconds that the kernel may take to end it after SIGKILL."""

UNSEEN: Final = 1000
"""The exit code of a child whose own was lost; no program can have it."""
LOST_CODE: Final = (
    "its exit code was lost: something else in this program waits for its children, or SIGCHLD is ignored"
)

HOOK_VARIABLE: Final = "BACKSTAY_HOOK_EVENT"
"""The variable that holds the event of a hook, for its program."""

_PROC: Final = Path("/proc")
_PR_SET_PDEATHSIG: Final = 1
_PR_CAPBSET_DROP: Final = 24
_CAP_SYS_RESOURCE: Final = 24
"""The capability to raise a hard limit."""
_RLIMIT_LOCKS: Final = 10
"""Python has no name for it."""
_MARK: Final = 0x401D_FA57
_POLL_S: Final = 0.02


class Process(Struct, frozen=True):
    """A process as `/proc` describes it."""

    pid: int
    dead: bool
    """A zombie: it has ended, and its exit code was not read."""
    group: int
    session: int
    started: int
    """In clock ticks since boot: tells a reused pid."""


def read_process(pid: int) -> Process | None:
    """Read what `/proc` says of the process `pid`, dead or alive; None when it is gone or the system does not say."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if not fields:
        return None
    return Process(pid, fields[0] in (b"Z", b"X"), int(fields[2]), int(fields[3]), int(fields[19]))


def start_time(pid: int) -> int:
    """Return when `pid` started, in clock ticks since boot; 0 where the system does not say."""
    found = read_process(pid)
    return found.started if found else 0


def die_with_parent() -> Callable[[], None] | None:
    """Give a function for a new child to call before it becomes the program: it dies when we do. Linux only.

    The kernel watches the thread that forked, so fork in one that lives as long as the program.
    """
    prctl = _find_prctl()
    if prctl is None:
        return None
    parent = os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)

    return arrange


def prepare_program() -> Callable[[], None] | None:
    """Give a function for a new child to call before it becomes a program of a session: it dies when we do, and is marked for good.

    The mark is a hard limit on file locks, which Linux keeps for each process and has not applied since version 2.4. Everything that
    the program starts inherits it. A hard limit can be lowered, and raised only with a capability that programs of the superuser lose here.
    Other variables, a group or session of its own, a parent that ended and the end of the session change nothing. Linux only.
    """
    die, prctl = die_with_parent(), _find_prctl()
    if die is None or prctl is None:
        return None
    powerful = os.geteuid() == 0

    def prepare() -> None:
        die()
        if powerful:
            prctl(_PR_CAPBSET_DROP, _CAP_SYS_RESOURCE)
        with contextlib.suppress(OSError, ValueError):  # it has a lower limit already, or the system has none
            resource.setrlimit(_RLIMIT_LOCKS, (_MARK, _MARK))

    return prepare


def is_marked() -> bool:
    """Return whether a session started this process, directly or through others; False where the system cannot say."""
    return sys.platform == "linux" and resource.getrlimit(_RLIMIT_LOCKS)[1] != resource.RLIM_INFINITY


def list_members(group: int, run: str = "") -> tuple[int, ...]:
    """List the living processes of a group, those of its session in another group, and those that carry the word `run`."""
    if not _PROC.joinpath("self").exists():
        return (group,) if group > 1 and _exists(group) else ()
    found = (read_process(pid) for pid in _list_pids())
    living = (each for each in found if each and not each.dead)
    return tuple(
        each.pid
        for each in living
        if (group > 1 and group in (each.group, each.session))
        or (run and _has_variable(each.pid, f"{RUN_VARIABLE}={run}"))
    )


def list_survivors(group: int) -> tuple[int, ...]:
    """List the living processes of a group whose leader has ended: as `list_members`, but quick when there is none."""
    return list_members(group) if _exists(group) else ()


async def end_group(group: int, run: str = "") -> tuple[int, ...]:
    """Stop every process of a group: SIGTERM, two seconds, SIGKILL. Return those that even the kernel could not end.

    Those that carry the word `run` are stopped with it, in any group or session.
    """
    if await _signal_until_gone(group, run, signal.SIGTERM, GRACE_S) or await _signal_until_gone(
        group, run, signal.SIGKILL, KILL_S
    ):
        return ()
    return await anyio.to_thread.run_sync(list_members, group, run)


async def end_run(run: str) -> tuple[int, ...]:
    """Stop what carries the word `run`, when its group is gone and the number may mean another group. Return as `end_group` does."""
    return await end_group(0, run)


async def wait_for(process: "subprocess.Popen[bytes]") -> None:
    """Wait until our child has ended; its children may go on."""
    descriptor = open_pidfd(process.pid)
    try:
        while not has_ended(process):
            await (anyio.sleep(_POLL_S) if descriptor is None else anyio.wait_readable(descriptor))
    finally:
        if descriptor is not None:
            os.close(descriptor)


def has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Return whether our child has ended. A lost exit code becomes `UNSEEN`: it must not look like success.

    Python takes a child that it cannot find for one that ended well. It cannot be found when something else in this program waited for
    it, or when SIGCHLD is ignored.
    """
    if process.returncode is None and hasattr(os, "waitid"):
        try:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            process.returncode = UNSEEN
    return process.poll() is not None


def open_pidfd(pid: int) -> int | None:
    """Open a descriptor that becomes readable when our child `pid` ends; None where the kernel has no such thing."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


async def stop_group(group: int, boot: str, started: int, call: str = "") -> bool:
    """Stop a group that an earlier process left behind; say whether it was still there.

    A number that means another group by now is left alone: the boot id must be this one, and the leader's start
    time must match. When the leader is gone, a member that carries the variable of the call proves the group, since the
    kernel does not reuse the number as long as a member lives.
    """
    if not await anyio.to_thread.run_sync(is_left_running, group, boot, started, call):
        return False
    await end_group(group)
    return True


def is_left_running(group: int, boot: str, started: int, call: str) -> bool:
    """Return whether a group that an earlier process left behind is still there, as `stop_group` says. Looks at processes."""
    if group <= 1 or group in (os.getpgrp(), os.getsid(0)) or boot != boot_id():
        return False
    living = list_members(group)
    leader = read_process(group)
    if leader is not None:
        return bool(living) and leader.started == started
    return any(_has_variable(pid, f"{CALL_VARIABLE}={call}", whole=bool(call)) for pid in living)


async def stop_call(call: str) -> bool:
    """Stop all processes that carry the variable of a call, recorded or not; return whether there were any."""
    return await stop_calls((call,))


async def stop_calls(calls: Collection[str]) -> bool:
    """Stop the processes of many calls as `stop_call` does, with one look at the machine instead of one for each call.

    Repeat that until no new one is found: a process may leave its group after it was seen there.
    """
    stopped: set[int] = set()
    while groups := await anyio.to_thread.run_sync(_groups_of, calls) - stopped:
        stopped |= groups
        for group in sorted(groups):
            await end_group(group)
    return bool(stopped)


@functools.cache
def _find_prctl() -> Callable[[int, int], int] | None:
    if sys.platform != "linux":
        return None
    prctl: Callable[[int, int], int] = ctypes.CDLL(None).prctl
    return prctl


async def _signal_until_gone(group: int, run: str, number: int, seconds: float) -> bool:
    """Signal a group and wait until it is gone; give up after `seconds`."""
    quiet = not run  # a process that becomes another program just now shows no variables: look once more
    with anyio.move_on_after(seconds):
        while True:
            found = await anyio.to_thread.run_sync(_signal, group, run, number)
            if not found and quiet:
                return True
            quiet = not found or not run
            if number == signal.SIGTERM:
                number = 0  # a second SIGTERM often means "at once"; only look from now on
            await anyio.sleep(_POLL_S)
    return False


def _signal(group: int, run: str, number: int) -> tuple[int, ...]:
    """Send a signal to a group and to the rest of its session; return their processes. Signal 0 only looks."""
    found = list_members(group, run)
    if number == 0:
        return found
    outside = [pid for pid in found if (each := read_process(pid)) is not None and each.group != group]
    if group > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if pid in outside:  # the others have it already, and twice may mean "at once"
                os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # one that was stopped would never see SIGTERM
    return found


def _groups_of(calls: Collection[str]) -> set[int]:
    """Find the groups of everything that carries one of `calls`, with one look at the machine."""
    wanted = tuple(f"{CALL_VARIABLE}={call}".encode() for call in calls if call)
    if not wanted:
        return set()
    mark = b"\0" + CALL_VARIABLE.encode()
    carriers = ((pid, variables) for pid in _list_pids() if mark in (variables := _variables(pid)))
    found = (read_process(pid) for pid, variables in carriers if not set(variables.split(b"\0")).isdisjoint(wanted))
    groups = {each.group for each in found if each and not each.dead}
    return groups - {os.getpgrp(), os.getsid(0)}


def _has_variable(pid: int, variable: str, *, whole: bool = True) -> bool:
    """Return whether a process was started with a variable, or with one that begins so."""
    return b"\0" + variable.encode() + (b"\0" if whole else b"") in _variables(pid)


def _variables(pid: int) -> bytes:
    """Read the environment that a process was started with, each variable between two zeros; empty when it cannot be read."""
    return b"\0" + _read(pid, "environ") + b"\0"


def _list_pids() -> tuple[int, ...]:
    """List every process of the machine; empty where the system does not say."""
    try:
        return tuple(int(each) for each in os.listdir(_PROC) if each.isdigit())
    except OSError:
        return ()


def _read(pid: int, name: str) -> bytes:
    """Read a file of a process; empty when it cannot be read. Without `Path`: it is read for every process."""
    try:
        with open(f"{_PROC}/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
