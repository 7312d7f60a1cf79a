"""Numbered lines of a text file, within bounds, however large the file and its lines are."""

from collections.abc import Iterator
from io import StringIO
from typing import BinaryIO, Final, Protocol

from msgspec import Struct

from backstay.tools.encoding import Document
from backstay.tools.files import PROBE, Refused

LINE_CHARS: Final = 2000
"""Characters of a line that are shown."""
TOTAL_CHARS: Final = 120_000
"""Characters that one call shows at most, so that one file cannot fill a model's window."""
SCANNED: Final = 1024 * 1024 * 1024
"""Bytes that one call looks through."""


class Line(Struct, frozen=True):
    """One line without its end."""

    text: str
    cut: str = ""
    """What is said of the part that is left out."""
    broken: bool = False
    """Whether it has bytes that are not UTF-8."""


class Lines(Protocol):
    """Lines one after the other."""

    def skip(self, count: int) -> int:
        """Pass over lines; say how many there were."""

    def next(self) -> Line | None:
        """The next line; None at the end."""


def show(shown: str, lines: Lines, offset: int, limit: int) -> str:
    """Lines from number `offset` as `cat -n` shows them, and where to read on."""
    skipped = lines.skip(offset - 1)
    texts: list[str] = []
    size = 0
    broken = False
    while len(texts) < limit and size < TOTAL_CHARS and (line := lines.next()) is not None:
        text = line.text.removeprefix("\ufeff") if offset + len(texts) == 1 else line.text
        texts.append(f"{offset + len(texts):>6}\t{text}{line.cut}")
        size += len(texts[-1])
        broken = broken or line.broken
    if not texts:
        return _nothing(shown, skipped, offset)
    if broken:
        texts.append("(The file has bytes that are not UTF-8; they are shown as \ufffd.)")
    if lines.skip(1):
        texts.append(f"(The file goes on: read it with offset={offset + len(texts) - broken}.)")
    return "\n".join(texts)


class ByteLines:
    """Lines of a file that is read piece by piece."""

    def __init__(self, shown: str, file: BinaryIO) -> None:
        self._shown = shown
        self._file = file
        self._scanned = 0

    def skip(self, count: int) -> int:
        """Pass over lines; say how many there were."""
        passed = 0
        while passed < count and (piece := self._read(PROBE)):
            self._finish(piece)
            passed += 1
        return passed

    def next(self) -> Line | None:
        """The next line; of a very long one only the beginning, so that memory stays bounded."""
        piece = self._read(LINE_CHARS * 4 + 4)
        if not piece:
            return None
        rest = self._finish(piece)
        whole = piece.removesuffix(b"\n").removesuffix(b"\r")
        text = whole.decode("utf-8", "replace")
        kept = text[:LINE_CHARS]
        left = rest + len(whole) - len(whole[: _width(whole, kept)]) if len(text) > LINE_CHARS else rest
        return Line(kept, f" [{left} bytes of this line are left out]" if left else "", "\ufffd" in kept)

    def _finish(self, piece: bytes) -> int:
        """Read to the end of a line that was begun; say how many bytes that were, without the line's end."""
        rest = 0
        while not piece.endswith(b"\n") and (piece := self._read(PROBE)):
            rest += len(piece.rstrip(b"\r\n"))
        return rest

    def _read(self, size: int) -> bytes:
        piece = self._file.readline(size) or b""
        self._scanned += len(piece)
        if self._scanned > SCANNED:
            raise Refused(
                "too_large",
                f"{self._shown!r} is too large to look through: {SCANNED} bytes were not enough. Use `tail`, `sed -n` or Grep.",
            )
        return piece


class TextLines:
    """Lines of a text that is in memory."""

    def __init__(self, document: Document) -> None:
        self._lines: Iterator[str] = iter(StringIO(document.text, newline="\n"))

    def skip(self, count: int) -> int:
        """Pass over lines; say how many there were."""
        passed = 0
        while passed < count and next(self._lines, None) is not None:
            passed += 1
        return passed

    def next(self) -> Line | None:
        """The next line."""
        line = next(self._lines, None)
        if line is None:
            return None
        text = line.removesuffix("\n").removesuffix("\r").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        left = len(text) - LINE_CHARS
        return Line(text[:LINE_CHARS], f" [{left} characters of this line are left out]" if left > 0 else "")


def _width(whole: bytes, kept: str) -> int:
    """How many bytes of `whole` the kept characters take."""
    if "\ufffd" not in kept:
        return len(kept.encode())
    return len(whole.decode("utf-8", "surrogateescape")[:LINE_CHARS].encode("utf-8", "surrogateescape"))


def _nothing(shown: str, lines: int, offset: int) -> str:
    if lines == 0:
        return f"(The file {shown!r} is empty.)"
    words = "1 line" if lines == 1 else f"{lines} lines"
    raise Refused("past_end", f"{shown!r} has {words}; offset={offset} is past its end.")
