"""The time of the scrubber is linear in the text, whatever the text says. `python -m benchmarks scrubber` measures it finely."""

import re
import time
from collections.abc import Callable

import pytest

from benchmarks.scrubber import FAMILIES
from holdfast.logic.redact import PLAIN

SMALL, LARGE = 32 * 1024, 256 * 1024


def least(work: Callable[[], object]) -> float:
    """CPU seconds of the fastest of three runs: what else the machine does only adds to them."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


@pytest.mark.parametrize("family", FAMILIES)
def test_l4_eight_times_the_text_takes_about_eight_times_as_long(family: str) -> None:
    unit = FAMILIES[family]
    small, large = ((unit * (size // len(unit) + 1))[:size] for size in (SMALL, LARGE))
    PLAIN.find(small)

    assert least(lambda: PLAIN.find(large)) <= 24 * max(
        least(lambda: PLAIN.find(small)), 0.001
    )  # were it quadratic: 64


@pytest.mark.parametrize("family", FAMILIES)
def test_l4_a_text_made_to_slow_the_scrubber_down_costs_few_searches_for_words(family: str) -> None:
    unit = FAMILIES[family]
    text = (unit * (LARGE // len(unit) + 1))[:LARGE]

    assert least(lambda: PLAIN.find(text)) <= 14 * least(lambda: re.findall(r"\w+", text))  # alone on a machine: 6


@pytest.mark.parametrize("unit", ["token=", "key=", "password="])
def test_l4_what_a_tool_printed_holds_nothing_up(unit: str) -> None:
    text = "".join(f"{unit}" for _ in range(200_000 // len(unit)))

    start = time.process_time()
    PLAIN.value({"content": text, "more": [text]})

    assert time.process_time() - start < 20  # it takes a tenth of a second; it took minutes
