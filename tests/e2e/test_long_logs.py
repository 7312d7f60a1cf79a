"""What looks at a log does not hold it in memory as a whole."""

import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest

from benchmarks.histories import fill
from holdfast import open_store
from holdfast.logic.seen_ids import SeenIds
from holdfast.vocab.ids import event_id
from tests.e2e.door import Door

MB = 1024 * 1024


def peak_of(door: Door, turns: int, *command: str) -> int:
    """The bytes that a command takes at most on a log of so many turns, of 12 events each."""
    url = f"sqlite://{door.folder / f'{turns}.db'}"

    async def make() -> None:
        store = await open_store(url)
        await fill(store, "s", turns, Path("/"))
        await store.close()

    anyio.run(make)
    tracemalloc.start()
    try:
        ran = door.run(*command, "s", "--store", url)
        peak = tracemalloc.get_traced_memory()[1] - len(ran.out)
    finally:
        tracemalloc.stop()
    assert ran.code == 0
    return peak


def test_sec_l5_a_log_is_checked_a_page_at_a_time(door: Door) -> None:
    few, many = peak_of(door, 400, "log", "validate"), peak_of(door, 1_200, "log", "validate")
    assert many - few < 8 * MB


@pytest.mark.parametrize(
    ("ids", "new"),
    [
        ((event_id("a", 1), event_id("a", 2), event_id("a", 1)), [True, True, False]),
        (
            (event_id("a", 5), event_id("b", 5), event_id("a", 3), event_id("a", 4), event_id("a", 4)),
            [True] * 4 + [False],
        ),
        (("odd", "a.A", "a.a", "odd", "a.-1", "a.01"), [True, True, True, False, True, True]),
    ],
)
def test_an_id_is_seen_once(ids: Iterable[str], new: list[bool]) -> None:
    seen = SeenIds()
    assert [seen.add(each) for each in ids] == new
