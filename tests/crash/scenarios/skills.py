"""The scenario of the crash matrix about skills: a person runs one in a child session, which has effects and costs money."""

from typing import Final

from backstay.session.options import Options
from backstay.skills.skill import Skill
from backstay.testing.crash.rehearsed_model import rehearsed
from backstay.testing.crash.stage import Scenario, Stage
from backstay.vocab.specs import ModelFacts, Prices
from tests.crash.scenarios.cast import LONG, call, tools_of

INSPECT: Final = Skill(
    name="inspect",
    description="Looks into the hold.",
    file="/skills/inspect/SKILL.md",
    folder="/skills/inspect",
    source="person",
    fork=True,
    allowed_tools=("look", "pay", "put"),
)
FACTS: Final = ModelFacts(summarises=False, prices=Prices(input=1_000, output=1_000))


async def _act(stage: Stage) -> None:
    async with stage.open(budget_microcents=10_000_000) as session:
        await session.run("Hello.")
        await session.fork_skill(INSPECT, "Look into the hold.", "/inspect hold")
        await session.run("And?")
        await session.fork_skill(INSPECT, f"Look into it all. {LONG}", "/inspect everything")


SKILLED: Final = Scenario(
    name="skilled",
    options=lambda stage: Options(
        model=rehearsed(
            [
                {"text": "Paying.", "calls": [call("pay", n=1), call("put", n=1)], "usage": {"input": 30, "output": 9}},
                {"text": "Paid.", "usage": {"input": 50, "output": 5}},
                {"calls": [call("book", n=2)], "usage": {"input": 70, "output": 5}},
                {"text": "Booked.", "usage": {"input": 90, "output": 5}},
            ],
            stage,
            facts=FACTS,
        ),
        tools=tools_of(stage),
    ),
    act=_act,
)
