"""A workspace full of links that lead out of it, what lies outside, and somebody who swaps things meanwhile.

The yard does not lie in a temporary folder: a sandbox puts another one in its place, and then nothing outside could be touched anyway.
"""

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OUTSIDE: Final = "mark-b7c1e09d4a"
"""Stands in every file outside, and in the name of one that no call names."""
PRIVATE: Final = "mark-5e2f8a6c13"
"""Stands in files that a sandbox closes to programs as well."""
NOTEBOOK: Final = (
    '{"cells": [{"cell_type": "code", "id": "c1", "metadata": {}, "outputs": [], "source": ["%s"]}], '
    '"metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n'
)
LINKS: Final = {
    "leaf": "../outside/secret.txt",
    "leafabs": "{yard}/outside/secret.txt",
    "folder": "../outside",
    "folderabs": "{yard}/outside/",
    "dangling": "../outside/made.txt",
    "danglingdir": "../outside/made",
    "chain": "folder",
    "longchain": "./chain/../outside/sub",
    "loop1": "loop2",
    "loop2": "loop1",
    "self": "self/x",
    "up": "..",
    "top": "/",
    "keys": "../home/.ssh",
    "inner": "plain",
    "pkg/link": "../../outside",
    "pkg/leaf.txt": "../../outside/secret.txt",
    "pkg/new.txt": "../../outside/made.txt",
    "notebook.ipynb": "../outside/notebook.ipynb",
}
"""Links of the workspace and what they say."""
PLAIN: Final = (
    "plain/a.txt",
    "plain/deep/b.txt",
    "doc.md",
    "swap/dir/secret.txt",
    "swap/leaf.txt",
    "other/link/secret.txt",
    "other/leaf.txt",
)


@dataclass(frozen=True)
class Yard:
    """The folders."""

    path: Path

    @property
    def work(self) -> Path:
        """What may be worked in."""
        return self.path / "work"

    @property
    def home(self) -> Path:
        """The person's home."""
        return self.path / "home"

    def lay_out(self) -> None:
        """Make the workspace as it is in the beginning."""
        shutil.rmtree(self.work, ignore_errors=True)
        for name in PLAIN:
            _write(self.work / name, f"inside {name}\none\ntwo\n")
        _write(self.work / "own.ipynb", NOTEBOOK % "inside")
        (self.work / ".git").mkdir()
        (self.work / "pkg").mkdir()
        for name, target in LINKS.items():
            (self.work / name).symlink_to(target.format(yard=self.path))
        _write(self.work / "names", f"{self.path}/outside/secret.txt\0")
        (self.work / "swap/.dir").symlink_to("../../outside")
        (self.work / "swap/.leaf").symlink_to("../../outside/secret.txt")
        (self.work / "swap/.up").symlink_to("../../home/.ssh")
        _write(self.work / "swap/keys/id", "inside\n")

    def outside(self) -> dict[str, tuple[object, ...]]:
        """Everything that can be seen of what lies outside: names, kinds, modes, owners, times, contents."""
        found: dict[str, tuple[object, ...]] = {}
        for top in ("outside", "home"):
            for folder, folders, files in os.walk(self.path / top):
                for name in (".", *folders, *files):
                    path = os.path.join(folder, name)
                    found[os.path.relpath(path, self.path)] = _seen(path)
        return found


@contextmanager
def yard() -> Iterator[Yard]:
    """A yard, beside the tests, and gone afterwards."""
    parent = Path(__file__).parents[2] / ".torture"
    parent.mkdir(exist_ok=True)
    made = Yard(Path(os.path.realpath(tempfile.mkdtemp(prefix="yard-", dir=parent))))
    try:
        for name in ("secret.txt", "sub/secret.txt", f"{OUTSIDE}.txt", "link/secret.txt", "leaf.txt", "dir/secret.txt"):
            _write(made.path / "outside" / name, f"{OUTSIDE}\none\ntwo\n")
        _write(made.path / "outside/notebook.ipynb", NOTEBOOK % OUTSIDE)
        _write(made.home / ".ssh/id", f"{PRIVATE}\n")
        (made.path / "outside/sub").chmod(0o750)
        made.lay_out()
        yield made
    finally:
        shutil.rmtree(made.path, ignore_errors=True)


@contextmanager
def swapped_meanwhile(made: Yard) -> Iterator[None]:
    """Let a process of its own exchange folders and files for links that lead out, and back, all the time."""
    racer = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _RACE, str(made.work / "swap")], stdin=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        racer.send_signal(signal.SIGKILL)
        racer.wait()


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def _seen(path: str) -> tuple[object, ...]:
    facts = os.lstat(path)
    kept = (facts.st_mode, facts.st_uid, facts.st_gid, facts.st_nlink, facts.st_size, facts.st_mtime_ns, facts.st_ino)
    if stat.S_ISREG(facts.st_mode):
        return (*kept, hashlib.sha256(Path(path).read_bytes()).hexdigest())
    return (*kept, os.readlink(path) if stat.S_ISLNK(facts.st_mode) else "")


_RACE: Final = """
import ctypes, os, random, sys, time
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None)
pairs = ((b"dir", b".dir"), (b"leaf.txt", b".leaf"), (b"keys", b".up"))
while True:
    one, other = random.choice(pairs)
    libc.renameat2(-100, one, -100, other, 2)
    if random.random() < 0.5:
        time.sleep(random.random() * 0.003)
"""
"""Exchanges names in one step (RENAME_EXCHANGE), so that there is always something under each."""
