"""Finds known values in a text, whole or in part, in a time that is linear in the text however many values are known.

Every eight characters in a row of a value are kept. A text is probed at each fourth place for five of them, which every eight hold; what
stands around a probe that hits is looked up character by character. Neighbouring windows that are known make a run.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from backstay.logic.secrets.value_looks import changes, has_digit

WINDOW: Final = 8
"""Characters of a part that is found where it is a word of its own and the beginning or the end of a value."""
PART: Final = 12
"""Characters of a part that is found wherever it stands."""
SPLIT_LEAST: Final = 16
"""Characters of a value whose parts are looked for."""
AT_BORDER: Final = 6
"""Characters of a part that is found where a text begins or ends."""
_PROBE: Final = 5
_STEP: Final = WINDOW - _PROBE + 1
_CHANGES: Final = 6
"""Changes between kinds of letters in a part without a digit: ordinary words have fewer."""


class Run(NamedTuple):
    """A place in a text."""

    start: int
    end: int


class KnownValues:
    """Values of at least `WINDOW` characters, and what they consist of."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._lengths: dict[str, set[int]] = {}
        """The lengths of the values that begin with these characters."""
        self._probes: set[str] = set()
        self._windows: set[str] = set()
        """Of values whose parts are looked for."""
        self._heads: dict[int, set[str]] = {AT_BORDER: set(), AT_BORDER + 1: set(), WINDOW: set()}
        self._tails: dict[int, set[str]] = {AT_BORDER: set(), AT_BORDER + 1: set(), WINDOW: set()}
        self._halves: dict[str, set[int]] = {}
        """The lengths of the halves that begin with these characters."""
        self._half: set[str] = set()
        for value in values:
            self.add(value)

    def add(self, value: str, *, parts: bool = True) -> None:
        """Look for a value from now on, and for its parts unless told otherwise. One that is too short is passed over."""
        if len(value) < WINDOW:
            return
        self._values.add(value)
        self._lengths.setdefault(value[:WINDOW], set()).add(len(value))
        for at in range(_STEP):
            self._probes.add(value[at : at + _PROBE])
        if not parts or len(value) < SPLIT_LEAST:
            return
        self._probes.update(value[at : at + _PROBE] for at in range(len(value) - _PROBE + 1))
        self._windows.update(value[at : at + WINDOW] for at in range(len(value) - WINDOW + 1))
        for size, heads in self._heads.items():
            heads.add(value[:size])
            self._tails[size].add(value[-size:])
        size = (len(value) + 1) // 2
        for half in (value[:size], value[-size:]):
            self._half.add(half)
            self._halves.setdefault(half[:WINDOW], set()).add(size)

    def whole(self, text: str) -> Iterator[Run]:
        """Where a value stands."""
        yield from self._starting(text, self._places(text), self._lengths, self._values)

    def parts(self, text: str) -> Iterator[Run]:
        """Where a part of a value stands, so long or so placed that it is hardly anything else."""
        if not self._windows or _is_plain_word(text):
            return
        places = self._places(text)
        yield from self._starting(text, places, self._halves, self._half)
        for run in _runs(at for at in places if text[at : at + WINDOW] in self._windows):
            if self._is_part(text, run):
                yield run
        for size in (AT_BORDER, AT_BORDER + 1):
            if text[-size:] in self._heads[size]:
                yield Run(len(text) - size, len(text))
            if text[:size] in self._tails[size]:
                yield Run(0, size)

    def _places(self, text: str) -> list[int]:
        """Where a window may begin, in order."""
        probes = self._probes
        hits = [at for at in range(0, len(text) - _PROBE + 1, _STEP) if text[at : at + _PROBE] in probes]
        last = len(text) - WINDOW
        return [at for hit in hits for at in range(max(0, hit - _STEP + 1), min(hit, last) + 1)]

    def _starting(
        self, text: str, places: Iterable[int], lengths: dict[str, set[int]], known: set[str]
    ) -> Iterator[Run]:
        for at in places:
            for size in lengths.get(text[at : at + WINDOW], ()):
                if text[at : at + size] in known:
                    yield Run(at, at + size)

    def _is_part(self, text: str, run: Run) -> bool:
        at_edge = (
            text[run.start : run.start + WINDOW] in self._heads[WINDOW],
            (text[run.end - WINDOW : run.end] in self._tails[WINDOW]),
        )
        if (run.end == len(text) and at_edge[0]) or (run.start == 0 and at_edge[1]):
            return True
        part = text[run.start : run.end]
        if run.end - run.start >= PART:
            return has_digit(part) or changes(part) >= _CHANGES
        is_word = not (text[run.start - 1 : run.start].isalnum() or text[run.end : run.end + 1].isalnum())
        return is_word and any(at_edge) and has_digit(part)


def _is_plain_word(text: str) -> bool:
    """Whether a text is one short word in small letters, such as the name of a field: values may begin with it."""
    return len(text) < SPLIT_LEAST and text.islower() and text.replace("_", "").isalpha()


def _runs(starts: Iterable[int]) -> Iterator[Run]:
    """Windows that begin one behind the other, made one."""
    first = last = -1
    for at in starts:
        if at != last + 1 or first < 0:
            if first >= 0:
                yield Run(first, last + WINDOW)
            first = at
        last = at
    if first >= 0:
        yield Run(first, last + WINDOW)
