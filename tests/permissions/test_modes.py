"""What docs/permissions.md says of each mode and of rules without a pattern, as it holds."""

from collections.abc import Mapping
from typing import Any

import pytest

from backstay.vocab.specs import MODES, Mode, ToolSpec
from tests.permissions.desk import weighed

OWN = ToolSpec(name="put", description="", schema={})
ASKING = ToolSpec(name="put", description="", schema={}, asks=True)
PURE = ToolSpec(name="put", description="", schema={}, effect="pure")

ORDER = ("plan", "default", "acceptEdits", "dontAsk", "bypassPermissions")
TABLE: list[tuple[str | ToolSpec, str | Mapping[str, object], str]] = [
    # plan, default, acceptEdits, dontAsk, bypassPermissions
    ("Read", "a", "allow allow allow allow allow"),
    ("Bash", "ls", "allow allow allow allow allow"),
    ("Bash", "make", "ask ask ask deny allow"),
    ("Bash", "touch a", "deny ask allow deny allow"),
    ("Write", "a", "deny ask allow deny allow"),
    ("Write", ".git/config", "deny ask ask deny allow"),
    ("Write", "/etc/a", "deny ask ask deny allow"),
    ("Read", ".env", "ask ask ask deny allow"),
    ("Read", "/etc/hosts", "ask ask ask deny allow"),
    ("Bash", "rm -rf /", "deny deny deny deny deny"),
    ("Bash", "rm -rf $x", "deny ask ask deny ask"),
    ("WebFetch", "https://a.test", "ask ask ask deny allow"),
    ("WebFetch", "http://127.0.0.1/", "ask ask ask deny ask"),
    ("WebFetch", "http://169.254.169.254/", "ask ask ask deny ask"),
    ("WebFetch", "ftp://a.test/", "deny deny deny deny deny"),
    ("Bash", "curl http://127.0.0.1/", "ask ask ask deny allow"),
    ("Bash", "curl http://169.254.169.254/", "ask ask ask deny allow"),
    ("Agent", {"subagent_type": "Explore", "prompt": "p"}, "allow allow allow allow allow"),
    ("TodoWrite", {"todos": []}, "allow allow allow allow allow"),
    ("Skill", "deploy", "ask ask ask deny allow"),
    ("mcp__a__b", {}, "ask ask ask deny allow"),
    ("AskUserQuestion", {"questions": []}, "ask ask ask deny ask"),
    (OWN, {"key": "x"}, "deny allow allow allow allow"),
    (PURE, {"key": "x"}, "allow allow allow allow allow"),
    (ASKING, {"key": "x"}, "deny ask ask deny allow"),
    ("NobodyKnowsIt", {}, "deny ask ask deny allow"),
]


@pytest.mark.parametrize(("tool", "args", "wanted"), TABLE)
def test_ae10_sec_m8_each_mode_lets_through_what_the_page_says(
    tool: str | ToolSpec, args: str | Mapping[str, object], wanted: str
) -> None:
    found: list[tuple[Mode, str]] = [(mode, weighed(tool, args, mode=mode).decision) for mode in MODES]

    assert sorted(found) == sorted(zip(ORDER, wanted.split(), strict=True))


def test_sec_m8_a_rule_that_asks_or_denies_holds_a_command_back_in_bypass() -> None:
    """The pattern is looked for in the words of the command, so this stops no other spelling of the address."""
    rule = "Bash(*127.0.0.1*)"

    assert weighed("Bash", "curl http://127.0.0.1/", deny=[rule], mode="bypassPermissions").decision == "deny"
    assert weighed("Bash", "curl http://127.0.0.1/", ask=[rule], mode="bypassPermissions").decision == "ask"


AS_SUCH = ("*", "Bash", "Bash(*)", "Shell")
FREE = [
    "make x",
    "for i in 1 2; do make $i; done",
    "python3 - <<X\nprint(1)\nX",
    "FOO=1 ./run.sh | sort",
    "cat /etc/hosts",
]
HELD: list[tuple[str, dict[str, Any], str]] = [
    ("make x && rm y", {"deny": ["Bash(rm *)"]}, "deny"),
    ("for i in 1 2; do git push; done", {"ask": ["Bash(git push *)"]}, "ask"),
    ("rm -rf /", {}, "deny"),
    ("cat .env", {}, "ask"),
    ("echo x > .git/config", {}, "ask"),
    ("echo x > /etc/a", {}, "ask"),
    ("$x y", {}, "ask"),
    ("echo 'a", {}, "ask"),
    ("make x", {"mode": "plan"}, "ask"),
    ("make x", {"source": "project", "trusted": False}, "ask"),
    ("curl https://a.test", {"taint": frozenset(("untrusted", "private"))}, "ask"),
]


@pytest.mark.parametrize("rule", AS_SUCH)
@pytest.mark.parametrize("command", FREE)
def test_sec_m6_a_rule_without_a_pattern_allows_commands_as_such(rule: str, command: str) -> None:
    assert weighed("Bash", command).decision == "ask"
    assert weighed("Bash", command, allow=[rule]).decision == "allow"


@pytest.mark.parametrize("rule", AS_SUCH)
@pytest.mark.parametrize(("command", "given", "decision"), HELD)
def test_sec_m6_what_holds_back_holds_a_rule_without_a_pattern_back(
    rule: str, command: str, given: dict[str, Any], decision: str
) -> None:
    assert weighed("Bash", command, allow=[rule], **given).decision == decision


EVERYTHING: list[tuple[str | ToolSpec, str | Mapping[str, object], str]] = [
    ("Write", "a", "allow"),
    ("Edit", "src/a.py", "allow"),
    ("WebFetch", "https://a.test", "allow"),
    ("WebSearch", "x", "allow"),
    ("Skill", "deploy", "allow"),
    ("Agent", {"subagent_type": "x", "prompt": "p"}, "allow"),
    (ASKING, {"key": "x"}, "allow"),
    ("NobodyKnowsIt", {}, "allow"),
    ("WebFetch", "http://127.0.0.1/", "ask"),
    ("Write", "/etc/a", "ask"),
    ("Write", ".git/config", "ask"),
    ("Read", "/etc/hosts", "ask"),
    ("Read", ".env", "ask"),
    ("AskUserQuestion", {"questions": []}, "ask"),
    ("mcp__github__get_issue", {}, "ask"),
]


@pytest.mark.parametrize(("tool", "args", "decision"), EVERYTHING)
def test_sec_m6_a_star_allows_every_tool_but_those_of_servers(
    tool: str | ToolSpec, args: str | Mapping[str, object], decision: str
) -> None:
    assert weighed(tool, args, allow=["*"]).decision == decision


def test_a_rule_with_a_pattern_allows_only_inside_the_grammar() -> None:
    given: dict[str, Any] = {"allow": ["Bash(make *)", "Bash(for i in 1; do make a; done)"]}

    assert weighed("Bash", "make a && make b | make c", **given).decision == "allow"
    assert weighed("Bash", "for i in 1 2; do make a; done", **given).decision == "ask"
    assert weighed("Bash", "for i in 1; do make a; done", **given).decision == "allow"
