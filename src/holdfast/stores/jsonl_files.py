"""Files that survive a crash: written whole or not at all, synced, and readable only by their user."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from holdfast.logic.rewriting import Change, changed_bytes


def make_folder(folder: Path) -> None:
    """Make a folder that only this user may enter, durably; an existing one stays as it is."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def change_files(paths: Iterable[Path], change: Change) -> int:
    """Change files, each in one step; return how many are different now."""
    count = 0
    for path in paths:
        before = path.read_bytes()
        after = changed_bytes(before, change)
        if after != before:
            replace_file(path, after)
            count += 1
    return count


def replace_file(path: Path, content: bytes, *, durably: bool = True) -> None:
    """Put `content` at `path` in one step, over whatever is there."""
    partial = _partial(path, content, durably=durably)
    try:
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    if durably:
        sync_folder(path.parent)


def _partial(path: Path, content: bytes, *, durably: bool) -> Path:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    partial = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            if durably:
                os.fsync(file.fileno())
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    return partial
