"""What a hook's end means: exit codes, JSON, plain text, failures."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from backstay.hooks.events import EVENTS
from backstay.hooks.merge import HookAnswer
from backstay.hooks.output import read_answer, read_ok
from backstay.hooks.spec import make_spec
from tests.hooks.kit import about_call, command, said

MOMENTS = [name for name, event in EVENTS.items() if event.fires]


@pytest.mark.parametrize("event", MOMENTS)
def test_exit_0_without_a_word_is_no_objection_and_no_permission(event: str) -> None:
    spec = command(event)

    assert read_answer(event, spec=spec) == HookAnswer(hook=spec.id, event=event, label="guard")


@pytest.mark.parametrize("event", MOMENTS)
def test_plain_text_is_context_only_where_the_convention_says_so(event: str) -> None:
    answer = read_answer(event, spec=command(event), stdout=" The build is broken.\n")

    told = event in ("UserPromptSubmit", "SessionStart")
    assert answer == HookAnswer(
        hook=answer.hook, event=event, label="guard", context="The build is broken." if told else ""
    )


@pytest.mark.parametrize(
    ("value", "decision"), [("allow", "allow"), ("deny", "deny"), ("ask", "ask"), ("defer", "ask"), (None, None)]
)
def test_rb_w50_a_decision_about_a_call_is_taken(value: str | None, decision: str | None) -> None:
    answer = said("PreToolUse", about_call(permissionDecision=value, permissionDecisionReason="why"))

    assert answer.decision == decision
    assert answer.blocked is (decision == "deny")
    assert answer.reason == ("why" if value else "")
    assert answer.failed == ""


def test_rb_w50_other_arguments_are_taken_whole_with_or_without_a_decision() -> None:
    with_decision = said("PreToolUse", about_call(permissionDecision="allow", updatedInput={"command": "ls"}))
    without = said("PreToolUse", about_call(updatedInput={"command": "ls"}))
    denied = said("PreToolUse", about_call(permissionDecision="deny", updatedInput={"command": "ls"}))

    assert (with_decision.decision, with_decision.args) == ("allow", '{"command":"ls"}')
    assert (without.decision, without.args) == (None, '{"command":"ls"}')
    assert (denied.decision, denied.args) == ("deny", "")


def test_rb_w50_a_prompt_can_be_blocked() -> None:
    answer = said("UserPromptSubmit", {"decision": "block", "reason": "no secrets"})

    assert (answer.blocked, answer.reason, answer.decision) == (True, "no secrets", None)


@pytest.mark.parametrize(("old", "decision"), [("approve", "allow"), ("block", "deny")])
def test_the_old_names_of_decisions_still_count(old: str, decision: str) -> None:
    answer = said("PreToolUse", {"decision": old, "reason": "why"})

    assert (answer.decision, answer.reason) == (decision, "why")


def test_of_an_old_and_a_new_decision_the_stricter_counts() -> None:
    assert said("PreToolUse", {"decision": "block", **about_call(permissionDecision="allow")}).decision == "deny"
    assert said("PreToolUse", {"decision": "approve", **about_call(permissionDecision="ask")}).decision == "ask"


INVALID: list[object] = [
    about_call(permissionDecision="yes"),
    about_call(permissionDecision="Allow"),
    about_call(permissionDecision=True),
    about_call(permissionDecision=["allow"]),
    about_call(permissionDecision="allow", updatedInput="ls"),
    about_call(permissionDecision="allow", updatedInput=["ls"]),
    about_call(permissionDecision="allow", permissionDecisionReason=7),
    about_call(permissionDecision="allow", additionalContext={}),
    {"hookSpecificOutput": {"hookEventName": "PostToolUse", "permissionDecision": "allow"}},
    {"hookSpecificOutput": "allow"},
    {"permissionDecision": "allow"},
    {"updatedInput": {"command": "ls"}},
    {"decision": "allow"},
    {"decision": "yes"},
    {"decision": True},
    {"decision": {"behavior": "allow"}},
    {"continue": "false"},
    {"continue": 0},
    {"continue": 1},
    {"decision": "approve", "systemMessage": 7},
]


@pytest.mark.parametrize("content", INVALID)
def test_what_is_not_valid_refuses_and_is_never_a_yes(content: object) -> None:
    closed = said("PreToolUse", content)
    opened = said("PreToolUse", content, on_failure="continue")

    assert (closed.decision, closed.blocked) == ("deny", True)
    assert closed.failed
    assert (opened.decision, opened.blocked, opened.args, opened.stops) == (None, False, "", False)
    assert opened.failed
    assert "failed" in opened.notes[-1]


@pytest.mark.parametrize(
    "content",
    [
        {"decision": "block", "reason": 7},
        {"decision": "block", "continue": "yes"},
        {"permissionDecision": "deny", "permissionDecisionReason": "no"},
        {"decision": "allow", **about_call(permissionDecision="deny")},
        about_call(permissionDecision="deny", updatedInput="x"),
    ],
)
def test_a_refusal_that_was_understood_stands_among_mistakes(content: object) -> None:
    assert said("PreToolUse", content, on_failure="continue").decision == "deny"


def test_a_wish_to_ask_stands_among_mistakes() -> None:
    content = about_call(permissionDecision="ask", updatedInput="x", permissionDecisionReason="hm")

    answer = said("PreToolUse", content, on_failure="continue")

    assert (answer.decision, answer.reason, answer.args) == ("ask", "hm", "")


@pytest.mark.parametrize(
    "stdout",
    [
        "{",
        '{"decision": "block"',
        '{"decision": "block"}}',
        '{"decision": "approve"}\n{"decision": "block"}',
        "{'decision': 'approve'}",
        '{"a": NaN}',
        '{"a":' * 5000,
        'Welcome!\n{"decision": "approve"}',
        'hello\n  {"hookSpecificOutput": {"permissionDecision": "deny"}}',
    ],
)
def test_output_that_is_half_an_answer_is_a_failure_where_hooks_stand_guard(stdout: str) -> None:
    for event in ("PreToolUse", "UserPromptSubmit"):
        answer = read_answer(event, spec=command(event), stdout=stdout)
        assert answer.blocked
        assert answer.failed
    assert read_answer("SessionStart", spec=command("SessionStart"), stdout=stdout).failed == ""


@pytest.mark.parametrize("stdout", ["[]", "true", "hello {", "json: {}", "x\n{y}", 'a "decision": "block"'])
def test_other_text_is_only_text(stdout: str) -> None:
    answer = read_answer("PreToolUse", spec=command(), stdout=stdout)

    assert (answer.decision, answer.failed, answer.notes) == (None, "", ())


def test_a_byte_order_mark_and_blanks_before_json_do_no_harm() -> None:
    answer = read_answer("PreToolUse", spec=command(), stdout='\ufeff \n\t{"decision": "block"}\n')

    assert (answer.decision, answer.reason) == ("deny", "A hook of PreToolUse refused.")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_an_answer_in_another_encoding_is_a_failure_where_hooks_decide(encoding: str) -> None:
    stdout = '{"decision": "block"}'.encode(encoding).decode("utf-8", "replace")

    assert read_answer("PreToolUse", spec=command(), stdout=stdout).decision == "deny"
    assert read_answer("SessionStart", spec=command(event="SessionStart"), stdout=stdout).failed == ""


@pytest.mark.parametrize("stdout", ['{"decision": "approve"}', "log " * 99])
def test_output_that_was_cut_is_a_failure_where_hooks_decide(stdout: str) -> None:
    assert read_answer("PreToolUse", spec=command(), stdout=stdout, cut=True).decision == "deny"
    assert read_answer("SessionStart", spec=command(event="SessionStart"), stdout="log " * 99, cut=True).failed == ""


@pytest.mark.parametrize(
    "stdout",
    [
        '\0{"decision": "block"}',
        '\x1b[0m{"decision": "block"}',
        'Verdict: {"hookSpecificOutput": {"permissionDecision": "deny"}}',
        'checked\n{\n  "decision": "block"\n}',
        "{\n" * 2_000 + '"decision"',
        "a {\n" * 2_000 + '{"decision": "block"}',
    ],
)
def test_an_answer_behind_anything_else_is_a_failure(stdout: str) -> None:
    answer = read_answer("PreToolUse", spec=command(), stdout=stdout)

    assert (answer.decision, bool(answer.failed)) == ("deny", True)


@pytest.mark.parametrize(
    "stdout",
    [
        '{"decision": "block", "decision": "approve"}',
        '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecision": "allow"}}',
        '{"continue": false, "continue": true}',
    ],
)
def test_an_answer_that_says_something_twice_is_a_failure(stdout: str) -> None:
    answer = read_answer("PreToolUse", spec=command(), stdout=stdout)

    assert (answer.decision, "twice" in answer.failed) == ("deny", True)


def test_a_model_that_says_something_twice_has_not_answered() -> None:
    assert read_ok("PreToolUse", '{"ok": false, "ok": true}', spec=command()).decision == "deny"


@pytest.mark.parametrize("event", MOMENTS)
def test_exit_2_does_what_the_event_allows(event: str) -> None:
    spec = command(event)

    answer = read_answer(event, spec=spec, exit_code=2, stderr="no!\n")

    base = HookAnswer(hook=spec.id, event=event, label="guard")
    match EVENTS[event].exit_2:
        case "blocks" if event == "PreToolUse":
            assert answer == replace(base, decision="deny", blocked=True, reason="no!")
        case "blocks":
            assert answer == replace(base, blocked=True, reason="no!")
        case "model":
            assert answer == replace(base, blocked=True, reason="no!", context="no!")
        case "person":
            assert answer == replace(base, notes=("guard: no!",))
        case _:
            assert answer == replace(base, notes=(f"guard: no! (exit 2 refuses nothing at {event})",))


def test_exit_2_beats_json_that_allows_and_takes_its_reason() -> None:
    allowing = about_call(permissionDecision="allow", permissionDecisionReason="fine", updatedInput={"command": "x"})

    answer = said("PreToolUse", allowing, exit_code=2)
    broken = read_answer("PreToolUse", spec=command(), exit_code=2, stdout="{", stderr="no")

    assert (answer.decision, answer.reason, answer.args) == ("deny", "fine", "")
    assert (broken.decision, broken.reason) == ("deny", "no")


def test_exit_2_does_not_undo_a_refusal_where_it_means_nothing_itself() -> None:
    denial = {"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "no"}}}
    permission = {"hookSpecificOutput": {"decision": {"behavior": "allow"}}}

    assert said("PermissionRequest", denial, exit_code=2).decision == "deny"
    assert said("PermissionRequest", permission, exit_code=2).decision is None


@pytest.mark.parametrize("exit_code", [1, 3, 126, 127, 255])
def test_with_another_exit_code_valid_json_decides(exit_code: int) -> None:
    assert said("PreToolUse", about_call(permissionDecision="allow"), exit_code=exit_code).decision == "allow"
    assert said("PreToolUse", about_call(permissionDecision="deny"), exit_code=exit_code).decision == "deny"


def test_whoever_was_killed_allows_nothing_and_may_have_refused() -> None:
    assert said("PreToolUse", about_call(permissionDecision="allow"), exit_code=-9).decision == "deny"
    allowed = said("PreToolUse", about_call(permissionDecision="allow"), exit_code=-9, on_failure="continue")
    denied = said("PreToolUse", about_call(permissionDecision="deny"), exit_code=-9, on_failure="continue")
    assert (allowed.decision, denied.decision) == (None, "deny")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"exit_code": 1, "stderr": "boom"}, "exit 1: boom"),
        ({"exit_code": 1, "stdout": "text"}, "exit 1"),
        ({"exit_code": 126}, "exit 126 (it cannot be executed)"),
        ({"exit_code": 127}, "exit 127 (it was not found)"),
        ({"exit_code": -11}, "killed by signal 11"),
        ({"timed_out": True}, "longer than 60 seconds"),
        ({"failed": "it could not be started"}, "could not be started"),
        ({"timed_out": True, "stdout": '{"decision": "approve"}'}, "longer than"),
        ({"failed": "status 500", "stdout": '{"decision": "approve"}'}, "status 500"),
    ],
)
@pytest.mark.parametrize("event", MOMENTS)
def test_rb_w12_a_failure_refuses_where_hooks_stand_guard(event: str, how: dict[str, object], words: str) -> None:
    usual, opened, closed = (
        read_answer(event, spec=make_spec(event, command().handler, timeout=60, on_failure=each), **how)  # type: ignore[arg-type]  # a table
        for each in (None, "continue", "block")
    )

    guards = event in ("PreToolUse", "UserPromptSubmit", "PreModelSwitch")
    assert usual.blocked is guards
    assert (opened.blocked, opened.decision, opened.context, opened.stops) == (False, None, "", False)
    assert closed.blocked is bool(EVENTS[event].decides)
    assert all(words in each.failed and words in each.notes[-1] for each in (usual, opened, closed))
    assert (words in closed.reason) is closed.blocked


def test_a_failed_guard_may_be_passed_over_when_somebody_said_so() -> None:
    answer = read_answer("PreToolUse", spec=command(on_failure="continue"), timed_out=True)

    assert (answer.decision, answer.blocked) == (None, False)
    assert "was passed over" in answer.notes[0]


@given(
    event=st.sampled_from(MOMENTS),
    stdout=st.one_of(
        st.text(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.sampled_from(["allow", "deny", "block", "approve", "x"]),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "decision",
                            "hookSpecificOutput",
                            "permissionDecision",
                            "updatedInput",
                            "behavior",
                            "continue",
                            "reason",
                        ]
                    ),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=8,
        ).map(json.dumps),
    ),
    exit_code=st.sampled_from([0, 1, 2, 127, -9]),
)
def test_no_output_whatever_raises_and_only_a_plain_yes_allows(event: str, stdout: str, exit_code: int) -> None:
    answer = read_answer(event, spec=command(event), exit_code=exit_code, stdout=stdout)

    if answer.decision == "allow":
        assert exit_code in (0, 1, 127)
        assert '"allow"' in stdout or '"approve"' in stdout
    if exit_code == 2 and EVENTS[event].exit_2 == "blocks":
        assert answer.blocked or answer.stops
