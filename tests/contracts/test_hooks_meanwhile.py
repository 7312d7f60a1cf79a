"""Hooks that are still being heard about a call while another call changes the world: what they say counts all the same."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backstay import Session, open_session, tool
from backstay.hooks.decorator import Hook, hook
from backstay.testing.crash.invariants import wrong_with
from backstay.testing.event_loop import run_virtually
from backstay.vocab.errors import TurnError
from backstay.vocab.events import CallJudged, ToolFinished, ToolStarted
from backstay.vocab.messages import text_of
from backstay.vocab.rules import Rule
from tests.contracts.kit import calls, scripted

Told = dict[str, Any]


class Meanwhile:
    """Two calls of one reply: `pay`, which ends only after hooks are being heard about the other one, `Write`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hearing = anyio.Event()
        self.sessions: list[Session] = []

        @tool
        async def pay() -> str:
            """Pay."""
            await self.hearing.wait()
            return "paid"

        self.pay = pay

    def answers(self, event: str, answer: Mapping[str, object]) -> Hook:
        """A hook that answers once `pay` has its result and everything that follows from it is done."""

        @hook(event, matcher="Write")
        async def slow(told: Told) -> Mapping[str, object]:
            self.hearing.set()
            await self._until(self._paid)
            for _ in range(20):
                await anyio.sleep(0.01)
            return {"hookSpecificOutput": {"hookEventName": event, **answer}}

        return slow

    async def run(self, *hooks: Hook, rule: str = "Write") -> list[tuple[str, str]]:
        """Let it happen; give what became of each call."""
        model = scripted(calls(("pay", {}), ("Write", {"file_path": "logbook.txt", "content": "x"})), "Done.")
        rules = [Rule.parse("allow", "pay"), *([Rule.parse("allow", rule)] if rule else [])]
        opened = open_session(store=None, model=model, tools=[self.pay], hooks=hooks, rules=rules, cwd=self.folder)
        async with opened as session:
            self.sessions.append(session)
            await session.run("Go.")
            log = await session.events()
        assert wrong_with(log) == ()
        return [(r.event.outcome, text_of(r.event.content)) for r in log if isinstance(r.event, ToolFinished)]

    async def _paid(self) -> bool:
        return any(isinstance(record.event, ToolFinished) for record in await self.sessions[0].events())

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        while not await holds():
            await anyio.sleep(0.005)


@pytest.fixture
def meanwhile(tmp_path: Path) -> Meanwhile:
    """The two calls."""
    return Meanwhile(tmp_path)


async def test_a_refusal_holds_although_the_call_has_to_be_looked_at_again(meanwhile: Meanwhile) -> None:
    refusal = {"permissionDecision": "deny", "permissionDecisionReason": "Written by people."}
    paid, written = await meanwhile.run(meanwhile.answers("PreToolUse", refusal))
    assert (paid[0], written[0]) == ("ok", "denied")
    assert "Written by people." in written[1]
    assert not (meanwhile.folder / "logbook.txt").exists()
    started = [r.event.name for r in await meanwhile.sessions[0].events() if isinstance(r.event, ToolStarted)]
    assert started == ["pay"]


async def test_a_wish_to_ask_holds_too_and_nobody_is_there(meanwhile: Meanwhile) -> None:
    paid, written = await meanwhile.run(meanwhile.answers("PreToolUse", {"permissionDecision": "ask"}))
    assert (paid[0], written[0]) == ("ok", "denied")
    assert not (meanwhile.folder / "logbook.txt").exists()


async def test_other_arguments_are_what_is_looked_at_judged_and_run(meanwhile: Meanwhile) -> None:
    other = {"file_path": str(meanwhile.folder / "other.txt"), "content": "y"}
    answer = {"permissionDecision": "allow", "updatedInput": other}
    paid, written = await meanwhile.run(meanwhile.answers("PreToolUse", answer), rule="")
    assert (paid[0], written[0]) == ("ok", "ok")
    assert [path.name for path in meanwhile.folder.iterdir()] == ["other.txt"]
    judged = [r.event for r in await meanwhile.sessions[0].events() if isinstance(r.event, CallJudged)]
    assert "other.txt" in judged[-1].detail or judged[-1].reason == "hook"


async def test_a_refusal_in_place_of_the_person_holds_too(meanwhile: Meanwhile) -> None:
    answer = {"decision": {"behavior": "deny", "message": "Not today."}}
    paid, written = await meanwhile.run(meanwhile.answers("PermissionRequest", answer), rule="")
    assert (paid[0], written[0]) == ("ok", "denied")
    assert "Not today." in written[1]


@pytest.mark.parametrize("steps", range(12))
def test_a_refusal_holds_at_whatever_step_it_comes(steps: int, tmp_path: Path) -> None:
    """On a loop in which the steps can be counted: some of them fall between the other call's result and the second look."""

    async def play() -> list[str]:
        hearing = anyio.Event()

        @tool
        async def pay() -> str:
            """Pay."""
            await hearing.wait()
            return "paid"

        @hook("PreToolUse", matcher="Write")
        async def refuse(told: Told) -> Mapping[str, object]:
            hearing.set()
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}

        model = scripted(calls(("pay", {}), ("Write", {"file_path": "logbook.txt", "content": "x"})), "Done.")
        rules = [Rule.parse("allow", "pay"), Rule.parse("allow", "Write")]
        async with open_session(
            store=None, model=model, tools=[pay], hooks=[refuse], rules=rules, cwd=tmp_path
        ) as session:
            await session.run("Go.")
            log = await session.events()
        assert wrong_with(log) == ()
        return [record.event.outcome for record in log if isinstance(record.event, ToolFinished)]

    assert run_virtually(play) == ["ok", "denied"]
    assert not (tmp_path / "logbook.txt").exists()


async def test_closing_waits_for_a_hook_whose_turn_is_over(tmp_path: Path) -> None:
    """What it says is ignored; that it has ended is not."""
    ended: list[str] = []
    stopped = anyio.Event()

    @tool
    async def look_around() -> str:
        """Look around."""
        return "seen"

    @hook("PostToolUse", matcher="look_around")
    async def slow(told: Told) -> None:
        await stopped.wait()
        await anyio.sleep(0.2)
        ended.append("slow")

    @hook("PreToolUse", matcher="Write")
    async def stopping(told: Told) -> Mapping[str, object]:
        return {"continue": False, "stopReason": "enough"}

    model = scripted(calls(("look_around", {}), ("Write", {"file_path": "x", "content": "y"})), "Done.")
    rules = [Rule.parse("allow", "look_around"), Rule.parse("allow", "Write")]
    async with open_session(
        store=None, model=model, tools=[look_around], hooks=[slow, stopping], rules=rules, cwd=tmp_path
    ) as session:
        with suppress(TurnError):
            await session.run("Go.")
        stopped.set()
    assert ended == ["slow"]
