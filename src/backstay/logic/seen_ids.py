"""Which ids of events were seen, in a few bytes for a million of them: the ids of one opening are a number that counts up."""

from bisect import bisect_right

from backstay.vocab.ids import base36


class SeenIds:
    """The ids that were added."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[list[int], list[int]]] = {}
        """For each opening the first and the last numbers of its runs."""
        self._others: set[str] = set()

    def add(self, id: str) -> bool:
        """Add an id; return whether it is new."""
        opening, _, written = id.rpartition(".")
        number = _number(written)
        if number is None:
            new = id not in self._others
            self._others.add(id)
            return new
        firsts, lasts = self._runs.setdefault(opening, ([], []))
        at = bisect_right(firsts, number) - 1
        if at >= 0 and number <= lasts[at]:
            return False
        if at >= 0 and number == lasts[at] + 1:
            lasts[at] = number
        else:
            firsts.insert(at + 1, number)
            lasts.insert(at + 1, number)
        return True


def _number(written: str) -> int | None:
    try:
        number = int(written, 36)
    except ValueError:
        return None
    return number if number >= 0 and base36(number) == written else None
