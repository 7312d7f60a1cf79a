"""What a program printed, as a terminal would leave it: no escape sequences, nothing that was overwritten.

Bytes come in pieces that end anywhere: in the middle of a character, of an escape sequence, of a line.
"""

import codecs
import re
from typing import Final

LONGEST_ESCAPE: Final = 4096
"""Characters of an escape sequence that are waited for; what is longer is none."""
LONGEST_LINE: Final = 16_384
"""Characters of an unfinished line that are held back, since a carriage return may still overwrite them."""

_ESCAPE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links and other strings
    r"|\x1b(?:[ -/]+[0-~]|[0-OQ-WYZ\\`a-~])"  # character sets, keypad, reset
)
_BEGUN: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]*\x1b?|[ -/]*)\Z")
_SILENT: Final = re.compile(r"[\x07\x0e\x0f\x1b\x7f-\x9f]")
_NOT_TEXT: Final = re.compile(r"[\x00-\x06\x10-\x1a\x1c-\x1f\udc80-\udcff]")


class PlainText:
    """Turns bytes into text without escape sequences; what is not text becomes U+FFFD and is counted."""

    def __init__(self) -> None:
        self.replaced = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._begun = ""

    def add(self, piece: bytes, *, final: bool = False) -> str:
        """The text of the next piece. With `final`, nothing is held back any more."""
        text = self._begun + self._decoder.decode(piece, final=final)
        self._begun = ""
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
            if not final and (begun := _BEGUN.search(text, max(0, len(text) - LONGEST_ESCAPE))):
                text, self._begun = text[: begun.start()], begun[0]
        text = _SILENT.sub("", text)
        text, count = _NOT_TEXT.subn("\ufffd", text)
        self.replaced += count
        return text


class SettledLines:
    """Lets lines through once nothing can overwrite them: of a progress bar only its last state is left."""

    def __init__(self) -> None:
        self._line = ""

    def add(self, text: str, *, final: bool = False) -> str:
        """The lines that `text` completes. With `final`, the unfinished one too."""
        whole = self._line + text
        at = len(whole) if final else whole.rfind("\n") + 1
        if len(whole) - at > LONGEST_LINE:
            at = len(whole)
        done, self._line = whole[:at], whole[at:]
        if "\r" in done or "\b" in done:
            return "\n".join(map(_overwritten, done.split("\n")))
        return done


def read_screen(raw: bytes) -> tuple[str, int]:
    """The whole of an output as text, and how many bytes of it were none."""
    plain = PlainText()
    text = SettledLines().add(plain.add(raw, final=True), final=True)
    return text, plain.replaced


def _overwritten(line: str) -> str:
    """A line after its carriage returns and backspaces."""
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part), "")
    if "\b" not in line:
        return line
    left: list[str] = []
    for character in line:
        if character != "\b":
            left.append(character)
        elif left:
            left.pop()
    return "".join(left)
