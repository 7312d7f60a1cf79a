"""What some tests need of the machine that our own files cannot install. Those that lack it are skipped, with the reason.

A run says first what is missing, and last how many tests that cost. With `BACKSTAY_NEEDS=all` a missing program fails the run.
"""

import shutil
import subprocess
from functools import cache
from typing import Final

PROGRAMS: Final = {
    "git": "there is no git",
    "bash": "needs bash",
    "dash": "needs dash",
    "strace": "needs strace",
    "bwrap": "bubblewrap is not installed",
    "npx": "npx is not here",
}
"""Programs that tests need, and what the tests that are skipped without one say."""
TRACED_SANDBOX: Final = ("strace", "unshare", "taskset", "bash", "dash", "git")
"""Programs with which commands are run under a tracer."""
_SPACES: Final = (
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--net",
    "--ipc",
    "--pid",
    "--fork",
    "--mount-proc",
)


def missing_programs() -> list[str]:
    """Name the programs that are not on this machine."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


def is_skipped_for_want(reason: str) -> bool:
    """Whether a test was skipped because a program is missing."""
    return any(PROGRAMS[program] in reason for program in missing_programs())


@cache
def lacking_for_traced_sandbox() -> str:
    """Say why commands cannot be run under a tracer in namespaces of their own; empty when they can."""
    missing = [program for program in TRACED_SANDBOX if shutil.which(program) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    tried = subprocess.run(
        ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=execve", "-o", "/dev/null", *_SPACES, "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if tried.returncode == 0 else f"needs namespaces and ptrace: {tried.stderr.strip()[-200:]}"
