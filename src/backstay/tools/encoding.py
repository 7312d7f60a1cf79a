"""Bytes as text and back, without losing one of them."""

import re
from typing import Final, Literal

from msgspec import Struct

from backstay.tools.files import PROBE, Refused

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
        """The bytes of a changed text, in the same encoding."""
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
        if content.startswith(mark) and (found := _marked(content, mark, codec, named)) is not None:
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


def _marked(content: bytes, mark: bytes, codec: str, named: str) -> Document | None:
    """The text after its mark; None when it is not what the mark says."""
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
