"""Run a program in a sandbox of Landlock (files and TCP) and a seccomp filter (the rest).

Landlock knows only what is allowed, for a folder and all below it. So where a closed place lies below an open one, each of its neighbours
is opened instead; and what is sealed inside a working folder cannot be kept, because files must be made beside it.
"""

import contextlib
import ctypes
import functools
import os
import platform
import stat
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from backstay.sandbox import seccomp
from backstay.sandbox.plan import Mount, SandboxPlan, inside

if TYPE_CHECKING:
    from backstay.ports import Sandbox

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 14, 1 << 15
_CHANGE: Final = 0x1FF0 & ~(1 << 6 | 1 << 11)
"""Removing and making everything but devices."""
_REFER: Final = 1 << 13
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE: Final = _READ | _WRITE_FILE | _CHANGE | _REFER | _TRUNCATE
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
"""Not the terminals: another one of the same person could be read and written."""
_NO_NEW_PRIVS: Final = 38
_CAPSET: Final = {"x86_64": 126, "aarch64": 91}
_FILE_CAPABILITIES: Final = 0b11011
"""CHOWN, DAC_OVERRIDE, FOWNER and FSETID: what the superuser keeps."""


@functools.cache
def abi() -> int:
    """Return the version of this kernel's Landlock; 0 when there is none."""
    if sys.platform != "linux" or platform.machine() not in _CAPSET:
        return 0
    return max(0, int(_syscall()(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))))


def prepare_scope() -> Callable[[], None]:
    """Give a function for a new child to call: a session of its own without a terminal and, where the kernel can, no signals to other
    programs and no abstract sockets of theirs."""
    rules = _Ruleset(_Attributes(0, 0, 3)) if abi() >= 6 else None

    def enter() -> None:
        with contextlib.suppress(PermissionError):  # it leads one already
            os.setsid()
        if rules is not None:
            rules.restrict()

    return enter


class Landlock:
    """Start programs under the rules of Landlock."""

    def __init__(self, plan: SandboxPlan) -> None:
        self._plan = plan
        sockets = seccomp.ORDINARY if plan.network else ()
        self._install = seccomp.installer(seccomp.assemble(sockets, messages=plan.network))

    @property
    def name(self) -> str:
        """What keeps programs."""
        return "landlock"

    @property
    def words(self) -> str:
        """What is kept from programs."""
        return self._plan.words(" /tmp itself is closed to writing.")

    def command(self, argv: Sequence[str], *, cwd: str) -> tuple[list[str], Callable[[], None] | None]:
        """Return what to start instead of `argv`, and what the child does before."""
        self._plan.scratch.ready()
        rules, install, give_up_powers = self._rules(), self._install, _drop_capabilities()

        def enter() -> None:
            with contextlib.suppress(PermissionError):  # it leads one already
                os.setsid()
            rules.restrict()
            if not (give_up_powers() and install()):
                _end_child()

        return ["/usr/bin/env", f"TMPDIR={self._plan.scratch.path}", *argv], enter

    def close(self) -> None:
        """Remove what was made for the session."""
        self._plan.scratch.close()

    def _rules(self) -> "_Ruleset":
        version = abi()
        handled = _rights_of(version)
        network = 3 if version >= 4 and not self._plan.network else 0
        rules = _Ruleset(_Attributes(handled, network, 3 if version >= 6 else 0))
        places = [place for place in self._plan.places() if not place.source]
        rules.allow("/", _READ_DIR)  # hides no names, but `ls /` and `ls ~` must work although parts of them are closed
        for path, access in _list_open((*places, Mount("/dev", "closed"))):
            rules.allow(path, (_WRITE if access == "write" else _READ) & handled)
        for name in _DEVICES:
            rules.allow(f"/dev/{name}", (_READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _IOCTL) & handled)
        return rules


def _list_open(places: Sequence[Mount]) -> Iterator[tuple[str, str]]:
    """Yield the files and folders that are open, each with all below it."""
    known = {place.path for place in places}
    for place in places:
        if place.access != "closed":
            lesser = ("closed", "read") if place.access == "write" else ("closed",)
            below = [each.path for each in places if each.access in lesser and inside(each.path, place.path)]
            yield from ((path, place.access) for path in _parts(place.path, below, known))


def _parts(path: str, closed: Sequence[str], known: set[str]) -> Iterator[str]:
    """Yield a place whole or, when something below is closed, in pieces. Links are left out: what they lead to has its own place."""
    below = [each for each in closed if inside(each, path)]
    if not below:
        yield path
        return
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.path not in known and not entry.is_symlink():
                yield from _parts(entry.path, below, known)


def _rights_of(version: int) -> int:
    rights = (1 << 13) - 1
    if version >= 2:
        rights |= _REFER
    if version >= 3:
        rights |= _TRUNCATE
    if version >= 5:
        rights |= _IOCTL
    return rights


class _Attributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scope", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Ruleset:
    """A set of rules that the kernel holds. It is closed when no child can be started with it any more."""

    def __init__(self, attributes: _Attributes) -> None:
        size = 8 if abi() < 4 else 16 if abi() < 6 else 24
        self._call = _syscall()
        self._fd = int(self._call(_CREATE, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint(0)))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), f"Landlock makes no rules: {os.strerror(ctypes.get_errno())}")
        os.set_inheritable(self._fd, False)
        self._prctl = ctypes.CDLL(None).prctl
        weakref.finalize(self, os.close, self._fd)

    def allow(self, path: str, rights: int) -> None:
        """Allow `rights` on a path and all below. One that is not there is left out: then it stays closed."""
        try:
            number = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return
        try:
            if not stat.S_ISDIR(os.fstat(number).st_mode):
                rights &= _OF_FILES
            rule = _Beneath(rights, number)
            self._call(_ADD, ctypes.c_int(self._fd), ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint(0))
        finally:
            os.close(number)

    def restrict(self) -> None:
        """Obey the rules from now on, or end. For the child."""
        if self._prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or self._call(_RESTRICT, self._fd, 0) != 0:
            _end_child()


def _end_child() -> None:
    os.write(2, b"This command could not be sandboxed, so it was not started.\n")
    os._exit(126)


class _CapHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapSets(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable", "e2", "p2", "i2"))


def _drop_capabilities() -> Callable[[], bool]:
    """Give a function for a new child to call: of the superuser's powers it keeps those over files alone."""
    if os.geteuid() != 0:
        return lambda: True
    held = _read_capabilities()
    header, sets = (
        _CapHeader(0x2008_0522, 0),
        _CapSets(held & _FILE_CAPABILITIES, held & _FILE_CAPABILITIES, 0, 0, 0, 0),
    )
    call, number = _syscall(), _CAPSET[platform.machine()]
    where, what = ctypes.byref(header), ctypes.byref(sets)
    return lambda: call(number, where, what) == 0


def _read_capabilities() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next((int(line.split()[1], 16) for line in status if line.startswith("CapPrm:")), 0)


@functools.cache
def _syscall() -> Callable[..., int]:
    call: Callable[..., int] = ctypes.CDLL(None, use_errno=True).syscall
    return call


if TYPE_CHECKING:
    _: Sandbox = Landlock.__new__(Landlock)
