"""Takes secrets out of a text that arrives in pieces, such as the deltas of a model.

What may be a part of a secret is held back until more of the text, or its end, has shown what it is. Three rules say what is held. No
secret but a private key goes over the end of a line. In a line that names no secret, none has a blank in it, so its last word is held if
one may have begun there; a line that does name one is held until it ends. A private key is held from its first line to its last.

The time is linear in the text, however small the pieces are: what is held is looked at again only when it has grown by half.
"""

import re
from collections import deque
from typing import Final

from backstay.logic.secrets.redact import PLAIN, STEMS, Redactor, end_of_colours, replace_part
from backstay.logic.secrets.shapes import BLOCK_BEGINS, SecretMatch, may_begin, open_block

LONGEST_HELD: Final = 64 * 1024
"""Characters that may be held back; beyond that they are given out, redacted as far as they can be."""
LONGEST_OPEN: Final = 4096 + 512
"""Characters from the beginning of an open value to the end of the text, what says that it is a value included."""
CONTEXT: Final = 512
"""Characters that are remembered of what was given out: a netrc file names a password in the lines before it."""


class StreamRedactor:
    """Redacts a text that comes in pieces. Each piece comes back, in order, without its part of a secret."""

    def __init__(self, redactor: Redactor = PLAIN) -> None:
        self._redactor = redactor
        self._before = ""
        """The end of what is settled: what follows may have a meaning only with it."""
        self._held: list[str] = []
        """What is not settled yet."""
        self._size = 0
        self._enough = 0
        """The size from which on what is held is worth another look."""
        self._pieces: deque[int] = deque()
        """The characters that are not settled of each piece."""
        self._clean = ""
        """What is settled of the first piece."""
        self._swallowing = False
        """A secret was too long to hold: the mark stands for it, and the rest of it is dropped."""

    def feed(self, *pieces: str) -> list[str]:
        """Take pieces in; return those that are settled, the oldest first."""
        for piece in pieces:
            self._held.append(piece)
            self._pieces.append(len(piece))
            self._size += len(piece)
        return self._settle(over=False) if self._size >= self._enough else []

    def flush(self) -> list[str]:
        """All pieces that are not settled: the text is over, or must not wait any longer."""
        return self._settle(over=True)

    def _settle(self, *, over: bool) -> list[str]:
        start, whole = len(self._before), self._before + "".join(self._held)
        found = [one for one in self._redactor.find(whole) if one.end > start]
        cut = len(whole) if over else max(start, settled_length(whole, found, self._redactor))
        if self._swallowing:
            found, cut = self._swallow(whole, start, cut, found)
        if len(whole) - cut > LONGEST_HELD:
            cut = len(whole)
        self._swallowing = cut == len(whole) and not over and bool(found) and found[-1].end == cut
        pieces = self._take(whole, start, cut, found)
        self._before, self._held = whole[max(0, cut - CONTEXT) : cut], [whole[cut:]]
        self._size = len(whole) - cut
        self._enough = self._size * 3 // 2 + 1
        return pieces

    def _swallow(self, whole: str, start: int, cut: int, found: list[SecretMatch]) -> tuple[list[SecretMatch], int]:
        """Drop the rest of the secret that was too long, without a mark of its own: it begins before what is new."""
        end = start + len(whole[start:]) - len(whole[start:].lstrip(_TOKEN))
        later = (SecretMatch(max(one.start, end), one.end, one.why) for one in found if one.end > end)
        return [SecretMatch(start - 1, end, "the rest of a secret"), *later], max(cut, end)

    def _take(self, whole: str, at: int, cut: int, found: list[SecretMatch]) -> list[str]:
        """The pieces up to `cut`: the mark stands in the one in which a secret begins, and nowhere when that was given out already."""
        ready: list[str] = []
        secrets = deque(found)
        while self._pieces:
            end = min(at + self._pieces[0], cut)
            self._pieces[0] -= end - at
            self._clean += replace_part(whole, at, end, secrets)
            at = end
            if self._pieces[0]:
                break
            ready.append(self._clean)
            self._clean = ""
            self._pieces.popleft()
        return ready


def settled_length(text: str, found: list[SecretMatch], redactor: Redactor = PLAIN) -> int:
    """How much of `text`, in which `found` is, stays as it is whatever follows."""
    line = max(text.rfind("\n"), 0)
    last = text[line:]
    word = line + max(last.rfind(blank) for blank in (" ", "\t", "\n")) + 1
    lowered = last.lower()
    names_one = any(name in lowered for name in _NAMES) or _NAMED_ABOVE.search(text, max(0, line - CONTEXT), line)
    begun = may_begin(text[word:]) or may_begin(text[end_of_colours(text, word) :])
    cut = line if names_one else word if begun else len(text)
    cut = min(cut, open_block(text), redactor.open_value(text), open_value(text))
    for one in reversed(found):  # none may be cut, nor be parted from one that follows it directly
        if one.start < cut <= one.end:
            cut = one.start
    return cut


def open_value(text: str) -> int:
    """Where a value begins that the end of `text` cuts off, or whose name may follow; the length of `text` when there is none.

    Such a value may stand in another line than its name: a sibling, the inside of an element, a password of netrc.
    """
    start = max(0, len(text) - LONGEST_OPEN)
    end = text[start:].lower()
    match = _OPEN_VALUE.search(text, start) if any(word in end for word in _OPENING_WORDS) else None
    return match.start(match.lastindex or 0) if match else len(text)


_NAMES: Final = (*STEMS, *map(str.lower, BLOCK_BEGINS))
_NAMED_ABOVE: Final = re.compile(r"[:=][ \t]{0,8}[|>][+-]?[0-9]?[ \t]{0,8}\r?\Z")
"""The end of a line that says that a value stands in the next one, as in YAML."""
_OPENING_WORDS: Final = ("value", "plaintext", "password", "<")
_NEXT_NAMES: Final = ("parametername", "parameterkey", "name", "key")
_BEGUN: Final = "|".join(name[:size] for name in _NEXT_NAMES for size in range(len(name), 0, -1))
_QUOTE: Final = r"\\{0,4}[\"']?"
_SIGN: Final = rf"{_QUOTE}[ \t]{{0,8}}[:=][ \t]{{0,8}}{_QUOTE}"
_OPEN_VALUE: Final = re.compile(
    rf"(?:value|plaintext){_SIGN}([^\s\"'`\\,;{{}}\[\]<>]{{0,4096}}+)"
    rf"(?:{_QUOTE}(?:[\s,\"']|\\[nr\"']){{0,40}}+\\?(?:{_BEGUN})?(?:{_QUOTE}[ \t]{{0,8}}|{_SIGN}[\w.-]{{0,80}}+))?\Z"
    r"|<[a-z][\w:.-]{2,60}+(?:\s[^<>]{0,200}+)?>\s{0,80}+(?:<!\[CDATA\[)?([^<>\s]{0,4096}+)>?\s{0,80}+<?\Z"
    r"|\spassword\s++(\S{0,4096}+)\Z",
    re.IGNORECASE,
)
"""A value that its sibling, an element or netrc names, up to the end of the text. The forms are those of `redact_pairs`."""
_TOKEN: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-."
