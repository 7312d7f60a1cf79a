"""The file that a call of a file tool means, how it is reached, and failures as a model reads them.

It is reached folder by folder from the root, each held by its handle and none of them a link. A folder that is swapped for a link meanwhile
does not lead a tool astray: the tool stops.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Final, Protocol

from msgspec import Struct

from backstay.ports import ToolOutput
from backstay.system.handles import FILE, enter, walk_to

PROBE: Final = 8192
"""Bytes at the beginning of a file that are searched for a NUL, the sign of a binary file."""
LARGEST: Final = 32 * 1024 * 1024
"""Bytes of a file that is taken into memory."""


STREAMS: Final = (
    *("kmsg", "kcore", "vmcore", "xenbus", "pagemap", "kpagecount", "kpageflags", "kpagecgroup", "event", "usbmon*"),
    *("trace_pipe*", "snapshot_raw", "rom", "vpd", "resource[0-9]*"),
)
"""Names of files of the kernel that look regular, and wait, have no end, or are changed by being read."""
_KERNEL: Final = re.compile(
    r"/proc/(?:kmsg|kcore|vmcore|kpage\w+|acpi/event|xen/xenbus|(?:\d+|self|thread-self)/(?:task/\d+/)?(?:pagemap|mem))"
    r"|/sys/(?:kernel/(?:debug|tracing)/.*|.*/(?:rom|vpd|resource\d\w*))",
    re.DOTALL,
)


FilePath = Annotated[str, "The file. A relative path starts at the working folder; `~` is the home folder."]
"""The parameter of a tool that names a file."""


class Refused(Exception):
    """A file tool cannot do what was asked; `code` and the message go to the model."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def output(self) -> ToolOutput:
        """The failed result."""
        return ToolOutput(text=str(self).encode("utf-8", "replace").decode(), failed=True, code=self.code)


class Located(Protocol):
    """The part of a tool's context that says where its paths lead."""

    @property
    def cwd(self) -> str:
        """The working folder of the session."""

    @property
    def links(self) -> Mapping[str, str]:
        """The absolute paths of the call as written, and where each led when the call was judged."""


class FileTarget(Struct, frozen=True):
    """A file that a call names."""

    shown: str
    """Its name in messages."""
    real_path: str
    """Its path, every link followed."""
    judged: bool = False
    """Whether the call was allowed for this very place: then nothing on the way may be a link now."""


def is_stream(place: str) -> bool:
    """Return whether the file at `place`, links followed, is one of the kernel's that wait, have no end, or change when read."""
    return _KERNEL.fullmatch(place) is not None


def locate(cwd: str, file_path: str) -> Path:
    """Return the absolute path that a model means: `~` is the home folder, a relative path starts at the session's folder."""
    if "\0" in file_path or not file_path:
        raise Refused("bad_path", f"{file_path!r} cannot be a path.")
    try:
        os.fsencode(file_path)
        return Path(cwd) / Path(file_path).expanduser()
    except (RuntimeError, UnicodeEncodeError) as exc:
        raise Refused("bad_path", f"{file_path!r} cannot be resolved: {exc}") from exc


def find_target(context: Located, file_path: str) -> FileTarget:
    """Find the file that `file_path` means in this call: where it led when the call was judged, or where it leads now."""
    path = locate(context.cwd, file_path)
    shown = str(path)
    if file_path.endswith("/"):
        raise Refused("is_folder", f"{file_path!r} names a folder, not a file.")
    if not context.links:
        return FileTarget(shown, os.path.realpath(path))
    home = file_path.startswith("~")
    keys = (
        os.path.join(context.cwd, os.path.expanduser(file_path)),
        shown,
        "" if home else f"{context.cwd}/{file_path}",
    )
    place = next((context.links[key] for key in keys if key in context.links), None)
    if place is None:
        raise Refused("not_judged", f"{shown!r} was not looked at when this call was judged. Name it by its full path.")
    if not place.startswith("/") or "\0" in place:
        raise Refused(
            "bad_path", f"It is unknown where {shown!r} leads: its links form a loop, or a folder may not be searched."
        )
    return FileTarget(shown, place, judged=True)


def explain_os_error(path: Path | str, exc: OSError) -> Refused:
    """Describe a failure of the operating system so that a model can act on it."""
    shown = str(path)
    match exc:
        case FileNotFoundError():
            return Refused("not_found", f"There is no file {shown!r}.")
        case IsADirectoryError():
            return Refused("is_folder", f"{shown!r} is a folder. List it with Glob or `ls`.")
        case NotADirectoryError():
            return Refused("not_found", f"There is no file {shown!r}: a part of its path is not a folder.")
        case PermissionError():
            return Refused("no_permission", f"{shown!r} may not be used: permission denied.")
        case _ if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            return Refused("no_space", f"There is no space left for {shown!r}. It is as it was.")
        case _:
            return Refused("os_error", f"{shown!r} cannot be used: {exc.strerror or exc}.")


def require_text(name: str, text: str) -> None:
    """Refuse what is not text: half characters that no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise Refused(
            "bad_text", f"{name} cannot be written: {exc.reason} at character {exc.start}. Send whole characters."
        ) from exc


# --- reached by handles --------------------------------------------------------------------------------------------------------------


_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Where there is `O_PATH`, a folder needs only be searchable, as for every other program."""
_NO_SYNC: Final = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of file systems whose folders cannot be synced."""


class OpenedPath(Struct, frozen=True):
    """A name in a folder whose handle is held. The name may be free."""

    target: FileTarget
    folder: int
    name: str

    def facts(self) -> os.stat_result | None:
        """Return the facts of the regular file here; None when there is nothing. Raise for everything that is not a file."""
        try:
            found = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(found.st_mode):
            raise _astray(self.target)
        _require_regular(self.target, found)
        return found

    def open(self) -> int:
        """Open the regular file here for reading; the caller closes the handle."""
        if self.facts() is None:  # looked at before it is opened: opening a device can do something
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        try:
            handle = os.open(self.name, FILE, dir_fd=self.folder)
        except OSError as exc:
            raise _astray(self.target) if exc.errno == errno.ELOOP else exc from exc
        try:
            _require_regular(self.target, os.fstat(handle))
        except BaseException:
            os.close(handle)
            raise
        return handle

    def sync(self) -> None:
        """Make changes of names in the folder durable."""
        try:
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.folder)
        except PermissionError:
            return  # it may be written and not listed
        try:
            os.fsync(handle)
        except OSError as exc:
            if exc.errno not in _NO_SYNC:
                raise
        finally:
            os.close(handle)


@contextmanager
def reach(target: FileTarget, *, make: bool = False) -> Iterator[OpenedPath]:
    """Open the folder of `target`; with `make`, missing folders are made, and removed again when the block fails."""
    parts = [part for part in target.real_path.split("/") if part]
    if not parts:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if "." in parts or ".." in parts:
        raise Refused("bad_path", f"{target.real_path!r} is not where a path leads.")
    made: list[OpenedPath] = []

    def step(folder: int, part: str) -> int:
        with suppress(FileNotFoundError):
            return _enter(target, folder, part)
        if not make:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        with suppress(FileExistsError):  # another program made it meanwhile
            os.mkdir(part, dir_fd=folder)
            made.append(OpenedPath(target, os.dup(folder), part))
        return _enter(target, folder, part)

    try:
        with walk_to("/", parts[:-1], step, _FOLDER) as folder:
            yield OpenedPath(target, folder, parts[-1])
        for each in made:
            each.sync()
    except BaseException:
        for each in reversed(made):
            with suppress(OSError):  # in use
                os.rmdir(each.name, dir_fd=each.folder)
        raise
    finally:
        for each in made:
            os.close(each.folder)


def _enter(target: FileTarget, folder: int, part: str) -> int:
    try:
        return enter(folder, part, _FOLDER)
    except OSError as exc:
        if exc.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        facts = os.stat(part, dir_fd=folder, follow_symlinks=False)
        raise _astray(target) if stat.S_ISLNK(facts.st_mode) else exc from exc


def _require_regular(target: FileTarget, facts: os.stat_result) -> None:
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(facts.st_mode):
        raise Refused("not_regular", f"{target.shown!r} is a device, a pipe or a socket, not a regular file.")
    if is_stream(target.real_path):
        raise Refused(
            "not_regular",
            f"{target.shown!r} is a stream of the kernel, not a regular file: reading it can wait or change it.",
        )


def _astray(target: FileTarget) -> Refused | OSError:
    if not target.judged:
        return OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return Refused(
        "moved",
        f"{target.shown!r} changed since it was judged: a part of its path has become a link. Nothing was done. "
        "Make the call again if that is meant.",
    )
