"""What holds for every call and every set of rules: strictness grows with every denial, and no wrapping hides anything."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstay.hooks.merge import HookVerdict
from backstay.vocab.specs import Mode, Taint
from tests.permissions.desk import weighed

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}

PROGRAMS = [
    "ls -la",
    "git status",
    "npm test",
    "rm -rf build",
    "cat .env",
    "cat src/a.py",
    "echo x > out.txt",
    "cp a ../b/c",
    "$X",
    "make",
]
JOINTS = [" && ", "; ", " | ", "\n", " || ", " & "]
commands = st.lists(st.sampled_from(PROGRAMS), min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from(JOINTS).map(lambda joint: joint.join(parts))
)
calls = st.one_of(
    st.tuples(st.just("Bash"), commands),
    st.tuples(
        st.sampled_from(["Read", "Write", "Edit", "Grep"]),
        st.sampled_from(["src/a.py", ".env", "/etc/passwd", ".git/config", "../x/y"]),
    ),
    st.tuples(st.just("WebFetch"), st.sampled_from(["https://a.test/", "http://127.0.0.1/", "https://x@a.test/"])),
)
rule_texts = st.sampled_from(
    (
        *(
            "Bash",
            "Bash(npm *)",
            "Bash(rm *)",
            "Bash(git status)",
            "Bash(make)",
            "Bash(* *)",
            "Read",
            "Read(.env)",
            "Read(src/**)",
        ),
        *(
            "Read(//etc/**)",
            "Edit",
            "Edit(src/**)",
            "Edit(/out.txt)",
            "Edit(.git/**)",
            "Write(**)",
            "WebFetch",
            "Grep",
            "mcp__a",
            "*",
            "Cd(x)",
        ),
        "WebFetch(domain:a.test)",
    )
)
rule_lists = st.lists(rule_texts, max_size=4, unique=True)
modes: st.SearchStrategy[Mode] = st.sampled_from(["plan", "default", "acceptEdits", "dontAsk", "bypassPermissions"])
taints: st.SearchStrategy[frozenset[Taint]] = st.frozensets(st.sampled_from(("untrusted", "private", "outside")))
hooks = st.sampled_from([None, HookVerdict(), HookVerdict(decision="allow"), HookVerdict(decision="ask")])
worlds = st.fixed_dictionaries(
    {
        "allow": rule_lists,
        "ask": rule_lists,
        "deny": rule_lists,
        "mode": modes,
        "taint": taints,
        "hook": hooks,
        "trusted": st.booleans(),
    }
)
quick = settings(max_examples=150, deadline=None, derandomize=True)


def strictness(call: tuple[str, str], world: dict[str, Any]) -> int:
    return STRICTNESS[weighed(*call, **world).decision]


@quick
@given(calls, worlds, rule_texts, st.sampled_from(["deny", "ask"]))
def test_one_more_denial_or_question_never_weakens_a_decision(
    call: Any, world: dict[str, Any], rule: str, side: str
) -> None:
    stricter = {**world, side: [*world[side], rule]}

    assert strictness(call, stricter) >= strictness(call, world)


@quick
@given(calls, worlds)
def test_one_allowance_less_never_weakens_a_decision(call: Any, world: dict[str, Any]) -> None:
    for rule in world["allow"]:
        fewer = {**world, "allow": [each for each in world["allow"] if each != rule]}
        assert strictness(call, fewer) >= strictness(call, world)


@quick
@given(calls, worlds)
def test_modes_are_ordered(call: Any, world: dict[str, Any]) -> None:
    found = {
        mode: strictness(call, {**world, "mode": mode})
        for mode in ("plan", "default", "acceptEdits", "dontAsk", "bypassPermissions")
    }

    assert found["plan"] >= found["default"] >= found["acceptEdits"] >= found["bypassPermissions"]
    assert found["dontAsk"] == (0 if found["default"] == 0 else 2)


@quick
@given(calls, worlds, st.sampled_from(("untrusted", "private", "outside")))
def test_more_taint_never_weakens_a_decision(call: Any, world: dict[str, Any], taint: Taint) -> None:
    assert strictness(call, {**world, "taint": world["taint"] | {taint}}) >= strictness(call, world)


@quick
@given(calls, worlds)
def test_trust_and_a_hooks_yes_never_make_anything_stricter(call: Any, world: dict[str, Any]) -> None:
    assert strictness(call, {**world, "trusted": False}) >= strictness(call, {**world, "trusted": True})
    assert strictness(call, {**world, "hook": None}) >= strictness(
        call, {**world, "hook": HookVerdict(decision="allow")}
    )
    assert strictness(call, {**world, "hook": HookVerdict(decision="deny")}) == 2


SHAPES = [
    *(
        "ls && {}",
        "{} ; ls",
        "ls | {}",
        "( {} )",
        "{{ {}; }}",
        "! {}",
        "if true; then {}; fi",
        "for i in a; do {}; done",
        "echo $( {} )",
    ),
    *(
        "cat <( {} )",
        'echo "$( {} )"',
        "f() {{ {}; }}; f",
        "while {}; do ls; done",
        "ls\n{}",
        "ls &\n{}",
        "x=$( {} )",
        "case a in a) {};; esac",
    ),
]
PREFIXES = [
    *(
        "time",
        "nohup",
        "nice -n 3",
        "timeout 5",
        "env",
        "env A=b",
        "sudo",
        "sudo -u x",
        "command",
        "xargs",
        "stdbuf -oL",
        "setsid",
        "exec",
    ),
]
QUOTED = [
    *(
        "sh -c '{}'",
        'bash -lc "{}"',
        "eval '{}'",
        "env -S '{}'",
        "echo '{}' | sh",
        "trap '{}' EXIT",
        "ssh h '{}'",
        "find . -exec {} ';'",
    ),
    *("busybox {}", "watch {}", "bash <<< '{}'", "su -c '{}'", "docker exec c {}", "parallel {}", "flock l {}"),
]


@quick
@given(
    st.lists(st.sampled_from(PREFIXES), max_size=3),
    st.sampled_from(["{}", *QUOTED]),
    st.lists(st.sampled_from(SHAPES), max_size=3),
    st.sampled_from(["rm -rf build", "\\rm build", "/bin/rm build", '"rm" build', "git push -f", "git -C . push"]),
    modes,
)
def test_a_denied_command_stays_denied_or_asks_in_any_wrapping(
    prefixes: list[str], quoted: str, shapes: list[str], command: str, mode: Mode
) -> None:
    text = quoted.format(" ".join((*prefixes, command)).replace('"', "" if quoted != "{}" else '"'))
    for shape in shapes:
        text = shape.format(text)
    verdict = weighed("Bash", text, mode=mode, allow=["Bash"], deny=["Bash(rm *)", "Bash(git push *)"])

    assert verdict.decision == "deny" or (quoted != "{}" and verdict.decision == "ask"), (text, verdict.detail)


@quick
@given(calls, worlds)
def test_what_is_offered_allows_what_was_asked_for_and_nothing_is_offered_otherwise(
    call: Any, world: dict[str, Any]
) -> None:
    verdict = weighed(*call, **world)
    if verdict.offers:
        assert verdict.decision == "ask" or verdict.unasked  # in dontAsk it would have been asked about
        assert len(verdict.offers) <= 5
        assert weighed(*call, **{**world, "allow": [*world["allow"], *verdict.offers]}).decision == "allow", (
            verdict.offers
        )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=60), st.sampled_from(["Read", "Edit", "Bash", "WebFetch", "Grep", "Glob", "Skill"]))
def test_any_text_is_answered(text: str, tool: str) -> None:
    for os in ("linux", "darwin", "windows"):
        assert (
            weighed(tool, text, os=os, deny=["Read(.env)", "Bash(rm *)", "WebFetch(domain:a.test)"]).decision
            in STRICTNESS
        )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(alphabet="abc*?[]/.~\\!()-", min_size=1, max_size=20), st.sampled_from(["allow", "ask", "deny"]))
def test_any_pattern_is_read(pattern: str, side: str) -> None:
    for tool, args in (
        ("Read", "a/b"),
        ("Bash", "a b c"),
        ("WebFetch", "https://a.b/"),
        ("Edit", "../a"),
        ("Skill", "a"),
    ):
        given: dict[str, Any] = {side: [f"{tool}({pattern})"]}
        if pattern.strip():
            assert weighed(tool, args, **given).decision in STRICTNESS


@pytest.mark.parametrize("long", ["ls; " * 5_000, "$(" * 2_000, "cat " + "a*" * 3_000, "rm " + "$X " * 3_000])
def test_very_long_commands_are_answered(long: str) -> None:
    assert weighed("Bash", long, allow=["Bash"], deny=["Bash(curl *)", "Read(.env)"]).decision in ("ask", "deny")
