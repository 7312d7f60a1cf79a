"""A function call that arrives in pieces: each piece puts a value at a place in the arguments."""

import re
from itertools import pairwise
from typing import Any, Final

from backstay.providers.http.loose_json import Fields

_STEP: Final = re.compile(r"""\.([^.\[\]]+)|\[([0-9]+)\]|\['([^']*)'\]|\["([^"]*)"\]""")
_LONGEST_LIST: Final = 100_000
"""An index beyond it is taken for nonsense, not for a reason to make a list that long."""
_VALUES: Final = ("stringValue", "numberValue", "boolValue")


class UnfinishedCall:
    """A call that is still being written into `part`, a part of the reply."""

    def __init__(self, part: Fields, call: Fields) -> None:
        self.part = part
        self.call = call
        if call.get("args") is None:
            call["args"] = {}
        self._continued = ""
        """The place whose text goes on in the next piece."""

    def add(self, call: Fields) -> bool:
        """Take one more piece. Say whether all of it could be placed."""
        ours, theirs, pieces = self.call["args"], call.get("args"), call.get("partialArgs")
        if isinstance(ours, dict) and isinstance(theirs, dict):
            ours |= theirs
        placed = [self._place(each) for each in pieces if isinstance(each, dict)] if isinstance(pieces, list) else []
        return all(placed)

    def _place(self, piece: Fields) -> bool:
        path = piece.get("jsonPath")
        if not isinstance(path, str):
            return False
        value = next((piece[name] for name in _VALUES if name in piece), None)
        goes_on, self._continued = self._continued == path, path if piece.get("willContinue") else ""
        steps = _steps(path)
        return bool(steps) and _put(self.call["args"], steps, value, append=goes_on)


def _steps(path: str) -> list[str | int]:
    """`$.a[0].b` as its steps; nothing when it is not such a path."""
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or not path.startswith("$"):
            return []
        name, index, single, double = found.groups()
        steps.append(int(index) if index is not None else next(x for x in (name, single, double) if x is not None))
        at = found.end()
    return steps


def _put(root: object, steps: list[str | int], value: object, *, append: bool) -> bool:
    """Write `value` at the end of `steps`, or append it to the text there. Say whether there is such a place."""
    place: Any = root  # objects and arrays, as the steps find them
    for step, following in pairwise(steps):
        if not _has_room(place, step):
            return False
        if place[step] is None:
            place[step] = [] if isinstance(following, int) else {}
        place = place[step]
    last = steps[-1]
    if not _has_room(place, last):
        return False
    there = place[last]
    place[last] = there + value if append and isinstance(there, str) and isinstance(value, str) else value
    return True


def _has_room(place: object, step: str | int) -> bool:
    """Whether `step` leads somewhere in `place`; where nothing is yet, None stands afterwards."""
    if isinstance(place, dict) and isinstance(step, str):
        place.setdefault(step, None)
        return True
    if isinstance(place, list) and isinstance(step, int) and step < _LONGEST_LIST:
        place.extend([None] * (step + 1 - len(place)))
        return True
    return False
