"""Names of files, which are bytes, as text that a model can read and use."""

import os
import re
import stat
from typing import Final

from msgspec import Struct

from backstay.ports import ToolContext, ToolOutput
from backstay.tools.files import is_stream

_ODD: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\udc80-\udcff]")
_ODD_BYTE: Final = re.compile(rb"[\x00-\x1f\x7f-\xff'\\]")


def shown_name(raw: bytes) -> str:
    """A name as it is; one with control characters, or that is not UTF-8, as bash takes it: `$'caf\\xe9'`."""
    text = os.fsdecode(raw) if not raw.isascii() else raw.decode()
    if not _ODD.search(text):
        return text
    return "$'" + _ODD_BYTE.sub(_escaped, raw).decode("ascii") + "'"


class Place(Struct, frozen=True):
    """Where a search begins."""

    cwd: str
    """The session's folder, links followed."""
    path: str
    """The folder or file, absolute, links followed."""
    written: str
    """The same as the call has it."""

    @property
    def relative(self) -> str:
        """As rg gets it: beginning with `./` inside the session's folder, absolute elsewhere."""
        if self.path == self.cwd:
            return "./"
        inside = self.path.startswith(self.cwd.rstrip("/") + "/")
        return f"./{self.path[len(self.cwd.rstrip('/')) + 1 :]}" if inside else self.path

    @property
    def kernel(self) -> bool:
        """Whether files of the kernel lie below."""
        return self.path == "/" or f"{self.path}/".startswith(("/proc/", "/sys/"))

    def moved(self) -> bool:
        """Whether somebody put a link in the way since the call was judged."""
        return os.path.realpath(self.path) != self.path


def find_place(context: ToolContext, path: str) -> Place | ToolOutput:
    """The place that a call means, as it was when the call was judged; or why there is none."""
    if "\0" in path:
        return ToolOutput(text="A path cannot contain a NUL character.", failed=True, code="bad_path")
    written = os.path.join(context.cwd, os.path.expanduser(path)) if path else context.cwd
    place = Place(
        os.path.realpath(context.cwd),
        context.links.get(written) or os.path.realpath(written),
        os.path.normpath(written),
    )
    if place.moved():
        return changed(path)
    try:
        mode = os.stat(place.path).st_mode
    except (OSError, ValueError):
        return ToolOutput(text=f"There is no file or folder {path or context.cwd!r}.", failed=True, code="not_found")
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) or is_stream(place.path):
        words = (
            f"{path!r} is a device, a pipe, a socket or a stream of the kernel: neither a regular file nor a folder."
        )
        return ToolOutput(text=words, failed=True, code="not_regular")
    return place


def changed(path: str) -> ToolOutput:
    """Say that a path leads elsewhere by now."""
    text = f"{path!r} leads elsewhere since the call was judged. Nothing is shown; try again."
    return ToolOutput(text=text, failed=True, code="changed")


def _escaped(found: "re.Match[bytes]") -> bytes:
    byte = found[0]
    return b"\\" + byte if byte in (b"'", b"\\") else b"\\n" if byte == b"\n" else b"\\x%02x" % byte[0]
