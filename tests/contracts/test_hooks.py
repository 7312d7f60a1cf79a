"""Hooks around a session: when they are heard, what they can decide, what the model and the log are told, what a crash leaves."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from holdfast import Session, TurnFailed, open_session
from holdfast.hooks import Hook, hook
from holdfast.vocab.event_tools import HookFinished, HookStarted
from holdfast.vocab.events import CallJudged, ToolFinished, ToolStarted
from holdfast.vocab.messages import text_of
from tests.contracts.kit import call, calls, look, scripted, talk

Told = dict[str, Any]


def says(event: str, answer: Mapping[str, object] | None = None, heard: list[Told] | None = None, **more: Any) -> Hook:
    """A hook that answers always the same, and keeps what it was told."""

    @hook(event, **more)
    def answering(told: Told) -> Mapping[str, object] | None:
        if heard is not None:
            heard.append(told)
        return answer

    return answering


def specific(event: str, **fields: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


async def heard_events(session: Session) -> list[tuple[str, str]]:
    """Which hooks were started and finished, in the order of the log."""
    found: list[tuple[str, str]] = []
    for record in await session.events():
        if isinstance(record.event, HookStarted | HookFinished):
            found.append((type(record.event).__name__.removeprefix("Hook"), record.event.event))
    return found


async def results(session: Session) -> list[str]:
    return [
        text_of(record.event.content) for record in await session.events() if isinstance(record.event, ToolFinished)
    ]


# --- when ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RB-37", "RB-38", "RB-54")
async def test_hooks_are_heard_in_the_order_of_a_turn_with_what_they_need_to_know() -> None:
    heard: list[Told] = []
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop", "SessionEnd")
    hooks = [says(event, heard=heard) for event in events]
    async with talk(call("look", at="x"), "Seen.", tools=[look], hooks=hooks) as session:
        await session.run("Look at x.")
    assert [told["hook_event_name"] for told in heard] == list(events)
    by_event = {told["hook_event_name"]: told for told in heard}
    assert by_event["SessionStart"]["source"] == "startup"
    assert by_event["UserPromptSubmit"]["prompt"] == "Look at x."
    assert (by_event["PreToolUse"]["tool_name"], by_event["PreToolUse"]["tool_input"]) == ("look", {"at": "x"})
    assert by_event["PostToolUse"]["tool_response"] == "saw x"
    assert by_event["PostToolBatch"]["tool_calls"][0]["tool_response"] == "saw x"
    assert (by_event["Stop"]["last_assistant_message"], by_event["Stop"]["stop_hook_active"]) == ("Seen.", False)
    assert {told["session_id"] for told in heard} == {session.id}


async def test_every_hearing_is_in_the_log_before_and_after_it() -> None:
    seen: list[bool] = []
    async with talk(call("look", at="x"), "Done.", tools=[look], hooks=[]) as session:
        pass

    @hook("PreToolUse")
    async def checks(told: Told) -> None:
        records = await opened[0].events()
        seen.append(isinstance(records[-1].event, HookStarted))

    opened: list[Session] = []
    async with talk(call("look", at="x"), "Done.", tools=[look], hooks=[checks]) as session:
        opened.append(session)
        await session.run("Go.")
        assert seen == [True]
        assert await heard_events(session) == [("Started", "PreToolUse"), ("Finished", "PreToolUse")]


@pytest.mark.contract("RB-37")
async def test_a_failed_turn_is_heard_as_such_and_not_as_a_stop() -> None:
    heard: list[Told] = []
    hooks = [says("Stop", heard=heard), says("StopFailure", heard=heard)]
    async with talk({"error": {"kind": "auth"}}, hooks=hooks) as session:
        with pytest.raises(TurnFailed):
            await session.run("Go.")
    assert [(told["hook_event_name"], told["error"]) for told in heard] == [("StopFailure", "auth")]


# --- calls -----------------------------------------------------------------------------------------------------------------------


async def test_a_hook_refuses_a_call_and_the_turn_goes_on() -> None:
    answer = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="not on a Monday")
    async with talk(call("look", at="x"), "Then not.", tools=[look], hooks=[says("PreToolUse", answer)]) as session:
        assert await session.run("Look.") == "Then not."
        assert "not on a Monday" in (await results(session))[0]
        assert [record for record in await session.events() if isinstance(record.event, ToolStarted)] == []


async def test_what_a_hook_makes_of_a_call_is_judged_and_run_instead_and_the_model_is_told() -> None:
    answer = specific("PreToolUse", permissionDecision="allow", updatedInput={"at": "y"})
    async with talk(call("look", at="x"), "So y.", tools=[look], hooks=[says("PreToolUse", answer)]) as session:
        await session.run("Look.")
        assert "saw y" in (await results(session))[0]
        assert '{"at":"y"}' in (await results(session))[0].replace(" ", "")
        judged = [record.event for record in await session.events() if isinstance(record.event, CallJudged)]
        assert [each.decision for each in judged] == ["allow"]


async def test_arguments_of_a_hook_that_do_not_fit_the_tool_are_an_invalid_call() -> None:
    answer = specific("PreToolUse", permissionDecision="allow", updatedInput={"nonsense": 1})
    async with talk(call("look", at="x"), "Hm.", tools=[look], hooks=[says("PreToolUse", answer)]) as session:
        assert await session.run("Look.") == "Hm."
        finished = [record.event for record in await session.events() if isinstance(record.event, ToolFinished)]
        assert [(each.outcome, each.code) for each in finished] == [("invalid", "bad_arguments")]


@pytest.mark.parametrize("broken", [lambda told: 1 / 0, lambda told: {"hookSpecificOutput": {"permissionDecision": 7}}])
async def test_rb_w12_a_guard_that_breaks_refuses_what_it_guards(broken: Callable[[Told], object]) -> None:
    guard = 'case "$(cat)" in *forbidden*) echo "no entry" >&2; exit 2;; esac'
    entry = {"PreToolUse": [{"matcher": "look", "hooks": [{"type": "command", "command": guard}]}]}
    specs = settings_with(entry)(tmp_path)
    script = calls(("look", {"at": "forbidden"}), ("look", {"at": "meadow"}))
    async with talk(script, "Done.", tools=[look], hook_specs=specs, cwd=tmp_path) as session:
        await session.run("Go.")
        told = await results(session)
    assert sorted("no entry" in each for each in told) == [False, True]
    assert "saw meadow" in told


@pytest.mark.contract("RB-53")
async def test_a_prompt_hook_asks_the_model_once_and_an_agent_hook_lets_a_child_look_around(tmp_path: Any) -> None:
    (tmp_path / "rules.txt").write_text("look is fine", encoding="utf-8")
    entry = {
        "PreToolUse": [
            {"matcher": "look", "hooks": [{"type": "prompt", "prompt": "Is this fine? $ARGUMENTS"}]},
        ],
        "Stop": [{"hooks": [{"type": "agent", "prompt": "Is the work done? $ARGUMENTS"}]}],
    }
    asked: list[str] = []

    class Both:
        """A model that plays the session, the hook and the agent."""

        name, format = "scripted:both", "anthropic"

        def __init__(self) -> None:
            self._model = scripted(call("look", at="x"), "Done.", "Never.")
            self.facts = self._model.facts

        async def ask(self, request: Any) -> Any:
            from holdfast.ports import ModelReply
            from holdfast.vocab.messages import Text

            text = text_of(request.messages[-1].parts)
            if "Is this fine?" in text or "Is the work done?" in text:
                asked.append(text[:12])
                yield ModelReply(parts=(Text(text='{"ok": true}'),))
                return
            async for item in self._model.ask(request):
                yield item

    model = Both()
    specs = settings_with(entry)(tmp_path)
    async with talk(model=model, find=lambda name: model, tools=[look], hook_specs=specs, cwd=tmp_path) as session:
        assert await session.run("Go.") == "Done."
    assert asked == ["Is this fine", "Is the work "]


@pytest.mark.contract("RB-110")
async def test_the_start_and_stop_of_a_child_are_heard_and_its_own_calls_too() -> None:
    from holdfast.tools.spawn import child_tool

    heard: list[Told] = []
    hooks = [says(event, heard=heard) for event in ("SubagentStart", "SubagentStop", "PreToolUse")]
    model = scripted(call("delegate", prompt="Look."), call("look", at="x"), "Seen.", "Done.")
    async with open_session(store=None, model=model, tools=[look, child_tool()], hooks=hooks) as session:
        await session.run("Go.")
    names = [(told["hook_event_name"], told.get("tool_name", "")) for told in heard]
    assert names[0] == ("PreToolUse", "delegate")
    assert names[1][0] == "SubagentStart"
    assert ("SubagentStop", "") in names
    assert {told["agent_id"] for told in heard if told["hook_event_name"] == "SubagentStart"} != {session.id}
