"""Texts of files as one part within its limit. No file crowds out another, and what was cut says so."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from backstay.instructions.safe_reader import TextFile
from backstay.logic.text.untrusted import Mark, attribute, defuse, opening

_CUT: Final = "\n[cut here: {} bytes in all; read the file for the rest]"
_LONGEST_CUT: Final = len(_CUT) + 20
_LEAST_CUT: Final = 400
"""Bytes of a file that are worth showing."""
_NAMES: Final = 400
"""Bytes kept for the names of files for which there is no room."""


class Fitted(Struct, frozen=True, kw_only=True):
    """A text that keeps its limit."""

    text: str
    cut: bool
    sources: tuple[str, ...] = ()


def fit_files(files: Sequence[TextFile], limit: int, *, strangers: bool, ahead: str = "", after: str = "") -> Fitted:
    """The texts of `files` in their order, each between tags, between the words `ahead` and `after`, within `limit` bytes."""
    blocks = [_frame(file, strangers=strangers) for file in files]
    texts = [defuse(file.text.strip("\n")) for file in files]
    around = [_size(head) + _size(tail) + 2 + _LONGEST_CUT for head, tail in blocks]
    room = limit - _size(ahead) - _size(after) - 4 - _NAMES
    shown = len(files)
    while shown and room - sum(around[:shown]) < min(_LEAST_CUT * shown, sum(map(_size, texts[:shown]))):
        shown -= 1
    shares = fair_shares([_size(text) for text in texts[:shown]], max(0, room - sum(around[:shown])))
    pieces = [ahead] if ahead else []
    cut = shown < len(files)
    for index in range(shown):
        text = texts[index]
        if shares[index] < _size(text) or files[index].cut:
            cut = True
            text = clipped(text, shares[index]) + _CUT.format(f"{files[index].size:,}")
        pieces.append(f"{blocks[index][0]}{text}{blocks[index][1]}")
    if shown < len(files):
        pieces.append(_names([file.shown for file in files[shown:]]))
    if after:
        pieces.append(after)
    return Fitted(text="\n\n".join(pieces), cut=cut, sources=tuple(str(file.path) for file in files[:shown]))


def fit_text(text: str, limit: int) -> Fitted:
    """`text` within `limit` bytes."""
    if _size(text) <= limit:
        return Fitted(text=text, cut=False)
    mark = "\n[cut here: there is more]"
    return Fitted(text=clipped(text, max(0, limit - len(mark))) + mark, cut=True)


def fair_shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much of `room` each may take: all it needs, while nobody with less gets less than it needs."""
    shares = [0] * len(sizes)
    waiting = sorted(range(len(sizes)), key=lambda index: (sizes[index], index))
    for done, index in enumerate(waiting):
        shares[index] = min(sizes[index], room // (len(sizes) - done))
        room -= shares[index]
    return shares


def clipped(text: str, most: int) -> str:
    """The first `most` bytes of a text, up to the end of a line where one is near."""
    head = text.encode()[:most].decode("utf-8", "ignore")
    if len(head) == len(text):
        return text
    end = head.rfind("\n")
    return head[:end] if end > len(head) // 2 else head


def _frame(file: TextFile, *, strangers: bool) -> tuple[str, str]:
    mark: Mark = "strangers-file" if strangers else "file"
    by = {"imported-by": file.imported_by} if file.imported_by else {}
    return f"{opening(mark, {'path': file.shown, **by})}\n", f"\n</{mark}>"


def _names(names: Sequence[str]) -> str:
    said = ", ".join(attribute(name) for name in names)
    more = f"[no room for {len(names)} more: {said}"
    return clipped(more, _NAMES - 20) + (" ...]" if _size(more) > _NAMES - 20 else "]")


def _size(text: str) -> int:
    return len(text.encode())
