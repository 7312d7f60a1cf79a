"""Hooks around a session: when they are heard, what they can decide, what the model and the log are told, what a crash leaves."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from backstay import Session, TurnFailed, UserError, open_session
from backstay.hooks.decorator import Hook, hook
from backstay.vocab.events import CallJudged, MessageInjected, ToolFinished, ToolStarted
from backstay.vocab.events.tools import HookFinished, HookStarted
from backstay.vocab.messages import text_of
from tests.contracts.kit import call, calls, look, scripted, settings_with, stream, talk

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


@pytest.mark.contract("RB-5", "RB-47")
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
    guard = hook("PreToolUse", matcher="look")(broken)
    async with talk(call("look", at="x"), "Refused.", tools=[look], hooks=[guard]) as session:
        assert await session.run("Look.") == "Refused."
        assert [record for record in await session.events() if isinstance(record.event, ToolStarted)] == []


async def test_neighbouring_calls_are_each_heard() -> None:
    heard: list[Told] = []
    script = calls(("look", {"at": "a"}), ("look", {"at": "b"}), ("look", {"at": "c"}))
    hooks = [says("PreToolUse", heard=heard), says("PostToolUse", heard=heard)]
    async with talk(script, "Done.", tools=[look], hooks=hooks) as session:
        await session.run("Go.")
    ats = [(told["hook_event_name"], told["tool_input"]["at"]) for told in heard]
    assert sorted(ats) == sorted((event, at) for event in ("PreToolUse", "PostToolUse") for at in "abc")


async def test_what_a_hook_says_after_a_call_reaches_the_model_and_may_replace_the_output() -> None:
    after = specific("PostToolUse", additionalContext="x is a fake", updatedToolOutput="saw a fake")
    model = scripted(call("look", at="x"), {"expect": {"contains": "x is a fake"}, "text": "I see."})
    async with open_session(store=None, model=model, tools=[look], hooks=[says("PostToolUse", after)]) as session:
        assert await session.run("Look.") == "I see."
        shown = [text for message in session.history for text in [repr(message)] if "saw a fake" in text]
        assert len(shown) == 1


# --- prompts, stops ----------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RB-37")
async def test_what_a_hook_adds_to_a_prompt_reaches_the_model() -> None:
    added = specific("UserPromptSubmit", additionalContext="The build is red.")
    model = scripted({"expect": {"contains": "The build is red."}, "text": "I know."})
    async with open_session(store=None, model=model, hooks=[says("UserPromptSubmit", added)]) as session:
        assert await session.run("Status?") == "I know."
        injected = [record for record in await session.events() if isinstance(record.event, MessageInjected)]
        assert [record.by for record in injected] == ["hook"]


async def test_rb_w50_a_refused_prompt_never_reaches_the_model() -> None:
    refusal = {"decision": "block", "reason": "no secrets here"}
    async with talk("Never said.", hooks=[says("UserPromptSubmit", refusal)]) as session:
        with pytest.raises(TurnFailed, match="no secrets here"):
            await session.run("My password is hunter2.")
        assert session.history == ()


@pytest.mark.contract("RB-37")
async def test_a_stop_hook_keeps_the_turn_going_and_is_told_so_and_cannot_do_it_for_ever() -> None:
    heard: list[Told] = []
    stubborn = says("Stop", {"decision": "block", "reason": "There is more to do."}, heard)
    async with talk(*(f"Answer {n}." for n in range(20)), hooks=[stubborn]) as session:
        assert await session.run("Go.") == "Answer 8."
    assert [told["stop_hook_active"] for told in heard] == [False, *[True] * 7]


async def test_a_hook_can_end_the_turn() -> None:
    ends = says("PostToolUse", {"continue": False, "stopReason": "enough for today"})
    async with talk(call("look", at="x"), "Never.", tools=[look], hooks=[ends]) as session:
        result = None
        async for item in session.send("Go."):
            result = item
        assert result is not None
        assert "enough for today" in session.turns[-1].message


@pytest.mark.contract("RB-37")
async def test_the_start_of_a_session_is_heard_once_for_each_opening_and_its_words_reach_the_model(
    tmp_path: Any,
) -> None:
    heard: list[Told] = []
    start = says("SessionStart", specific("SessionStart", additionalContext="It is Monday."), heard)
    ends = says("SessionEnd", None, heard)
    store = f"sqlite:///{tmp_path}/s.db"
    model = scripted({"expect": {"contains": "It is Monday."}, "text": "One."}, "Two.", "Three.")
    async with open_session(store=store, model=model, hooks=[start, ends]) as session:
        await session.run("Go.")
        await session.run("Again.")
    async with open_session(store=store, model=model, resume=session.id, hooks=[start, ends]) as again:
        await again.run("And again.")
    sources = [told.get("source", "-") for told in heard]
    assert sources == ["startup", "-", "resume", "-"]


async def test_rb_w59_the_first_prompt_waits_for_the_start_hook() -> None:
    order: list[str] = []

    @hook("SessionStart")
    async def slow(told: Told) -> dict[str, object]:
        import anyio

        await anyio.sleep(0.05)
        order.append("start")
        return specific("SessionStart", additionalContext="ready")

    prompted = says("UserPromptSubmit")

    @hook("UserPromptSubmit")
    def next_one(told: Told) -> None:
        order.append("prompt")

    async with talk({"expect": {"contains": "ready"}, "text": "Yes."}, hooks=[slow, prompted, next_one]) as session:
        assert await session.run("Go.") == "Yes."
    assert order == ["start", "prompt"]


# --- around other things -------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RB-38")
async def test_a_compaction_is_heard_before_and_after_and_may_be_refused() -> None:
    heard: list[Told] = []
    script = ["A long story. " * 50, "Another. " * 50, "Third. " * 50]
    async with talk(*script, hooks=[says("PreCompact", heard=heard), says("PostCompact", heard=heard)]) as session:
        for prompt in ("One.", "Two.", "Three."):
            await session.run(prompt)
        await session.compact()
        assert [told["hook_event_name"] for told in heard][:1] == ["PreCompact"]
    assert [told["hook_event_name"] for told in heard] == ["PreCompact", "PostCompact"]
    refusal = {"decision": "block", "reason": "not now"}
    async with talk(*script, hooks=[says("PreCompact", refusal)]) as session:
        for prompt in ("One.", "Two.", "Three."):
            await session.run(prompt)
        with pytest.raises(UserError, match="not now"):
            await session.compact()


async def test_rb_w11_a_hook_of_the_program_replaces_no_other() -> None:
    heard: list[Told] = []
    hooks = [says("PreToolUse", heard=heard), says("PreToolUse", heard=heard), says("PreToolUse", heard=heard)]
    async with talk(call("look", at="x"), "Done.", tools=[look], hooks=hooks) as session:
        await session.run("Go.")
    assert len(heard) == 3


async def test_a_session_without_hooks_writes_nothing_about_them() -> None:
    async with talk(call("look", at="x"), "Done.", tools=[look]) as session:
        items = await stream(session, "Go.")
        assert items
        assert await heard_events(session) == []


# --- programs ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RB-53")
async def test_a_command_hook_reads_json_and_decides_by_its_exit_code(tmp_path: Any) -> None:
    guard = 'case "$(cat)" in *forbidden*) echo "no entry" >&2; exit 2;; esac'
    entry = {"PreToolUse": [{"matcher": "look", "hooks": [{"type": "command", "command": guard}]}]}
    settings = settings_with(entry, tmp_path)
    script = calls(("look", {"at": "forbidden"}), ("look", {"at": "meadow"}))
    async with talk(script, "Done.", tools=[look], settings=settings, cwd=tmp_path) as session:
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
            from backstay.ports import ModelReply
            from backstay.vocab.messages import Text

            text = text_of(request.messages[-1].parts)
            if "Is this fine?" in text or "Is the work done?" in text:
                asked.append(text[:12])
                yield ModelReply(parts=(Text(text='{"ok": true}'),))
                return
            async for item in self._model.ask(request):
                yield item

    model = Both()
    settings = settings_with(entry, tmp_path)
    async with talk(model=model, find=lambda name: model, tools=[look], settings=settings, cwd=tmp_path) as session:
        assert await session.run("Go.") == "Done."
    assert asked == ["Is this fine", "Is the work "]


@pytest.mark.contract("RB-110")
async def test_the_start_and_stop_of_a_child_are_heard_and_its_own_calls_too() -> None:
    from backstay.session.subagents import child_tool

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
