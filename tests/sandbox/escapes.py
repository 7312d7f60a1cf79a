"""A program that tries to get out of its sandbox. It runs inside and prints what it reached, as a JSON list of names."""

import ctypes
import fcntl
import json
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable

SAID = json.loads(sys.argv[1]) if __name__ == "__main__" else {}
ROOT, OUTSIDE, HOME, PRIVATE = (SAID.get(name, "") for name in ("root", "outside", "home", "private"))
PARENT, PORTS, NAME = SAID.get("parent", 0), SAID.get("ports", {}), SAID.get("name", "")
LIBRARY = ctypes.CDLL(None, use_errno=True)
INTEL = platform.machine() == "x86_64"
ESCAPES: dict[str, Callable[[], object]] = {}


def escape(name: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Take a function as a way out. It fails with `OSError`, or gives False."""

    def take(work: Callable[[], object]) -> Callable[[], object]:
        ESCAPES[name] = work
        return work

    return take


def call(intel: int, other: int, *args: object) -> int:
    """Make a system call; raise `OSError` when the kernel refuses."""
    found = int(LIBRARY.syscall(intel if INTEL else other, *args))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def write(path: str) -> int:
    with open(path, "a", encoding="utf-8") as file:
        return file.write("x")


def after(step: Callable[[], object], *more: Callable[[], object]) -> bool:
    """Do steps one after the other."""
    for each in (step, *more):
        each()
    return True


def read(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return bool(file.read())


def link(name: str, target: str) -> str:
    path = f"{ROOT}/{name}"
    if os.path.islink(path):
        os.unlink(path)
    os.symlink(target, path)
    return path


def connect(family: int, kind: int, address: object, *, send: bool = False) -> None:
    with socket.socket(family, kind) as caller:
        caller.settimeout(5)
        if send:
            caller.sendto(b"x", address)  # type: ignore[call-overload]  # each family has addresses of its own
        else:
            caller.connect(address)  # type: ignore[arg-type]  # likewise


# --- files -----------------------------------------------------------------------------------------------------------------------

escape("write outside")(lambda: write(f"{OUTSIDE}/file"))
escape("make a file outside")(lambda: write(f"{OUTSIDE}/new"))
escape("truncate outside")(lambda: os.truncate(f"{OUTSIDE}/file", 0))
escape("remove outside")(lambda: os.unlink(f"{OUTSIDE}/other"))
escape("rename outside")(lambda: os.rename(f"{OUTSIDE}/file", f"{OUTSIDE}/renamed"))
escape("make a folder outside")(lambda: os.mkdir(f"{OUTSIDE}/folder"))
escape("take a file out of the outside")(lambda: os.rename(f"{OUTSIDE}/file", f"{ROOT}/taken"))
escape("write through a link made inside")(lambda: write(link("link", f"{OUTSIDE}/file")))
escape("write through a linked folder")(lambda: write(link("folder", OUTSIDE) + "/file"))
escape("write through a dangling link")(lambda: write(link("dangling", f"{OUTSIDE}/dangling")))
escape("write through /proc/self/root")(lambda: write(f"/proc/self/root{OUTSIDE}/file"))
escape("write through the root of another process")(
    lambda: write(f"/proc/{PARENT}/root{OUTSIDE}/file") if foreign() else False
)
escape("rename the working folder")(lambda: os.rename(ROOT, f"{ROOT}-2"))
escape("put a link in place of the working folder")(
    lambda: after(lambda: os.rename(ROOT, f"{ROOT}-2"), lambda: os.symlink("/", ROOT))
)
escape("change the mode of a file outside")(lambda: os.chmod(f"{OUTSIDE}/file", 0o600))
escape("change the times of a file outside")(lambda: os.utime(f"{OUTSIDE}/file", (1, 1)))
escape("read a key")(lambda: read(f"{HOME}/.ssh/key"))
escape("read a key through a link")(lambda: read(link("key", f"{HOME}/.ssh/key")))
escape("read a key through /proc/self/root")(lambda: read(f"/proc/self/root{HOME}/.ssh/key"))
escape("read a key through /proc/self/cwd")(lambda: read("/proc/self/cwd/../home/.ssh/key"))
escape("read a history")(lambda: read(f"{HOME}/.bash_history"))
escape("read what Backstay keeps")(lambda: read(f"{PRIVATE}/sessions.db"))
escape("write what Backstay keeps")(lambda: write(f"{PRIVATE}/sessions.db"))


@escape("hard link from outside")
def _hard_link() -> None:
    os.link(f"{OUTSIDE}/file", f"{ROOT}/hard")
    write(f"{ROOT}/hard")


@escape("hard link to a key")
def _hard_key() -> bool:
    os.link(f"{HOME}/.ssh/key", f"{ROOT}/hard-key")
    return read(f"{ROOT}/hard-key")


@escape("move the folder above a key")
def _move_home() -> None:
    os.rename(HOME, f"{ROOT}/home")


# --- what the working folder keeps -----------------------------------------------------------------------------------------------

escape("change git's configuration")(lambda: write(f"{ROOT}/.git/config"))
escape("make a git hook")(lambda: write(f"{ROOT}/.git/hooks/pre-commit"))
escape("change an editor's tasks")(lambda: write(f"{ROOT}/.vscode/tasks.json"))
escape("make settings that were not there")(
    lambda: after(
        lambda: os.makedirs(f"{ROOT}/.backstay", exist_ok=True), lambda: write(f"{ROOT}/.backstay/settings.json")
    )
)
escape("make settings of another agent")(
    lambda: after(lambda: os.makedirs(f"{ROOT}/.claude", exist_ok=True), lambda: write(f"{ROOT}/.claude/settings.json"))
)


@escape("put another .git in place")
def _other_git() -> None:
    os.rename(f"{ROOT}/.git", f"{ROOT}/.git-2")
    os.mkdir(f"{ROOT}/.git")
    write(f"{ROOT}/.git/config")


@escape("replace git's configuration")
def _replace_config() -> None:
    write(f"{ROOT}/.git/config.lock")
    os.rename(f"{ROOT}/.git/config.lock", f"{ROOT}/.git/config")


# --- the network -----------------------------------------------------------------------------------------------------------------

escape("TCP")(lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORTS["tcp"])))
escape("TCP with curl")(
    lambda: (
        shutil.which("curl") is not None
        and subprocess.run(
            ["curl", "-sS", "-m", "1", f"http://127.0.0.1:{PORTS['tcp']}/"], capture_output=True, check=False
        ).returncode
        in (0, 28, 52, 56)
    )
)
escape("TCP over IPv6")(lambda: connect(socket.AF_INET6, socket.SOCK_STREAM, ("::1", PORTS["tcp6"])))
escape("UDP")(lambda: not connect_udp())
escape("a unix socket by path")(lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, f"{OUTSIDE}/stream"))
escape("a unix socket by path, datagrams")(
    lambda: connect(socket.AF_UNIX, socket.SOCK_DGRAM, f"{OUTSIDE}/datagram", send=True)
)
escape("an abstract unix socket")(lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{NAME}"))
escape("a socket the old way")(lambda: INTEL and call(0x4000_0000 + 41, 0, socket.AF_INET, socket.SOCK_DGRAM, 0) >= 0)
escape("a virtual machine's socket")(lambda: socket.socket(40, socket.SOCK_STREAM).close())
escape("raw frames")(lambda: socket.socket(17, socket.SOCK_RAW).close())


def connect_udp() -> bool:
    """Send a datagram; that nobody complains says nothing, so whoever listens is asked later."""
    connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", PORTS["udp"]), send=True)
    return True


@escape("a unix socket by path, from a pair")
def _pair() -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"x", f"{OUTSIDE}/datagram")


@escape("io_uring")
def _ring() -> int:
    return call(425, 425, 4, ctypes.create_string_buffer(120)) + 1


# --- other programs --------------------------------------------------------------------------------------------------------------


def foreign() -> bool:
    """Whether the number of the program outside is its own in here, and not one of ours."""
    return bool(os.getppid() == PARENT)


escape("memory of another program")(lambda: foreign() and openable(f"/proc/{PARENT}/mem", os.O_RDWR))
escape("environment of another program")(lambda: foreign() and read(f"/proc/{PARENT}/environ"))
escape("files that another program has open")(lambda: foreign() and bool(os.readlink(f"/proc/{PARENT}/fd/0")))
escape("ptrace")(lambda: foreign() and call(101, 117, 16, PARENT, 0, 0) == 0)
escape("ptrace of oneself")(lambda: call(101, 117, 0, 0, 0, 0) == 0)
escape("signal to another program")(lambda: foreign() and after(lambda: os.kill(PARENT, 0)))
escape("limits of another program")(lambda: foreign() and resource.prlimit(PARENT, resource.RLIMIT_CORE))
escape("files left open")(lambda: [name for name in os.listdir("/proc/self/fd") if int(name) > 2][1:] or False)
escape("the terminal")(lambda: os.close(os.open("/dev/tty", os.O_RDWR)))


@escape("typing into the terminal")
def typing() -> None:
    leader, follower = os.openpty() if os.path.exists("/dev/ptmx") else (-1, -1)
    fcntl.ioctl(follower, 0x5412, b"x")
    os.close(leader)


@escape("reading another program's memory by call")
def _peek() -> int | bool:
    return foreign() and call(310, 270, PARENT, None, 0, None, 0, 0) >= 0


# --- the kernel ------------------------------------------------------------------------------------------------------------------

escape("a user namespace")(lambda: call(272, 97, 0x1000_0000) == 0)
escape("a mount namespace")(lambda: call(272, 97, 0x0002_0000) == 0)
escape("a process in a user namespace")(lambda: forked(call(56, 220, 0x1000_0000 | 17, 0, 0, 0, 0)))
escape("clone3")(lambda: call(435, 435, ctypes.create_string_buffer(88), 88) >= 0)
escape("mount")(lambda: call(165, 40, b"none", ROOT.encode(), b"tmpfs", 0, None) == 0)
escape("uncover a key")(lambda: call(166, 39, f"{HOME}/.ssh".encode(), 2) == 0)
escape("chroot")(lambda: os.chroot(ROOT))
escape("keys of the kernel")(lambda: call(250, 219, 0, -4, 1, 0, 0) >= 0)
escape("bpf")(lambda: call(321, 280, 0, ctypes.create_string_buffer(64), 64) >= 0)
escape("perf events")(lambda: call(298, 241, ctypes.create_string_buffer(128), 0, -1, -1, 0) >= 0)
escape("userfaultfd")(lambda: call(323, 282, 1) >= 0)
escape("open by handle")(lambda: call(304, 265, -100, ctypes.create_string_buffer(16), 0) >= 0)
escape("kernel settings")(lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)))
escape("system requests")(lambda: os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY)))
escape("another control group")(lambda: os.close(os.open("/sys/fs/cgroup/cgroup.procs", os.O_WRONLY)))
escape("make a control group")(lambda: os.mkdir("/sys/fs/cgroup/backstay-escape"))
escape("the kernel's messages")(lambda: os.close(os.open("/dev/kmsg", os.O_RDONLY)))
escape("the disk")(lambda: any(openable(f"/dev/{name}") for name in ("vda", "sda", "nvme0n1", "mem", "kvm", "fuse")))
escape("make a device")(lambda: os.mknod(f"{ROOT}/device", 0o600 | 0o060000, os.makedev(254, 0)))
escape("set-user-id by mode")(
    lambda: after(lambda: write(f"{ROOT}/setuid"), lambda: os.chmod(f"{ROOT}/setuid", 0o4755))
)


def forked(pid: int) -> bool:
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


def openable(path: str, how: int = os.O_RDONLY) -> bool:
    try:
        os.close(os.open(path, how))
    except OSError:
        return False
    return True


@escape("gain powers from a program")
def gained() -> bool:
    """Whether a set-user-id program would have its owner's powers, whatever is preloaded into it."""
    with open("/proc/self/status", encoding="utf-8") as status:
        lines = dict(line.split(":", 1) for line in status)
    powers = int(lines["CapEff"], 16) & ~0b11011
    return lines["NoNewPrivs"].strip() != "1" or powers != 0


# --- what must work --------------------------------------------------------------------------------------------------------------


def works() -> list[str]:
    """What an ordinary program needs, and cannot do here."""
    needs: dict[str, Callable[[], object]] = {
        "write in the working folder": lambda: write(f"{ROOT}/made"),
        "make a folder": lambda: after(
            lambda: os.makedirs(f"{ROOT}/a/b"),
            lambda: write(f"{ROOT}/a/b/c"),
            lambda: os.rename(f"{ROOT}/a/b/c", f"{ROOT}/c"),
        ),
        "write where TMPDIR says": lambda: write(os.environ["TMPDIR"] + "/made"),
        "read the system's files": lambda: read("/etc/passwd"),
        "list the root": lambda: os.listdir("/"),
        "run a program": lambda: subprocess.run(["/bin/sh", "-c", "exit 0"], check=True),
        "a pair of sockets": lambda: after(*(each.close for each in socket.socketpair())),
        "/dev/null": lambda: write("/dev/null"),
        "random bytes": lambda: openable("/dev/urandom") or 1 / 0,
        "a thread": lambda: __import__("threading").Thread(target=int).start(),
    }
    failed = []
    for name, work in needs.items():
        try:
            work()
        except (OSError, ArithmeticError, KeyError, subprocess.SubprocessError) as exc:
            failed.append(f"{name}: {exc}")
    return failed


def main() -> None:
    """Try everything."""
    failed, reached = works(), []
    for name, work in ESCAPES.items():
        if SAID["only"] and name not in SAID["only"]:
            continue
        try:
            if work() is not False:
                reached.append(name)
        except OSError:
            continue
    print(json.dumps({"reached": reached, "failed": failed}))


if __name__ == "__main__":
    main()
