"""Decode the bytes of a text file and encode them again without losing one, and number its lines for a model."""

import re
from collections.abc import Iterator
from io import StringIO
from typing import BinaryIO, Final, Literal, Protocol

from msgspec import Struct

from backstay.tools.files.target import PROBE, Refused

_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8", "UTF-8 with a mark"),
    (b"\xff\xfe\x00\x00", "utf-32-le", "UTF-32"),
    (b"\x00\x00\xfe\xff", "utf-32-be", "UTF-32"),
    (b"\xff\xfe", "utf-16-le", "UTF-16"),
    (b"\xfe\xff", "utf-16-be", "UTF-16"),
)
"""Longer ones first: one is the beginning of another."""
_WHOLE: Final = re.compile(r"[^\x00-\x7f\udc80-\udcff]")
"""A character that stands as valid UTF-8 among bytes that do not."""
_CONTROL: Final = re.compile(r"[\udc80-\udc9f]")
"""Bytes that text in latin-1 does not have, and other encodings do."""


class Document(Struct, frozen=True):
    """The text of a file, and how it was written."""

    text: str
    codec: str = "utf-8"
    mark: bytes = b""
    """The bytes before the text that say its encoding."""
    errors: Literal["strict", "surrogateescape", "surrogatepass"] = "strict"
    named: str = "UTF-8"
    guessed: bool = False
    """Whether nothing says the encoding, and it is not UTF-8."""

    def encode(self, text: str) -> bytes:
        """Return the bytes of a changed text, in the same encoding."""
        try:
            return self.mark + text.encode(self.codec, self.errors)
        except UnicodeEncodeError as exc:
            raise Refused(
                "bad_text",
                f"The file is not UTF-8 but probably {self.named}, which has no {text[exc.start]!r}. "
                "Convert it first (`iconv`), or use other characters.",
            ) from exc

    def require(self, added: str) -> None:
        """Refuse text that the file's encoding is not known well enough for."""
        if self.guessed and self.codec == "utf-8" and not added.isascii():
            raise Refused(
                "bad_text",
                "The file is not UTF-8, and its encoding is not known: only ASCII can be put into it. Convert it first (`iconv`).",
            )


def decode(shown: str, content: bytes) -> Document:
    """Read the bytes of a text file so that `encode` gives back the same. Refuse what is binary."""
    for mark, codec, named in _MARKS:
        if content.startswith(mark) and (found := _decode_marked(content, mark, codec, named)) is not None:
            return found
    if b"\0" in content[:PROBE]:
        raise Refused("binary", f"{shown!r} is binary. Only text can be changed.")
    text = content.decode("utf-8", "surrogateescape")
    if text.isascii() or not re.search(r"[\udc80-\udcff]", text):
        return Document(text)
    if _WHOLE.search(text):
        return Document(text, errors="surrogateescape")
    if _CONTROL.search(text):
        return Document(text, errors="surrogateescape", guessed=True)
    return Document(content.decode("latin-1"), codec="latin-1", named="latin-1", guessed=True)


def _decode_marked(content: bytes, mark: bytes, codec: str, named: str) -> Document | None:
    """Decode the text after its mark; None when it is not what the mark says."""
    body = content[len(mark) :]
    errors: Literal["surrogateescape", "surrogatepass"] = "surrogateescape" if codec == "utf-8" else "surrogatepass"
    try:
        text = body.decode(codec, errors)
    except UnicodeDecodeError:
        return None
    if "\0" in text[:PROBE]:
        return None
    found = Document(text, codec, mark, errors, named)
    return found if text.encode(codec, errors) == body else None


LINE_CHARS: Final = 2000
"""Characters of a line that are shown."""
TOTAL_CHARS: Final = 120_000
"""Characters that one call shows at most, so that one file cannot fill a model's window."""
SCANNED: Final = 1024 * 1024 * 1024
"""Bytes that one call looks through."""


class TextLine(Struct, frozen=True):
    """One line without its end."""

    text: str
    cut: str = ""
    """A note on the part that is left out."""
    broken: bool = False
    """Whether it has bytes that are not UTF-8."""


class Lines(Protocol):
    """Lines one after the other."""

    def skip(self, count: int) -> int:
        """Pass over lines; say how many there were."""

    def next(self) -> TextLine | None:
        """Return the next line; None at the end."""


def show(shown: str, lines: Lines, offset: int, limit: int) -> str:
    """Number lines from `offset` as `cat -n` does, and say where to read on."""
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

    def next(self) -> TextLine | None:
        """Return the next line; of a very long one only the beginning, so that memory stays bounded."""
        piece = self._read(LINE_CHARS * 4 + 4)
        if not piece:
            return None
        rest = self._finish(piece)
        whole = piece.removesuffix(b"\n").removesuffix(b"\r")
        text = whole.decode("utf-8", "replace")
        kept = text[:LINE_CHARS]
        left = rest + len(whole) - len(whole[: _width(whole, kept)]) if len(text) > LINE_CHARS else rest
        return TextLine(kept, f" [{left} bytes of this line are left out]" if left else "", "\ufffd" in kept)

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

    def next(self) -> TextLine | None:
        """Return the next line."""
        line = next(self._lines, None)
        if line is None:
            return None
        text = line.removesuffix("\n").removesuffix("\r").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        left = len(text) - LINE_CHARS
        return TextLine(text[:LINE_CHARS], f" [{left} characters of this line are left out]" if left > 0 else "")


def _width(whole: bytes, kept: str) -> int:
    """Count the bytes of `whole` that the kept characters take."""
    if "\ufffd" not in kept:
        return len(kept.encode())
    return len(whole.decode("utf-8", "surrogateescape")[:LINE_CHARS].encode("utf-8", "surrogateescape"))


def _nothing(shown: str, lines: int, offset: int) -> str:
    if lines == 0:
        return f"(The file {shown!r} is empty.)"
    words = "1 line" if lines == 1 else f"{lines} lines"
    raise Refused("past_end", f"{shown!r} has {words}; offset={offset} is past its end.")
