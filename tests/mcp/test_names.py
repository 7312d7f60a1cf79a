"""Names of servers' tools: accepted by every provider, never shared, and certain about whose they are."""

import re
import string

from hypothesis import given
from hypothesis import strategies as st

from backstay.permissions.rule_index import is_about
from backstay.permissions.server_tools import item_names, server_names
from backstay.vocab.rules import Rule

NAMES = st.lists(st.text(st.sampled_from("ab_-. :/\u00e9") | st.characters(), min_size=1, max_size=70), max_size=6)


def test_plain_names_stay_as_they_are() -> None:
    assert server_names(["github", "my-files"]) == {"github": "github", "my-files": "my-files"}
    assert item_names("github", ["create_issue", "get-me"]) == {
        "create_issue": "mcp__github__create_issue",
        "get-me": "mcp__github__get-me",
    }


def test_other_characters_become_underscores() -> None:
    assert server_names(["my server", "plugin:tools:db"]) == {
        "my server": "my_server",
        "plugin:tools:db": "plugin_tools_db",
    }
    assert item_names("db", ["read.table"]) == {"read.table": "mcp__db__read_table"}


def test_who_needs_no_change_keeps_the_name_and_the_other_gets_a_tail() -> None:
    found = server_names(["a.b", "a_b"])

    assert found["a_b"] == "a_b"
    assert re.fullmatch(r"a_b_[0-9a-f]{8}", found["a.b"])


def test_a_long_name_is_cut_and_stays_different_from_its_neighbour() -> None:
    found = item_names("db", ["x" * 80 + "1", "x" * 80 + "2"])

    assert len(set(found.values())) == 2
    assert all(len(name) == 64 for name in found.values())


@given(NAMES, NAMES)
def test_every_name_is_one_that_providers_accept_and_no_two_are_the_same(servers: list[str], items: list[str]) -> None:
    parts = server_names(servers)
    names = [name for part in parts.values() for name in item_names(part, items).values()]

    assert len(set(names)) == len(names) == len(parts) * len(set(items))
    assert all(set(name) <= set(string.ascii_letters + string.digits + "_-") and len(name) <= 64 for name in names)


@given(NAMES, NAMES)
def test_a_rule_that_allows_one_server_never_allows_a_tool_of_another(servers: list[str], items: list[str]) -> None:
    parts = server_names(servers)
    for name, part in parts.items():
        rule = Rule(decision="allow", tool=f"mcp__{part}", source="person")
        for other, foreign in parts.items():
            if other != name:
                assert not any(is_about(rule, tool) for tool in item_names(foreign, items).values())
