"""Costs are whole micro-cents, rounded half up for each class of token."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.logic.budget import add, cost, dollars, microcents, parse_dollars
from backstay.vocab.errors import UserError
from backstay.vocab.specs import Prices, Usage

SONNET = Prices(input=300_000_000, output=1_500_000_000, cache_read=30_000_000, cache_write=375_000_000)

tokens = st.integers(0, 10_000_000)
usages = st.builds(Usage, input=tokens, output=tokens, cache_read=tokens, cache_write=tokens, reasoning=tokens)
price = st.integers(0, 20_000_000_000)
prices = st.builds(Prices, input=price, output=price, cache_read=st.none() | price, cache_write=st.none() | price)


@pytest.mark.contract("RV-B7")
@pytest.mark.parametrize(
    ("usage", "found"),
    [
        (Usage(), 0),
        (Usage(input=1_000_000), 300_000_000),
        (Usage(output=1_000_000), 1_500_000_000),
        (Usage(input=1_000_000, cache_read=1_000_000), 30_000_000),
        (Usage(input=1_000_000, cache_write=1_000_000), 375_000_000),
        (Usage(input=1_000, cache_read=600, cache_write=300), 100 * 300 + 600 * 30 + 300 * 375),
        (Usage(input=7, output=3, reasoning=3), 7 * 300 + 3 * 1_500),
    ],
)
def test_each_class_of_token_has_its_price(usage: Usage, found: int) -> None:
    assert cost(usage, SONNET) == found


@pytest.mark.contract("RV-B7")
@pytest.mark.parametrize(
    ("number", "of", "found"), [(1, 499_999, 0), (1, 500_000, 1), (3, 500_000, 2), (1, 1_499_999, 1), (5, 500_000, 3)]
)
def test_a_half_is_rounded_up_in_each_class_by_itself(number: int, of: int, found: int) -> None:
    even = Prices(input=of, output=of, cache_read=of, cache_write=of)

    assert cost(Usage(input=number), even) == found
    assert cost(Usage(input=number, cache_read=number), even) == found
    assert cost(Usage(input=number, cache_write=number), even) == found
    assert cost(Usage(input=3 * number, cache_read=number, cache_write=number, output=number), even) == 4 * found


def test_a_cache_without_a_price_costs_what_input_costs() -> None:
    plain = Prices(input=200_000_000, output=800_000_000)

    assert cost(Usage(input=1_000, cache_read=400, cache_write=100), plain) == 200_000


def test_a_model_without_a_price_costs_nothing_known() -> None:
    assert cost(Usage(input=5), None) is None


@given(usages, prices)
def test_a_cost_is_never_negative_even_when_the_cache_figures_exceed_the_input(usage: Usage, of: Prices) -> None:
    found = cost(usage, of)

    assert found is not None
    assert found >= 0


@given(usages, usages, prices)
def test_costs_add_up_within_the_rounding(one: Usage, other: Usage, of: Prices) -> None:
    counted = [usage for usage in (one, other) if usage.input >= usage.cache_read + usage.cache_write]
    apart = sum(cost(usage, of) or 0 for usage in counted)
    together = cost(add(counted[0], counted[1]), of) if len(counted) == 2 else apart

    assert together is not None
    assert abs(together - apart) <= 4


@given(usages, st.sampled_from(("input", "output")), st.integers(0, 1_000_000), prices)
def test_more_tokens_never_cost_less(usage: Usage, kind: str, more: int, of: Prices) -> None:
    grown = Usage(
        input=usage.input + (more if kind == "input" else 0),
        output=usage.output + (more if kind == "output" else 0),
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
    )

    assert (cost(grown, of) or 0) >= (cost(usage, of) or 0)


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "$0.0000"),
        (1, "$0.00000001"),
        (1_230_000, "$0.0123"),
        (12_345, "$0.0001"),
        (9_999, "$0.00009999"),
        (100_000_000, "$1.00"),
        (123_456_500_000, "$1,234.57"),
        (-5_000_000, "-$0.0500"),
    ],
)
def test_people_read_dollars(amount: int, words: str) -> None:
    assert dollars(amount) == words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.01", 1_000_000),
        ("$5", 500_000_000),
        (" 1e-8 ", 1),
        ("0.1", 10_000_000),
        ("0", 0),
        ("1.23456789", 123_456_789),
    ],
)
def test_dollars_are_read_exactly(text: str, found: int) -> None:
    assert parse_dollars(text) == found


@pytest.mark.parametrize("text", ["", "x", "-1", "nan", "inf", "1e30", "0.000000001", "1,5", "1 2"])
def test_what_is_no_amount_is_refused_by_name(text: str) -> None:
    with pytest.raises(UserError, match=r"amount"):
        parse_dollars(text)


@given(st.integers(0, 10**12))
def test_every_amount_comes_back(amount: int) -> None:
    assert microcents(Decimal(amount) / 100_000_000, what="it") == amount
