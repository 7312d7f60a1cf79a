"""What sessions used, added up by day, model or project, as lines with bars that fit the width there is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Final, Literal

from msgspec import Struct, field
from rich.cells import cell_len, set_cell_size

from backstay.logic.pricing import dollars
from backstay.logic.usage import add
from backstay.vocab.specs import Usage

By = Literal["day", "model", "project"]
GROUPS: Final[tuple[By, ...]] = ("day", "model", "project")
TITLES: Final = ("CALLS", "INPUT", "OUTPUT", "COST")
MOST_DAYS: Final = 62
"""Days without use are shown as well, when there are no more than this between the first and the last."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_LEAST_BAR: Final = 8


class Spent(Struct, frozen=True, kw_only=True):
    """One model call, and what it used."""

    keys: Mapping[By, str]
    usage: Usage
    cost: int | None
    """Micro-cents; None when the model has no known price."""
    computed: bool = False
    """Whether the cost was reckoned now, from the prices of today."""


class Sum(Struct):
    """Calls added up."""

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: int = 0
    computed: int = 0
    unpriced: int = 0
    """Calls whose cost is not known."""

    def take(self, spent: Spent) -> None:
        """Add a call."""
        self.calls += 1
        self.usage = add(self.usage, spent.usage)
        self.cost += spent.cost or 0
        self.computed += spent.computed and spent.cost is not None
        self.unpriced += spent.cost is None

    @property
    def tokens(self) -> int:
        """Everything that was sent and received."""
        return self.usage.input + self.usage.output

    @property
    def price(self) -> str:
        """The cost in words: `~` when it was estimated or reckoned now, `+` when some of it is not known."""
        if self.calls and self.unpriced == self.calls:
            return "no price"
        about = "~" if self.computed or self.usage.estimated else ""
        return f"{about}{dollars(self.cost)}{'+' if self.unpriced else ''}" if self.calls else "-"

    def as_json(self) -> dict[str, object]:
        """What a program is told; a cost that is not known is null, never 0."""
        known = self.unpriced < self.calls or not self.calls
        return {
            "calls": self.calls,
            "input_tokens": self.usage.input,
            "output_tokens": self.usage.output,
            "cache_read_tokens": self.usage.cache_read,
            "cache_write_tokens": self.usage.cache_write,
            "reasoning_tokens": self.usage.reasoning,
            "estimated": self.usage.estimated,
            "cost_microcents": self.cost if known else None,
            "computed_calls": self.computed,
            "unpriced_calls": self.unpriced,
        }


class Ledger:
    """Calls added up by every group at once."""

    def __init__(self) -> None:
        self.total = Sum()
        self._groups: dict[By, dict[str, Sum]] = {by: {} for by in GROUPS}

    def take(self, spent: Spent) -> None:
        """Add a call."""
        self.total.take(spent)
        for by, key in spent.keys.items():
            self._groups[by].setdefault(key, Sum()).take(spent)

    def rows(self, by: By) -> list[tuple[str, Sum]]:
        """The sums of a group: days in order, the rest by what they cost and used, most first."""
        found = self._groups[by]
        if by == "day":
            return [(day, found.get(day, Sum())) for day in _days(found)]
        return sorted(found.items(), key=lambda row: (-row[1].cost, -row[1].tokens, row[0]))

    def unpriced(self) -> list[str]:
        """The models that have no known price."""
        return [model for model, each in self.rows("model") if each.unpriced]


class Line(Struct, frozen=True):
    """A line of a chart: columns, then a bar."""

    columns: str
    bar: str = ""


def chart(ledger: Ledger, by: By, width: int, *, blocks: bool = True, clean: Callable[[str], str] = str) -> list[Line]:
    """The sums of a group as lines of at most `width` columns, with a bar each where there is room.

    A bar is as long as the share of the cost, or of the tokens when a cost is not known. `clean` makes a name harmless to print.
    """
    rows = ledger.rows(by)
    size = _measure(ledger)
    cells = [(each.calls, each.usage.input, each.usage.output) for _, each in rows]
    texts = [(*(f"{number:,}" for number in row), each.price) for row, (_, each) in zip(cells, rows, strict=True)]
    keys = [_fitted(clean(key), max(24, width // 3)) for key, _ in rows]
    widths = [max(len(row[column]) for row in (TITLES, *texts)) for column in range(len(TITLES))]
    key_width = max((cell_len(key) for key in (*keys, by.upper())), default=0)
    room = width - key_width - sum(widths) - 2 * len(widths) - 2
    largest = max((size(each) for _, each in rows), default=0)
    lines = [Line(_columns(by.upper(), TITLES, key_width, widths))]
    for key, row, (_, each) in zip(keys, texts, rows, strict=True):
        share = size(each) / largest if largest else 0.0
        bar = _bar(share, room, blocks=blocks) if room >= _LEAST_BAR else ""
        lines.append(Line(_columns(key, row, key_width, widths), bar))
    return lines


def measured_by(ledger: Ledger) -> str:
    """What the bars show."""
    return "tokens" if ledger.total.unpriced or not ledger.total.cost else "cost"


def _measure(ledger: Ledger) -> Callable[[Sum], int]:
    return (lambda each: each.cost) if measured_by(ledger) == "cost" else (lambda each: each.tokens)


def _columns(key: str, row: Sequence[str], key_width: int, widths: Sequence[int]) -> str:
    padded = set_cell_size(key, key_width)
    return "  ".join((padded, *(cell.rjust(width) for cell, width in zip(row, widths, strict=True))))


def _fitted(key: str, width: int) -> str:
    """`key` in at most `width` columns; the end of a long one says more than its beginning."""
    if cell_len(key) <= width:
        return key
    while cell_len(key) > width - 1:
        key = key[1:]
    return "…" + key


def _bar(share: float, room: int, *, blocks: bool) -> str:
    if not blocks:
        return "#" * max(round(share * room), 1 if share > 0 else 0)
    eighths = max(round(share * room * 8), 1 if share > 0 else 0)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _days(found: Iterable[str]) -> list[str]:
    days = sorted(found)
    if not days:
        return []
    first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
    between = (last - first).days
    return [str(first + timedelta(n)) for n in range(between + 1)] if between < MOST_DAYS else days
