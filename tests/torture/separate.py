"""Runs a module of the torture in a process of its own and brings its answer home."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, TypeVar

import msgspec

ROOT: Final = Path(__file__).parents[2]
A = TypeVar("A")


def ask(task: msgspec.Struct, answer: type[A], *command: str) -> A:
    """Give `task` to a module as JSON, and read what it prints; whatever it complains about goes to standard error."""
    path = os.pathsep.join(filter(None, (str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [sys.executable, "-m", *command, msgspec.json.encode(task).decode()],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,  # Ctrl-C is for the driver, which then ends this process
        env={**os.environ, "PYTHONPATH": path},
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=answer)


def quick_folder() -> str | None:
    """Where temporary files cost nothing: memory, where there is a file system in it."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder that is gone afterwards."""
    return tempfile.TemporaryDirectory(prefix="backstay-torture-", dir=quick_folder())
