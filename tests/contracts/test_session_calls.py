"""The calls of a session of contract RB: what is wired around an injected tool, and what a change in mid-turn is for."""

from typing import Any

import anyio
import pytest

from backstay import Answer, Question, Rule, Session, tool
from backstay.hooks.decorator import hook
from backstay.vocab.events import ToolFinished
from backstay.vocab.messages import ToolCall, text_of
from tests.contracts.kit import Till, call, calls, look, talk
from tests.source_tree import SOURCE, imports, read_tree

FOREIGN = (
    *("stores", "providers", "tools", "sandbox", "mcp", "config", "plugins", "instructions"),
    *("permissions", "session.assemble", "session.open", "catalog"),
)
"""What the session and its loop are given, and never fetch themselves."""


async def ends(session: Session) -> list[tuple[str, str]]:
    """What came of each call and the words of its result, in the order in which the model called."""
    asked = [part.id for message in session.history for part in message.content if isinstance(part, ToolCall)]
    over = {r.event.call: r.event for r in await session.events() if isinstance(r.event, ToolFinished)}
    return [(over[one].outcome, text_of(over[one].content)) for one in asked]


@pytest.mark.contract("RB-3", "RB-4")
def test_the_session_and_its_loop_know_ports_only() -> None:
    """Stores, providers, tools, settings and the rules of permission come from outside."""
    foreign = tuple(f"backstay.{one}" for one in FOREIGN)
    modules = [
        module
        for module in read_tree(SOURCE)
        if module.path in ("session/session.py", "session/view.py") or module.path.startswith("runtime/")
    ]
    assert len(modules) > 10
    found = {(module.path, each.target) for module in modules for each in imports(module)}
    assert [one for one in sorted(found) if f"{one[1]}.".startswith(tuple(f"{each}." for each in foreign))] == []


@pytest.mark.contract("RB-1", "RB-2", "RB-5")
async def test_one_run_wires_hooks_rules_and_the_injected_asker_around_an_injected_tool() -> None:
    asked: list[tuple[str, dict[str, object]]] = []
    till = Till()

    async def asker(question: Question) -> Answer:
        asked.append((question.tool, question.args))
        return Answer(allowed=question.args["amount"] == 3)

    @hook("PreToolUse", matcher="look")
    def no_cellars(told: dict[str, Any]) -> dict[str, object] | None:
        if told["tool_input"]["at"] != "cellar":
            return None
        denied = {"permissionDecision": "deny", "permissionDecisionReason": "it is dark"}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **denied}}

    batch = calls(
        *(("look", {"at": place}) for place in ("sky", "cellar", "vault")),
        *(("charge", {"amount": amount}) for amount in (3, 4)),
    )
    rules = [Rule.parse("deny", "look(vault)"), Rule.parse("ask", "charge")]
    options: dict[str, Any] = {"hooks": [no_cellars], "rules": rules, "asker": asker}
    async with talk(batch, "done", tools=[look, till.tool], only_tools=True, **options) as session:
        assert await session.run("look around and pay") == "done"
        ended = await ends(session)
    assert [outcome for outcome, _ in ended] == ["ok", "denied", "denied", "ok", "denied"]
    assert ended[0][1] == "saw sky"
    assert "it is dark" in ended[1][1]
    assert "denied by the rule 'look(vault)'" in ended[2][1]
    assert asked == [("charge", {"amount": 3}), ("charge", {"amount": 4})]
    assert till.charged == [3]


@pytest.mark.contract("RB-5", "RB-47")
async def test_a_given_tool_that_runs_programs_wants_a_yes_and_nobody_there_is_a_denied_result() -> None:
    ran: list[str] = []

    @tool(touches="runs")
    async def deploy(where: str) -> str:
        """Deploy."""
        ran.append(where)
        return "deployed"

    async with talk(call("deploy", where="moon"), "then not", tools=[deploy]) as session:
        assert await session.run("go") == "then not"
        assert [outcome for outcome, _ in await ends(session)] == ["denied"]
    assert ran == []


@pytest.mark.contract("RB-14")
async def test_a_mode_that_is_set_while_a_call_runs_lets_it_finish_and_judges_the_next() -> None:
    till = Till()
    reached, go_on = anyio.Event(), anyio.Event()

    @tool
    async def slow() -> str:
        """Take a while."""
        reached.set()
        await go_on.wait()
        return "finished"

    batch = calls(("slow", {}), ("charge", {"amount": 1}))
    async with talk(batch, call("charge", amount=2), "done", tools=[slow, till.tool]) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "go")
            await reached.wait()
            await session.set_permission_mode("plan")
            go_on.set()
        ended = await ends(session)
    assert [outcome for outcome, _ in ended] == ["ok", "denied", "denied"]
    assert ended[0][1] == "finished"
    assert till.charged == []
