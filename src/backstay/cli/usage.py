"""`backstay usage`: what models used and cost, by day, model and project."""

import re
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct, field

from backstay.cli import telling
from backstay.cli.place import Place, placed

if TYPE_CHECKING:
    from backstay.ports import EventStore
    from backstay.providers.catalog import ModelOverride
    from backstay.view.usage_chart import By, Ledger, Line, Spent
    from backstay.vocab.event import Recorded
    from backstay.vocab.specs import SessionMeta

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
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@placed
def command(place: Place, **given: Any) -> int:  # Any: each flag has a type of its own
    """Show the tokens that models used, and what they cost, with a chart."""
    import functools

    import anyio

    code: int = anyio.run(functools.partial(_usage, place, **given))
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


async def _usage(place: Place, *, since: str, by: "By | None", as_json: bool) -> int:
    from backstay.config.settings import load_settings
    from backstay.view.usage_chart import GROUPS

    start = starting(since, datetime.now(UTC))
    models = load_settings().models
    async with place.opened() as store:
        found = await _gather(store, start, models)
    groups = GROUPS if by is None else (by,)
    if as_json:
        telling.say_json(_as_json(found, groups, start))
        return 0
    _show(found.ledger, groups, since)
    for problem in found.problems:
        telling.complain(problem)
    return 0


class _Found(Struct):
    ledger: "Ledger"
    sessions: int = 0
    problems: list[str] = field(default_factory=list)


async def _gather(store: "EventStore", start: int, models: "Overrides") -> _Found:
    """What sessions used since `start`. A fork comes after what it was copied from, so that the copy is not counted again."""
    from backstay.ports import SessionQuery
    from backstay.view.usage_chart import Ledger
    from backstay.vocab.errors import BackstayError

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
    store: "EventStore", meta: "SessionMeta", start: int, models: "Overrides", seen: set[str] | None
) -> list["Spent"]:
    asked: dict[str, str] = {}
    found: list[Spent] = []
    after = 0
    while True:
        part = await store.read(meta.id, after, PAGE)
        found.extend(_calls(part.records, meta, start, asked, models, seen))
        if len(part.records) < PAGE:
            return found
        after = part.records[-1].seq


def _calls(
    records: "Iterable[Recorded]",
    meta: "SessionMeta",
    start: int,
    asked: dict[str, str],
    models: "Overrides",
    seen: set[str] | None,
) -> "Iterable[Spent]":
    """The model calls among `records`. What children spent is in their own logs."""
    from backstay.logic.pricing import cost
    from backstay.providers.catalog import facts_of
    from backstay.view.usage_chart import Spent
    from backstay.vocab.event_limits import Compacted
    from backstay.vocab.events import ModelAsked, ModelFailed, ModelReplied
    from backstay.vocab.ids import provider_of

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
        yield Spent(
            keys={"day": _day(record.at), "model": model, "project": meta.project or meta.cwd},
            usage=event.usage,
            cost=price,
            computed=recorded is None,
        )


def _day(at: int) -> str:
    from backstay.vocab.messages import in_calendar

    return f"{datetime.fromtimestamp(in_calendar(at) / 1_000_000).astimezone():%Y-%m-%d}"


def _as_json(found: _Found, groups: "Iterable[By]", start: int) -> dict[str, object]:
    from backstay.vocab.messages import iso

    ledger = found.ledger
    return {
        "since": iso(start) if start else None,
        "sessions": found.sessions,
        "total": ledger.total.as_json(),
        "by": {by: [{by: key} | each.as_json() for key, each in ledger.rows(by)] for by in groups},
        "unpriced_models": ledger.unpriced(),
        "problems": found.problems,
    }


def _show(ledger: "Ledger", groups: "Iterable[By]", since: str) -> None:
    import shutil

    from backstay.view.usage_chart import chart, measured_by

    total = ledger.total
    if not total.calls:
        when = "" if since == "all" else f" since {since}" if "-" in since else f" in the last {since}"
        telling.say(f"No model was asked{when}." + ("" if since == "all" else " --since all looks further back."))
        return
    width = max(40, shutil.get_terminal_size((100, 24)).columns)
    for by in groups:
        _print(chart(ledger, by, width, blocks=_draws_blocks(), clean=telling.harmless))
        telling.say("")
    tokens = f"{total.usage.input:,} tokens in ({total.usage.cache_read:,} from a cache), {total.usage.output:,} out"
    telling.say(f"Total: {total.calls:,} calls, {tokens}, {total.price}. Bars show {measured_by(ledger)}.")
    if total.computed or total.usage.estimated:
        telling.say("~ estimated, or reckoned from the prices of today's catalog.")
    if unpriced := ledger.unpriced():
        named = ", ".join(map(telling.harmless, unpriced[:_NAMED]))
        more = f" and {len(unpriced) - _NAMED} more" if len(unpriced) > _NAMED else ""
        telling.say(f"No price is known for {named}{more}: not in the cost.")


def _print(lines: "list[Line]") -> None:
    if not sys.stdout.isatty():
        for line in lines:
            telling.say(f"{line.columns}  {line.bar}".rstrip())
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
            telling.complain(words)

    def end(self) -> None:
        """Everything is read."""
        if self._shown and self._line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
