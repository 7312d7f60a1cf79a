"""The `hooks` of settings files, as people have them."""

import pytest

from backstay.hooks.events import EVENTS
from backstay.hooks.settings import read_hooks
from backstay.hooks.spec import AgentHook, BrokenHook, CommandHook, Handler, HttpHook, PromptHook, make_spec
from tests.hooks.kit import one

ENTRY = {"type": "command", "command": "x"}


def test_a_command_is_read_with_all_of_its_fields() -> None:
    section = {
        "PreToolUse": [
            {
                "matcher": "Bash|Edit",
                "hooks": [
                    {
                        "type": "command",
                        "command": "guard",
                        "args": ["--strict", ""],
                        "shell": "bash",
                        "timeout": 30,
                        "if": "Bash(git push *)",
                        "statusMessage": "looking",
                        "async": False,
                        "asyncRewake": False,
                        "onFailure": "continue",
                        "something": "newer",
                    }
                ],
            }
        ]
    }

    specs, warnings = read_hooks(section, source="project", root="/p")

    expected = make_spec(
        "PreToolUse",
        CommandHook(command="guard", args=("--strict", "")),
        matcher="Bash|Edit",
        if_rule="Bash(git push *)",
        timeout=30,
        on_failure="continue",
        source="project",
        root="/p",
        where="hooks.PreToolUse[0].hooks[0]",
        status="looking",
    )
    assert (specs, warnings) == ((expected,), ())


@pytest.mark.parametrize(
    ("entry", "handler"),
    [
        (ENTRY, CommandHook(command="x")),
        ({"command": "x"}, CommandHook(command="x")),
        ({**ENTRY, "args": []}, CommandHook(command="x", args=())),
        ({**ENTRY, "shell": "powershell"}, CommandHook(command="x", shell="powershell")),
        ({**ENTRY, "async": True}, CommandHook(command="x", background=True)),
        ({**ENTRY, "asyncRewake": True}, CommandHook(command="x", background=True, wakes=True)),
        ({"url": "http://localhost:8080/hook"}, HttpHook(url="http://localhost:8080/hook")),
        (
            {"type": "http", "url": "https://h/x", "headers": {"X-A": "Bearer $T"}, "allowedEnvVars": ["T"]},
            HttpHook(url="https://h/x", headers=(("X-A", "Bearer $T"),), env_names=("T",)),
        ),
        (
            {"type": "prompt", "prompt": "ok? $ARGUMENTS", "model": "m", "continueOnBlock": True},
            PromptHook(prompt="ok? $ARGUMENTS", model="m", continues=True),
        ),
        ({"type": "agent", "prompt": "look"}, AgentHook(prompt="look")),
        ({"type": "agent", "agent": "reviewer", "maxTurns": 5}, AgentHook(agent="reviewer", max_turns=5)),
    ],
)
def test_every_type_of_handler_is_read(entry: object, handler: Handler) -> None:
    assert one(entry).handler == handler


@pytest.mark.parametrize(
    "value",
    [
        [{"hooks": [ENTRY]}],
        [{"matcher": None, "hooks": [ENTRY]}],
        [{"matcher": "", "hooks": [ENTRY]}],
        [{"hooks": ENTRY}],
        {"hooks": [ENTRY]},
        [ENTRY],
        ENTRY,
    ],
)
def test_rb_w50_a_matcher_may_be_missing_and_old_shapes_are_read(value: object) -> None:
    specs, warnings = read_hooks({"PreToolUse": value}, source="person")

    assert [(spec.handler, spec.matcher) for spec in specs] == [(CommandHook(command="x"), "")]
    assert warnings == ()


@pytest.mark.parametrize("event", [name for name, event in EVENTS.items() if event.fires])
def test_rb_w50_every_event_with_a_moment_is_taken(event: str) -> None:
    specs, warnings = read_hooks({event: [{"hooks": [ENTRY]}]}, source="person")

    assert [spec.event for spec in specs] == [event]
    assert warnings == ()


def test_the_file_of_a_plugin_has_its_hooks_one_level_deeper() -> None:
    specs, _ = read_hooks({"description": "d", "hooks": {"Stop": [{"hooks": [ENTRY]}]}}, source="plugin", root="/p")

    assert [(spec.event, spec.source, spec.root) for spec in specs] == [("Stop", "plugin", "/p")]


def test_a_group_sets_variables_for_its_handlers() -> None:
    specs, _ = read_hooks({"Stop": [{"hooks": [ENTRY], "env": {"A": "1"}}]}, source="person")

    assert specs[0].handler == CommandHook(command="x", env=(("A", "1"),))


@pytest.mark.parametrize(
    "section", [None, {}, [], "", {"PreToolUse": None}, {"PreToolUse": []}, {"Stop": [{"hooks": []}]}]
)
def test_nothing_is_nothing(section: object) -> None:
    assert read_hooks(section, source="person") == ((), ())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("PostToolUsed", "Did you mean 'PostToolUse'?"),
        ("permission_request", "Did you mean 'PermissionRequest'?"),
        ("SomethingNew", "not an event that this version knows; it is ignored."),
        ("disableAllHooks", "Write it beside `hooks`"),
        ("FileChanged", "no moment for FileChanged yet"),
    ],
)
def test_an_event_that_nobody_knows_is_said_and_ignored(name: str, words: str) -> None:
    specs, warnings = read_hooks({name: [{"hooks": [ENTRY]}], "Stop": [ENTRY]}, source="person")

    assert [spec.event for spec in specs] == ["Stop"]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"hooks.{name}: ")
    assert words in warnings[0]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PreToolUs", "PreToolUse"),
        ("pre_tool_use", "PreToolUse"),
        ("PretoolUse", "PreToolUse"),
        ("UserPromptSubmitted", "UserPromptSubmit"),
        ("PreModelSwich", "PreModelSwitch"),
    ],
)
def test_a_guard_of_a_mistyped_event_stays_as_one_that_fails(name: str, meant: str) -> None:
    group = {"matcher": "Bash", "hooks": [ENTRY, {**ENTRY, "onFailure": "continue"}, {**ENTRY, "async": True}]}
    (spec,), warnings = read_hooks({name: [group]}, source="person")

    assert (spec.event, spec.matcher, spec.on_failure) == (meant, "Bash", "block")
    assert isinstance(spec.handler, BrokenHook)
    assert spec.where == f"hooks.{name}[0].hooks[0]"
    assert f"Did you mean {meant!r}? Until the file is fixed, it fails whenever {meant} is due" in warnings[-1]


def test_a_mistyped_event_without_a_guard_is_ignored() -> None:
    specs, warnings = read_hooks({"PreToolUs": [{"hooks": [{**ENTRY, "onFailure": "continue"}]}]}, source="person")

    assert specs == ()
    assert "it is ignored. Did you mean 'PreToolUse'?" in warnings[0]


BROKEN: list[tuple[object, str, str]] = [
    ("x", "hooks.E", "not an object with `matcher`"),
    ([7], "hooks.E[0]", "not an object with `matcher`"),
    ([{"matcher": "Bash"}], "hooks.E[0]", "`hooks` is not a list"),
    ([{"hooks": "x"}], "hooks.E[0]", "`hooks` is not a list"),
    ([{"hooks": [ENTRY], "env": [1]}], "hooks.E[0]", "`env` is not an object"),
    ([{"hooks": ["x"]}], "hooks.E[0].hooks[0]", "not an object like"),
    ([{"hooks": [{}]}], "hooks.E[0].hooks[0]", "None is not a type"),
    ([{"hooks": [{"type": "guardrail"}]}], "hooks.E[0].hooks[0]", "'guardrail' is not a type"),
    ([{"hooks": [{"type": ["command"]}]}], "hooks.E[0].hooks[0]", "is not a type"),
    ([{"hooks": [{"type": "mcp_tool", "server": "s", "tool": "t"}]}], "hooks.E[0].hooks[0]", "not available yet"),
    ([{"hooks": [{"type": "command"}]}], "hooks.E[0].hooks[0]", "It has no `command`"),
    ([{"hooks": [{**ENTRY, "command": " "}]}], "hooks.E[0].hooks[0]", "command: ' ' is not a text"),
    ([{"hooks": [{**ENTRY, "command": "a\0b"}]}], "hooks.E[0].hooks[0]", "NUL"),
    ([{"hooks": [{**ENTRY, "args": "x"}]}], "hooks.E[0].hooks[0]", "args: 'x' is not a list of texts"),
    ([{"hooks": [{**ENTRY, "shell": "fish"}]}], "hooks.E[0].hooks[0]", "shell: 'fish'"),
    ([{"hooks": [{**ENTRY, "async": "yes"}]}], "hooks.E[0].hooks[0]", "async: 'yes' is neither true nor false"),
    ([{"hooks": [ENTRY], "env": {"A=B": "1"}}], "hooks.E[0].hooks[0]", "env: 'A=B'"),
    ([{"hooks": [{"type": "http", "url": "file:///etc/passwd"}]}], "hooks.E[0].hooks[0]", "is not an address"),
    ([{"hooks": [{"type": "http", "url": "http://h:x/"}]}], "hooks.E[0].hooks[0]", "is not an address"),
    ([{"hooks": [{"type": "http", "url": "http://h/\nx"}]}], "hooks.E[0].hooks[0]", "is not an address"),
    (
        [{"hooks": [{"type": "http", "url": "http://h/", "headers": {"A": "b\r\nC: d"}}]}],
        "hooks.E[0].hooks[0]",
        "the value of 'A' has characters",
    ),
    (
        [{"hooks": [{"type": "http", "url": "http://h/", "headers": {"A B": "c"}}]}],
        "hooks.E[0].hooks[0]",
        "'A B' cannot name a header",
    ),
    ([{"hooks": [{"type": "prompt"}]}], "hooks.E[0].hooks[0]", "It has no `prompt`"),
    ([{"hooks": [{"type": "agent"}]}], "hooks.E[0].hooks[0]", "needs a `prompt`"),
]


@pytest.mark.parametrize(("value", "where", "words"), BROKEN)
def test_a_broken_guard_stays_and_fails_closed_with_the_reason(value: object, where: str, words: str) -> None:
    specs, warnings = read_hooks({"PreToolUse": value}, source="person")

    where = where.replace(".E", ".PreToolUse")
    (spec,) = specs
    assert isinstance(spec.handler, BrokenHook)
    assert (spec.on_failure, spec.where) == ("block", where)
    assert words in spec.handler.problem
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{where}: ")
    assert words in warnings[0]


@pytest.mark.parametrize(("value", "where", "words"), BROKEN)
def test_a_broken_hook_that_guards_nothing_is_said_and_left_out(value: object, where: str, words: str) -> None:
    specs, warnings = read_hooks({"Notification": value}, source="person")

    assert specs == ()
    assert words in warnings[0]


def test_a_broken_entry_keeps_its_matcher_and_hurts_no_other() -> None:
    specs, _ = read_hooks({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "?"}, ENTRY]}]}, source="person")

    assert [(type(spec.handler), spec.matcher) for spec in specs] == [(BrokenHook, "Bash"), (CommandHook, "Bash")]


def test_a_broken_entry_obeys_its_own_word_about_failures() -> None:
    free = read_hooks({"PreToolUse": [{"hooks": [{"type": "?", "onFailure": "continue"}]}]}, source="person")
    bound = read_hooks({"PostToolUse": [{"hooks": [{"type": "?", "onFailure": "block"}]}]}, source="person")

    assert free.specs == ()
    assert [spec.on_failure for spec in bound.specs] == ["block"]


def test_a_section_that_is_no_object_refuses_every_call() -> None:
    (spec,), warnings = read_hooks(["x"], source="person")

    assert (spec.event, spec.matcher, type(spec.handler)) == ("PreToolUse", "", BrokenHook)
    assert warnings[0].startswith("hooks: ")


@pytest.mark.parametrize(
    ("entry", "matcher", "words"),
    [
        ({**ENTRY, "timeout": 0}, None, "timeout: 0 is not a number of seconds"),
        ({**ENTRY, "timeout": True}, None, "timeout: True is not"),
        ({**ENTRY, "timeout": "30"}, None, "timeout: '30' is not"),
        ({**ENTRY, "timeout": float("inf")}, None, "timeout: inf is not"),
        ({**ENTRY, "timeout": 5000}, None, "not in milliseconds"),
        ({**ENTRY, "onFailure": "ignore"}, None, "onFailure: 'ignore' is neither"),
        ({**ENTRY, "async": True}, None, "it decides nothing"),
        (ENTRY, "mcp__memory", "Write 'mcp__memory__.*'"),
        (ENTRY, "Bash(", "runs for everything"),
        (ENTRY, 7, "runs for everything"),
        ({**ENTRY, "if": "Bash(a) && Edit"}, None, "is not a permission rule"),
        ({**ENTRY, "if": 7}, None, "7 is not a text"),
    ],
)
def test_what_is_odd_is_said_and_the_guard_stays(entry: object, matcher: object, words: str) -> None:
    specs, warnings = read_hooks({"PreToolUse": [{"matcher": matcher, "hooks": [entry]}]}, source="person")

    assert [type(spec.handler) for spec in specs] == [CommandHook]
    assert specs[0].on_failure == "block"
    assert len(warnings) == 1
    assert words in warnings[0]


def test_what_cannot_be_read_makes_a_guard_doubtful() -> None:
    assert one(ENTRY, matcher="Bash(").doubt
    assert one({**ENTRY, "if": "(("}).doubt
    assert not one(ENTRY, matcher="Bash").doubt


def test_if_and_a_refusal_mean_nothing_where_there_is_no_call() -> None:
    entry = {**ENTRY, "if": "Bash", "onFailure": "block"}

    specs, warnings = read_hooks({"Notification": [{"hooks": [entry]}]}, source="person")

    assert specs[0].if_rule == ""
    assert ["`if` is ignored" in each or "Nothing can be refused" in each for each in warnings] == [True, True]


def test_an_identical_hook_is_read_once() -> None:
    assert len(read_hooks({"Stop": [{"hooks": [ENTRY, ENTRY]}, {"hooks": [ENTRY]}]}, source="person").specs) == 1
