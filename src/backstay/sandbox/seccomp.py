"""Assemble a filter of system calls: it refuses what no program in the sandbox needs and many escapes begin with.

A filter sees numbers, never what a pointer points to, so it closes kinds of calls; files are the work of others. Everything is made
before the fork; the child only makes the two calls that put the filter on.
"""

import ctypes
import errno
import platform
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

ROUTES_ONLY: Final = (socket.AF_INET, socket.AF_INET6, 16)
"""The kinds of sockets that lead nowhere in a network of one's own: IPv4, IPv6, and the kernel's list of routes."""
ORDINARY: Final = (socket.AF_UNIX, *ROUTES_ONLY)
"""The kinds of sockets that ordinary programs use; others reach the machine's devices, its host or raw frames."""


def is_supported() -> bool:
    """Return whether the numbers of this machine's system calls are known here."""
    return sys.platform == "linux" and sys.byteorder == "little" and platform.machine() in _MACHINES


def assemble(sockets: Iterable[int], *, messages: bool = True) -> bytes:
    """Assemble the filter that lets a program open only `sockets`, and without `messages` nothing shared with programs outside."""
    machine = _MACHINES[platform.machine()]
    parts = [_head(machine)]
    refused = _REFUSED if messages else [*_REFUSED, *_MESSAGES]
    parts += [_refuse(machine.calls[name]) for name in refused if name in machine.calls]
    parts += [
        _answer(machine.calls["clone3"], _ret(errno.ENOSYS))
    ]  # its flags are behind a pointer; libraries use clone then
    parts.append(_answer(machine.calls["prlimit64"], _load(0) + _if_is(0, _ALLOW) + _ret(errno.EPERM)))
    for name in ("clone", "unshare"):
        parts.append(_answer(machine.calls[name], _load(0) + _if_any(_NEW_NAMESPACES, _ret(errno.EPERM)) + _ALLOW))
    parts.append(_answer(machine.calls["socket"], _open_only(sorted(set(sockets)))))
    parts.append(
        _answer(machine.calls["socketpair"], _load(1) + _and(15) + _if_is(_DATAGRAM, _ret(errno.EPERM)) + _ALLOW)
    )
    parts.append(
        _answer(
            machine.calls["ioctl"], _load(1) + b"".join(_if_is(each, _ret(errno.EPERM)) for each in _TYPING) + _ALLOW
        )
    )
    for name, position in _MODES.items():
        if name in machine.calls:
            parts.append(_answer(machine.calls[name], _load(position) + _if_any(_SETUID, _ret(errno.EPERM)) + _ALLOW))
    return b"".join((*parts, _ALLOW))


def installer(program: bytes) -> Callable[[], bool]:
    """Give a function for a new child to call: it puts the filter on for good, and says whether that went well."""
    code = ctypes.create_string_buffer(program, len(program))
    wanted = _Program(len(program) // 8, ctypes.cast(code, ctypes.c_void_p))
    address = ctypes.addressof(wanted)
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)

    def install(_kept: object = (code, wanted)) -> bool:
        return bool(prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and prctl(_SET_SECCOMP, _FILTER, address, 0, 0) == 0)

    return install


# --- what is refused -------------------------------------------------------------------------------------------------------------

_REFUSED: Final = """
ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise process_mrelease keyctl add_key request_key
mount umount2 pivot_root chroot move_mount open_tree open_tree_attr mount_setattr
fsopen fsconfig fsmount fspick setns quotactl quotactl_fd open_by_handle_at
bpf perf_event_open userfaultfd fanotify_init fanotify_mark lookup_dcookie io_uring_setup io_uring_enter io_uring_register
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff
acct settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname
syslog vhangup iopl ioperm uselib move_pages migrate_pages nfsservctl
""".split()
"""io_uring is among them because it opens sockets that no filter sees."""
_MESSAGES: Final = (
    "shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open mq_unlink".split()
)
"""Not only those that find something: a number can be guessed."""
_NEW_NAMESPACES: Final = 0x7E02_0080
"""Every flag that asks for a namespace of one's own: in a user namespace, a program has the powers that sandboxes are built on."""
_DATAGRAM: Final = 2
"""A datagram socket of a pair can still be sent to any address."""
_TYPING: Final = (0x5412, 0x541C, 0x5423)
"""TIOCSTI, TIOCLINUX and TIOCSETD: they type into the terminal that the person sits at."""
_SETUID: Final = 0o4000
_MODES: Final = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
_NO_NEW_PRIVS: Final = 38
_SET_SECCOMP: Final = 22
_FILTER: Final = 2


class _Machine(Struct, frozen=True):
    audit: int
    """The kernel's number of it; a call made the 32-bit way has another one."""
    calls: Mapping[str, int]
    x32: bool = False
    """Whether a third way of calling hides behind a bit of the number."""


def _table(text: str) -> dict[str, int]:
    pairs = (each.split("=") for each in text.split())
    return {name: int(number) for name, number in pairs}


_SHARED: Final = """
pidfd_getfd=438 process_madvise=440 process_mrelease=448 move_mount=429 open_tree=428 open_tree_attr=467 mount_setattr=442 fsopen=430
fsconfig=431 fsmount=432 fspick=433 quotactl_fd=443 io_uring_setup=425 io_uring_enter=426 io_uring_register=427 clone3=435 fchmodat2=452
"""
_MACHINES: Final = {
    "x86_64": _Machine(
        0xC000_003E,
        _table(
            _SHARED
            + """
ptrace=101 process_vm_readv=310 process_vm_writev=311 kcmp=312 keyctl=250 add_key=248 request_key=249 mount=165 umount2=166 pivot_root=155
chroot=161 setns=308 quotactl=179 open_by_handle_at=304 bpf=321 perf_event_open=298 userfaultfd=323 fanotify_init=300 fanotify_mark=301
lookup_dcookie=212 init_module=175 finit_module=313 delete_module=176 kexec_load=246 kexec_file_load=320 reboot=169 swapon=167 swapoff=168
acct=163 settimeofday=164 clock_settime=227 clock_adjtime=305 adjtimex=159 sethostname=170 setdomainname=171 syslog=103 vhangup=153
iopl=172 ioperm=173 uselib=134 move_pages=279 migrate_pages=256 nfsservctl=180 clone=56 unshare=272 socket=41 socketpair=53 ioctl=16
chmod=90 fchmod=91 fchmodat=268 shmget=29 shmat=30 shmctl=31 semget=64 semop=65 semctl=66 msgget=68 msgsnd=69 msgrcv=70 msgctl=71
semtimedop=220 mq_open=240 mq_unlink=241 prlimit64=302
"""
        ),
        x32=True,
    ),
    "aarch64": _Machine(
        0xC000_00B7,
        _table(
            _SHARED
            + """
ptrace=117 process_vm_readv=270 process_vm_writev=271 kcmp=272 keyctl=219 add_key=217 request_key=218 mount=40 umount2=39 pivot_root=41
chroot=51 setns=268 quotactl=60 open_by_handle_at=265 bpf=280 perf_event_open=241 userfaultfd=282 fanotify_init=262 fanotify_mark=263
lookup_dcookie=18 init_module=105 finit_module=273 delete_module=106 kexec_load=104 kexec_file_load=294 reboot=142 swapon=224 swapoff=225
acct=89 settimeofday=170 clock_settime=112 clock_adjtime=266 adjtimex=171 sethostname=161 setdomainname=162 syslog=116 vhangup=58
move_pages=239 migrate_pages=238 nfsservctl=42 clone=220 unshare=97 socket=198 socketpair=199 ioctl=29 fchmod=52 fchmodat=53
mq_open=180 mq_unlink=181 msgget=186 msgctl=187 msgrcv=188 msgsnd=189 semget=190 semctl=191 semtimedop=192 semop=193 shmget=194 shmctl=195
shmat=196 prlimit64=261
"""
        ),
    ),
}


# --- instructions ----------------------------------------------------------------------------------------------------------------

_LOAD, _AND, _JUMP_IF_IS, _JUMP_IF_LEAST, _JUMP_IF_ANY, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _ret(number: int) -> bytes:
    return _instruction(_RETURN, 0x0005_0000 | number)


_ALLOW: Final = _instruction(_RETURN, 0x7FFF_0000)


def _load(argument: int) -> bytes:
    """Load the lower half of an argument: the kernel itself looks at no more of those that are judged here."""
    return _instruction(_LOAD, 16 + 8 * argument)


def _and(mask: int) -> bytes:
    return _instruction(_AND, mask)


def _if_is(value: int, then: bytes) -> bytes:
    return _instruction(_JUMP_IF_IS, value, no=len(then) // 8) + then


def _if_any(mask: int, then: bytes) -> bytes:
    return _instruction(_JUMP_IF_ANY, mask, no=len(then) // 8) + then


def _head(machine: _Machine) -> bytes:
    """Refuse calls that are made another way than the machine's own, then look at the number."""
    other = _ret(errno.ENOSYS)
    head = _instruction(_LOAD, 4) + _instruction(_JUMP_IF_IS, machine.audit, yes=1) + other + _instruction(_LOAD, 0)
    return head + (_instruction(_JUMP_IF_LEAST, 0x4000_0000, no=1) + other if machine.x32 else b"")


def _answer(number: int, then: bytes) -> bytes:
    """Answer one call; `then` always ends in a return, so that the number is still loaded for the next."""
    return _if_is(number, then)


def _refuse(number: int) -> bytes:
    return _answer(number, _ret(errno.EPERM))


def _open_only(sockets: list[int]) -> bytes:
    allowed = b""
    for each in sockets:
        routes = _load(2) + _if_is(0, _ALLOW) + _ret(errno.EACCES)
        allowed += _if_is(each, routes if each == 16 else _ALLOW)
    return _load(0) + allowed + _ret(errno.EACCES)
