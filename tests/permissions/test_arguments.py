"""Rules on the arguments of tools that the policy cannot look into: own tools and those of servers."""

import json
import random
from typing import Any, Literal

import pytest

from backstay.permissions.arguments import MOST_TEXT, MOST_VALUES, compare
from backstay.permissions.call_site import CallSite
from backstay.permissions.server_tools import item_names, server_names
from backstay.vocab.rules import Rule
from backstay.vocab.specs import ToolSpec
from tests.permissions.desk import weighed

READ = "mcp__fs__read"
NAMED, PLURAL, UNNAMED = f"{READ}(path:secrets/**)", f"{READ}(paths:secrets/**)", f"{READ}(secrets/**)"

A1 = [
    (PLURAL, {"paths": ["secrets/k"]}),
    (PLURAL, {"paths": ["a", "secrets/k"]}),
    (PLURAL, {"paths": [["a", ["secrets/k"]]]}),
    (PLURAL, {"paths": {"first": "secrets/k"}}),
    (PLURAL, {"paths": {"secrets/k": "first"}}),
    (PLURAL, {"paths": '["secrets/k"]'}),
    (UNNAMED, {"paths": ["secrets/k"]}),
    (UNNAMED, {"paths": ["secrets/k"], "note": "hi"}),
    (UNNAMED, {"edits": [{"path": "secrets/k", "text": "x"}]}),
    (UNNAMED, {"files": {"secrets/k": "x"}}),
    (NAMED, {"edits": [{"path": "secrets/k"}]}),
    (NAMED, {"path": "./secrets/k"}),
    (NAMED, {"path": "secrets//k"}),
    (NAMED, {"path": "a/../secrets/k"}),
    (NAMED, {"path": "../repo/secrets/k"}),
    (NAMED, {"path": "/repo/secrets/k"}),
    (NAMED, {"path": "/repo/./a/../secrets/k"}),
    (NAMED, {"path": "file:///repo/secrets/k"}),
    (NAMED, {"path": "file:///repo/secre%74s/k"}),
    (NAMED, {"path": "secrets"}),
    (NAMED, {"path": " secrets/k"}),
    (NAMED, {"path": "./" * 9_000 + "secrets/k"}),
    (NAMED, {"Path": "secrets/k"}),
    (UNNAMED, {"anything": "./secrets/k"}),
    (f"{READ}(file_path:secrets/**)", {"filePath": "secrets/k"}),
    (f"{READ}(path:./secrets/**)", {"path": "secrets/k"}),
    (f"{READ}(path:/repo/secrets/**)", {"path": "secrets/k"}),
    (f"{READ}(path:~/.ssh/**)", {"path": "/home/u/.ssh/id_rsa"}),
    (f"{READ}(path:/home/u/.ssh/**)", {"path": "~/.ssh/id_rsa"}),
    (f"{READ}(path:key.pem)", {"path": "./key.pem"}),
    (f"{READ}(path:key.pem)", {"path": "/repo/key.pem"}),
    (f"{READ}(limit:5)", {"limit": 5}),
    (f"{READ}(limit:5)", {"limit": 5.0}),
    (f"{READ}(limit:5)", {"limit": "5"}),
    (f"{READ}(deep:true)", {"deep": True}),
    (f"{READ}(*token*)", {"q": ["my TOKEN is"]}),
]


@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
@pytest.mark.parametrize(("rule", "args"), A1)
def test_a1_a_denial_on_an_argument_looks_into_lists_objects_and_spellings(
    rule: str, args: dict[str, object], mode: Literal["default", "bypassPermissions"]
) -> None:
    assert weighed(READ, args, allow=[READ], deny=[rule], mode=mode).decision == "deny"
    assert weighed(READ, args, allow=[READ], ask=[rule], mode=mode).decision == "ask"


ELSEWHERE = [
    (PLURAL, {"paths": ["a", "b/secret"]}),
    (NAMED, {"path": "a/secrets.md"}),
    (UNNAMED, {"q": "x", "limit": 5}),
    (UNNAMED, {"note": "about\nsecrets/k"}),
    (f"{READ}(project:SECRET)", {"project": "OTHER"}),
    (f"{READ}(deep:true)", {"deep": False}),
    (f"{READ}(limit:5)", {"limit": 50}),
    (f"{READ}(limit:5*)", {"limit": 6}),
    (f"{READ}(key.pem)", {"path": "a/mykey.pem"}),
]


@pytest.mark.parametrize(("rule", "args"), ELSEWHERE)
def test_a_denial_on_an_argument_leaves_other_values_alone(rule: str, args: dict[str, object]) -> None:
    assert weighed(READ, args, allow=[READ], deny=[rule]).decision == "allow"


@pytest.mark.parametrize("os", ["darwin", "windows"])
def test_a1_names_are_compared_as_the_system_compares_them(os: Literal["darwin", "windows"]) -> None:
    assert weighed(READ, {"path": "./SECRETS/k"}, allow=[READ], deny=[NAMED], os=os).decision == "deny"
    if os == "windows":
        assert weighed(READ, {"path": "a\\..\\secrets\\k"}, allow=[READ], deny=[NAMED], os=os).decision == "deny"


ABSENT = [{"limit": 5}, {"limit": 5, "q": "x"}, {}, {"project": None}, {"q": "SECRET"}]


@pytest.mark.parametrize("args", ABSENT)
def test_a2_a_denial_that_names_an_argument_is_not_about_calls_without_it(args: dict[str, object]) -> None:
    tool = "mcp__jira__search"

    assert weighed(tool, args, allow=[tool], deny=[f"{tool}(project:SECRET)"]).decision == "allow"
    assert weighed(tool, args, allow=[tool], ask=[f"{tool}(project:SECRET)"]).decision == "allow"


def test_a2_a_child_without_a_name_is_the_usual_one() -> None:
    assert weighed("Agent", {"prompt": "p"}, deny=["Agent(Explore)"]).decision == "allow"
    assert weighed("Agent", {"prompt": "p"}, deny=["Agent(general-purpose)"]).decision == "deny"
    assert weighed("Agent", {"subagent_type": ["Explore"], "prompt": "p"}, deny=["Agent(Explore)"]).decision == "deny"


UNCLEAR = [
    ({"project": 17}, "a number"),
    ({"project": [17]}, "a number"),
    ({"project": {"id": "17"}}, "an object"),
    ({"project": ["SECRET", *["x"] * MOST_VALUES]}, "more in the arguments"),
    ({"project": "x" * (MOST_TEXT + 1)}, "more in the arguments"),
]


@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
@pytest.mark.parametrize(("args", "words"), UNCLEAR)
def test_a1_what_cannot_be_compared_asks(
    args: dict[str, object], words: str, mode: Literal["default", "bypassPermissions"]
) -> None:
    verdict = weighed(READ, args, allow=[READ], deny=[f"{READ}(project:SECRET)"], mode=mode)

    assert (verdict.decision, verdict.reason) == ("ask", "rule")
    assert words in verdict.detail
    assert f"{READ}(project:SECRET)" in verdict.detail


def own(**fields: Any) -> ToolSpec:
    return ToolSpec(name="put", description="", **{"schema": {}, **fields})


@pytest.mark.parametrize(
    ("touches", "args"),
    [
        ("runs", {"command": "make secrets"}),
        ("reads", {"path": "a/../secrets/k"}),
        ("edits", {"path": "./secrets/k"}),
        ("web", {"url": "https://a.test/secrets/k"}),
        ("notes", {"text": ["secrets/k"]}),
        ("person", {"text": ["secrets/k"]}),
    ],
)
def test_a1_a_denial_by_name_and_pattern_holds_whatever_an_own_tool_touches(
    touches: Literal["runs", "reads", "edits", "web", "notes", "person"], args: dict[str, object]
) -> None:
    deny = ["put(*secrets*)"]

    assert weighed(own(touches=touches), args, deny=deny, mode="bypassPermissions").decision == "deny"


SCHEMA = {"properties": {"path": {"type": "string"}, "note": {"type": "string"}}}


def test_unknown_arguments_never_loosen() -> None:
    asking, editing = own(asks=True, schema=SCHEMA), own(touches="edits")

    assert weighed(asking, {"path": "a/b", "note": "n"}, allow=["put(a/*)"]).decision == "allow"
    assert weighed(asking, {"path": "a/b", "where": "/etc"}, allow=["put(a/*)"]).decision == "ask"
    assert weighed(asking, {"note": "n", "command": "a/b"}, allow=["put(a/*)"]).decision == "ask"
    assert weighed(own(asks=True), {"key": "b/c", "name": "a/b"}, allow=["put(a/*)"]).decision == "ask"
    assert weighed(asking, {"path": "a/../../etc"}, allow=["put(a/*)"]).decision == "ask"
    assert weighed(asking, {"path": "a/.."}, allow=["put(a/..)"]).decision == "allow"
    assert weighed(editing, {"path": "/etc/x", "file_path": "a"}, mode="acceptEdits").decision == "ask"
    assert weighed(editing, {"path": ["/etc/x"], "file_path": "a"}, mode="acceptEdits").decision == "ask"
    declared = own(touches="edits", schema={"properties": {"path": {"type": "string"}}})
    assert weighed(declared, {"path": "/etc/x", "file_path": "a"}, mode="acceptEdits").decision == "ask"
    assert weighed(declared, {"path": "a", "file_path": "a"}, mode="acceptEdits").decision == "allow"


_ORDER = ("no", "maybe", "yes")
_VALUES: list[object] = [
    *("secrets/k", "a", "", "x/../secrets", '["secrets/k"]', "{"),
    *(None, True, 0, 17, 1.5, [], {}, ["secrets/k", 3], {"path": "b"}, {"secrets/k": 1}, [[{"q": ["./secrets/k"]}]]),
]


def test_one_more_argument_never_takes_a_match_back() -> None:
    draw = random.Random(21)
    call_site = CallSite(cwd="/repo", home="/home/u")
    for _ in range(3_000):
        args = {name: draw.choice(_VALUES) for name in draw.sample(("path", "paths", "q", "Path", "n"), 3)}
        fewer = dict(list(args.items())[:2])
        for pattern in ("path:secrets/**", "secrets/**", "path:17", "q:true"):
            rule = Rule.parse("deny", f"put({pattern})")
            before = compare(rule, fewer, call_site, by_name=False).match
            after = compare(rule, args, call_site, by_name=False).match
            assert _ORDER.index(after) >= _ORDER.index(before), (pattern, json.dumps(args))


@pytest.mark.parametrize(
    ("server", "item", "rule"),
    [
        ("my.srv", "find", "mcp__my.srv"),
        ("my.srv", "rm.all", "mcp__my.srv__rm.all"),
        ("a__b", "find", "mcp__a__b"),
        ("a__b", "find", "mcp__a__b__find"),
        ("a__b", "rm__all", "mcp__a__b__*"),
        ("awslabs.core-mcp-server", "x", "mcp__awslabs.core-mcp-server__*"),
        ("plugin." + "n" * 40 + ".srv", "find", "mcp__plugin." + "n" * 40 + ".srv"),
        ("plugin." + "n" * 40 + ".srv", "t" * 70, "mcp__plugin." + "n" * 40 + ".srv__" + "t" * 70),
        ("srv", "t" * 70, "mcp__srv__" + "t" * 70),
        ("srv", "t" * 70, "mcp__SRV__ttt*"),
    ],
)
def test_a_denial_of_a_server_or_its_tool_holds_with_the_name_as_it_is_written(
    server: str, item: str, rule: str
) -> None:
    made = item_names(server_names([server])[server], [item])[item]
    for tool, decision in ((made, "deny"), ("mcp__other__find", "allow")):
        spec = ToolSpec(name=tool, description="", schema={}, effect="once")
        assert weighed(spec, {}, deny=[rule], mode="bypassPermissions").decision == decision
