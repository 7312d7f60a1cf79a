"""Find out which kind of sandbox works on this machine, by trying to break out of each, never by asking for versions.

Run a small program in each kind of sandbox; it tries what must fail and one thing that must work. The probe checks from outside what it
reached. The answer holds until the machine starts again or something that it depends on changes.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from backstay.ports import Sandbox
from backstay.sandbox import bubblewrap, landlock, seccomp
from backstay.sandbox.plan import SandboxPlan, Scratch, plan_sandbox
from backstay.system.files import replace_file, stamp_at
from backstay.system.folders import data_dir
from backstay.system.programs import load_behind
from backstay.version import VERSION
from backstay.vocab.env_keys import without_loading
from backstay.vocab.specs import FsScope

Backend = Literal["bubblewrap", "landlock", "none"]
TRIALS: Final[Mapping[str, str]] = {
    "write": "writing outside the working folders",
    "read": "keys, credentials and other private files",
    "tcp": "TCP",
    "udp": "UDP",
    "abstract": "unix sockets of other programs, by name",
    "unix": "unix sockets of other programs, by path",
    "memory": "memory and environment of other programs",
    "signal": "signals to other programs",
    "seal": "git hooks, settings of agents and editors",
    "modes": "modes and times of files outside",
}
"""The trials, and their descriptions."""
_NEEDED: Final = {
    "sandboxed": ("write", "read", "tcp", "udp", "abstract", "unix", "memory"),
    "project": ("write", "read", "memory"),
}
"""The trials that must fail in a sandbox."""


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of sandbox that works here for a scope, and what it keeps."""

    scope: FsScope
    backend: Backend = "none"
    closed: tuple[str, ...] = ()
    """The trials that failed, described."""
    open: tuple[str, ...] = ()
    """The trials that succeeded."""
    why: str = ""
    """The reason why no stronger kind works, and what to do about it; empty when all is well."""
    user_namespace: bool = True
    graceful: bool = True

    @property
    def available(self) -> bool:
        """Return whether the scope can be kept. When it cannot, the session must refuse to start programs."""
        return self.scope == "full" or self.backend != "none"


def probe(scope: FsScope, *, fresh: bool = False) -> ProbeReport:
    """Find out which sandbox works here, from memory when that is known. Takes a tenth of a second otherwise: not on the event loop."""
    if scope == "full":
        return ProbeReport(scope=scope)
    if fresh:
        _in_process.cache_clear()
    return _in_process(scope, _circumstances(), fresh)


def recall(scope: FsScope) -> ProbeReport | None:
    """Return the answer of an earlier probe that still holds; None when nothing was tried yet."""
    known = _read_answers()
    return known.get(f"{scope} {_circumstances()}") if known else None


def build_sandbox(
    scope: FsScope,
    roots: Sequence[str],
    *,
    home: str | None = None,
    private: Sequence[str] = (),
    report: ProbeReport | None = None,
) -> Sandbox | None:
    """Build the sandbox of a session; None in the scope `full`, and where none works (then `probe(scope).available` is False).

    `roots` are what the person gave; `private` are folders that are closed besides the usual ones and Backstay's own.
    """
    report = report or probe(scope)
    if scope == "full" or report.backend == "none":
        return None
    plan = plan_sandbox(scope, roots, home=home or os.path.expanduser("~"), private=(*backstay_folders(), *private))
    return _build_backend(report, plan)


def backstay_folders() -> tuple[str, ...]:
    """Return the folders of Backstay's sessions and settings: no program in the sandbox sees them."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    config = os.environ.get("BACKSTAY_CONFIG_DIR") or os.path.join(base, "backstay")
    return (str(data_dir()), os.path.abspath(os.path.expanduser(config)))


def _build_backend(report: ProbeReport, plan: SandboxPlan) -> "bubblewrap.Bubblewrap | landlock.Landlock":
    if report.backend == "bubblewrap":
        return bubblewrap.Bubblewrap(plan, user_namespace=report.user_namespace, graceful=report.graceful)
    return landlock.Landlock(plan)


# --- what was found out before ---------------------------------------------------------------------------------------------------


@functools.cache
def _in_process(scope: FsScope, circumstances: str, fresh: bool) -> ProbeReport:
    known = {} if fresh else _read_answers()
    key = f"{scope} {circumstances}"
    if key not in known:
        known = {each: found for each, found in known.items() if each.endswith(circumstances)}
        known[key] = _find_out(scope)
        with contextlib.suppress(OSError):  # a folder that is not there or not ours is no reason to fail
            replace_file(_answers_file(), msgspec.json.encode(known), durable=False)
    return known[key]


def _read_answers() -> dict[str, ProbeReport]:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(_answers_file().read_bytes(), type=dict[str, ProbeReport])
    return {}


def _answers_file() -> Path:
    return data_dir() / "sandbox.json"


def _circumstances() -> str:
    """Return a digest of what the answer depends on: the boot, the kernel's switches, our own powers, bwrap."""
    found = [VERSION, os.uname().release, str(os.geteuid()), sys.executable, str(stamp_at(bubblewrap.find()))]
    switches = (
        "user/max_user_namespaces",
        "kernel/unprivileged_userns_clone",
        "kernel/apparmor_restrict_unprivileged_userns",
    )
    found += [_line(f"/proc/sys/{each}") for each in ("kernel/random/boot_id", *switches)]
    with contextlib.suppress(OSError):
        found += [os.readlink(f"/proc/self/ns/{each}") for each in ("user", "mnt")]
        status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
        found += [line for line in status if line.startswith(("CapEff", "CapBnd", "NoNewPrivs", "Seccomp"))]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:32]


def _line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


# --- trying ----------------------------------------------------------------------------------------------------------------------


def _find_out(scope: FsScope) -> ProbeReport:
    """Try the kinds of sandboxes, the strongest first."""
    reasons: list[str] = []
    for candidate, missing in _candidates(scope):
        if missing:
            reasons.append(missing)
            continue
        reached, trouble = _try(candidate)
        broken = [TRIALS[each] for each in _NEEDED[scope] if each in reached]
        if not trouble and not broken:
            closed = tuple(words for each, words in TRIALS.items() if each not in reached)
            opened = tuple(words for each, words in TRIALS.items() if each in reached)
            return msgspec.structs.replace(candidate, closed=closed, open=opened, why=" ".join(reasons))
        reasons.append(f"{candidate.backend} does not work here: {trouble or 'it does not keep ' + ', '.join(broken)}.")
    return ProbeReport(scope=scope, why=" ".join(reasons))


def _candidates(scope: FsScope) -> Iterator[tuple[ProbeReport, str]]:
    """Yield the kinds of sandboxes, and why one cannot even be tried."""
    if sys.platform != "linux" or not seccomp.is_supported():
        yield ProbeReport(scope=scope), "There are sandboxes only on Linux, on x86_64 or aarch64."
        return
    graceful = _resets_signals()
    found = ProbeReport(scope=scope, backend="bubblewrap", graceful=graceful)
    missing = (
        ""
        if bubblewrap.find()
        else "bubblewrap is not installed; install it for the strongest sandbox (apt install bubblewrap)."
    )
    if os.geteuid() == 0 and not missing:
        yield msgspec.structs.replace(found, user_namespace=False), ""
    yield found, missing
    missing = "" if landlock.abi() else "This kernel has no Landlock (Linux 6.2 and later have what is needed)."
    yield ProbeReport(scope=scope, backend="landlock"), missing


def _resets_signals() -> bool:
    try:
        command = ["/usr/bin/env", "--default-signal=TERM", "true"]
        own = without_loading(os.environ)
        return subprocess.run(command, env=own, capture_output=True, check=False, timeout=10).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _try(candidate: ProbeReport) -> tuple[set[str], str]:
    """Return which trials succeeded in a sandbox, and why it could not be tried at all."""
    with ExitStack() as stack:
        try:
            trial = stack.enter_context(_trial_folder())
            return _run(candidate, trial, stack)
        except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as exc:
            return set(), str(exc)


def _run(candidate: ProbeReport, trial: Path, stack: ExitStack) -> tuple[set[str], str]:
    temporary = () if trial.is_relative_to("/tmp") or trial.is_relative_to("/var/tmp") else ("/tmp", "/var/tmp")
    scratch = Scratch(str(trial))
    root, home = str(trial / "root"), str(trial / "home")
    plan = plan_sandbox(candidate.scope, [root], home=home, shown=(str(trial),), temporary=temporary, scratch=scratch)
    sandbox = _build_backend(candidate, plan)
    stack.callback(sandbox.close)
    listeners = _listen(trial, stack)
    ports = {name: port for name, (port, _) in listeners.items()}
    where = {"trial": str(trial), "parent": os.getpid(), "name": _ABSTRACT + trial.name, "ports": ports}
    python = [sys.executable, "-I", "-S", "-c", _TRYING, msgspec.json.encode(where).decode()]
    words, environment = load_behind(python, os.environ)
    argv, prepare = sandbox.command(words, cwd=str(trial / "root"))
    ran = subprocess.run(
        argv,
        cwd=trial / "root",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=20,
        start_new_session=True,
        preexec_fn=prepare,  # everything was made ready before the fork
    )
    if ran.returncode != 0:
        given = (ran.stderr or ran.stdout).decode(errors="replace").strip().splitlines()
        return set(), given[-1] if given else f"exit {ran.returncode}"
    reached = set(msgspec.json.decode(ran.stdout, type=list[str]))
    reached |= {name for name, (_, called) in listeners.items() if called()} | _find_changes(trial)
    return (
        (reached, "")
        if (trial / "root" / "made").exists()
        else (reached, "nothing can be written in the working folder")
    )


_ABSTRACT: Final = "backstay-"
_BEFORE: Final = "before"


@contextmanager
def _trial_folder() -> Iterator[Path]:
    """Make a folder with a working folder, a home with a key, and a file outside both."""
    for parent in (str(data_dir()), None):
        try:
            trial = Path(os.path.realpath(tempfile.mkdtemp(prefix="trial-", dir=parent)))
            break
        except OSError:
            if parent is None:
                raise
    try:
        for name in ("root/.git/hooks/pre-commit", "home/.ssh/key", "outside/file"):
            (trial / name).parent.mkdir(parents=True)
            (trial / name).write_text(_BEFORE, encoding="utf-8")
        (trial / "outside/file").chmod(0o640)
        yield trial
    finally:
        shutil.rmtree(trial, ignore_errors=True)


def _find_changes(trial: Path) -> set[str]:
    """Return which trials changed files, seen from outside."""
    found = set()
    if (trial / "outside/file").read_text(encoding="utf-8") != _BEFORE or len(os.listdir(trial / "outside")) != 2:
        found.add("write")
    if (trial / "outside/file").stat().st_mode & 0o777 != 0o640:
        found.add("modes")
    if (trial / "root/.git/hooks/pre-commit").read_text(encoding="utf-8") != _BEFORE:
        found.add("seal")
    return found


def _listen(trial: Path, stack: ExitStack) -> dict[str, tuple[int, Callable[[], bool]]]:
    """Open a listener for each kind of socket; return its port, and a function that says whether a caller came."""
    found: dict[str, tuple[int, Callable[[], bool]]] = {}
    folder = os.open(trial / "outside", os.O_RDONLY | os.O_DIRECTORY)
    stack.callback(os.close, folder)
    wanted: tuple[tuple[str, int, int, str | tuple[str, int]], ...] = (
        ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{_ABSTRACT}{trial.name}"),
        ("unix", socket.AF_UNIX, socket.SOCK_DGRAM, f"/proc/self/fd/{folder}/socket"),
    )
    for name, family, kind, address in wanted:
        try:
            listener = stack.enter_context(socket.socket(family, kind))
            listener.bind(address)
        except OSError:  # a process that cannot listen here is in a sandbox already
            found[name] = (0, lambda: False)
            continue
        listener.setblocking(False)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        port = listener.getsockname()[1] if family == socket.AF_INET else 0
        found[name] = (port, functools.partial(_has_caller, listener))
    return found


def _has_caller(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(1)
    except OSError:
        return False
    return True


_TRYING: Final = """
import json, os, socket, sys
given = json.loads(sys.argv[1])
trial, reached = given["trial"], []

def attempt(name, work):
    try:
        if work() is not False:
            reached.append(name)
    except OSError:
        pass

def append(path):
    with open(path, "a") as file:
        file.write("x")

def call(kind, form, address, send=False):
    with socket.socket(kind, form) as caller:
        caller.settimeout(5)
        caller.sendto(b"x", address) if send else caller.connect(address)

def pair():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", "socket")

def memory():
    with open("/proc/%d/environ" % given["parent"], "rb") as file:
        return os.getppid() == given["parent"] and len(file.read()) >= 0

append(trial + "/root/made")
outside = trial + "/outside/"
attempt("write", lambda: append(outside + "file"))
attempt("write", lambda: os.truncate(outside + "file", 0))
attempt("write", lambda: append(outside + "new"))
attempt("write", lambda: os.rename(outside + "file", outside + "other"))
attempt("write", lambda: os.link(outside + "file", trial + "/root/link") or append(trial + "/root/link"))
attempt("modes", lambda: os.chmod(outside + "file", 0o600))
attempt("read", lambda: open(trial + "/home/.ssh/key").read() == "before")
attempt("tcp", lambda: call(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", given["ports"]["tcp"])))
attempt("udp", lambda: call(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", given["ports"]["udp"]), True) or False)
attempt("abstract", lambda: call(socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + given["name"]))
attempt("memory", memory)
attempt("signal", lambda: os.getppid() == given["parent"] and os.kill(given["parent"], 0))
attempt("seal", lambda: append(trial + "/root/.git/hooks/pre-commit"))
try:
    os.chdir(outside)
    attempt("unix", lambda: call(socket.AF_UNIX, socket.SOCK_DGRAM, "socket", True))
    attempt("unix", pair)
except OSError:
    pass
print(json.dumps(sorted(set(reached))))
"""
