"""What is read of a signature, and what is shared between functions that look alike."""

import functools
from collections.abc import Callable
from typing import Any, Literal

from backstay.tools.signature import parameters_of


def made(default: object, hint: object = int) -> Callable[..., object]:
    """A function that one `def` makes again and again."""

    def function(n: hint = default) -> object:  # type: ignore[valid-type]  # the type is what differs
        return n

    return function


def test_functions_that_one_def_made_and_that_look_alike_are_read_once() -> None:
    assert parameters_of(made(1)) is parameters_of(made(1))


def test_what_differs_in_a_default_is_read_apart() -> None:
    schemas = [parameters_of(made(default)).schema["properties"] for default in (1, 2, True, 1.0)]

    assert [repr(each) for each in schemas] == [
        f"{{'n': {{'type': 'integer', 'default': {default}}}}}" for default in (1, 2, True, 1.0)
    ]


def test_what_differs_in_a_type_is_read_apart() -> None:
    kinds = [parameters_of(made("a", hint)).schema["properties"] for hint in (str, Literal["a"], Literal["a", "b"])]

    assert kinds == [
        {"n": {"type": "string", "default": "a"}},
        {"n": {"enum": ["a"], "default": "a"}},
        {"n": {"enum": ["a", "b"], "default": "a"}},
    ]


def test_a_default_that_cannot_be_compared_is_read_every_time() -> None:
    first, other = ([1], [2])

    assert parameters_of(made(first, list[int])).signature.parameters["n"].default is first
    assert parameters_of(made(other, list[int])).signature.parameters["n"].default is other


def test_functions_behind_one_decorator_are_told_apart() -> None:
    def logged(function: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(function)
        def wrapper(*args: Any, **named: Any) -> object:  # Any: whatever the function takes
            return function(*args, **named)

        return wrapper

    @logged
    def one(n: int, m: int) -> int:
        return n + m

    @logged
    def other(n: int, m: int = 5) -> int:
        return n + m

    assert [parameters_of(each).schema["required"] for each in (one, other)] == [["n", "m"], ["n"]]
