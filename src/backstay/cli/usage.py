"""`backstay usage`: what models used and cost, by day, model and project."""

import functools
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
import click
from msgspec import Struct, field
from rich.cells import cell_len, set_cell_size

from backstay.cli import output
from backstay.cli.options import StoreLocation, as_json, with_location
from backstay.config.settings import load_settings
from backstay.logic.budget import add, cost, dollars
from backstay.ports import EventStore, SessionQuery
from backstay.providers.catalog import ModelOverride, facts_of
from backstay.vocab.errors import BackstayError
from backstay.vocab.event import Recorded
from backstay.vocab.events import ModelAsked, ModelFailed, ModelReplied
from backstay.vocab.events.limits import Compacted
from backstay.vocab.ids import provider_of
from backstay.vocab.messages import in_calendar, iso
from backstay.vocab.specs import SessionMeta, Usage

if TYPE_CHECKING:
    Overrides = Mapping[str, ModelOverride]

PAGE: Final = 2_000
"""Events that are read at a time."""
_AGO: Final = re.compile(r"(\d{1,9})([hdw])")
_HOURS: Final = {"h": 1, "d": 24, "w": 168}
_TOLD_EVERY_S: Final = 2.0
_NAMED: Final = 3
"""Models without a price that a person is told the names of."""


@click.command("usage")
@click.option(
    "--since", default="7d", show_default=True, metavar="WHEN", help="12h, 7d, 4w, a date like 2026-01-31, or all."
)
@click.option("--by", type=click.Choice(("day", "model", "project")), help="Only this one; all three when left out.")
@as_json
@with_location
def command(location: StoreLocation, **given: Any) -> int:  # Any: each flag has a type of its own
    """Show the tokens that models used, and what they cost, with a chart."""
    code: int = anyio.run(functools.partial(_usage, location, **given))
    return code


def starting(since: str, now: datetime) -> int:
    """The microseconds since 1970 that `since` means; 0 for all. Raise `click.UsageError` for what means nothing."""
    if since == "all":
        return 0
    if ago := _AGO.fullmatch(since):
        hours = int(ago[1]) * _HOURS[ago[2]]
        return max(0, int(now.timestamp() * 1_000_000) - hours * 3_600_000_000)
    try:
        day = datetime.strptime(since, "%Y-%m-%d").astimezone()
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"--since {since!r} means nothing. Write 12h, 7d, 4w, a date like 2026-01-31, or all."
        ) from None
    return max(0, int((day - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)))


async def _usage(location: StoreLocation, *, since: str, by: "By | None", as_json: bool) -> int:
    start = starting(since, datetime.now(UTC))
    models = load_settings().models
    async with location.open() as store:
        found = await _gather(store, start, models)
    groups = GROUPS if by is None else (by,)
    if as_json:
        output.print_json(_as_json(found, groups, start))
        return 0
    _show(found.ledger, groups, since)
    for problem in found.problems:
        output.warn(problem)
    return 0


class _Found(Struct):
    ledger: "Ledger"
    sessions: int = 0
    problems: list[str] = field(default_factory=list)


async def _gather(store: EventStore, start: int, models: "Overrides") -> _Found:
    """What sessions used since `start`. A fork comes after what it was copied from, so that the copy is not counted again."""
    metas = [meta for meta in await store.list(SessionQuery(include_children=True)) if meta.updated >= start]
    metas.sort(key=lambda meta: (bool(meta.origin), meta.created, meta.id))
    seen: set[str] | None = set() if any(meta.origin for meta in metas) else None
    found, progress = _Found(Ledger()), _Progress(len(metas))
    for number, meta in enumerate(metas):
        progress.tell(number)
        try:
            spent = await _of_session(store, meta, start, models, seen)
        except BackstayError as exc:
            found.problems.append(f"Session {meta.id} is not counted: {exc}")
            continue
        found.sessions += bool(spent)
        for each in spent:
            found.ledger.take(each)
    progress.end()
    return found


async def _of_session(
    store: EventStore, meta: SessionMeta, start: int, models: "Overrides", seen: set[str] | None
) -> list["CallUsage"]:
    asked: dict[str, str] = {}
    found: list[CallUsage] = []
    after = 0
    while True:
        part = await store.read(meta.id, after, PAGE)
        found.extend(_calls(part.records, meta, start, asked, models, seen))
        if len(part.records) < PAGE:
            return found
        after = part.records[-1].seq


def _calls(
    records: Iterable[Recorded],
    meta: SessionMeta,
    start: int,
    asked: dict[str, str],
    models: "Overrides",
    seen: set[str] | None,
) -> "Iterable[CallUsage]":
    """The model calls among `records`. What children spent is in their own logs."""
    for record in records:
        event = record.event
        if isinstance(event, ModelAsked):
            asked[record.id] = event.model
        if not isinstance(event, ModelReplied | ModelFailed | Compacted) or event.usage is None or record.at < start:
            continue
        if seen is not None:
            if record.id in seen:
                continue
            seen.add(record.id)
        own = "" if isinstance(event, ModelFailed) else event.model
        model = asked.get(record.cause) or own or meta.model
        recorded = None if provider_of(model) == "scripted" else event.cost  # nobody pays for a script
        price = cost(event.usage, facts_of(model, models).prices) if recorded is None else recorded
        yield CallUsage(
            keys={"day": _day(record.at), "model": model, "project": meta.project or meta.cwd},
            usage=event.usage,
            cost=price,
            computed=recorded is None,
        )


def _day(at: int) -> str:
    return f"{datetime.fromtimestamp(in_calendar(at) / 1_000_000).astimezone():%Y-%m-%d}"


def _as_json(found: _Found, groups: "Iterable[By]", start: int) -> dict[str, object]:
    ledger = found.ledger
    return {
        "since": iso(start) if start else None,
        "sessions": found.sessions,
        "total": ledger.total.as_json(),
        "by": {by: [{by: key} | each.as_json() for key, each in ledger.rows(by)] for by in groups},
        "unpriced_models": ledger.unpriced_models(),
        "problems": found.problems,
    }


def _show(ledger: "Ledger", groups: "Iterable[By]", since: str) -> None:
    total = ledger.total
    if not total.calls:
        when = "" if since == "all" else f" since {since}" if "-" in since else f" in the last {since}"
        output.print_line(f"No model was asked{when}." + ("" if since == "all" else " --since all looks further back."))
        return
    width = max(40, shutil.get_terminal_size((100, 24)).columns)
    for by in groups:
        _print(chart(ledger, by, width, blocks=_draws_blocks(), clean=output.escape_line))
        output.print_line("")
    tokens = f"{total.usage.input:,} tokens in ({total.usage.cache_read:,} from a cache), {total.usage.output:,} out"
    output.print_line(f"Total: {total.calls:,} calls, {tokens}, {total.price}. Bars show {bar_measure(ledger)}.")
    if total.computed or total.usage.estimated:
        output.print_line("~ estimated, or reckoned from the prices of today's catalog.")
    if unpriced := ledger.unpriced_models():
        named = ", ".join(map(output.escape_line, unpriced[:_NAMED]))
        more = f" and {len(unpriced) - _NAMED} more" if len(unpriced) > _NAMED else ""
        output.print_line(f"No price is known for {named}{more}: not in the cost.")


def _print(lines: "list[ChartLine]") -> None:
    if not sys.stdout.isatty():
        for line in lines:
            output.print_line(f"{line.columns}  {line.bar}".rstrip())
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for number, line in enumerate(lines):
        columns = Text(line.columns, style="" if number else "bold")
        console.print(Text.assemble(columns, "  ", (line.bar, "cyan")), no_wrap=True, crop=True)


def _draws_blocks() -> bool:
    try:
        "█▏…".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


class _Progress:
    """Says on standard error how far the reading is, when it takes long."""

    def __init__(self, all_of: int) -> None:
        self._all = all_of
        self._told = time.monotonic()
        self._line = sys.stderr.isatty()
        self._shown = False

    def tell(self, done: int) -> None:
        """So many are done."""
        if time.monotonic() - self._told < (0.1 if self._shown and self._line else _TOLD_EVERY_S):
            return
        self._told, self._shown = time.monotonic(), True
        words = f"Reading sessions: {done:,} of {self._all:,}"
        if self._line:
            print(f"\r{words}", end="", file=sys.stderr, flush=True)
        else:
            output.warn(words)

    def end(self) -> None:
        """Everything is read."""
        if self._shown and self._line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


By = Literal["day", "model", "project"]
GROUPS: Final[tuple[By, ...]] = ("day", "model", "project")
TITLES: Final = ("CALLS", "INPUT", "OUTPUT", "COST")
MOST_DAYS: Final = 62
"""Days without use are shown as well, when there are no more than this between the first and the last."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_LEAST_BAR: Final = 8


class CallUsage(Struct, frozen=True, kw_only=True):
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

    def take(self, spent: CallUsage) -> None:
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

    def take(self, spent: CallUsage) -> None:
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

    def unpriced_models(self) -> list[str]:
        """The models that have no known price."""
        return [model for model, each in self.rows("model") if each.unpriced]


class ChartLine(Struct, frozen=True):
    """A line of a chart: columns, then a bar."""

    columns: str
    bar: str = ""


def chart(
    ledger: Ledger, by: By, width: int, *, blocks: bool = True, clean: Callable[[str], str] = str
) -> list[ChartLine]:
    """The sums of a group as lines of at most `width` columns, with a bar each where there is room.

    A bar is as long as the share of the cost, or of the tokens when a cost is not known. `clean` makes a name harmless to print.
    """
    rows = ledger.rows(by)
    size = _measure(ledger)
    cells = [(each.calls, each.usage.input, each.usage.output) for _, each in rows]
    texts = [(*(f"{number:,}" for number in row), each.price) for row, (_, each) in zip(cells, rows, strict=True)]
    keys = [_fit(clean(key), max(24, width // 3)) for key, _ in rows]
    widths = [max(len(row[column]) for row in (TITLES, *texts)) for column in range(len(TITLES))]
    key_width = max((cell_len(key) for key in (*keys, by.upper())), default=0)
    room = width - key_width - sum(widths) - 2 * len(widths) - 2
    largest = max((size(each) for _, each in rows), default=0)
    lines = [ChartLine(_columns(by.upper(), TITLES, key_width, widths))]
    for key, row, (_, each) in zip(keys, texts, rows, strict=True):
        share = size(each) / largest if largest else 0.0
        bar = _bar(share, room, blocks=blocks) if room >= _LEAST_BAR else ""
        lines.append(ChartLine(_columns(key, row, key_width, widths), bar))
    return lines


def bar_measure(ledger: Ledger) -> str:
    """What the bars show."""
    return "tokens" if ledger.total.unpriced or not ledger.total.cost else "cost"


def _measure(ledger: Ledger) -> Callable[[Sum], int]:
    return (lambda each: each.cost) if bar_measure(ledger) == "cost" else (lambda each: each.tokens)


def _columns(key: str, row: Sequence[str], key_width: int, widths: Sequence[int]) -> str:
    padded = set_cell_size(key, key_width)
    return "  ".join((padded, *(cell.rjust(width) for cell, width in zip(row, widths, strict=True))))


def _fit(key: str, width: int) -> str:
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
