"""The folder of a project's memory, `.backstay/memory`, entered by handles and never through a link.

A repository may bring a link in place of the folder or of a file in it: nothing is read from or written to where that leads. A
process that changes files holds a lock on the folder itself, so two processes lose nothing and no lock file is left in the repository.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from backstay.system.files import replace_file
from backstay.system.handles import FILE, FOLDER, enter, make_folder
from backstay.tools.files.locked_file import take
from backstay.vocab.errors import UserError

INDEX: Final = "MEMORY.md"
PENDING: Final = "pending.json"
TOPICS: Final = "topics"
LARGEST: Final = 1024 * 1024
"""Bytes that a file of the memory may have."""
MOST_TOPICS: Final = 500
PATIENCE: Final = 15.0
"""Seconds to wait for another process that changes the memory."""
_PARTS: Final = (".backstay", "memory")
INDEX_PATH: Final = os.path.join(*_PARTS, INDEX)
"""Where the index lies below the project's root."""
_NOT_THERE: Final = (errno.ENOENT, errno.ENAMETOOLONG)


class MemoryFolder:
    """The files of a project's memory. Every method may block; each raises `UserError` when a file cannot be used."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.path = root.joinpath(*_PARTS)
        """The folder, there or not."""

    def read(self, name: str, *, topic: bool = False) -> bytes | None:
        """Return the bytes of a file, cut after `LARGEST` and one; None when there is none."""
        with self._enter(topic=topic) as folder:
            return None if folder is None else _read(folder, name, self.place(name, topic=topic))

    def topics(self) -> tuple[str, ...]:
        """Return the names of the topics' files without suffix, sorted; at most `MOST_TOPICS`."""
        with self._enter(topic=True) as folder:
            found = [] if folder is None else os.listdir(folder)
        names = (each.removesuffix(".md") for each in found if each.endswith(".md") and not each.startswith("."))
        return tuple(sorted(name for name in names if name.isprintable())[:MOST_TOPICS])

    @contextmanager
    def changing(self) -> Iterator["FolderChange"]:
        """Lock these files and make missing folders."""
        with self._enter(make=True) as folder:
            assert folder is not None
            _lock(folder, self.path)
            with self._enter(topic=True, make=True) as topics:
                assert topics is not None
                yield FolderChange(self, folder, topics)

    def place(self, name: str, *, topic: bool) -> str:
        """Return the path of a file, for messages."""
        return str(self.path / TOPICS / name if topic else self.path / name)

    @contextmanager
    def _enter(self, *, topic: bool = False, make: bool = False) -> Iterator[int | None]:
        """Return the handle of the folder; None when it is missing and not to be made."""
        with ExitStack() as held:
            try:
                handle = _keep(held, os.open(os.path.realpath(self._root), FOLDER))
                at = self._root
                for part in (*_PARTS, TOPICS) if topic else _PARTS:
                    at /= part
                    handle = _keep(held, _step(handle, part, at, make=make))
            except FileNotFoundError:
                if make:
                    raise UserError(f"{str(self._root)!r} is not there, so it can have no memory.") from None
                yield None
                return
            except OSError as exc:
                raise UserError(f"{str(self.path)!r} cannot be used: {exc.strerror}.") from exc
            yield handle


class FolderChange:
    """The locked files."""

    def __init__(self, files: MemoryFolder, folder: int, topics: int) -> None:
        self._files = files
        self._folder = folder
        self._topics = topics

    def read(self, name: str, *, topic: bool = False) -> bytes | None:
        """Return the bytes of a file; None when there is none. Raise when it is too large to be written again."""
        place = self._files.place(name, topic=topic)
        content = _read(self._topics if topic else self._folder, name, place)
        if content is not None and len(content) > LARGEST:
            raise UserError(f"{place!r} has more than {LARGEST:,} bytes. Move old memories out of it first.")
        return content

    def write(self, name: str, content: bytes, *, topic: bool = False) -> None:
        """Replace a file by `content` in one step, durably, for this user alone."""
        place, folder = self._files.place(name, topic=topic), self._topics if topic else self._folder
        if len(content) > LARGEST:
            raise UserError(f"{place!r} would have more than {LARGEST:,} bytes. Move old memories out of it first.")
        try:
            replace_file(name, content, folder=folder, partial=f".{name}.tmp")  # what a crash left is replaced
        except OSError as exc:
            raise UserError(f"{place!r} cannot be written: {exc.strerror}.") from exc


def _keep(held: ExitStack, handle: int) -> int:
    held.callback(os.close, handle)
    return handle


def _step(folder: int, part: str, at: Path, *, make: bool) -> int:
    """Return the handle of the folder `part` below another."""
    if make:
        make_folder(folder, part, 0o700)
    try:
        return enter(folder, part)
    except OSError as exc:
        if exc.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise UserError(
            f"{str(at)!r} is a link or a file. A project's memory is only kept inside the project: make it a folder."
        ) from exc


def _read(folder: int, name: str, place: str) -> bytes | None:
    try:
        handle = os.open(name, FILE, dir_fd=folder)
    except OSError as exc:
        if exc.errno in _NOT_THERE:
            return None
        why = "it is a link, and links are not followed here" if exc.errno == errno.ELOOP else exc.strerror
        raise UserError(f"{place!r} cannot be read: {why}.") from exc
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UserError(f"{place!r} cannot be read: it is not a regular file.")
    with open(handle, "rb") as file:
        try:
            return file.read(LARGEST + 1)
        except OSError as exc:
            raise UserError(f"{place!r} cannot be read: {exc.strerror}.") from exc


def _lock(folder: int, path: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not take(folder):
        if time.monotonic() > until:
            raise UserError(f"{str(path)!r} is being changed by another program for {PATIENCE:g} seconds. Try again.")
        time.sleep(0.005)
