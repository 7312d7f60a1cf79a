"""The scenarios of the crash matrix about limits: waits, fallbacks, a context that fills, money that is spent."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import anyio.lowlevel
from msgspec.structs import replace

from backstay.logic.state.retries import Retries
from backstay.ports import Answer, Question
from backstay.session.options import Options
from backstay.testing.crash.rehearsed_model import PLAIN, Reply, rehearsed
from backstay.testing.crash.stage import Scenario, Stage
from backstay.vocab.errors import TurnError, TurnPaused, UserError
from backstay.vocab.specs import ModelFacts, Prices
from tests.crash.scenarios.cast import call, tools_of

QUICK: Final = Retries(attempts=3, first_wait_s=0.01, cooldown_s=3600.0)
PRICED: Final = replace(PLAIN, prices=Prices(input=100_000_000, output=100_000_000))
"""A hundred micro-cents for each token."""
SMALL: Final = ModelFacts(window=3_000, max_output=500)
WORDS: Final = "something that takes its place in the context " * 20


async def _run(stage: Stage, *prompts: str) -> None:
    async with stage.open() as session:
        for prompt in prompts:
            await session.run(prompt)


# --- trying again ------------------------------------------------------------------------------------------------------


async def _limited(stage: Stage) -> None:
    async with stage.open() as session:
        await session.run("Go.")
        with suppress(TurnError):
            await session.run("Again.")
        await session.run("And once more.")


LIMITED: Final = Scenario(
    name="rate limited",
    options=lambda stage: Options(
        model=rehearsed(
            [
                {"error": {"kind": "rate_limit", "retry_after_s": 0.02}},
                {"text": "Now.", "calls": [call("pay", n=1), call("look", n=1)]},
                {"error": {"kind": "overloaded"}},
                {"error": {"kind": "transport"}},
                {"text": "Done."},
                {"text": "Half of a", "error": {"kind": "transport"}},
                {"text": "Whole."},
            ],
            stage,
        ),
        tools=tools_of(stage),
        retries=QUICK,
    ),
    act=_limited,
)

_CHAIN: Final[Sequence[Reply]] = (
    {"calls": [call("pay", n=1)]},
    {"error": {"kind": "overloaded"}},
    {"error": {"kind": "auth"}},
    {"text": "From the third.", "calls": [call("put", n=2), call("pay", n=2)]},
    {"text": "Done."},
    {"text": "The first is left alone."},
    {"text": "Still."},
)


FALLEN_BACK: Final = Scenario(
    name="fallback",
    options=lambda stage: Options(
        model=rehearsed(_CHAIN, stage),
        fallback_models=[rehearsed(_CHAIN, stage, name=f"scripted:{name}") for name in ("second", "third")],
        tools=tools_of(stage),
        retries=replace(QUICK, attempts=1),
    ),
    act=lambda stage: _run(stage, "Go.", "Again.", "And again."),
)


# --- a context that fills ----------------------------------------------------------------------------------------------


def _filling(replies: Sequence[Reply]) -> Callable[[Stage], Options]:
    return lambda stage: Options(model=rehearsed(replies, stage, facts=SMALL), tools=tools_of(stage), retries=QUICK)


COMPACTED: Final = Scenario(
    name="compacted",
    options=_filling(
        [
            {"text": WORDS, "usage": {"input": 900, "output": 300}},
            {"text": WORDS, "calls": [call("pay", n=1), call("look", n=1)], "usage": {"input": 1_400, "output": 400}},
            {"text": WORDS, "calls": [call("pay", n=2), call("look", n=-1)], "usage": {"input": 2_000, "output": 700}},
            {"text": "Done.", "calls": [call("pay", n=3)], "usage": {"input": 800, "output": 20}},
            {"error": {"kind": "context_overflow"}},
            {"text": "Enough.", "usage": {"input": 500, "output": 20}},
            {"text": "Good bye.", "usage": {"input": 600, "output": 20}},
        ]
    ),
    act=lambda stage: _run(stage, f"First. {WORDS}", "Then do it all.", "And?"),
)


async def _shortened(stage: Stage) -> None:
    async with stage.open() as session:
        await session.run(f"One. {WORDS}")
        await session.run("Two.")
        with suppress(UserError):
            await session.compact("what was paid")
        await session.run("Three.")
        with suppress(UserError):
            await session.undo_compaction()
        await session.run("Four.")
        with suppress(UserError):
            await session.compact()
        await session.rewind(to=session.turns[1].turn)
        await session.run("Three, but differently.")


SHORTENED: Final = Scenario(
    name="shortened",
    options=lambda stage: Options(
        model=rehearsed(
            [
                {"text": WORDS, "calls": [call("pay", n=1), call("look", n=1)]},
                {"text": "Paid."},
                {"text": WORDS, "calls": [call("put", n=2)]},
                {"text": "Put."},
                {"calls": [call("pay", n=3)]},
                {"text": "Three."},
                {"text": "Four."},
            ],
            stage,
            facts=replace(SMALL, window=20_000),
        ),
        tools=tools_of(stage),
    ),
    act=_shortened,
)


# --- money -------------------------------------------------------------------------------------------------------------


def _spending(replies: Sequence[Reply], *, first: int, later: int) -> Callable[[Stage], Options]:
    """Sessions that may cost `first` micro-cents, and `later` when somebody opens them again."""
    return lambda stage: Options(
        model=rehearsed(replies, stage, facts=PRICED),
        tools=tools_of(stage),
        budget_microcents=later if stage.attempt else first,
        on_exceed="pause_for_approval",
        retries=QUICK,
    )


async def _raised(stage: Stage) -> None:
    async with stage.open() as session:
        with suppress(TurnPaused):
            await session.run("Pay.")
    async with stage.open() as session:
        await session.set_budget(10_000_000)
        await session.finish()
        await session.run("And again.")


RAISED: Final = Scenario(
    name="budget",
    options=_spending(
        [
            {"calls": [call("pay", n=1)], "usage": {"input": 400, "output": 100}},
            {"calls": [call("pay", n=2), call("look", n=2)], "usage": {"input": 400, "output": 100}},
            {"text": "Paid.", "usage": {"input": 400, "output": 100}},
            {"text": "Again.", "usage": {"input": 400, "output": 100}},
        ],
        first=90_000,
        later=20_000_000,
    ),
    act=_raised,
)


async def _agree(question: Question) -> Answer:
    await anyio.lowlevel.checkpoint()
    return Answer(allowed=question.tool != "Budget" or float(str(question.args["limit_usd"])) < 0.003)


async def _refused(stage: Stage) -> None:
    async with stage.open() as session:
        for prompt in ("Pay.", "And again.", "Once more."):
            with suppress(TurnError):
                await session.run(prompt)


ASKED: Final = Scenario(
    name="money asked",
    options=lambda stage: Options(
        model=rehearsed(
            [{"calls": [call("pay", n=n)], "usage": {"input": 900, "output": 100}} for n in range(4)],
            stage,
            facts=PRICED,
        ),
        tools=tools_of(stage),
        asker=_agree,
        budget_microcents=150_000,
        on_exceed="pause_for_approval",
        retries=QUICK,
        max_rounds=6,
    ),
    act=_refused,
)

CHILD_PAUSED: Final = Scenario(
    name="paused child",
    options=_spending(
        [
            {
                "text": "I ask somebody.",
                "calls": [call("delegate", prompt="What do you think?"), call("pay", n=1)],
                "usage": {"input": 400, "output": 100},
            },
            {"calls": [call("pay", n=2)], "usage": {"input": 400, "output": 100}},
            {"text": "Done.", "usage": {"input": 400, "output": 100}},
        ],
        first=130_000,
        later=20_000_000,
    ),
    act=_raised,
)

LIMITS: Final = (LIMITED, FALLEN_BACK, COMPACTED, SHORTENED, RAISED, ASKED, CHILD_PAUSED)
"""All of them."""
