"""Calls that are too large, too deep or no text at all: an answer, in bounded work, and a sentence that a person can act on."""

import itertools
import json
import random
import unicodedata
from typing import Literal, get_args

import msgspec
import pytest

from backstay.permissions import Call, Verdict, judge_call, paths_to_resolve, rule_about, spec_of
from backstay.permissions.arguments import matches_text
from backstay.permissions.call_site import CallSite
from backstay.permissions.shell.expand import Site
from backstay.permissions.shell.finder import MOST_READ, MOST_WORDS, CommandFinder, WordLimit
from backstay.permissions.tool_kinds import DEEPEST, LONGEST_COMMAND, LONGEST_NAME
from backstay.permissions.wildcards import BELOW, CLASS, DEEP, MANY, ONE, Tokens, meets, star_match
from backstay.testing.permission_cases import answer_line
from backstay.vocab.rules import Rule
from backstay.vocab.specs import MODES, Mode
from tests.permissions.desk import rules, weighed

MB = 1_000_000
STARS = "*a" * 100 + "*"
DENY = ("Bash(rm *)", "Read(secrets/**)", "WebFetch(domain:evil.test)", "mcp__a__b(secrets/**)", f"Bash({STARS} b)")
GROUND = CallSite(cwd="/repo", home="/home/u")


def nested(levels: int) -> object:
    found: object = "x"
    for _ in range(levels):
        found = [found]
    return found


def judged(tool: str, args: dict[str, object], mode: Mode = "default", deny: tuple[str, ...] = DENY) -> Verdict:
    """What the policy says, with all that is done for a call in a session."""
    call = Call(spec_of(tool), args)
    held = rules(allow=("*", "mcp__a"), deny=deny)
    assert all(isinstance(each, str) for names in paths_to_resolve(call, GROUND, held) for each in names)
    return judge_call(call, GROUND, held, mode=mode)


LARGE: list[tuple[str, dict[str, object]]] = [
    ("Bash", {"command": "echo " + "a" * MB}),
    ("Bash", {"command": "echo " + "a " * (MB // 2)}),
    ("Bash", {"command": "ls;" * (MB // 3)}),
    ("Bash", {"command": "$(" * (MB // 2)}),
    ("Bash", {"command": "'" + "\n" * MB}),
    ("Bash", {"command": "cat <<'EOF'\n" + "x\n" * (MB // 2) + "EOF\n"}),
    ("Read", {"file_path": "a/" * (MB // 2)}),
    ("Read", {"file_path": "./" * (MB // 2) + "secrets/k"}),
    ("Edit", {"file_path": "a" * MB}),
    ("Grep", {"pattern": "x", "path": "../" * (MB // 3)}),
    ("Glob", {"pattern": "{a," * (MB // 3)}),
    ("Grep", {"pattern": "x", "glob": "[" * MB}),
    ("apply_patch", {"patch": "*** Begin Patch\n" + "*** Delete File: a\n" * (MB // 20) + "*** End Patch"}),
    ("WebFetch", {"url": "https://" + "a." * (MB // 2) + "test/"}),
    ("WebFetch", {"url": "https://a.test/" + "%41" * (MB // 3)}),
    ("mcp__a__b", {"x": "a/" * (MB // 2)}),
    ("mcp__a__b", {"x": ["a"] * 100_000}),
    ("mcp__a__b", {"x": {str(number): "a" for number in range(100_000)}}),
    ("mcp__a__b", {"x": nested(DEEPEST)}),
    ("mcp__a__b", {"x": nested(10_000)}),
    ("Bash", {"command": "ls", "more": nested(10_000)}),
    ("Write", {"file_path": "a", "content": "x" * (5 * MB)}),
]


@pytest.mark.parametrize(("tool", "args"), LARGE)
@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions", "plan"])
def test_sec_m7_what_is_too_large_to_be_looked_at_asks_and_says_so(
    tool: str, args: dict[str, object], mode: Literal["default", "acceptEdits", "bypassPermissions", "plan"]
) -> None:
    verdict = judged(tool, args, mode)

    assert verdict.decision in (("ask", "deny") if mode == "plan" else ("ask",)), verdict.detail
    assert "looked" in verdict.detail or mode == "plan"
    assert len(verdict.detail) < 500
    assert all(len(part.detail) < 500 for part in verdict.parts)


@pytest.mark.parametrize(("tool", "args"), LARGE)
def test_sec_m7_a_denial_of_the_whole_tool_stays_a_denial(tool: str, args: dict[str, object]) -> None:
    assert judged(tool, args, "bypassPermissions", deny=(tool,)).decision == "deny"
    assert rule_about(tool, tool, args, GROUND)


def test_sec_m7_a_person_may_still_allow_what_is_too_large_and_bypassing_may_where_nothing_is_denied() -> None:
    command = "echo " + "a" * LONGEST_COMMAND

    assert weighed("Bash", command, approved=True).decision == "allow"
    assert weighed("Bash", command, mode="bypassPermissions").decision == "allow"
    assert weighed("Bash", command, mode="bypassPermissions", deny=["Read(.env)"]).decision == "ask"
    assert weighed("Bash", command, mode="dontAsk").decision == "deny"
    assert weighed("Read", "a" * LONGEST_NAME).decision == "allow"


TOOLS = {
    "Bash": "command",
    "Read": "file_path",
    "Write": "file_path",
    "Grep": "path",
    "Glob": "pattern",
    "WebFetch": "url",
    "WebSearch": "query",
    "Agent": "subagent_type",
    "Skill": "skill",
    "apply_patch": "patch",
    "mcp__a__b": "x",
    "Unknown": "x",
}
CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xD800, 0xDFFF)]


@pytest.mark.parametrize("tool", TOOLS)
def test_every_control_character_and_half_a_character_gets_an_answer_and_a_sentence(tool: str) -> None:
    for char, mode in itertools.product(CONTROLS, get_args(Mode)):
        for text in (char, f"ls {char}a", f"a{char}", f"https://a{char}.test/{char}", f"'{char}' > a; rm -rf {char}"):
            verdict = judge_call(Call(spec_of(tool), {TOOLS[tool]: text}), GROUND, rules(deny=DENY), mode=mode)

            assert verdict.decision in ("allow", "ask", "deny")
            assert verdict.detail.strip()
            if unicodedata.category(char) == "Cc" and char not in "\t\n\r" and mode == "default":
                assert verdict.decision != "allow", (char, text)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_line_of_cases_is_answered_whatever_is_in_it(tool: str) -> None:
    texts = ["a" * MB, "(" * 10_000, "a\0b", "a\rb", "\ud800", *CONTROLS]
    for text in texts:
        line = json.dumps({"id": 1, "tool": tool, "args": {TOOLS[tool]: text}, "rule_set": {"deny": DENY}}).encode()
        answer = msgspec.json.decode(answer_line(line))

        assert (answer["id"], answer["decision"] in ("allow", "ask", "deny")) == (1, True)
        assert answer["reason"]["detail"]
        assert len(answer["reason"]["detail"]) < 5_000


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\n",
        b'{"id": 1, "tool": "Bash", "args": {"command": "ls \xff"}}',
        b'{"id": 1, "tool": "Bash", "args": {"command": "ls \x00"}}',
        b'{"id": 1, "tool": "Bash", "args": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
        b'{"id": ' + b"[" * 10_000 + b"]" * 10_000 + b', "tool": "Bash", "args": {"command": "ls"}}',
        b"[" * 10_000,
        b"",
        b"\x00",
        b'{"id": 1, "tool": "Bash", "args": {"command": "ls"}, "rule_set": {"deny": ["' + b"(" * 10_000 + b'"]}}',
    ],
)
def test_a_line_that_is_no_case_is_denied_with_the_reason(line: bytes) -> None:
    answer = msgspec.json.decode(answer_line(line))

    assert answer["decision"] == "deny"
    assert answer["error"]


class _Counted(str):
    """A text that counts how often somebody searches it."""

    searches = 0

    def find(self, *args: object) -> int:
        type(self).searches += 1
        return str.find(self, *args)  # type: ignore[arg-type]  # handed on as it came


def test_sec_m7_a_pattern_with_a_hundred_stars_looks_at_a_text_once_for_each() -> None:
    assert not star_match((*["a"] * 100, "b"), _Counted("a" * MB))
    assert _Counted.searches <= 100
    assert matches_text(STARS, "a" * MB)
    assert not matches_text(f"{STARS} b", "a" * MB)


_TOKENS = ("a", "b", "/", ONE, MANY, DEEP, BELOW, CLASS + "[a]", CLASS + "[^./]")


def test_two_patterns_meet_where_some_short_text_matches_both() -> None:
    """Compared with a search through all pairs of places."""
    draw = random.Random(7)
    for _ in range(20_000):
        one = tuple(draw.choice(_TOKENS) for _ in range(draw.randrange(6)))
        other = tuple(draw.choice(_TOKENS) for _ in range(draw.randrange(6)))
        wanted = any(_slowly(a, b) for a in _plain(one) for b in _plain(other))
        assert meets(one, other) is wanted, (one, other)


def _plain(tokens: Tokens) -> list[Tokens]:
    body = tuple(DEEP if token == BELOW else token for token in tokens)
    return [body[:-1], (*body[:-1], "/", DEEP)] if tokens[-1:] == (BELOW,) else [body]


def _slowly(one: Tokens, other: Tokens) -> bool:
    todo, seen = [(0, 0)], {(0, 0)}
    while todo:
        i, j = todo.pop()
        if (i, j) == (len(one), len(other)):
            return True
        a, b = (one[i] if i < len(one) else ""), (other[j] if j < len(other) else "")
        steps = []
        for loop, token, past, along in ((a, b, (i + 1, j), (i, j + 1)), (b, a, (i, j + 1), (i + 1, j))):
            if loop in (MANY, DEEP):
                steps += [past, *([along] if token and (loop == DEEP or token != "/") else [])]
        if a and b and not {a, b} & {MANY, DEEP} and _alike(a, b):
            steps.append((i + 1, j + 1))
        todo += [step for step in steps if step not in seen]
        seen.update(steps)
    return False


def _alike(a: str, b: str) -> bool:
    wanted = [each.removeprefix(CLASS) if each.startswith(CLASS) else each for each in (a, b)]
    letters = {ONE: "abc", "[a]": "a", "[^./]": "abc"}
    return bool({*letters.get(wanted[0], wanted[0])} & {*letters.get(wanted[1], wanted[1])}) or {a, b} == {
        CLASS + "[a]",
        CLASS + "[^./]",
    }


def test_sec_m7_two_long_patterns_meet_without_a_look_at_every_pair() -> None:
    stars = tuple(DEEP if char == "*" else char for char in STARS)

    assert meets((*stars, "c"), (*"ab" * 2_000, DEEP))
    assert not meets((*stars, "c", "d"), (*"ab" * 2_000, "c", "b"))
    assert meets(tuple("ab" * 5_000), tuple("aa" + "bb" * 4_999)), "beyond the bound it may be"


@pytest.mark.parametrize("mode", MODES)
def test_patterns_of_any_length_get_an_answer(mode: Mode) -> None:
    deny = [Rule.parse("deny", f"{tool}({text})") for tool in ("Bash", "Read", "WebFetch") for text in _PATTERNS]
    for tool, text in (("Bash", f"foo $x {'ab' * 1_900}"), ("Read", "a/" * 2_000 + "b"), ("Bash", "cat " + "*a" * 900)):
        assert judge_call(Call(spec_of(tool), {TOOLS[tool]: text}), GROUND, deny, mode=mode).detail


_PATTERNS = (
    f"{STARS}b",
    "**/a/" * 100 + "x",
    "**/a*a*a*b/" * 30 + "x",
    "[" * 1_000,
    "?" * 1_000 + "b",
    "(a+)+$",
    "\\" * 999,
)


@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
@pytest.mark.parametrize("repeated", [20, 60, 300])
@pytest.mark.parametrize(
    "piece", ["find . -exec ", "find . -ok ", "env find . -execdir ", "fd -x ", "time ", "parallel "]
)
def test_programs_that_run_programs_that_run_programs_take_bounded_work(piece: str, repeated: int, mode: Mode) -> None:
    judged_words: list[int] = []

    class Counted(WordLimit):
        def take(self, count: int) -> bool:
            judged_words.append(count)
            return super().take(count)

    finder = CommandFinder(GROUND, Counted())
    finder.text(f"{piece * repeated}rm -rf x", Site(GROUND, ("/repo",)))

    assert sum(judged_words) < 2 * MOST_READ + MOST_WORDS**2 // 2
    assert len(judged_words) < MOST_READ
    assert judged("Bash", {"command": f"{piece * repeated}rm -rf x"}, mode).decision in ("ask", "deny")


@pytest.mark.parametrize(
    "command",
    [
        ":;" * 312 + "rm -rf ~",
        "sudo " * 12 + "rm -rf /",
        "eval x; : '" + "x" * 10_000 + "'; rm -rf ~",
        ("time " * 40 + "a;") * 40 + "rm -rf ~",
        "sudo rm -rf " + "a " * 1_001 + "/",
        ":;" * 312 + "dd if=/dev/zero of=/dev/sda",
    ],
)
def test_what_is_not_looked_through_to_its_end_is_asked_about_in_every_mode(command: str) -> None:
    assert judged("Bash", {"command": command}, "bypassPermissions", deny=()).decision in ("ask", "deny")
