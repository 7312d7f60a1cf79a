"""The time of the scrubber is linear in the text, whatever the text says. `python -m benchmarks scrubber` measures it finely."""

import re
import time
import tracemalloc
from collections.abc import Callable

import pytest

from backstay.logic.secrets.redact import PLAIN, Redactor, StreamRedactor
from benchmarks.scrubber import COUNTED, FAMILIES, MADE, text_of

SMALL, LARGE = 32 * 1024, 256 * 1024


def least(work: Callable[[], object]) -> float:
    """CPU seconds of the fastest of three runs: what else the machine does only adds to them."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


@pytest.mark.parametrize("family", [*FAMILIES, *COUNTED, *MADE])
def test_l4_eight_times_the_text_takes_about_eight_times_as_long(family: str) -> None:
    small, large = text_of(family, SMALL), text_of(family, LARGE)
    PLAIN.find(small)

    assert least(lambda: PLAIN.find(large)) <= 24 * max(
        least(lambda: PLAIN.find(small)), 0.001
    )  # were it quadratic: 64


@pytest.mark.parametrize("family", [*FAMILIES, "the same behind many others", "letters that JSON writes"])
def test_l4_a_text_made_to_slow_the_scrubber_down_costs_few_searches_for_words(family: str) -> None:
    text = text_of(family, LARGE)

    assert least(lambda: PLAIN.find(text)) <= 12 * least(lambda: re.findall(r"\w+", text))  # alone on a machine: 6


@pytest.mark.parametrize("unit", ["token=", "key=", "password="])
def test_l4_what_a_tool_printed_holds_nothing_up(unit: str) -> None:
    text = "".join(f"{unit}" for _ in range(200_000 // len(unit)))

    start = time.process_time()
    PLAIN.value({"content": text, "more": [text]})

    assert time.process_time() - start < 20  # it takes a tenth of a second; it took minutes


def test_a_long_known_value_takes_little_memory() -> None:
    stream = StreamRedactor(Redactor(["-".join(map(str, range(1000)))]))

    tracemalloc.start()
    stream.feed("what a model says ")
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert taken < 2_000_000  # all of its beginnings together have 8,000,000 characters
