"""What a turn used: in the history, in its result, and in one look."""

import pytest
from msgspec.structs import replace

from backstay import open_session, open_store, tool
from backstay.logic.state.results import ToolSummary, UsageSnapshot
from backstay.providers.scripted import ScriptedModel
from backstay.session.subagents import child_tool
from backstay.system.machine import SystemClock
from backstay.vocab.errors import TurnFailed
from backstay.vocab.messages import text_of
from backstay.vocab.specs import ModelFacts, Prices
from tests.contracts.kit import call, look, talk

PRICED = ModelFacts(window=1_000, prices=Prices(input=100_000_000, output=200_000_000))
"""A cent for ten thousand tokens in, two for as many out: 100 and 200 micro-cents a token."""


def counted(text: str, input: int, output: int, **rest: object) -> dict[str, object]:
    return {"text": text, "usage": {"input": input, "output": output}, **rest}


@pytest.mark.contract("RB-68")
async def test_exact_usage_stands_in_the_history_after_the_answer_and_an_estimate_does_not() -> None:
    replies = (counted("", 100, 10, **call("look", at="sky")), counted("blue", 150, 20), "guessed")
    async with talk(*replies, tools=[look]) as session:
        await session.run("colour?")
        first = [(entry.type, entry.data) for entry in await session.full_history()]
        await session.run("again?")
        second = [entry.type for entry in await session.full_history()]
    assert [kind for kind, _ in first] == [
        *("user", "assistant", "tool-start", "tool", "tool-end", "assistant", "tool-summary"),
        "usage-summary",
    ]
    assert first[-1][1] == {"input": 250, "output": 30}
    assert second[len(first) :] == ["user", "assistant"]


@pytest.mark.contract("RB-69")
async def test_a_result_has_the_answer_the_tools_and_the_usage_and_the_session_the_rest() -> None:
    @tool(effect="pure")
    async def stumble() -> str:
        """Fail."""
        raise ValueError("stumbled")

    replies = (
        counted("", 100, 10, calls=[{"name": "look", "args": {"at": "sky"}}, {"name": "stumble", "args": {}}]),
        counted("blue", 150, 20),
    )
    async with talk(*replies, tools=[look, stumble], permission_mode="bypassPermissions") as session:
        result = await session.result("colour?")
        assert result.text == "blue"
        assert [(each.tool, each.outcome) for each in result.tools] == [("look", "ok"), ("stumble", "failed")]
        assert result.tools[0] == ToolSummary(call=result.tools[0].call, tool="look", outcome="ok")
        assert (result.usage.input, result.usage.output) == (250, 30)
        assert text_of(session.history[-1].content) == "blue"
        assert (session.context_state.used, session.context_state.exact) == (170, True)


@pytest.mark.contract("RB-70")
async def test_a_snapshot_says_how_much_how_full_how_dear_and_how_sure() -> None:
    replies: list[dict[str, object]] = [counted("one", 100, 10), {"text": "guessed"}, {"error": {"kind": "auth"}}]
    model = ScriptedModel.of(replies, facts=PRICED)
    async with open_session(model=model, store=None, only_tools=True) as session:
        assert session.usage_snapshot is None
        await session.run("a")
        assert session.usage_snapshot == UsageSnapshot(
            kind="exact",
            scope="turn",
            input=100,
            output=10,
            cache_read=0,
            cache_write=0,
            reasoning=0,
            context_used=110,
            context_max=1_000,
            context_percentage=11.0,
            cost=12_000,
            cost_status="exact",
        )
        await session.run("b")
        guessed = session.usage_snapshot
        with pytest.raises(TurnFailed):
            await session.run("c")
        nothing = session.usage_snapshot
    assert guessed is not None
    assert (guessed.kind, guessed.cost_status, guessed.context_used > 110) == ("estimated", "estimated", True)
    assert guessed.cost == guessed.input * 100 + guessed.output * 200
    assert nothing is not None
    assert (nothing.total, nothing.kind, nothing.cost, nothing.cost_status) == (0, "estimated", None, "unknown")


@pytest.mark.contract("RB-70")
async def test_a_cost_without_a_price_is_unknown_and_never_nothing() -> None:
    model = ScriptedModel.of([counted("one", 100, 10)], facts=ModelFacts())
    async with open_session(model=model, store=None) as session:
        await session.run("a")
        found = session.usage_snapshot
    assert found is not None
    assert (found.kind, found.cost, found.cost_status) == ("exact", None, "unknown")


async def test_what_a_child_spent_is_part_of_the_turn() -> None:
    store = await open_store("memory:", clock=SystemClock())
    replies = [
        counted("", 100, 10, calls=[{"name": "delegate", "args": {"prompt": "help"}}]),
        counted("done", 200, 20),
    ]
    model = ScriptedModel.of(replies, facts=replace(PRICED, window=20_000))
    async with open_session(
        model=model, store=store, tools=[child_tool()], permission_mode="bypassPermissions"
    ) as session:
        result = await session.result("go")
        spent = session.cost
    assert result.cost == spent == 2 * (300 * 100 + 30 * 200)  # the child plays the same script
    assert result.usage.input == 600
    await store.close()


@pytest.mark.contract("RB-11")
async def test_the_context_is_told_before_the_call_as_an_estimate_and_after_it_as_counted() -> None:
    told: list[tuple[bool, int]] = []
    async with talk(counted("one", 100, 10, delay_ms=20, chunk=1)) as session:
        session.on("context_update", lambda state: told.append((state.exact, state.used)))  # type: ignore[attr-defined]  # a ContextState
        await session.run("a")
    (before, _), after = told
    assert (before, after) == (False, (True, 110))
