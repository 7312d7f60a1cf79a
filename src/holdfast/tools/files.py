"""Files as the file tools see them: paths of the session, failures in words, replacement in one step."""

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from holdfast.ports import ToolOutput

PROBE: Final = 8192
"""Bytes at the beginning of a file that are searched for a NUL, the sign of a binary file."""


class Refused(Exception):
    """A file tool cannot do what was asked; `code` and the message go to the model."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def output(self) -> ToolOutput:
        """The failed result."""
        return ToolOutput(text=str(self), failed=True, code=self.code)


def locate(cwd: str, file_path: str) -> Path:
    """The absolute path that a model means: `~` is the home folder, a relative path starts at the session's folder."""
    if "\0" in file_path or not file_path:
        raise Refused("bad_path", f"{file_path!r} cannot be a path.")
    try:
        return Path(cwd) / Path(file_path).expanduser()
    except RuntimeError as exc:
        raise Refused("bad_path", f"{file_path!r} cannot be resolved: {exc}") from exc


def in_words(path: Path, exc: OSError) -> Refused:
    """A failure of the operating system as something that a model can act on."""
    match exc:
        case FileNotFoundError():
            return Refused("not_found", f"There is no file {str(path)!r}.")
        case IsADirectoryError():
            return Refused("is_folder", f"{str(path)!r} is a folder. List it with `ls`.")
        case NotADirectoryError():
            return Refused("not_found", f"There is no file {str(path)!r}: a part of its path is not a folder.")
        case PermissionError():
            return Refused("no_permission", f"{str(path)!r} may not be used: permission denied.")
        case _:
            return Refused("os_error", f"{str(path)!r} cannot be used: {exc.strerror or exc}.")


def require_regular(path: Path) -> os.stat_result:
    """The facts of a regular file. Raise `OSError` or `Refused` otherwise: a pipe could block for ever."""
    facts = path.stat()
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(path)
    if not stat.S_ISREG(facts.st_mode):
        raise Refused("not_regular", f"{str(path)!r} is a device, a pipe or a socket, not a regular file.")
    return facts


def replace_content(path: Path, content: bytes, expected: os.stat_result | None = None) -> bool:
    """Make `content` the content of a file in one step; say whether the file is new.

    A link is followed to its target, which keeps its mode and owner. A reader sees the old content or the new one, also
    after a power loss. With `expected`, raise `Refused` when the file is no longer the one that was looked at.
    """
    target = Path(os.path.realpath(path))
    facts = _existing(path)
    if facts is None:
        target.parent.mkdir(parents=True, exist_ok=True)
    elif not os.access(path, os.W_OK):
        raise Refused("no_permission", f"{str(path)!r} is read-only.")
    temporary = target.parent / f".holdfast-{os.urandom(8).hex()}.tmp"
    try:
        _write_synced(temporary, content, facts)
        if expected is not None and _version(target.stat()) != _version(expected):
            raise Refused("changed", f"{str(path)!r} was changed by somebody else meanwhile. Read it again.")
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)
    return facts is None


def _existing(path: Path) -> os.stat_result | None:
    try:
        return require_regular(path)
    except FileNotFoundError:
        return None


def _version(facts: os.stat_result) -> tuple[int, int, int, int]:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _write_synced(path: Path, content: bytes, like: os.stat_result | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if like is None else 0o600)
    with open(descriptor, "wb") as file:
        if like is not None:
            _take_over(descriptor, like)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _take_over(descriptor: int, like: os.stat_result) -> None:
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (like.st_uid, like.st_gid):
        with contextlib.suppress(PermissionError):  # only root may give files away; the content matters more
            os.fchown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
