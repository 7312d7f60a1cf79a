"""The JSON that hooks of each event answer with, and what a model answers."""

import json

import pytest

from backstay.hooks.events import EVENTS
from backstay.hooks.output import CONTEXT, is_ok_form, read_answer, read_ok
from backstay.hooks.spec import AgentHook, PromptHook, make_spec
from tests.hooks.kit import about_call, command, said

MOMENTS = [name for name, event in EVENTS.items() if event.fires]


@pytest.mark.parametrize(
    ("event", "decision", "blocked"),
    [
        ("PreToolUse", "deny", True),
        ("PermissionRequest", "deny", True),
        ("UserPromptSubmit", None, True),
        ("PreCompact", None, True),
        ("PostToolUse", None, False),
        ("Stop", None, False),
        ("SubagentStop", None, False),
        ("SessionStart", None, False),
    ],
)
def test_whoever_says_continue_false_ends_the_turn(event: str, decision: str | None, blocked: bool) -> None:
    answer = said(event, {"continue": False, "stopReason": "enough", "decision": "block", "reason": "other"})

    assert (answer.stops, answer.reason, answer.decision, answer.blocked) == (True, "enough", decision, blocked)


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolBatch", "Stop", "SubagentStop", "PreCompact"])
def test_a_step_can_be_blocked(event: str) -> None:
    answer = said(event, {"decision": "block", "reason": "no"})

    assert (answer.blocked, answer.reason, answer.context) == (True, "no", "")


@pytest.mark.parametrize("event", ["PostToolUse", "PostToolUseFailure"])
def test_what_is_wrong_with_a_result_is_told_to_the_model(event: str) -> None:
    answer = said(event, {"decision": "block", "reason": "no", "hookSpecificOutput": {"additionalContext": "see x"}})

    assert (answer.blocked, answer.reason, answer.context) == (True, "no", "no\nsee x")


@pytest.mark.parametrize(("value", "text"), [("short", "short"), ({"a": 1}, '{"a":1}'), ([], "[]"), ("", "")])
@pytest.mark.parametrize("name", ["updatedToolOutput", "updatedMCPToolOutput"])
def test_the_output_of_a_tool_can_be_replaced(name: str, value: object, text: str) -> None:
    assert said("PostToolUse", {"hookSpecificOutput": {name: value}}).output == text


@pytest.mark.parametrize("event", [name for name in MOMENTS if EVENTS[name].context])
def test_context_is_taken_where_the_model_can_be_told(event: str) -> None:
    answer = said(event, {"hookSpecificOutput": {"hookEventName": event, "additionalContext": "by the way"}})

    assert answer.context == "by the way"
    assert answer.blocked is (event in ("Stop", "SubagentStop"))


def test_context_and_reasons_are_bounded() -> None:
    long = "x" * (CONTEXT + 5)

    answers = [
        said("SessionStart", {"hookSpecificOutput": {"additionalContext": long}}).context,
        read_answer("SessionStart", spec=command("SessionStart"), stdout=long).context,
        read_answer("PreToolUse", spec=command(), exit_code=2, stderr=long).reason,
        said("Stop", {"decision": "block", "reason": long}).reason,
    ]

    assert answers == ["x" * CONTEXT + "\n[5 characters are left out here]"] * 4


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ({"behavior": "allow"}, ("allow", False, "", "", False)),
        ({"behavior": "allow", "updatedInput": {"a": 1}}, ("allow", False, "", '{"a":1}', False)),
        ({"behavior": "deny", "message": "no"}, ("deny", True, "no", "", False)),
        ({"behavior": "deny", "message": "no", "interrupt": True}, ("deny", True, "no", "", True)),
        (
            {"behavior": "deny", "updatedInput": {"a": 1}},
            ("deny", True, "A hook of PermissionRequest refused.", "", False),
        ),
        ({"behavior": "allow", "interrupt": True}, ("allow", False, "", "", False)),
    ],
)
def test_a_request_for_permission_is_answered(decision: object, expected: tuple[object, ...]) -> None:
    answer = said("PermissionRequest", {"hookSpecificOutput": {"decision": decision}})

    assert (answer.decision, answer.blocked, answer.reason, answer.args, answer.stops) == expected


@pytest.mark.parametrize(
    "decision", ["allow", {"behavior": "yes"}, {}, [], {"behavior": None}, {"behavior": ["allow"]}]
)
def test_an_invalid_answer_to_a_request_leaves_it_to_the_person(decision: object) -> None:
    answer = said("PermissionRequest", {"hookSpecificOutput": {"decision": decision}})

    assert (answer.decision, answer.blocked) == (None, False)
    assert answer.failed


def test_a_hook_cannot_grant_more_than_the_call() -> None:
    grant = [{"type": "setMode", "mode": "bypassPermissions", "destination": "session"}]
    decision = {"behavior": "allow", "updatedPermissions": grant}

    answer = said("PermissionRequest", {"hookSpecificOutput": {"decision": decision}})

    assert answer.decision == "allow"
    assert "updatedPermissions has no effect" in answer.notes[0]


def test_a_denied_call_may_be_tried_again_when_a_hook_says_so() -> None:
    assert "may be tried again" in said("PermissionDenied", {"hookSpecificOutput": {"retry": True}}).context


def test_a_message_is_for_the_person() -> None:
    assert said("Stop", {"systemMessage": "hello", "suppressOutput": True}).notes == ("hello",)


def test_a_hook_whose_matcher_cannot_be_read_may_refuse_and_not_allow() -> None:
    spec = command(doubt="?")

    allowed, rewritten, denied = (
        read_answer("PreToolUse", spec=spec, stdout=json.dumps(about_call(**fields)))
        for fields in (
            {"permissionDecision": "allow"},
            {"permissionDecision": "ask", "updatedInput": {"a": 1}},
            {"permissionDecision": "deny"},
        )
    )

    assert (allowed.decision, allowed.args) == (None, "")
    assert (rewritten.decision, rewritten.args) == ("ask", "")
    assert denied.decision == "deny"


@pytest.mark.parametrize(
    "text",
    ['{"ok": true}', ' {"ok": true, "reason": "fine"}\n', '```json\n{"ok": true}\n```', '```\n{"ok": true}```'],
)
def test_a_model_that_says_ok_objects_to_nothing_and_permits_nothing(text: str) -> None:
    spec = make_spec("PreToolUse", PromptHook(prompt="?"))

    answer = read_ok("PreToolUse", text, spec=spec)

    assert (answer.decision, answer.blocked, answer.failed) == (None, False, "")


@pytest.mark.parametrize(
    ("event", "continues", "expected"),
    [
        ("PreToolUse", False, ("deny", True, False, "")),
        ("Stop", False, (None, True, False, "")),
        ("UserPromptSubmit", False, (None, True, True, "")),
        ("UserPromptSubmit", True, (None, True, False, "")),
        ("PostToolUse", False, (None, False, True, "")),
        ("PostToolUse", True, (None, True, False, "bad")),
        ("Notification", False, (None, False, False, "")),
    ],
)
def test_a_model_that_says_no_refuses(event: str, continues: bool, expected: tuple[object, ...]) -> None:
    spec = make_spec(event, PromptHook(prompt="?", continues=continues))

    answer = read_ok(event, '{"ok": false, "reason": "bad"}', spec=spec)

    assert (answer.decision, answer.blocked, answer.stops, answer.context) == expected
    assert answer.reason == "bad"


def test_a_turn_that_cannot_be_finished_is_not_kept_going() -> None:
    answer = read_ok("Stop", '{"ok": false, "reason": "no disk", "impossible": true}', spec=command("Stop"))

    assert (answer.blocked, answer.notes) == (False, ("no disk",))


@pytest.mark.parametrize(
    "text", ["", "ok", "true", '{"ok": "yes"}', '{"ok": 1}', "{}", '{"ok": true', 'Sure: {"ok": true}']
)
def test_a_model_that_says_something_else_has_failed(text: str) -> None:
    spec = make_spec("PreToolUse", AgentHook(prompt="?"))

    answer = read_ok("PreToolUse", text, spec=spec)

    assert answer.decision == "deny"
    assert "is not like" in answer.failed


def test_the_form_of_a_model_is_told_from_that_of_a_program() -> None:
    assert is_ok_form('{"ok": false}')
    assert not is_ok_form('{"ok": true, "decision": "block"}')
    assert not is_ok_form("ok")


@pytest.mark.parametrize(
    ("event", "content"),
    [
        ("PreToolUse", {"hook_specific_output": {"permissionDecision": "deny"}}),
        ("PreToolUse", {"hookSpecificOutput": {"permission_decision": "deny"}}),
        ("PreToolUse", {"hookSpecificOutput": {"decision": "block"}}),
        ("PreToolUse", {"Continue": False}),
        ("UserPromptSubmit", {"hookSpecificOutput": {"permissionDecision": "deny"}}),
        ("UserPromptSubmit", {"hookSpecificOutput": {"decision": "block", "reason": "no"}}),
    ],
)
def test_a_guard_whose_denial_is_misspelled_or_misplaced_refuses(event: str, content: dict[str, object]) -> None:
    answer = said(event, content)

    assert (answer.blocked, "it decides nothing here" in answer.failed) == (True, True)
