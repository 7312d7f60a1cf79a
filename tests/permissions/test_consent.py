"""Who may answer for the person: modes, hooks, grants, trust; and the three things that must not meet."""

from typing import Any

import pytest

from backstay.hooks.merge import HookVerdict
from backstay.permissions import spec_of
from backstay.vocab.specs import Taint, ToolSpec
from tests.permissions.desk import weighed

ALLOWS = HookVerdict(decision="allow", reason="fine")
ASKS = HookVerdict(decision="ask")
DENIES = HookVerdict(decision="deny", blocked=True, reason="no")
SILENT = HookVerdict()

HOOKS = [
    ("make", ALLOWS, {}, "allow"),
    ("make", ALLOWS, {"mode": "dontAsk"}, "allow"),
    ("make", ALLOWS, {"deny": ["Bash(make *)"]}, "deny"),
    ("make", ALLOWS, {"ask": ["Bash(make *)"]}, "ask"),
    ("make", ALLOWS, {"mode": "plan"}, "ask"),
    ("rm -rf /", ALLOWS, {}, "deny"),
    ("echo x > .git/config", ALLOWS, {}, "ask"),
    ("cat .env", ALLOWS, {}, "ask"),
    ("cat /etc/hosts", ALLOWS, {}, "allow"),
    ("$X", ALLOWS, {}, "allow"),
    ("$X", ALLOWS, {"deny": ["Bash(rm *)"]}, "ask"),
    ("make", ASKS, {"allow": ["Bash"]}, "ask"),
    ("make", ASKS, {"mode": "bypassPermissions"}, "ask"),
    ("ls", ASKS, {}, "ask"),
    ("ls", ASKS, {"mode": "dontAsk"}, "deny"),
    ("ls", DENIES, {}, "deny"),
    ("make", DENIES, {"allow": ["Bash"], "mode": "bypassPermissions"}, "deny"),
    ("make", SILENT, {}, "ask"),
    ("make", SILENT, {"allow": ["Bash(make)"]}, "allow"),
    ("make", HookVerdict(blocked=True), {"allow": ["Bash"]}, "deny"),
]


@pytest.mark.parametrize(("command", "hook", "given", "decision"), HOOKS)
def test_a_hook_skips_the_prompt_and_nothing_else(
    command: str, hook: HookVerdict, given: dict[str, Any], decision: str
) -> None:
    verdict = weighed("Bash", command, hook=hook, **given)

    assert verdict.decision == decision, verdict.detail


MODES = [
    ("ls -la", "plan", "allow"),
    ("make", "plan", "ask"),
    ("mkdir x", "plan", "deny"),
    ("echo x > a", "plan", "deny"),
    ("echo x > /dev/null", "plan", "allow"),
    ("ls -la", "dontAsk", "allow"),
    ("make", "dontAsk", "deny"),
    ("mkdir x", "dontAsk", "deny"),
    ("mkdir x", "default", "ask"),
    ("mkdir x", "acceptEdits", "allow"),
    ("make", "acceptEdits", "ask"),
    ("curl https://a.test", "acceptEdits", "ask"),
    ("make", "bypassPermissions", "allow"),
    ("$X", "bypassPermissions", "allow"),
    ("echo x > ~/.bashrc", "bypassPermissions", "allow"),
    ("cat ~/.ssh/id_rsa", "bypassPermissions", "allow"),
]


@pytest.mark.parametrize(("command", "mode", "decision"), MODES)
def test_modes(command: str, mode: Any, decision: str) -> None:
    verdict = weighed("Bash", command, mode=mode)

    assert verdict.decision == decision, verdict.detail


@pytest.mark.parametrize("command", ["make", "npm test -- -v", "git log --oneline", "git log $X"])
def test_an_allow_never_lifts_plan(command: str) -> None:
    open_handed = weighed("Bash", command, mode="plan", allow=["Bash"])

    assert open_handed.decision == weighed("Bash", command, mode="plan").decision


@pytest.mark.parametrize("command", ["$X", 'eval "$X"', "echo hi |", 'echo "a', 'sh -c "$X"'])
def test_bypassing_does_not_look_away_where_a_denied_command_may_hide(command: str) -> None:
    assert weighed("Bash", command, mode="bypassPermissions").decision == "allow"
    assert weighed("Bash", command, mode="bypassPermissions", deny=["Bash(rm *)"]).decision == "ask"
    assert weighed("Bash", command, mode="bypassPermissions", ask=["Bash(git push *)"]).decision == "ask"
    assert weighed("Bash", command, mode="bypassPermissions", deny=["mcp__evil"]).decision == "allow"


GRANTS = [
    ("Bash", "make", {}, "allow"),
    ("Bash", "make", {"deny": ["Bash(make *)"]}, "deny"),
    ("Bash", "make", {"ask": ["Bash(make *)"]}, "ask"),
    ("Bash", "make", {"mode": "plan"}, "ask"),
    ("Bash", "echo x > .git/config", {}, "allow"),
    ("Bash", "rm -rf ~", {}, "deny"),
    ("Write", ".env", {}, "allow"),
    ("Read", "/etc/passwd", {}, "allow"),
    ("WebFetch", "http://127.0.0.1/", {}, "ask"),
]


@pytest.mark.parametrize(("tool", "args", "given", "decision"), GRANTS)
def test_a_grant_of_this_very_call(tool: str, args: str, given: dict[str, Any], decision: str) -> None:
    verdict = weighed(tool, args, grants=True, **given)

    assert verdict.decision == decision, verdict.detail


@pytest.mark.parametrize(
    ("command", "given", "decision"),
    [
        ("make", {}, "allow"),
        ("make", {"ask": ["Bash(make *)"]}, "allow"),
        ("make", {"mode": "dontAsk"}, "allow"),
        ("make", {"deny": ["Bash(make *)"]}, "deny"),
        ("mkdir x", {"mode": "plan"}, "deny"),
        ("rm -rf /", {}, "deny"),
    ],
)
def test_a_yes_of_a_person_skips_what_asks_and_nothing_that_denies(
    command: str, given: dict[str, Any], decision: str
) -> None:
    assert weighed("Bash", command, approved=True, **given).decision == decision


def test_rules_of_the_session_hold_like_any_other() -> None:
    assert weighed("Bash", "make all", granted=["Bash(make *)"]).decision == "allow"
    assert weighed("Bash", "make all", granted=["Bash(make *)"], deny=["Bash(make *)"]).decision == "deny"


TRUST = [
    ("Bash", "git status", {}, "ask"),
    ("Bash", "git log -1 | head", {}, "ask"),
    ("Bash", "time git status", {}, "ask"),
    ("Bash", "git status", {"allow": ["Bash(git status)"]}, "allow"),
    ("Bash", "git status", {"allow": ["Bash(git status)"], "source": "project"}, "ask"),
    ("Bash", "git status", {"allow": ["Bash(git status)"], "source": "local"}, "ask"),
    ("Bash", "git status", {"mode": "bypassPermissions"}, "allow"),
    ("Bash", "make", {"allow": ["Bash"], "source": "project"}, "ask"),
    ("Bash", "make", {"deny": ["Bash(make)"], "source": "project"}, "deny"),
    ("Bash", "ls", {"ask": ["Bash(ls)"], "source": "project"}, "ask"),
    ("Bash", "ls -la", {}, "allow"),
    ("Read", "src/a.py", {}, "allow"),
    ("Edit", "src/a.py", {"allow": ["Edit"], "source": "project"}, "ask"),
    ("WebFetch", "https://a.test", {"allow": ["WebFetch"], "source": "local"}, "ask"),
    ("WebFetch", "https://a.test", {"allow": ["WebFetch"], "source": "person"}, "allow"),
]


@pytest.mark.parametrize(("tool", "args", "given", "decision"), TRUST)
def test_before_a_workspace_is_trusted(tool: str, args: str, given: dict[str, Any], decision: str) -> None:
    verdict = weighed(tool, args, trusted=False, **given)

    assert verdict.decision == decision, verdict.detail


ALL: frozenset[Taint] = frozenset(("untrusted", "private", "outside"))
BROUGHT = [
    ("Read", "src/a.py", {}, ()),
    ("Read", ".env", {}, ("private",)),
    ("Read", "src/a.py", {"trusted": False}, ("untrusted",)),
    ("Write", "src/a.py", {}, ()),
    ("Write", "/tmp/x", {}, ("outside",)),
    ("WebFetch", "https://a.test", {}, ("outside", "untrusted")),
    ("WebSearch", "x", {}, ("outside", "untrusted")),
    ("mcp__a__b", {}, {}, ("outside", "untrusted")),
    ("Bash", "ls", {}, ()),
    ("Bash", "cat ~/.ssh/id_rsa", {}, ("private",)),
    ("Bash", "curl https://a.test", {}, ("outside", "untrusted")),
    ("Bash", "echo x > /tmp/x", {}, ("outside",)),
    ("Bash", "echo x > /dev/null", {}, ()),
    ("Agent", {"prompt": "p"}, {}, ()),
]


@pytest.mark.parametrize(("tool", "args", "given", "taints"), BROUGHT)
def test_what_a_call_brings_is_told(tool: str, args: Any, given: dict[str, Any], taints: tuple[Taint, ...]) -> None:
    assert weighed(tool, args, **given).taints == taints


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk"])
def test_when_three_would_meet_allow_becomes_ask_in_every_mode(mode: Any) -> None:
    given: dict[str, Any] = {"mode": mode, "allow": ["WebFetch", "Read(.env)"]}
    expected = "deny" if mode == "dontAsk" else "ask"

    assert weighed("WebFetch", "https://a.test", **given).decision == "allow"
    assert weighed("WebFetch", "https://a.test", **given, taint=frozenset(("private",))).decision == expected
    assert weighed("WebFetch", "https://a.test", **given, taint=frozenset(("private",))).reason == "taint"
    assert weighed("Read", ".env", **given, taint=frozenset(("untrusted",))).decision == "allow"
    assert weighed("Read", ".env", **given, taint=frozenset(("untrusted", "outside"))).decision == expected
    assert weighed("Read", "src/a.py", **given, taint=ALL).decision == "allow"


def test_a_tool_says_itself_what_it_brings() -> None:
    mail = ToolSpec(name="send_mail", description="", schema={}, taints=("outside",))

    assert weighed(mail, {}, taint=frozenset(("untrusted", "private"))).decision == "ask"
    assert weighed(mail, {}, taint=frozenset(("untrusted", "private")), approved=True).decision == "allow"
    assert weighed(spec_of("TodoWrite"), {}, taint=ALL).decision == "allow"
