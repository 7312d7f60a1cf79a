"""Lists of what can be asked for: as many descriptions as there is room for, and the names of the rest."""

from collections.abc import Sequence
from typing import Final

from backstay.instructions.parts import LEAST_LISTING, LISTING_SHARE
from backstay.instructions.place import Listed
from backstay.logic.text.framing import defuse
from backstay.logic.text.lines import one_line

LONGEST: Final = 1_536
"""Characters of a description."""
LONGEST_NAME: Final = 100
_BYTES_A_TOKEN: Final = 4
_REST: Final = "Also, by name only: "
_MORE: Final = " and {:,} more"


def listing_limit(window: int) -> int:
    """Bytes that a list may take in a context of `window` tokens."""
    return max(LEAST_LISTING, int(window * LISTING_SHARE * _BYTES_A_TOKEN))


def listing(entries: Sequence[Listed], limit: int) -> tuple[str, bool]:
    """The entries as lines within `limit` bytes, and whether anything was left out. Those at the front are described first."""
    if not entries:
        return "", False
    names = [_line(entry.name, LONGEST_NAME) for entry in entries]
    sizes = [len(name.encode()) + 2 for name in names]
    room = limit - len(_REST) - len(_MORE) - 12
    rest, half = sum(sizes), room // 2
    kept: list[str] = []
    cut = False
    for entry, name, size in zip(entries, names, sizes, strict=True):
        line, shortened = _described(name, entry)
        rest -= size
        room -= len(line.encode()) + 1
        if room < min(
            rest, half
        ):  # the names of the rest must fit too, but a long list of names leaves half to descriptions
            room += len(line.encode()) + 1
            break
        kept.append(line)
        cut = cut or shortened
    if len(kept) == len(entries):
        return "\n".join(kept), cut
    return "\n".join((*kept, _named(names[len(kept) :], room))), True


def _named(names: Sequence[str], room: int) -> str:
    shown = 0
    while shown < len(names) and (room := room - len(names[shown].encode()) - 2) >= 0:
        shown += 1
    more = _MORE.format(len(names) - shown) if shown < len(names) else ""
    return f"{_REST}{', '.join(names[:shown])}{more}."


def _described(name: str, entry: Listed) -> tuple[str, bool]:
    about = _line(entry.description, LONGEST)
    return (f"- {name}: {about}" if about else f"- {name}"), about.endswith("…") and len(entry.description) > LONGEST


def _line(text: str, longest: int) -> str:
    """A text as one line that cannot be more than it is."""
    return defuse(one_line(text, longest))
