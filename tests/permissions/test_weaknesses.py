"""Weaknesses of the system that came before, each shut, and the contracts that speak of permissions."""

from typing import Any

import pytest

from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule
from tests.permissions.desk import weighed


def test_rb_w1_a_newline_hides_nothing_from_a_denial() -> None:
    for rule in ("Bash(*)", "Bash(rm *)", "Bash"):
        assert weighed("Bash", "ls\nrm -rf x", deny=[rule], mode="bypassPermissions").decision == "deny"


def test_rb_w1b_two_names_of_one_tool_are_one_tool() -> None:
    for rule in ("Bash", "Shell", "BackgroundProcess", "bash"):
        for tool in ("Bash", "Shell"):
            assert weighed(tool, "ls", deny=[rule], mode="bypassPermissions").decision == "deny"
    assert weighed("Shell", "make", allow=["Bash(make)"]).decision == "allow"
    assert weighed("Shell", "rm x", deny=["Bash(rm *)"]).decision == "deny"
    assert weighed("Task", {"prompt": "p"}, deny=["Agent"]).decision == "deny"


def test_rb_w1c_a_tool_without_a_main_argument_is_denied_and_allowed_by_its_name_with_a_star() -> None:
    for tool in ("Agent", "AskUserQuestion", "Computer", "CodebaseRetrieval"):
        assert weighed(tool, {"x": 1}, deny=[f"{tool}(*)"], mode="bypassPermissions").decision == "deny"
    assert weighed("Computer", {"x": 1}, allow=["Computer(*)"]).decision == "allow"


@pytest.mark.parametrize(
    "more", ["; rm -rf /x/y", " && rm x", " | sh", " $(rm x)", "\nrm x", " `rm x`", " & rm x", " <(rm x)"]
)
def test_rb_w2_an_allowed_prefix_allows_one_command(more: str) -> None:
    assert weighed("Bash", "git fetch", allow=["Bash(git *)"]).decision == "allow"
    assert weighed("Bash", f"git fetch{more}", allow=["Bash(git *)"]).decision == "ask"


def test_rb_w3_paths_are_compared_without_detours_and_with_links_followed() -> None:
    assert weighed("Write", "/repo/src/../../etc/x", allow=["Edit(/src/**)"]).decision == "ask"
    for path in ("/etc/passwd", "../etc/passwd", "/repo/../etc/passwd", "//etc/./passwd", "src/../../etc/passwd"):
        assert weighed("Read", path, deny=["Read(/etc/**)"]).decision == "deny"
        assert weighed("Read", path, deny=["Read(//etc/**)"]).decision == "deny"
    assert weighed("Read", "a/passwd", deny=["Read(//etc/**)"], files={"a": "symlink:/etc"}).decision == "deny"


def test_rb_w4_no_character_of_a_pattern_is_a_regular_expression() -> None:
    assert weighed("Bash", "make x", allow=["Bash(?make x)"]).decision == "ask"
    assert weighed("Bash", "mak x", allow=["Bash(make? x)"]).decision == "ask"
    assert weighed("Bash", "make+ x", allow=["Bash(make+ x)"]).decision == "allow"
    assert weighed("Read", "/etc/a.b", allow=["Read(//etc/a.b)"]).decision == "allow"
    assert weighed("Read", "/etc/axb", allow=["Read(//etc/a.b)"]).decision == "ask"
    for text in ("Bash(make", "Bash(", "(make)", "Bash)", "", "Bash make", "Bash(make)x"):
        with pytest.raises(UserError):
            Rule.parse("deny", text)


def test_rb_w5_what_is_offered_is_as_narrow_as_what_is_shown() -> None:
    assert weighed("Bash", "npm test -- -v").offers == ("Bash(npm test *)",)
    assert weighed("Bash", "npm run lint -- --fix").offers == ("Bash(npm run lint *)",)
    assert weighed("Bash", "git push origin main").offers == ("Bash(git push *)",)
    assert weighed("Bash", "pytest -x").offers == ("Bash(pytest *)",)
    for command in (
        "npx x",
        "python3 x.py",
        "node -e 1",
        "bash x.sh",
        "sudo make",
        "./x.sh a",
        "docker run x",
        "uv run x",
        "rm a b",
    ):
        assert weighed("Bash", command).offers == (f"Bash({command})",), command
    for command in (
        "$X",
        "FOO=1 make",
        "rm *.o",
        "rm -rf /",
        'eval "$X"',
        "make\nmake",
        "python3 $X",
        "x " + "a" * 400,
    ):
        assert weighed("Bash", command).offers in ((), ("Bash(make *)",), ("Bash(make)",)), command
    assert weighed("Bash", "make a && npm test").offers == ("Bash(make a *)", "Bash(npm test *)")
    assert weighed("Bash", "; ".join(f"x{n} y" for n in range(6))).offers == ()
    assert weighed("Edit", "src/a/b.py").offers == ("Edit(/src/a/**)",)
    assert weighed("Edit", "notes.md").offers == ("Edit(/notes.md)",)
    assert weighed("Read", "/etc/hosts").offers == ("Read(//etc/hosts)",)
    assert weighed("Read", "~/x/notes").offers == ("Read(~/x/notes)",)
    assert weighed("mcp__a__b", {}).offers == ("mcp__a__b",)
    for path in (".git/config", ".env", "Makefile"):
        assert weighed("Edit", path).offers == (), path
    assert weighed("Edit", "src/a.py", ask=["Edit(src/**)"]).offers == ()


@pytest.mark.parametrize("mode", ["plan", "default", "acceptEdits"])
def test_rb_w6_the_web_is_asked_for(mode: Any) -> None:
    for call in (("WebFetch", "https://a.test"), ("WebSearch", "x")):
        assert weighed(*call, mode=mode).decision == "ask"


def test_rb_w7_a_denial_of_reading_covers_every_way_to_read() -> None:
    denied = ["Read(.env)", "Read(secrets/**)"]

    for tool in ("Read", "Grep", "Glob", "LS"):
        assert weighed(tool, "secrets", deny=denied).decision == "deny"
    assert weighed("Grep", {"pattern": "K", "path": "/repo/.env"}, deny=denied).decision == "deny"
    for command in ("cat .env", "grep K .env", "cat secrets/a", "cat < .env", "cp secrets/a b"):
        assert weighed("Bash", command, deny=denied, mode="bypassPermissions").decision == "deny"


@pytest.mark.contract("RB-50")
def test_deny_then_allow_then_the_mode_decides_and_patterns_are_about_arguments() -> None:
    assert (
        weighed("Bash", "make x", deny=["Bash(make *)"], allow=["Bash(make *)"], mode="bypassPermissions").decision
        == "deny"
    )
    assert weighed("Bash", "make x", allow=["Bash(make *)"], mode="default").decision == "allow"
    assert [
        weighed("Bash", "make x", mode=mode).decision
        for mode in ("plan", "default", "acceptEdits", "bypassPermissions")
    ] == [*("ask", "ask", "ask", "allow")]
    assert [
        weighed("Write", "a", mode=mode).decision for mode in ("plan", "default", "acceptEdits", "bypassPermissions")
    ] == [*("deny", "ask", "allow", "allow")]
    assert weighed("Write", "src/a", allow=["Edit(src/**)"]).decision == "allow"
    assert weighed("Write", "lib/a", allow=["Edit(src/**)"]).decision == "ask"


@pytest.mark.contract("RB-51")
def test_the_folders_of_instructions_may_be_read_whatever_else_is_allowed() -> None:
    for folder in (".agents", ".claude", ".backstay"):
        for given in ({}, {"allow": ["Bash(ls)"]}, {"mode": "dontAsk"}):
            verdict = weighed("Read", f"{folder}/skills/a.md", **given)
            assert (verdict.decision, verdict.reason) == ("allow", "rule")
            assert weighed("Glob", {"pattern": "*", "path": folder}, **given).decision == "allow"
    assert weighed("Read", ".claude/a.md", deny=["Read(.claude/**)"]).decision == "deny"
    assert weighed("Write", ".claude/a.md").decision == "ask"


@pytest.mark.contract("RV-20", "RV-27")
def test_a_list_of_commands_is_a_list_of_argument_vectors_and_a_commit_is_asked_for() -> None:
    listed = ["Bash(npm test)", "Bash(git diff *)"]

    for command in ("npm test", "git diff --stat", "npm 'test'", "git diff && npm test"):
        assert weighed("Bash", command, allow=listed, mode="dontAsk").decision == "allow"
    for command in ("npm 'test x'", "npm test x", "make", "npm test; make", "git push", "sh -c 'npm test'"):
        assert weighed("Bash", command, allow=listed, mode="dontAsk").decision == "deny"
    assert weighed("Bash", "git commit -m x").decision == "ask"


@pytest.mark.contract("RV-20")
def test_the_scopes_say_how_far_calls_reach() -> None:
    outside = {scope: weighed("Read", "/srv/a", scope=scope).decision for scope in ("sandboxed", "project", "full")}

    assert outside == {"sandboxed": "ask", "project": "ask", "full": "allow"}
    for scope in ("sandboxed", "project", "full"):
        assert weighed("Write", "/srv/a", scope=scope, mode="acceptEdits").decision == "ask"
        assert weighed("Write", "src/a", scope=scope, mode="acceptEdits").decision == "allow"
