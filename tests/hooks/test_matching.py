"""Matchers in their three forms, and `if`."""

import time
from collections.abc import Mapping

import pytest

from backstay.hooks.events import EVENTS
from backstay.hooks.matching import fits, matcher_warning, near_misses, select
from backstay.hooks.safe_pattern import LONGEST_TEXT, compile_matcher
from backstay.hooks.spec import CommandHook, HookSpec, make_spec
from tests.hooks.kit import command, one


@pytest.mark.parametrize("matcher", ["", "*"])
def test_an_empty_matcher_or_a_star_is_about_everything(matcher: str) -> None:
    assert fits("PreToolUse", matcher, "Bash")
    assert fits("PreToolUse", matcher, "mcp__memory__read")


@pytest.mark.parametrize(
    ("matcher", "value", "due"),
    [
        ("Bash", "Bash", True),
        ("Bash", "bash", False),
        ("Bash", "BashOutput", False),
        ("Edit|Write", "Write", True),
        ("Edit, Write", "Write", True),
        ("Edit , Write|Read", "Read", True),
        ("Edit|Write", "NotebookEdit", False),
        ("Bash|", "Bash", True),
        ("my-tool_2", "my-tool_2", True),
        ("mcp__memory", "mcp__memory__read", False),
        ("mcp__memory__.*", "mcp__memory__read", True),
        ("mcp__.*__write.*", "mcp__files__write_file", True),
        ("^Bash$", "Bash", True),
        ("^Bash$", "Bash\n", False),
        ("Notebook.*", "NotebookEdit", True),
        ("Edit.?", "MultiEdit", True),
        (".*", "anything", True),
        ("Bash(git *)", "Bash", False),
        ("^(?!Bash)", "Read", True),
        ("^(?!Bash)", "Bash", False),
    ],
)
def test_a_name_list_is_exact_and_a_pattern_matches_anywhere(matcher: str, value: str, due: bool) -> None:
    assert fits("PreToolUse", matcher, value) is due


def test_two_events_read_a_hyphen_or_a_blank_as_a_pattern() -> None:
    assert fits("StopFailure", "rate-limit", "a rate-limit of sorts")
    assert not fits("Notification", "rate-limit", "a rate-limit of sorts")


@pytest.mark.parametrize("event", [name for name, event in EVENTS.items() if not event.matcher_field])
def test_events_without_a_word_ignore_matchers(event: str) -> None:
    assert fits(event, "Nothing", "")
    assert "takes no matcher" in matcher_warning(event, "Nothing")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"^(?<kind>a|b)x$", "ax", "a"),
        (r"a\/b", "a/b", "ab"),
        (r"^mcp__(?:files|notes)__(?:read|list)_.{1,20}$", "mcp__notes__read_x", "mcp__notes__read_"),
        (r".*(Edit|Write)?.*Tool", "xEditTool", "Edit"),
        (r"[^\w\]]$", "-", "]"),
        (r"x$", "x", "x\n"),
        (r"[\w.-]+@", "a.b-c@", "@"),
        (r"\d", "1", "\N{ARABIC-INDIC DIGIT ONE}"),
        (r"(?:a|b)(?=c)(?<!x)", "ac", "ad"),
    ],
)
def test_patterns_mean_what_they_mean_in_javascript(pattern: str, yes: str, no: str) -> None:
    assert bool(compile_matcher(pattern).search(yes)) is bool(yes)
    assert not compile_matcher(pattern).search(no)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "a\\",
        "*a",
        "(?P<x>a)",
        "(?i)a",
        "(?>a)",
        "a++",
        "a*+",
        r"\p{L}",
        r"\u{41}",
        "[a--b]",
        "a" * 1001,
        "(?#x)",
        "a)",
        r"^(?<kind>a|b)\k<kind>$",
        r"(a)\1",
        "[^]x",
        "a[]b",
        r"\Ax",
        r"\x41\u0042",
        "[a&&b]",
        "[[]",
        "x{,2}",
        r"\cJ",
        r"[\b]",
    ],
)
def test_what_is_not_read_alike_everywhere_is_said(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compile_matcher(pattern)


CATASTROPHES = (
    "^(a+)+$",
    "(a*)*b",
    "(a|a)*b",
    "(a|ab)*c",
    "(?:a?){40}b",
    "a*a*a*a*a*b",
    ".*a.*a.*a.*a.*x",
    "a?" * 30 + "a" * 30,
    "(a|a)" * 30 + "b",
    "(?:(?:(?:a{900}){900}){900}){900}",
    "(?=(a+)+b)a",
    "((a{1,9}){1,9}){1,9}b",
)


@pytest.mark.parametrize("matcher", CATASTROPHES)
def test_sec_l6_a_matcher_that_could_take_for_ever_is_refused(matcher: str) -> None:
    with pytest.raises(ValueError, match=r"for ever|too many ways"):
        compile_matcher(matcher)
    assert fits("PreToolUse", matcher, "a" * 200 + "!")
    assert not fits("PostToolUse", matcher, "a" * 200 + "!")


@pytest.mark.parametrize(
    "matcher", ["a.*a.*b", "^a*a*a*b", "(a|b)?a*a*c", "[ab]{2,200}a+c$", "a+.{200}b", "(?:a|a)(?:a|a)a*b$"]
)
def test_sec_l6_the_slowest_matchers_that_are_taken_end_soon(matcher: str) -> None:
    began = time.process_time()
    assert not compile_matcher(matcher).search("a" * LONGEST_TEXT)
    assert time.process_time() - began < 10


def test_a_matcher_that_cannot_be_read_is_about_everything_where_hooks_stand_guard() -> None:
    assert fits("PreToolUse", "Bash(", "Read")
    assert fits("PermissionRequest", "Bash(", "Read")
    assert fits("PreToolUse", " | ", "Read")
    assert not fits("PostToolUse", "Bash(", "Read")


def test_a_word_without_end_is_not_searched() -> None:
    assert fits("PreToolUse", "^(a+)+$", "a" * 600 + "!")
    assert not fits("Notification", "^(a+)+$", "a" * 600 + "!")


@pytest.mark.parametrize(
    ("matcher", "value"),
    [("Task", "Agent"), ("Edit|Write", "apply_patch"), ("^(Edit|Write)$", "apply_patch"), ("Edit", "MultiEdit")],
)
def test_a_guard_over_a_tool_holds_for_other_names_of_what_it_does(matcher: str, value: str) -> None:
    assert fits("PreToolUse", matcher, value)


def test_an_event_without_a_moment_and_another_event_are_never_due() -> None:
    assert not select([make_spec("FileChanged", CommandHook(command="x"))], "FileChanged", "a.py")
    assert not select([command("Stop")], "SubagentStop")


def test_if_is_asked_with_the_rule_the_tool_and_the_arguments() -> None:
    spec = one({"type": "command", "command": "x", "if": "Bash(git push *)"}, matcher="Bash")
    seen: list[tuple[str, str, Mapping[str, object]]] = []

    def rule_matches(rule: str, tool: str, args: Mapping[str, object]) -> bool:
        seen.append((rule, tool, args))
        return args["command"] == "git push -f"

    def due(text: str) -> bool:
        return bool(select([spec], "PreToolUse", "Bash", args={"command": text}, rule_matches=rule_matches))

    assert due("git push -f")
    assert not due("ls")
    assert seen == [("Bash(git push *)", "Bash", {"command": text}) for text in ("git push -f", "ls")]
    assert select([spec], "PreToolUse", "Bash", args={})
    assert not select([spec], "PreToolUse", "Read", args={}, rule_matches=lambda *_: True)


def test_the_same_handler_runs_once_whoever_wrote_it() -> None:
    person = make_spec("PreToolUse", CommandHook(command="log"), matcher="Bash", source="person")
    project = make_spec("PreToolUse", CommandHook(command="log"), matcher="*", source="project")

    assert select((person, project), "PreToolUse", "Bash") == (person,)


@pytest.mark.parametrize(
    "other",
    [
        make_spec("PreToolUse", CommandHook(command="guard", background=True)),
        make_spec("PreToolUse", CommandHook(command="guard"), timeout=0.001),
        make_spec("PreToolUse", CommandHook(command="guard"), on_failure="continue"),
        make_spec("PreToolUse", CommandHook(command="guard", env=(("PATH", "/evil"),))),
        make_spec("PreToolUse", CommandHook(command="guard"), source="plugin", root="/p"),
        command(doubt="?"),
    ],
    ids=lambda spec: str(spec.handler),
)
def test_a_guard_is_not_taken_for_one_that_only_looks_like_it(other: HookSpec) -> None:
    guard = command()

    assert select((other, guard), "PreToolUse", "Bash") == (other, guard)


def test_near_misses_are_those_that_differ_in_case_or_lack_the_end_of_a_name() -> None:
    specs = [command(matcher=matcher) for matcher in ("bash", "BASH|Read", "^bash$", "mcp__memory", "Edit", "Bash")]

    assert [spec.matcher for spec in near_misses(specs, "PreToolUse", "Bash")] == ["bash", "BASH|Read", "^bash$"]
    assert [spec.matcher for spec in near_misses(specs, "PreToolUse", "mcp__memory__read")] == ["mcp__memory"]
