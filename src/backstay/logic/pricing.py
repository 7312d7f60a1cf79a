"""What tokens cost, in whole micro-cents: a dollar is 100,000,000 of them, and nothing is ever a fraction of one."""

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Final

from backstay.vocab.errors import UserError
from backstay.vocab.specs import ModelFacts, Prices, Usage

DOLLAR: Final = 100_000_000
"""Micro-cents of a dollar."""
_MILLION: Final = 1_000_000
_MOST: Final = Decimal(10) ** 9
"""Dollars that nobody means: a slip of the finger, or a number that is no number."""


def cost(usage: Usage, prices: Prices | None) -> int | None:
    """What a model call cost in micro-cents, each class of token rounded half up; None when the model has no price.

    Tokens read from a cache or written to one are part of the input and are paid at their own price. Reasoning is part of the output.
    """
    if prices is None:
        return None
    cached, written = max(0, usage.cache_read), max(0, usage.cache_write)
    plain = max(0, usage.input - cached - written)
    return (
        _rounded(plain, prices.input)
        + _rounded(cached, _or(prices.cache_read, prices.input))
        + _rounded(written, _or(prices.cache_write, prices.input))
        + _rounded(max(0, usage.output), prices.output)
    )


def check_priced(facts: Mapping[str, ModelFacts]) -> None:
    """Raise `UserError` when a budget cannot be kept, because one of these models has no price."""
    for name, known in facts.items():
        if known.prices is None:
            raise UserError(
                f"The model {name!r} has no known price, so a budget cannot be kept. Give its prices in the settings under "
                "`models`, or allow it with allow_unpriced (--allow-unpriced): then its calls count as free."
            )


def dollars(microcents: int) -> str:
    """An amount as people read it: two digits after the point when it is a dollar or more, four below, as many as it takes below that."""
    amount = Decimal(abs(microcents)) / DOLLAR
    places = 2 if amount >= 1 else 4 if amount >= Decimal("0.0001") or not amount else 8
    rounded = amount.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{'-' if microcents < 0 else ''}${rounded:,.{places}f}"


def parse_dollars(text: str) -> int:
    """The micro-cents of an amount in dollars, exactly. Raise `UserError` for what is no amount, or is finer than a micro-cent."""
    try:
        amount = Decimal(text.strip().removeprefix("$"))
    except InvalidOperation:
        raise UserError(f"{text!r} is not an amount of dollars. Write it like 0.25.") from None
    return microcents(amount, what=repr(text))


def microcents(amount: Decimal, *, what: str) -> int:
    """The micro-cents of `amount` dollars, exactly; `what` names it in an error."""
    if not amount.is_finite() or not 0 <= amount <= _MOST:
        raise UserError(f"{what} is not an amount of dollars. Write a number that is not negative, like 0.25.")
    whole = amount * DOLLAR
    if whole != int(whole):
        raise UserError(
            f"{what} is finer than the smallest amount, a hundred-millionth of a dollar. Use up to 8 digits."
        )
    return int(whole)


def _rounded(tokens: int, price: int) -> int:
    return (tokens * price + _MILLION // 2) // _MILLION


def _rounded_up(tokens: int, price: int) -> int:
    return -(-tokens * price // _MILLION)


def _or(price: int | None, other: int) -> int:
    return other if price is None else price
