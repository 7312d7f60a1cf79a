"""What some tests need of the machine. Those that lack it are skipped, with the reason."""

import shutil
import subprocess
from functools import cache
from typing import Final

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
