"""Which file a call of a file tool means, and failures as a model reads them."""

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Protocol

from msgspec import Struct

from backstay.ports import ToolOutput

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
