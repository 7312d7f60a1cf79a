"""The peers: what a user would pick instead, in an environment of their own, so that their packages never touch ours."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
LOCK: Final = HERE / "peers.lock"
WORK: Final = HERE / "peer_work.py"
CLIENT_WORK: Final = HERE / "client_work.py"
VENV: Final = HERE.parent / ".bench-venv"

Say = Callable[[str], None]
Measured = Mapping[str, list[float]]


@dataclass(frozen=True)
class Peers:
    """A way to measure the peers; without a `python` there is nothing to measure."""

    python: Path | None
    problem: str = ""
    """Why they are not there."""

    def measure(self, task: str, *, work: Path = WORK, **given: object) -> Measured:
        """What the function `task` of the file `work` measured: milliseconds, or bytes, by name. Empty without peers."""
        if self.python is None:
            return {}
        request = json.dumps({"task": task, "given": given})
        command = [str(self.python), "-P", "-W", "ignore", str(work), request]  # -P: our `requests` is not theirs
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1:] or ["no message"]
            return _failed(task, last[0])
        measured: Measured = json.loads(done.stdout.splitlines()[-1])
        return measured


def pinned(package: str) -> str:
    """A package and its version, as `peers.lock` has it."""
    pins = (line.split()[0] for line in LOCK.read_text(encoding="utf-8").splitlines() if _is_pin(line))
    return next((pin.replace("==", " ") for pin in pins if pin.partition("==")[0] == package), package)


def at_hand() -> Peers:
    """The peers if they are installed already."""
    ready = VENV / ".ready"
    if ready.is_file() and ready.read_text(encoding="utf-8") == LOCK.read_text(encoding="utf-8"):
        return Peers(VENV / "bin" / "python")
    return Peers(None, f"{VENV.name} is not set up; `make bench` does that")


def set_up(say: Say) -> Peers:
    """Install what `peers.lock` pins, once. Goes on without the peers when that fails."""
    if (peers := at_hand()).python is not None:
        return peers
    python = VENV / "bin" / "python"
    wanted = LOCK.read_text(encoding="utf-8")
    try:
        what = "openai-agents, langgraph and the clients of openai and anthropic"
        say(f"Setting up {VENV.name} with {what}, pinned in {LOCK.name} (once, about a minute) ...")
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True, capture_output=True, text=True)
        (VENV / ".gitignore").write_text("*\n", encoding="utf-8")
        _install(python, sum(_is_pin(line) for line in wanted.splitlines()), say)
    except (OSError, subprocess.CalledProcessError) as exc:
        problem = (getattr(exc, "stderr", "") or str(exc)).strip().splitlines()[-1]
        say(f"The peers cannot be installed, so their columns stay empty: {problem}")
        return Peers(None, problem)
    (VENV / ".ready").write_text(wanted, encoding="utf-8")
    return Peers(python)


def _install(python: Path, packages: int, say: Say) -> None:
    command = [
        str(python),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "install",
        "--progress-bar",
        "off",
    ]
    pip = subprocess.Popen(
        [*command, "--require-hashes", "-r", str(LOCK)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert pip.stdout is not None
    seen, last = 0, ""
    with pip:
        for line in pip.stdout:
            last = line if line.strip() and not line.startswith("WARNING") else last
            seen += line.startswith("Collecting")
            if line.startswith("Collecting") and seen % 10 == 0:
                say(f"  {seen} of about {packages} packages")
            elif line.startswith("Installing"):
                say("  installing")
    if pip.returncode:
        raise subprocess.CalledProcessError(pip.returncode, command, stderr=last)


def _is_pin(line: str) -> bool:
    return "==" in line and not line.startswith((" ", "#"))


def _failed(task: str, why: str) -> Measured:
    print(f"  (the peers' part of {task!r} failed: {why})", file=sys.stderr)
    return {}
