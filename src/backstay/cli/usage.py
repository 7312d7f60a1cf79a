"""`backstay usage`: what models used and cost, by day, model and project."""

import io
import re
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

import click
from msgspec import Struct, field
from rich.bar import Bar
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backstay.cli import output
from backstay.cli.shared_options import StoreLocation, as_json, with_location
from backstay.config.settings import load_settings
from backstay.logic.budget import add, cost, dollars
from backstay.ports import EventStore, SessionQuery
from backstay.providers.catalog import ModelOverride, facts_of
from backstay.vocab import events
from backstay.vocab.errors import BackstayError
from backstay.vocab.event import Recorded
from backstay.vocab.ids import provider_of
from backstay.vocab.messages import in_calendar, iso
from backstay.vocab.specs import SessionMeta, Usage

if TYPE_CHECKING:
    Overrides = Mapping[str, ModelOverride]

PAGE: Final = 2_000
"""Events that are read at a time."""
_AGO: Final = re.compile(r"(\d{1,9})([hdw])")
_HOURS: Final = {"h": 1, "d": 24, "w": 168}
_PRINT_EVERY_S: Final = 2.0
_MAX_NAMES: Final = 3
"""Models without a price that are named to a person."""


@click.command("usage")
@click.option(
    "--since", default="7d", show_default=True, metavar="WHEN", help="12h, 7d, 4w, a date like 2026-01-31, or all."
)
@click.option("--by", type=click.Choice(("day", "model", "project")), help="Only this one; all three when left out.")
@as_json
@with_location
async def command(location: StoreLocation, since: str, by: "By | None", as_json: bool) -> int:
    """Show the tokens that models used, and what they cost, with a chart."""
    start = start_of(since, datetime.now(UTC))
    models = load_settings().models
    async with location.open() as store:
        found = await _gather(store, start, models)
    groups = GROUPS if by is None else (by,)
    if as_json:
        output.print_json(_as_json(found, groups, start))
        return 0
    _print(found.ledger, groups, since)
    for problem in found.problems:
        output.warn(problem)
    return 0


def start_of(since: str, now: datetime) -> int:
    """Return the microseconds since 1970 that `since` means; 0 for all. Raise `click.UsageError` for a text without a meaning."""
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


class _Found(Struct):
    ledger: "Ledger"
    sessions: int = 0
    problems: list[str] = field(default_factory=list)


async def _gather(store: EventStore, start: int, models: "Overrides") -> _Found:
    """Add up what sessions used since `start`. A fork comes after its origin, so that what it copied is not counted again."""
    metas = [meta for meta in await store.list(SessionQuery(include_children=True)) if meta.updated >= start]
    metas.sort(key=lambda meta: (bool(meta.origin), meta.created, meta.id))
    seen: set[str] | None = set() if any(meta.origin for meta in metas) else None
    found, progress = _Found(Ledger()), _Progress(len(metas))
    for number, meta in enumerate(metas):
        progress.show(number)
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
    """Yield the model calls among `records`. The calls of subagents are in their own logs."""
    for record in records:
        event = record.event
        if isinstance(event, events.ModelAsked):
            asked[record.id] = event.model
        if (
            not isinstance(event, events.ModelReplied | events.ModelFailed | events.Compacted)
            or event.usage is None
            or record.at < start
        ):
            continue
        if seen is not None:
            if record.id in seen:
                continue
            seen.add(record.id)
        own = "" if isinstance(event, events.ModelFailed) else event.model
        model = asked.get(record.cause) or own or meta.model
        recorded = None if provider_of(model) == "scripted" else event.cost  # a script costs nothing
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
        "unpriced_models": ledger.unpriced_models,
        "problems": found.problems,
    }


def _print(ledger: "Ledger", groups: "Iterable[By]", since: str) -> None:
    total = ledger.total
    if not total.calls:
        when = "" if since == "all" else f" since {since}" if "-" in since else f" in the last {since}"
        output.print_line(f"No model was asked{when}." + ("" if since == "all" else " --since all looks further back."))
        return
    for by in groups:
        _print_chart(ledger, by)
    tokens = f"{total.usage.input:,} tokens in ({total.usage.cache_read:,} from a cache), {total.usage.output:,} out"
    shows = "cost" if ledger.has_costs else "tokens"
    output.print_line(f"Total: {total.calls:,} calls, {tokens}, {total.price}. Bars show {shows}.")
    if total.computed or total.usage.estimated:
        output.print_line("~ estimated, or computed from the prices of today's catalog.")
    if unpriced := ledger.unpriced_models:
        names = ", ".join(map(output.escape_line, unpriced[:_MAX_NAMES]))
        more = f" and {len(unpriced) - _MAX_NAMES} more" if len(unpriced) > _MAX_NAMES else ""
        output.print_line(f"No price is known for {names}{more}: not in the cost.")


def _print_chart(ledger: "Ledger", by: "By") -> None:
    """Print the sums of a group, each with a bar for its share of the cost, or of the tokens, where there is room."""
    width = max(40, shutil.get_terminal_size((100, 24)).columns)
    rows = ledger.rows(by)
    sizes = [each.cost if ledger.has_costs else each.tokens for _, each in rows]
    cells = [(_fit(output.escape_line(key), max(24, width // 3)), *each.cells()) for key, each in rows]
    titles = (by.upper(), *_TITLES)
    room = width - sum(2 + max(map(cell_len, column)) for column in zip(titles, *cells, strict=True))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        table.add_column(title, justify="left" if title == by.upper() else "right", no_wrap=True)
    if room >= _LEAST_BAR:
        table.add_column(width=room)
    largest = max(sizes)
    for row, size in zip(cells, sizes, strict=True):
        shown = max(size, largest / 8 / room) if size and room > 0 else size  # an eighth of a block at least
        bar = [Bar(largest or 1, 0, shown, color="cyan")] if room >= _LEAST_BAR else []
        table.add_row(*map(Text, row), *bar)
    if sys.stdout.isatty():
        Console(width=width).print(table, "")
        return
    console = Console(width=width, file=io.StringIO(), force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(table, "")
    for line in captured.get().splitlines():
        output.print_line(_without_blocks(line).rstrip())


def _without_blocks(line: str) -> str:
    """Return a line as standard output can show it: with `#` for the blocks of a bar, if it has none."""
    try:
        line.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return re.sub("[▀-▟]", "#", line)
    return line


def _fit(key: str, width: int) -> str:
    """Return `key` in at most `width` columns; the end of a long one says more than its beginning."""
    if cell_len(key) <= width:
        return key
    while cell_len(key) > width - 1:
        key = key[1:]
    return "…" + key


class _Progress:
    """Print the progress of reading to standard error when it takes long."""

    def __init__(self, all_of: int) -> None:
        self._all = all_of
        self._printed_at = time.monotonic()
        self._line = sys.stderr.isatty()
        self._shown = False

    def show(self, done: int) -> None:
        """Print how many sessions are read, if it is time."""
        if time.monotonic() - self._printed_at < (0.1 if self._shown and self._line else _PRINT_EVERY_S):
            return
        self._printed_at, self._shown = time.monotonic(), True
        words = f"Reading sessions: {done:,} of {self._all:,}"
        if self._line:
            print(f"\r{words}", end="", file=sys.stderr, flush=True)
        else:
            output.warn(words)

    def end(self) -> None:
        """Clear the line."""
        if self._shown and self._line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


By = Literal["day", "model", "project"]
GROUPS: Final[tuple[By, ...]] = ("day", "model", "project")
_TITLES: Final = ("CALLS", "INPUT", "OUTPUT", "COST")
MOST_DAYS: Final = 62
"""Days without use are shown too, if there are no more than this between the first and the last."""
_LEAST_BAR: Final = 8


class CallUsage(Struct, frozen=True, kw_only=True):
    """One model call, and what it used."""

    keys: Mapping[By, str]
    usage: Usage
    cost: int | None
    """Micro-cents; None when the model has no known price."""
    computed: bool = False
    """Whether the cost was computed now, from the prices of today."""


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
        """The cost in words: `~` when it was estimated or computed now, `+` when some of it is unknown."""
        if self.calls and self.unpriced == self.calls:
            return "no price"
        about = "~" if self.computed or self.usage.estimated else ""
        return f"{about}{dollars(self.cost)}{'+' if self.unpriced else ''}" if self.calls else "-"

    def cells(self) -> tuple[str, str, str, str]:
        """Return the cells of a table."""
        return f"{self.calls:,}", f"{self.usage.input:,}", f"{self.usage.output:,}", self.price

    def as_json(self) -> dict[str, object]:
        """Return the sums for programs; an unknown cost is null, never 0."""
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
        """Return the sums of a group: days in order, other keys by cost and tokens, most first."""
        found = self._groups[by]
        if by == "day":
            return [(day, found.get(day, Sum())) for day in _days(found)]
        return sorted(found.items(), key=lambda row: (-row[1].cost, -row[1].tokens, row[0]))

    @property
    def has_costs(self) -> bool:
        """Whether every call has a cost."""
        return bool(self.total.cost and not self.total.unpriced)

    @property
    def unpriced_models(self) -> list[str]:
        """The models without a known price."""
        return [model for model, each in self.rows("model") if each.unpriced]


def _days(found: Iterable[str]) -> list[str]:
    days = sorted(found)
    if not days:
        return []
    first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
    between = (last - first).days
    return [str(first + timedelta(n)) for n in range(between + 1)] if between < MOST_DAYS else days
