"""Child sessions: a log of their own and two events in the parent."""

import sys
from pathlib import Path
from typing import Any

import pytest

from backstay import UserError, open_session, open_store
from backstay.ports import ModelRequest, SessionQuery
from backstay.session.subagents import child_tool
from backstay.system.machine import SystemClock
from backstay.vocab.events import ChildFinished, ChildStarted, Started, ToolFinished
from backstay.vocab.messages import ToolResult, text_of
from backstay.vocab.specs import ModelFacts
from tests.contracts.kit import call, scripted


class Family:
    """A model that answers parent and child each from its own script."""

    name, format, facts = "family:1", "anthropic", ModelFacts()

    def __init__(self) -> None:
        self.parent = scripted(call("delegate", prompt="count the files"), "the child counted three")
        self.child = scripted({"text": "three", "usage": {"input": 10, "output": 2}})

    def ask(self, request: ModelRequest):  # type: ignore[no-untyped-def]  # a stream, as the port says
        first = request.messages[0].parts[0]
        return (self.child if "count" in getattr(first, "text", "") else self.parent).ask(request)


@pytest.mark.contract("RV-1")
async def test_a_child_answers_in_its_own_log_and_the_parent_holds_two_events() -> None:
    store = await open_store("memory:", clock=SystemClock())
    async with open_session(model=Family(), store=store, session_id="p", tools=[child_tool()]) as session:
        assert await session.run("how many?") == "the child counted three"
        log = [r.event for r in await session.events()]
        result = next(p for m in session.history for p in m.content if isinstance(p, ToolResult))
        assert text_of(result.content) == "three"
        assert session.usage.output >= 2
    started = next(event for event in log if isinstance(event, ChildStarted))
    finished = next(event for event in log if isinstance(event, ChildFinished))
    assert (finished.child, finished.text, finished.outcome) == (started.child, "three", "completed")
    child = (await store.read(started.child)).records
    beginning = child[0].event
    assert isinstance(beginning, Started)
    assert beginning.parent == "p"
    assert [meta.id for meta in await store.list(SessionQuery())] == ["p"]
    assert {meta.id for meta in await store.list(SessionQuery(include_children=True))} == {"p", started.child}


async def test_a_child_cannot_have_children() -> None:
    nested = scripted(call("delegate", prompt="count"), "done")

    class Nested(Family):
        def __init__(self) -> None:
            super().__init__()
            self.child = nested

    store = await open_store("memory:", clock=SystemClock())
    async with open_session(model=Nested(), store=store, tools=[child_tool()]) as session:
        await session.run("go")
        started = next(r.event for r in await session.events() if isinstance(r.event, ChildStarted))
    refused = [r.event for r in (await store.read(started.child)).records if isinstance(r.event, ToolFinished)]
    assert [event.code for event in refused] == ["unknown_tool"]


def test_a_child_tool_needs_a_prompt() -> None:
    assert child_tool().problem({}) != ""
    assert child_tool().problem({"prompt": "x"}) == ""


@pytest.mark.parametrize("args", [{"prompt": ""}, {"prompt": 3}])
def test_a_child_tool_refuses_what_is_not_a_prompt(args: dict[str, object]) -> None:
    assert child_tool().problem(args) != ""


async def child_of(open_parent: Any) -> Started:
    """The first event of the child that a parent opens."""
    async with open_parent as session:
        await session.run("how many?")
        finished = next(r.event for r in await session.events() if isinstance(r.event, ChildFinished))
        first = (await session.store.read(finished.child, 0, 1)).records[0].event
    assert (finished.text, finished.outcome) == ("three", "completed")
    assert isinstance(first, Started)
    return first


async def test_a_child_runs_where_its_parent_only_misses_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))  # no sandbox can be tried

    given: dict[str, Any] = {"model": Family(), "store": None, "tools": [child_tool()], "cwd": tmp_path}
    assert (await child_of(open_session(**given))).context.fs_scope == "sandboxed"
    with pytest.raises(UserError, match="No sandbox works here"):
        async with open_session(**given, fs_scope="sandboxed"):
            pass


async def test_a_scope_that_bypass_implies_is_implied_in_a_child_and_a_named_one_is_not(tmp_path: Path) -> None:
    bypass = {"permission_mode": "bypassPermissions"}
    found = []
    for named in ({}, {"fs_scope": "full"}, {"fs_scope": "sandboxed"}):
        given: dict[str, Any] = {
            "model": Family(),
            "store": None,
            "tools": [child_tool()],
            "cwd": tmp_path,
            **bypass,
            **named,
        }
        first = await child_of(open_session(**given))
        found.append((first.context.fs_scope, first.scope_implied))
    assert found == [("full", True), ("full", False), ("sandboxed", False)]
