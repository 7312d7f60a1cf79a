"""A command is judged on the event loop when it is short: what is asked about each word must not grow with the number of the others."""

import time

import pytest

from backstay.permissions import Call, judge_call, paths_to_resolve, spec_of
from backstay.permissions.call_site import CallSite

GROUND = CallSite(cwd="/repo", home="/home/u", roots=("/repo",))


def least(text: str) -> float:
    """CPU seconds of the fastest of three judgements: what else the machine does only adds to them."""
    taken = []
    call = Call(spec_of("Bash"), {"command": text})
    for _ in range(3):
        start = time.process_time()
        paths_to_resolve(call, GROUND)
        judge_call(call, GROUND, (), mode="default")
        taken.append(time.process_time() - start)
    return min(taken)


@pytest.mark.parametrize(
    ("head", "unit", "most"),
    [
        ("ls ", ">a ", 4_000),
        ("ls ", ">a{} ", 4_000),
        ("rm ", "a{} ", 900),
        ("git log -p -- ", "a{} ", 400),
        ("git show ", "HEAD:a{} ", 400),
        ("", "mv a{0} b{0}; ", 240),
    ],
)
def test_four_times_the_words_take_about_four_times_as_long(head: str, unit: str, most: int) -> None:
    small, large = (head + "".join(unit.format(number) for number in range(count)) for count in (most // 4, most))
    least("ls")

    assert least(large) <= 9 * max(least(small), 0.004)  # were it quadratic: 16


def test_a_script_of_blanks_takes_time_that_grows_with_it() -> None:
    small, large = (f"sed '1{' ' * count}x' a" for count in (480, 1_920))
    least("ls")

    assert least(large) <= 9 * max(least(small), 0.004)
