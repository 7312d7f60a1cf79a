"""`backstay usage`: every call once, a cost where one is known, and a chart that fits."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import click
import pytest
from rich.cells import cell_len

from backstay.cli.usage import start_of
from backstay.stores.open import open_store
from backstay.stores.owners import this_process
from backstay.system.machine import SystemClock
from backstay.testing.builders import recorded, started
from backstay.vocab.event import Event
from backstay.vocab.events import ChildFinished, ModelAsked, ModelFailed, ModelReplied
from backstay.vocab.events.limits import Compacted
from backstay.vocab.messages import Text
from backstay.vocab.specs import Usage
from tests.e2e.door import Door

NOW = int(datetime.now(UTC).timestamp() * 1_000_000)
DAY = 86_400_000_000
SONNET = "anthropic:claude-sonnet-4-6"


def asked(model: str = SONNET) -> ModelAsked:
    return ModelAsked(turn="t", round=1, model=model)


def replied(usage: Usage, cost: int | None = None, model: str = SONNET) -> ModelReplied:
    return ModelReplied(parts=(Text(text="x"),), model=model, usage=usage, cost=cost)


def store(door: Door, session: str, *events: Event, project: str = "/p", days_ago: float = 0) -> None:
    """Put a session into the usual store, as if it had happened so many days ago."""
    at = NOW - int(days_ago * DAY)
    log: list[Event] = [started(session, project=project), *events]
    records = [
        recorded(event, seq, id=f"{session}.{seq}", at=at, cause=_cause(session, log, seq))
        for seq, event in enumerate(log, 1)
    ]

    async def write() -> None:
        (door.folder / "data").mkdir(exist_ok=True)
        opened = await open_store(door.store, clock=SystemClock())
        try:
            lease = await opened.lease(session, this_process())
            await opened.append(lease, 0, records)
            await opened.release(lease)
        finally:
            await opened.close()

    anyio.run(write)


def _cause(session: str, log: Sequence[Event], seq: int) -> str:
    return f"{session}.{seq - 1}" if seq > 1 and isinstance(log[seq - 2], ModelAsked) else ""


def usage(door: Door, *flags: str) -> Any:  # Any: what a program reads is JSON
    ran = door.run("usage", "--json", *flags)
    assert (ran.code, ran.err) == (0, "")
    return ran.json


def told(row: dict[str, Any]) -> tuple[object, ...]:
    names = ("calls", "input_tokens", "output_tokens", "cost_microcents", "computed_calls", "unpriced_calls")
    return tuple(row[name] for name in names)


def test_tokens_and_costs_are_added_up_by_day_model_and_project(door: Door) -> None:
    store(door, "a", asked(), replied(Usage(input=1_000, output=100), 450_000), days_ago=1.5)
    store(
        door,
        "b",
        asked(),
        replied(Usage(input=10, output=1), 4_500),
        asked(),
        replied(Usage(input=20, output=2), 9_000),
        project="/q",
    )

    found = usage(door)

    assert told(found["total"]) == (3, 1_030, 103, 463_500, 0, 0)
    assert [(row["project"], *told(row)) for row in found["by"]["project"]] == [
        ("/p", 1, 1_000, 100, 450_000, 0, 0),
        ("/q", 2, 30, 3, 13_500, 0, 0),
    ]
    assert [(row["model"], row["calls"]) for row in found["by"]["model"]] == [(SONNET, 3)]
    days = found["by"]["day"]
    assert (days[0]["calls"], days[-1]["calls"], [row["calls"] for row in days[1:-1]]) == (1, 2, [0] * (len(days) - 2))
    assert (found["sessions"], found["unpriced_models"], found["problems"]) == (2, [], [])


def test_failed_calls_and_summaries_count_as_well(door: Door) -> None:
    failed = ModelFailed(kind="transport", message="cut", usage=Usage(input=7, output=3, estimated=True), cost=6_600)
    summary = Compacted(
        trigger="auto", first_kept="", model="openai:gpt-4o-mini", usage=Usage(input=5, output=5), cost=375
    )

    store(door, "a", asked("openai:gpt-4o"), failed, summary, ModelFailed(kind="auth", message="no key"))

    found = usage(door, "--by", "model")
    assert [(row["model"], row["estimated"], *told(row)) for row in found["by"]["model"]] == [
        ("openai:gpt-4o", True, 1, 7, 3, 6_600, 0, 0),
        ("openai:gpt-4o-mini", False, 1, 5, 5, 375, 0, 0),
    ]
    assert list(found["by"]) == ["model"]


def test_a_cost_that_was_not_recorded_is_reckoned_and_says_so_and_no_price_is_not_nothing(door: Door) -> None:
    store(
        door,
        "a",
        asked(),
        replied(Usage(input=1_000_000, output=0)),
        asked("x:y"),
        replied(Usage(input=5), model="x:y"),
    )

    found = usage(door)

    assert told(found["total"]) == (2, 1_000_005, 0, 300_000_000, 1, 1)
    assert [(row["model"], row["cost_microcents"]) for row in found["by"]["model"]] == [
        (SONNET, 300_000_000),
        ("x:y", None),
    ]
    assert found["unpriced_models"] == ["x:y"]
    shown = door.run("usage", "--by", "model").out
    assert "~$3.00+" in shown
    assert "no price" in shown
    assert "No price is known for x:y: not in the cost." in shown


def test_a_child_is_counted_in_its_own_log_and_a_copy_not_at_all(door: Door) -> None:
    spent = Usage(input=50, output=5)
    child = ChildFinished(call="c", child="kid", outcome="completed", spent=spent, cost=22_500)
    store(door, "parent", asked(), replied(Usage(input=100, output=10), 45_000), child)
    store(door, "kid", asked(), replied(spent, 22_500))
    model = door.script(
        {"text": "one", "usage": {"input": 3, "output": 2}}, {"text": "two", "usage": {"input": 4, "output": 1}}
    )
    door.run("-p", "hi", "--model", model, "--session-id", "s1")
    assert door.run("sessions", "fork", "s1", "--session-id", "s2").code == 0
    before = usage(door)["total"]
    door.run("-r", "s2", "-p", "more")

    assert told(before) == (3, 153, 17, 67_500, 0, 1)
    assert told(usage(door)["total"]) == (4, 157, 18, 67_500, 0, 2)
    assert door.run("sessions", "delete", "s1", "-y").code == 0
    assert told(usage(door)["total"]) == (4, 157, 18, 67_500, 0, 2)


def test_only_what_happened_since_counts(door: Door) -> None:
    store(door, "new", asked(), replied(Usage(input=1), 300), days_ago=0.1)
    store(door, "old", asked(), replied(Usage(input=1), 300), days_ago=20)
    store(door, "ancient", asked(), replied(Usage(input=1), 300), days_ago=400)
    date = f"{datetime.now(UTC) - timedelta(days=30):%Y-%m-%d}"

    assert [
        usage(door, "--since", since)["total"]["calls"] for since in ("12h", "7d", "4w", date, "all", "99999w")
    ] == [
        *(1, 1, 2, 2, 3, 3),
    ]
    assert len(usage(door, "--since", "all")["by"]["day"]) == 3


@pytest.mark.parametrize(
    "since", ["", "yesterday", "7", "d7", "-1d", "2026-13-01", "2026-1", "9999999999d", "0000-01-01"]
)
def test_a_time_that_means_nothing_is_refused(door: Door, since: str) -> None:
    ran = door.run("usage", "--since", since)

    assert (ran.code, ran.out) == (2, "")
    assert "means nothing" in ran.err


def test_times_are_reckoned_from_now_or_from_the_beginning_of_a_day() -> None:
    now = datetime(2026, 3, 10, 12, tzinfo=UTC)

    assert start_of("all", now) == 0
    assert start_of("2d", now) == int(datetime(2026, 3, 8, 12, tzinfo=UTC).timestamp()) * 1_000_000
    assert start_of("2026-03-01", now) == int(datetime(2026, 3, 1).astimezone().timestamp()) * 1_000_000
    with pytest.raises(click.UsageError):
        start_of("soon", now)


def test_prices_of_ones_own_are_used(door: Door) -> None:
    (door.folder / "config").mkdir()
    own = {"models": {"mine": {"prices": {"input": 1, "output": 2}}}}
    (door.folder / "config" / "settings.json").write_text(json.dumps(own), encoding="utf-8")
    store(door, "a", asked("openai-chat:mine"), replied(Usage(input=1_000_000, output=1_000_000)))

    assert told(usage(door)["total"]) == (1, 1_000_000, 1_000_000, 300_000_000, 1, 0)
    (door.folder / "config" / "settings.json").write_text("{", encoding="utf-8")
    broken = door.run("usage")
    assert broken.code == 1
    assert "settings.json:1: This is not JSON" in broken.err


@pytest.mark.parametrize("columns", [40, 72, 100, 200])
def test_the_chart_is_as_wide_as_there_is_room(door: Door, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    store(
        door,
        "a",
        asked(),
        replied(Usage(input=1_000_000, output=100_000), 450_000_000),
        project="/home/u/" + "長い名前" * 12,
    )
    store(door, "b", asked(), replied(Usage(input=10, output=1), 4_500), project="/q\x1b[31m", days_ago=3)

    lines = door.run("usage").out.splitlines()

    bars = [line for line in lines if "█" in line or "▏" in line]
    assert all(cell_len(line) <= columns for line in bars)
    assert len(bars) >= {40: 0, 72: 2}.get(columns, 5)
    assert "\x1b" not in "".join(lines)
    if columns == 200:
        assert max(map(cell_len, bars)) == columns


def test_nothing_used_is_said_in_words(door: Door) -> None:
    assert door.run("usage").out == "No model was asked in the last 7d. --since all looks further back.\n"
    assert door.run("usage", "--since", "all").out == "No model was asked.\n"
    assert usage(door)["total"]["cost_microcents"] == 0


def test_an_output_without_blocks_gets_plain_bars(door: Door) -> None:
    store(door, "a", asked(), replied(Usage(input=10), 3_000))

    ran = door.spawn("usage", "--by", "model", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "COLUMNS": "100"})

    assert ran.code == 0
    assert ran.out.splitlines()[1].rstrip().endswith("#" * 20)
