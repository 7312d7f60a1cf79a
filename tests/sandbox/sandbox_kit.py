"""A yard with something to steal in it, and a way to send the program of escapes into a sandbox around a part of it.

Run as a program it prints a table of what was reached: `python -m tests.sandbox.sandbox_kit BACKEND SCOPE FOLDER`.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from backstay.sandbox import bubblewrap, landlock, seccomp
from backstay.sandbox.bubblewrap import Bubblewrap
from backstay.sandbox.landlock import Landlock
from backstay.sandbox.plan import SandboxPlan, Scratch, plan_sandbox
from backstay.vocab.specs import FsScope

SECRET = "secret"
NOBODY = 65534
HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]


@dataclass(frozen=True)
class Outcome:
    """What a program in the sandbox reached, and what it needed and did not get."""

    reached: frozenset[str]
    failed: tuple[str, ...]


class Yard:
    """Folders to work in, to steal from, and to spoil."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder)) / "yard"
        self.root, self.home, self.outside, self.private = (
            self.folder / name for name in ("root", "home", "outside", "private")
        )
        for path in (self.root / ".git/hooks", self.root / ".vscode", self.home / ".ssh", self.outside, self.private):
            path.mkdir(parents=True)
        for path in (
            self.root / ".git/config",
            self.home / ".ssh/key",
            self.home / ".bash_history",
            self.private / "sessions.db",
        ):
            path.write_text(SECRET, encoding="utf-8")
        for name in ("file", "other"):
            (self.outside / name).write_text(SECRET, encoding="utf-8")
        (self.outside / "file").chmod(0o640)

    def plan(self, scope: FsScope, *roots: Path, home: Path | None = None) -> SandboxPlan:
        """The sandbox of a session here. The yard lies among temporary files, so those are left as they are."""
        home, where = home or self.home, [str(each) for each in roots or (self.root,)]
        return plan_sandbox(
            scope, where, home=str(home), private=(str(self.private),), temporary=(), scratch=Scratch(str(self.folder))
        )

    def spoiled(self) -> set[str]:
        """What changed outside."""
        found = {"file" for name in ("file", "other") if _text(self.outside / name) != SECRET}
        found |= {"names"} if set(os.listdir(self.outside)) - {"stream", "datagram"} != {"file", "other"} else set()
        found |= {"key"} if _text(self.home / ".ssh/key") != SECRET else set()
        return found | ({"store"} if _text(self.private / "sessions.db") != SECRET else set())


def start_sandbox(backend: str, plan: SandboxPlan) -> Bubblewrap | Landlock:
    """A sandbox of one kind."""
    return Bubblewrap(plan, user_namespace=os.geteuid() != 0) if backend == "bubblewrap" else Landlock(plan)


def missing(backend: str) -> str:
    """Why a kind of sandbox cannot be tried here; empty when it can."""
    if not seccomp.is_supported():
        return "this machine's system calls are not known"
    if backend == "landlock":
        return "" if landlock.abi() >= 3 else "the kernel has no Landlock, or an early one"
    if not bubblewrap.find():
        return "bubblewrap is not installed"
    tried = [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        *(("--unshare-user",) if os.geteuid() else ()),
        "--unshare-net",
        "--proc",
        "/proc",
        "true",
    ]
    return (
        ""
        if subprocess.run(tried, capture_output=True, check=False).returncode == 0
        else "bubblewrap does not work here"
    )


def run(sandbox: Bubblewrap | Landlock, argv: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program behind a sandbox."""
    command, prepare = sandbox.command(argv, cwd=str(cwd))
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "HOME": str(cwd)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        start_new_session=True,
        preexec_fn=prepare,
    )


def try_escapes(backend: str, scope: FsScope, folder: Path) -> Outcome:
    """Send the escapes into a sandbox, and look from outside at what they did."""
    yard = Yard(folder)
    with ExitStack() as stack:
        sandbox = start_sandbox(backend, yard.plan(scope))
        stack.callback(sandbox.close)
        return _tried(yard, stack, lambda argv: run(sandbox, argv, yard.root))


def escapes_without_sandbox(folder: Path) -> frozenset[str]:
    """What the escapes reach where there is no sandbox."""
    yard = Yard(folder)
    environment = {**os.environ, "TMPDIR": str(folder)}
    with ExitStack() as stack:
        tried = _tried(
            yard,
            stack,
            lambda argv: subprocess.run(
                argv, cwd=yard.root, env=environment, capture_output=True, text=True, check=False
            ),
            only=HARMLESS,
        )
    return tried.reached


HARMLESS = (
    *(
        "write outside",
        "write through a link made inside",
        "hard link from outside",
        "rename outside",
        "read a key",
        "TCP",
        "UDP",
    ),
    *("a unix socket by path", "an abstract unix socket", "environment of another program", "make a git hook"),
    *(
        "signal to another program",
        "read what Backstay keeps",
        "a unix socket by path, from a pair",
        "set-user-id by mode",
    ),
)
"""Escapes that may succeed: they reach only the yard and the test itself."""


def _tried(
    yard: Yard,
    stack: ExitStack,
    start: Callable[[list[str]], "subprocess.CompletedProcess[str]"],
    only: Sequence[str] = (),
) -> Outcome:
    program = yard.root / "escapes.py"
    shutil.copy(HERE / "escapes.py", program)
    listeners = _listen(yard, stack)
    names = {name: str(getattr(yard, name)) for name in ("root", "outside", "home", "private")}
    ports = {name: port for name, (port, _) in listeners.items()}
    said = {**names, "parent": os.getpid(), "ports": ports, "name": f"backstay-{os.getpid()}", "only": only}
    ran = start([sys.executable, "-I", "-S", str(program), json.dumps(said)])
    heard = {name for name, (_, listener) in listeners.items() if _heard(listener)}
    if ran.returncode != 0:
        raise AssertionError(ran.stderr or ran.stdout)
    found = json.loads(ran.stdout)
    seen = {f"changed: {each}" for each in yard.spoiled()} | {f"heard: {each}" for each in heard}
    return Outcome(frozenset(found["reached"]) | seen, tuple(found["failed"]))


def as_nobody(backend: str, scope: FsScope) -> Outcome:
    """The same, as a user with no powers; skipped when nobody can run a Python that has what is needed."""
    paths = [str(REPOSITORY / "src"), str(REPOSITORY), *(each for each in sys.path if each.endswith("site-packages"))]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    folder = Path(tempfile.mkdtemp(prefix="nobody-"))
    try:
        os.chown(folder, NOBODY, NOBODY)
        for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
            command = [python, "-m", "tests.sandbox.sandbox_kit"]
            try:
                ran = subprocess.run(
                    [*command, backend, scope, str(folder)],
                    user=NOBODY,
                    group=NOBODY,
                    extra_groups=[],
                    cwd=REPOSITORY,
                    env={**environment, "HOME": str(folder)},
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=60,
                )
            except PermissionError:
                continue
            if "ModuleNotFoundError" in ran.stderr or "ImportError" in ran.stderr:
                continue
            if ran.returncode != 0:
                raise AssertionError(ran.stderr)
            found = json.loads(ran.stdout)
            return Outcome(frozenset(found["reached"]), tuple(found["failed"]))
        pytest.skip("an ordinary user can run no Python here that has what is needed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _listen(yard: Yard, stack: ExitStack) -> dict[str, tuple[int, socket.socket]]:
    """Somebody to talk to for each kind of socket."""
    found: dict[str, tuple[int, socket.socket]] = {}
    wanted: dict[str, tuple[int, int, str | tuple[str, int]]] = {
        "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        "tcp6": (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
        "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0backstay-{os.getpid()}"),
        "stream": (socket.AF_UNIX, socket.SOCK_STREAM, "stream"),
        "datagram": (socket.AF_UNIX, socket.SOCK_DGRAM, "datagram"),
    }
    folder = os.open(yard.outside, os.O_RDONLY)
    stack.callback(os.close, folder)
    for name, (family, kind, address) in wanted.items():
        listener = stack.enter_context(socket.socket(family, kind))
        try:
            listener.bind(f"/proc/self/fd/{folder}/{name}" if name in ("stream", "datagram") else address)
        except OSError:  # a machine without IPv6
            found[name] = (1, listener)
            continue
        listener.setblocking(False)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        found[name] = (listener.getsockname()[1] if family in (socket.AF_INET, socket.AF_INET6) else 0, listener)
    return found


def _heard(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(1)
    except OSError:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


if __name__ == "__main__":
    outcome = try_escapes(sys.argv[1], sys.argv[2], Path(sys.argv[3]))  # type: ignore[arg-type]  # a scope, as the caller says
    print(json.dumps({"reached": sorted(outcome.reached), "failed": outcome.failed}))
