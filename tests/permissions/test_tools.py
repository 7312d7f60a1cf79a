"""Tools that the policy cannot look into, and names that are one tool or none."""

from typing import Any

import pytest

from backstay.permissions import spec_of
from backstay.vocab.specs import ToolSpec
from tests.permissions.desk import weighed

CALLS = [
    # servers
    ("mcp__github__get_issue", {}, {}, "ask"),
    ("mcp__github__get_issue", {}, {"allow": ["mcp__github"]}, "allow"),
    ("mcp__github__get_issue", {}, {"allow": ["mcp__github__*"]}, "allow"),
    ("mcp__github__get_issue", {}, {"allow": ["mcp__github__get_issue"]}, "allow"),
    ("mcp__github__get_issue", {}, {"allow": ["mcp__github__get_*"]}, "allow"),
    ("mcp__github__set_issue", {}, {"allow": ["mcp__github__get_*"]}, "ask"),
    ("mcp__github__get_issue", {}, {"allow": ["mcp__*"]}, "ask"),
    ("mcp__github__get_issue", {}, {"allow": ["mcp__git*__get_issue"]}, "ask"),
    ("mcp__github__get_issue", {}, {"allow": ["mcp__git*"]}, "ask"),
    ("mcp__github__get_issue", {}, {"allow": ["*"]}, "ask"),
    ("mcp__github__get_issue", {}, {"allow": ["github"]}, "ask"),
    ("mcp__github_evil__get_issue", {}, {"allow": ["mcp__github"]}, "ask"),
    ("mcp__github_evil__get_issue", {}, {"allow": ["mcp__github__*"]}, "ask"),
    ("mcp__GitHub__get_issue", {}, {"allow": ["mcp__github__*"]}, "ask"),
    ("mcp__evil__mcp__github__get_issue", {}, {"allow": ["mcp__github__*"]}, "ask"),
    ("mcp__github__evil__get_issue", {}, {"allow": ["mcp__github__*"]}, "ask"),
    ("mcp__plugin_x_github__get_issue", {}, {"allow": ["mcp__github"]}, "ask"),
    ("mcp__github__", {}, {"allow": ["mcp__github"]}, "ask"),
    ("mcp__github__get_issue", {}, {"deny": ["mcp__*"], "allow": ["mcp__github"]}, "deny"),
    ("mcp__github__get_issue", {}, {"deny": ["mcp__github__*"], "allow": ["mcp__github__get_issue"]}, "deny"),
    ("mcp__GitHub__get_issue", {}, {"deny": ["mcp__github__*"], "mode": "bypassPermissions"}, "deny"),
    ("mcp__github__get_issue", {}, {"ask": ["mcp__*__get_issue"], "allow": ["mcp__github"]}, "ask"),
    (
        "mcp__github__get_issue",
        {"repo": "a/b"},
        {"deny": ["mcp__github__get_issue(repo:a/*)"], "allow": ["mcp__github"]},
        "deny",
    ),
    (
        "mcp__github__get_issue",
        {"repo": "c/b"},
        {"deny": ["mcp__github__get_issue(repo:a/*)"], "allow": ["mcp__github"]},
        "allow",
    ),
    ("mcp__github__get_issue", {}, {"mode": "plan", "allow": ["mcp__github"]}, "ask"),
    ("mcp__github__get_issue", {}, {"mode": "dontAsk"}, "deny"),
    ("mcp__github__get_issue", {}, {"mode": "bypassPermissions"}, "allow"),
    ("mcp__github__get_issue", {}, {"allow": ["mcp__github"], "source": "project", "trusted": False}, "ask"),
    # children, skills
    ("Agent", {"subagent_type": "Explore", "prompt": "p"}, {}, "allow"),
    ("Agent", {"subagent_type": "Explore", "prompt": "p"}, {"deny": ["Agent(Explore)"]}, "deny"),
    ("Task", {"subagent_type": "Explore", "prompt": "p"}, {"deny": ["Agent(Explore)"]}, "deny"),
    ("Agent", {"subagent_type": "Explore", "prompt": "p"}, {"deny": ["Task(Explore)"]}, "deny"),
    ("Agent", {"subagent_type": "Plan", "prompt": "p"}, {"deny": ["Agent(Explore)"]}, "allow"),
    ("Agent", {"subagent_type": "x", "model": "opus", "prompt": "p"}, {"deny": ["Agent(model:opus)"]}, "deny"),
    ("Agent", {"subagent_type": "x", "model": "Opus", "prompt": "p"}, {"deny": ["Agent(model:opus)"]}, "deny"),
    ("Agent", {"subagent_type": "x", "model": "haiku", "prompt": "p"}, {"deny": ["Agent(model:opus)"]}, "allow"),
    ("Agent", {"subagent_type": "x", "model": "opus-2", "prompt": "p"}, {"ask": ["Agent(model:opus*)"]}, "ask"),
    ("Agent", {"prompt": "p"}, {"deny": ["Agent(*)"]}, "deny"),
    ("Agent", {"prompt": "p"}, {"deny": ["Task"]}, "deny"),
    ("Skill", {"skill": "deploy"}, {}, "ask"),
    ("Skill", {"skill": "deploy"}, {"allow": ["Skill(deploy)"]}, "allow"),
    ("Skill", {"skill": "deploy", "args": "prod"}, {"allow": ["Skill(deploy)"]}, "ask"),
    ("Skill", {"skill": "deploy", "args": "prod"}, {"allow": ["Skill(deploy *)"]}, "allow"),
    ("Skill", {"skill": "deployer"}, {"allow": ["Skill(deploy *)"]}, "ask"),
    ("Skill", {"skill": "deploy", "args": "prod"}, {"allow": ["Skill"], "deny": ["Skill(deploy *)"]}, "deny"),
    ("Skill", {"skill": "deploy", "args": "prod"}, {"allow": ["Skill"], "deny": ["Skill(deploy)"]}, "deny"),
    # notes, questions, the web
    ("TodoWrite", {"todos": []}, {"mode": "plan"}, "allow"),
    ("AskUserQuestion", {"questions": []}, {}, "ask"),
    ("AskUserQuestion", {"questions": []}, {"mode": "bypassPermissions"}, "ask"),
    ("AskUserQuestion", {"questions": []}, {"mode": "dontAsk"}, "deny"),
    ("AskUserQuestion", {"questions": []}, {"deny": ["AskUserQuestion(*)"]}, "deny"),
    ("WebSearch", {"query": "x"}, {}, "ask"),
    ("WebSearch", {"query": "x"}, {"allow": ["WebSearch"]}, "allow"),
    ("WebSearch", {"query": "key 12"}, {"allow": ["WebSearch"], "deny": ["WebSearch(*key*)"]}, "deny"),
    # nobody knows it
    ("Frobnicate", {"x": 1}, {}, "ask"),
    ("Frobnicate", {"x": 1}, {"allow": ["Frobnicate"]}, "allow"),
    ("Frobnicate", {"x": 1}, {"allow": ["frobnicate"]}, "ask"),
    ("Frobnicate", {"x": 1}, {"allow": ["Frob*"]}, "ask"),
    ("Frobnicate", {"x": 1}, {"deny": ["Frob*"], "mode": "bypassPermissions"}, "deny"),
    ("Frobnicate", {"x": 1}, {"mode": "plan"}, "deny"),
    ("bash", {"command": "ls"}, {}, "ask"),
]


@pytest.mark.parametrize(("tool", "args", "given", "decision"), CALLS)
def test_call(tool: str, args: dict[str, object], given: dict[str, Any], decision: str) -> None:
    verdict = weighed(tool, args, **given)

    assert verdict.decision == decision, verdict.detail


def hosted(**fields: Any) -> ToolSpec:
    """A tool that the program brought which opened the session."""
    return ToolSpec(name="put", description="", schema={}, **fields)


HOSTED = [
    ({"effect": "once"}, {}, {}, "allow"),
    ({"effect": "once"}, {}, {"mode": "plan"}, "deny"),
    ({"effect": "pure"}, {}, {"mode": "plan"}, "allow"),
    ({"effect": "once", "asks": True}, {}, {}, "ask"),
    ({"effect": "once", "asks": True}, {}, {"mode": "bypassPermissions"}, "allow"),
    ({"effect": "once", "asks": True}, {}, {"allow": ["put"]}, "allow"),
    ({"effect": "once"}, {}, {"deny": ["put"]}, "deny"),
    ({"effect": "once"}, {}, {"deny": ["put(x)"]}, "allow"),
    ({"effect": "once"}, {"key": "x"}, {"deny": ["put(x)"]}, "deny"),
    ({"effect": "once"}, {"key": "y"}, {"deny": ["put(x)"]}, "allow"),
    ({"effect": "once"}, {"key": "y"}, {"deny": ["put(key:y)"]}, "deny"),
    ({"effect": "once", "asks": True}, {"key": "a/b"}, {"allow": ["put(a/*)"]}, "allow"),
    ({"effect": "once", "asks": True}, {"key": "b/a"}, {"allow": ["put(a/*)"]}, "ask"),
    ({"effect": "once", "touches": "runs"}, {"command": "ls"}, {}, "allow"),
    ({"effect": "once", "touches": "runs"}, {"command": "make x"}, {}, "ask"),
    ({"effect": "once", "touches": "edits"}, {"path": "src/a"}, {"mode": "acceptEdits"}, "allow"),
    ({"effect": "once", "touches": "edits"}, {"path": "../a/b"}, {"mode": "acceptEdits"}, "ask"),
    ({"effect": "once", "touches": "edits"}, {"where": "x"}, {"mode": "acceptEdits"}, "ask"),
    ({"effect": "pure", "touches": "reads"}, {"path": "/etc/x"}, {}, "ask"),
    ({"effect": "once", "touches": "web"}, {"url": "https://a.test"}, {"allow": ["WebFetch(domain:a.test)"]}, "allow"),
    ({"effect": "idempotent", "child": True}, {"prompt": "p"}, {}, "allow"),
    ({"effect": "idempotent", "child": True}, {"prompt": "p"}, {"deny": ["Agent"]}, "allow"),
]


@pytest.mark.parametrize(("fields", "args", "given", "decision"), HOSTED)
def test_a_tool_that_a_program_brought_is_judged_by_what_it_says_it_touches(
    fields: dict[str, Any], args: dict[str, object], given: dict[str, Any], decision: str
) -> None:
    verdict = weighed(hosted(**fields), args, **given)

    assert verdict.decision == decision, verdict.detail


def test_a_question_needs_a_person_and_a_permission_does_not() -> None:
    assert weighed("AskUserQuestion", {"questions": []}).needs_person
    assert weighed("AskUserQuestion", {"questions": []}, approved=True).decision == "allow"
    assert not weighed("Write", "a").needs_person


def test_the_specs_of_well_known_tools_say_what_they_touch() -> None:
    names = ("Bash", "Shell", "Read", "Edit", "WebFetch", "TodoWrite")

    assert [spec_of(name).touches for name in names] == ["runs", "runs", "reads", "edits", "web", "notes"]
    assert spec_of("Nothing").asks


_PATCH = "*** Begin Patch\n*** Delete File: {}\n*** End Patch"


@pytest.mark.parametrize(
    "args",
    [
        {"patch": "", "input": _PATCH.format(".git/config")},
        {"input": _PATCH.format(".git/config")},
        {"patch": _PATCH.format(".git/config"), "input": 3},
    ],
)
def test_a_patch_is_judged_by_the_text_that_the_tool_applies(args: dict[str, object]) -> None:
    verdict = weighed("apply_patch", args, mode="acceptEdits")

    assert (verdict.decision, verdict.reason) == ("ask", "protected")


@pytest.mark.parametrize("args", [{"patch": _PATCH.format("a"), "input": _PATCH.format("b")}, {"patch": ""}, {}])
def test_a_patch_that_the_tool_would_refuse_is_asked_for(args: dict[str, object]) -> None:
    assert weighed("apply_patch", args, mode="acceptEdits").reason == "arguments"


@pytest.mark.parametrize("path", ["$HOME/notes", "${HOME}/notes", "$HOME"])
def test_a_variable_in_the_path_of_a_file_tool_is_a_name_like_any_other_and_asked_for(path: str) -> None:
    """No file tool fills it in: the file lies in the workspace. Whoever wrote it meant another one."""
    verdict = weighed("Write", path, mode="acceptEdits")

    assert (verdict.decision, verdict.reason) == ("ask", "path")
    assert f"/repo/{path}" in verdict.detail
    assert weighed("Read", f"{path}/.ssh/id_rsa", deny=["Read(~/.ssh/**)"]).decision != "allow"
    assert weighed("Write", "app/$HOME.tsx", mode="acceptEdits").decision == "allow"


def test_a_rule_about_the_home_holds_for_the_variable_too() -> None:
    assert weighed("Read", "$HOME/.ssh/id_rsa", deny=["Read(~/.ssh/**)"]).decision == "deny"
    assert weighed("Read", "${HOME}/a", allow=["Read(~/**)"]).decision == "ask"
