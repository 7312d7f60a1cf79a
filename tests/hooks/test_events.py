"""The table of events."""

import pytest

from backstay.hooks.events import EVENTS
from backstay.hooks.payload import FIELDS, find_matcher_value, hook_input, sample_input
from backstay.hooks.spec import AgentHook, CommandHook, HttpHook, PromptHook, PythonHook, make_spec
from backstay.vocab.errors import Bug

NAMES = (
    "PreToolUse PostToolUse PostToolUseFailure PostToolBatch Notification UserPromptSubmit UserPromptExpansion "
    "SessionStart SessionEnd Stop StopFailure SubagentStart SubagentStop PreCompact PostCompact PreModelSwitch "
    "PostModelSwitch PermissionRequest PermissionDenied Setup TeammateIdle TaskCreated TaskCompleted Elicitation "
    "ElicitationResult ConfigChange WorktreeCreate WorktreeRemove InstructionsLoaded CwdChanged FileChanged "
    "DirectoryAdded MessageDisplay"
)
MOMENTS = (
    "SessionStart SessionEnd UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure PostToolBatch "
    "PermissionRequest PermissionDenied Stop StopFailure SubagentStart SubagentStop PreCompact PostCompact "
    "PreModelSwitch PostModelSwitch Notification"
)


def test_all_events_are_known_and_those_with_a_moment_have_an_input() -> None:
    assert sorted(EVENTS) == sorted(NAMES.split())
    assert sorted(name for name, event in EVENTS.items() if event.fires) == sorted(MOMENTS.split())
    assert sorted(FIELDS) == sorted(MOMENTS.split())


def test_exit_2_does_what_the_convention_says_of_each_event() -> None:
    of = {kind: sorted(name for name, event in EVENTS.items() if event.exit_2 == kind) for kind in ("model", "person")}
    person = "SubagentStart SessionStart Setup SessionEnd CwdChanged FileChanged PostCompact"
    ignored = "PermissionRequest PermissionDenied Notification StopFailure InstructionsLoaded MessageDisplay"

    assert of["model"] == ["PostToolUse", "PostToolUseFailure"]
    assert of["person"] == sorted(person.split())
    assert all(EVENTS[name].exit_2 == "ignored" for name in ignored.split())
    assert all(event.decides for event in EVENTS.values() if event.exit_2 == "blocks")


def test_guards_fail_closed_and_those_whose_refusal_helps_nobody_do_not() -> None:
    closed = [name for name, event in EVENTS.items() if event.on_failure == "block" and event.fires]

    assert sorted(closed) == ["PreModelSwitch", "PreToolUse", "UserPromptSubmit"]


def test_deciding_hooks_run_again_after_a_crash_and_watching_ones_never_do() -> None:
    again = {name for name, event in EVENTS.items() if event.reruns}

    assert again == {name for name, event in EVENTS.items() if event.fires and event.decides in ("call", "step")}


@pytest.mark.parametrize(
    ("event", "handler", "seconds"),
    [
        ("PreToolUse", CommandHook(command="x"), 600),
        ("PreToolUse", HttpHook(url="https://x"), 600),
        ("PreToolUse", PromptHook(prompt="x"), 30),
        ("Stop", AgentHook(prompt="x"), 60),
        ("Stop", PythonHook(name="x"), 60),
        ("UserPromptSubmit", CommandHook(command="x"), 30),
        ("SessionEnd", CommandHook(command="x"), 1.5),
    ],
)
def test_each_kind_has_its_usual_time(event: str, handler: CommandHook, seconds: float) -> None:
    assert make_spec(event, handler).timeout == seconds


def test_nobody_waits_long_for_the_end_of_a_session() -> None:
    assert make_spec("SessionEnd", CommandHook(command="x"), timeout=20).timeout == 20
    assert make_spec("SessionEnd", CommandHook(command="x"), timeout=600).timeout == 60


def test_an_id_stays_and_tells_hooks_apart() -> None:
    one = make_spec("Stop", CommandHook(command="x"), source="person")
    same = make_spec("Stop", CommandHook(command="x"), source="project", root="/elsewhere", where="hooks.Stop[7]")
    others = [
        make_spec("SubagentStop", CommandHook(command="x")),
        make_spec("Stop", CommandHook(command="y")),
        make_spec("Stop", CommandHook(command="x", args=())),
        make_spec("Stop", CommandHook(command="x"), timeout=3),
        make_spec("Stop", CommandHook(command="x"), on_failure="block"),
    ]

    assert one.id == same.id == "hook-" + one.id[5:]
    assert len({one.id, *(each.id for each in others)}) == 6


def test_the_input_of_a_call_has_the_names_that_scripts_know() -> None:
    told = hook_input(
        "PreToolUse",
        {
            "session_id": "s1",
            "transcript_path": "/t.jsonl",
            "cwd": "/w",
            "permission_mode": "plan",
            "agent_id": None,
            "tool_name": "Bash",
            "tool_input": {"command": "ls"},
            "tool_use_id": "c1",
        },
    )

    assert told == {
        "session_id": "s1",
        "transcript_path": "/t.jsonl",
        "cwd": "/w",
        "hook_event_name": "PreToolUse",
        "permission_mode": "plan",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": "c1",
    }


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("PostToolUse", "tool_name tool_input tool_use_id tool_response duration_ms"),
        ("PostToolUseFailure", "tool_name tool_input tool_use_id error is_interrupt duration_ms"),
        ("PostToolBatch", "tool_calls"),
        ("PermissionRequest", "tool_name tool_input permission_suggestions"),
        ("PermissionDenied", "tool_name tool_input tool_use_id reason"),
        ("UserPromptSubmit", "prompt source"),
        ("SessionStart", "source"),
        ("SessionEnd", "reason"),
        ("Stop", "stop_hook_active last_assistant_message background_tasks session_crons response"),
        ("StopFailure", "error reason"),
        ("SubagentStart", "agent_id agent_type"),
        (
            "SubagentStop",
            "stop_hook_active last_assistant_message background_tasks session_crons agent_id agent_type "
            "agent_transcript_path",
        ),
        ("PreCompact", "trigger custom_instructions"),
        ("PostCompact", "trigger compact_summary"),
        ("PreModelSwitch", "from_model to_model"),
        ("Notification", "message notification_type"),
    ],
)
def test_each_event_has_its_fields(event: str, fields: str) -> None:
    always = {"session_id", "transcript_path", "cwd", "hook_event_name"}

    assert hook_input(event, {}).keys() == always | set(fields.split())


def test_a_stop_hook_sees_the_beginning_of_the_answer_and_all_of_it() -> None:
    told = hook_input("Stop", {"last_assistant_message": "x" * 900})

    assert (told["response"], told["last_assistant_message"]) == ("x" * 500, "x" * 900)


def test_a_fact_without_a_field_is_a_mistake_of_the_program() -> None:
    with pytest.raises(Bug, match="tool_name"):
        hook_input("Stop", {"tool_name": "Bash"})


@pytest.mark.parametrize(
    ("event", "word"),
    [
        ("PreToolUse", "Bash"),
        ("SessionStart", "startup"),
        ("PreCompact", "manual"),
        ("Stop", ""),
        ("StopFailure", "unknown"),
    ],
)
def test_a_matcher_is_compared_with_a_field_of_the_input(event: str, word: str) -> None:
    assert find_matcher_value(event, sample_input(event, cwd="/w")) == word
