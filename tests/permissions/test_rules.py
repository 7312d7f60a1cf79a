"""Rules as people write them, and the facts that are gathered before a call is weighed."""

import pytest

from backstay.permissions import Call, is_hidden, paths_to_resolve, spec_of
from backstay.permissions.call_site import CallSite
from backstay.permissions.wildcards import DEEP, MANY, ONE, meets, star_match
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule
from tests.permissions.desk import arguments, rules, weighed

GROUND = CallSite(cwd="/repo", home="/home/u")


@pytest.mark.parametrize(
    ("text", "tool", "pattern"),
    [
        ("Bash", "Bash", None),
        (" Bash ", "Bash", None),
        ("Bash(*)", "Bash", None),
        ("Bash(ls)", "Bash", "ls"),
        ("Bash(echo (a))", "Bash", "echo (a)"),
        ("Bash(a\nb)", "Bash", "a\nb"),
        ("mcp__my-server__do.it", "mcp__my-server__do.it", None),
        ("mcp__*", "mcp__*", None),
        ("*", "*", None),
        ("Read(**)", "Read", "**"),
    ],
)
def test_a_rule_is_read(text: str, tool: str, pattern: str | None) -> None:
    assert Rule.parse("deny", text, source="person", root="/r") == Rule(
        decision="deny", tool=tool, pattern=pattern, source="person", root="/r"
    )


@pytest.mark.parametrize("text", ["Bash()", "Bash( )", "Read(\n)"])
def test_empty_parentheses_deny_everything_and_allow_nothing(text: str) -> None:
    assert Rule.parse("deny", text).pattern is None
    assert Rule.parse("ask", text).pattern is None
    with pytest.raises(UserError, match="allows nothing"):
        Rule.parse("allow", text)


LOOKED_AT = [
    ("Read", "src/../a", ("/repo/src/../a",), ()),
    ("Read", "~/a", ("/home/u/a",), ()),
    ("Grep", {"pattern": "x"}, ("/repo",), ()),
    ("Glob", {"pattern": "../a/*"}, ("/repo", "/repo/../a/"), ()),
    ("Bash", "cat a < b > c", ("/repo/a", "/repo/b", "/repo/c"), ("<shared 7>/repo/c",)),
    ("Bash", "cat *.md src/?", (), ("/repo/*.md", "/repo/src/?")),
    ("Bash", "ls -la", (), ()),
    ("WebFetch", "https://a.test", (), ()),
    ("TodoWrite", {"todos": []}, (), ()),
    ("Read", {}, (), ()),
]


@pytest.mark.parametrize(("tool", "args", "paths", "globs"), LOOKED_AT)
def test_what_must_be_looked_at_is_said(
    tool: str, args: str | dict[str, object], paths: tuple[str, ...], globs: tuple[str, ...]
) -> None:
    found_paths, found_globs = paths_to_resolve(Call(spec_of(tool), arguments(tool, args)), GROUND)

    assert set(paths) <= set(found_paths)
    assert set(found_globs) == set(globs)


def test_a_command_that_goes_through_a_folder_is_looked_at_for_what_is_denied() -> None:
    call = Call(spec_of("Bash"), {"command": "grep -r x src"})

    _, globs = paths_to_resolve(call, GROUND, rules(deny=["Read(.env)", "Read(/src/keys/**)", "Read(/lib/**)"]))

    denied = "/**/.env\n/repo/src/keys/**\n/src/keys/**\n/repo/lib/**\n/lib/**"
    assert globs == ("<all 9>/repo/src", f"<all 9>/repo/src{denied}")


def test_what_is_denied_is_left_out_of_what_is_found() -> None:
    held = rules(deny=["Read(.env)", "Edit(src/**)"], ask=["Read(docs/**)"])
    linked = CallSite(cwd="/repo", home="/home/u", links={"/repo/x": "/repo/.env"})

    assert is_hidden("/repo/sub/.env", held, GROUND)
    assert is_hidden("/repo/x", held, linked)
    assert not is_hidden("/repo/x", held, GROUND)
    assert not is_hidden("/repo/src/a.py", held, GROUND)
    assert not is_hidden("/repo/docs/a.md", held, GROUND)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (("a", MANY), ("a", "b"), True),
        (("a", MANY), ("b", MANY), False),
        (("a", MANY), ("a", "/", "b"), False),
        (("a", DEEP), ("a", "/", "b"), True),
        ((MANY, "x"), ("a", MANY), True),
        ((MANY, "x"), ("a", MANY, "y"), False),
        ((ONE,), ("/",), False),
        ((ONE, ONE), ("a",), False),
        ((), (), True),
        ((), (DEEP,), True),
        (("a",), (), False),
        ((DEEP, "a", DEEP), (MANY, "b", MANY), True),
    ],
)
def test_patterns_meet_when_some_text_matches_both(one: tuple[str, ...], other: tuple[str, ...], found: bool) -> None:
    assert meets(one, other) is found
    assert meets(other, one) is found


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        *[
            ("a", "a", True),
            ("a", "ab", False),
            ("a*", "ab", True),
            ("*", "", True),
            ("a*a", "a", False),
            ("a*a", "aa", True),
        ],
        *[
            ("*ab*ba*", "aba", False),
            ("*ab*ba*", "abba", True),
            ("*a*b", "bab", True),
            ("a*c*b", "ab", False),
            ("", "", True),
        ],
    ],
)
def test_pieces_stand_in_their_order_and_do_not_overlap(pattern: str, text: str, found: bool) -> None:
    assert star_match(tuple(pattern.split("*")), text) is found


def test_many_wildcards_cost_no_time() -> None:
    long = "a" * 4_000
    stars = "*a" * 30 + "*b"

    for given in ({"deny": [f"Read({stars})"]}, {"deny": [f"Read({'**/a/' * 20}b)"]}, {"allow": [f"Read({stars})"]}):
        assert weighed("Read", f"{long}/{'a/' * 300}", **given).decision == "allow"  # type: ignore[arg-type]
    assert weighed("Bash", f"make {long}", deny=[f"Bash({stars})"]).decision == "ask"
    assert weighed("Skill", long, deny=[f"Skill({stars})"]).decision == "ask"
    assert weighed("WebFetch", f"https://{'a' * 60}.test/", deny=[f"WebFetch(domain:{stars})"]).decision == "ask"


@pytest.mark.parametrize(
    ("command", "allowed", "denied"),
    [
        ("npm run build", "allow", "deny"),
        ("npm run build --watch", "allow", "deny"),
        ("npm run build:docs", "allow", "deny"),
        ("npm run buildx", "ask", "allow"),
    ],
)
def test_a_colon_before_the_last_wildcard_is_a_blank_or_itself(command: str, allowed: str, denied: str) -> None:
    assert weighed("Bash", command, allow=["Bash(npm run build:*)"]).decision == allowed
    assert weighed("Bash", command, mode="bypassPermissions", deny=["Bash(npm run build:*)"]).decision == denied
