"""Every value knows its file and line, what overrode it, and why it does not count."""

import json
from pathlib import Path

import pytest

from backstay.config.entries import ELSEWHERE, UNKNOWN, SettingsEntry
from backstay.config.layers import Layered
from backstay.permissions.rule_index import DEFAULT_RULES, index_rules
from backstay.plugins.installed import read_enabling
from backstay.vocab.errors import UserError
from tests.config.world import World

PLAIN = "hk-5f0c93b1d7e24a68"


def told(entries: tuple[SettingsEntry, ...]) -> list[tuple[str, object, str, bool]]:
    """Entries in short: place relative to nothing but its last parts."""
    return [(each.key, each.value, f"{Path(each.file).name}:{each.line}", each.counts) for each in entries if each.file]


def test_a_single_value_is_told_with_what_it_overrides_and_what_would_hold_by_default(world: World) -> None:
    world.write(world.managed, {"chat": {}, "retries": 1})
    person = world.write(world.config, {"model": "a:b", "chat": {"max_messages": 3}, "retries": 2})
    project = world.write(".backstay/settings.json", {"retries": 3})

    found = world.read(trust=True).why("retries")

    above = f"overridden by {world.managed}:3"
    assert [(each.key, each.value, each.source, each.place, each.reason) for each in found] == [
        ("retries", 1, "managed", f"{world.managed}:3", ""),
        ("retries", 3, "project", f"{project}:2", above),
        ("retries", 2, "person", f"{person}:6", above),
        ("retries", "3", "default", "default", "a file says something else"),
    ]


def test_what_an_untrusted_workspace_says_does_not_count_and_that_is_the_reason(world: World) -> None:
    world.write(
        ".claude/settings.json",
        {
            "permissions": {"allow": ["Bash"], "deny": ["Read(.env)"], "defaultMode": "acceptEdits"},
            "hooks": world.hook("x"),
            "env": {"A": "1"},
            "model": "opus",
            "enabledPlugins": {"p@m": True},
            "disabledMcpjsonServers": ["s"],
        },
    )

    found = {(each.key, each.counts, each.reason) for each in world.read(trust=False).entries}

    held = "the workspace is not trusted"
    assert found == {
        ("permissions.allow", False, held),
        ("permissions.deny", True, ""),
        ("permissions.defaultMode", False, f"{held}, and it would loosen"),
        ("hooks.PreToolUse", False, held),
        ("env.A", False, held),
        ("model", False, held),
        ("enabledPlugins.p@m", False, held),
        ("disabledMcpjsonServers", True, ""),
    }
    assert all(each.counts for each in world.read(trust=True).entries)


def test_lists_are_told_one_by_one_from_every_file_and_the_defaults_last(world: World) -> None:
    world.write(world.config, '{"permissions": {"allow": [\n"Read",\n"Bash("\n]}}')
    world.write(".backstay/settings.local.json", '{"permissions":\n{"allow": ["Edit"]}}')

    found = world.read(trust=True).why("permissions.allow")

    assert told(found) == [
        ("permissions.allow", "Edit", "settings.local.json:2", True),
        ("permissions.allow", "Read", "settings.json:2", True),
        ("permissions.allow", "Bash(", "settings.json:3", False),
    ]
    assert [each.value for each in found if each.source == "default"] == [str(rule) for rule in DEFAULT_RULES]


def test_a_profile_is_overridden_as_a_whole(world: World) -> None:
    world.write(world.config, {"providers": {"p": {"type": "google", "model": "m", "api_key": PLAIN}}})
    above = world.write(".backstay/settings.json", {"providers": {"p": {"type": "anthropic"}}})

    found = world.read(trust=True).why("providers.p")

    assert [(each.key, each.value, each.counts) for each in found] == [
        ("providers.p.type", "anthropic", True),
        ("providers.p.type", "google", False),
        ("providers.p.model", "m", False),
        ("providers.p.api_key", "(a secret)", False),
    ]
    assert {each.reason for each in found} == {"", f"overridden by {above}:4"}


def test_another_spelling_is_told_under_the_usual_one(world: World) -> None:
    world.write(world.config, {"autoCompactThreshold": 0.5, "providers": {"p": {"type": "google", "apiKey": "$ENV:A"}}})
    found = world.read()

    assert told(found.why("auto_compact")) == told(found.why("autoCompactThreshold"))
    assert told(found.why("providers.p.api_key")) == [("providers.p.api_key", "$ENV:A", "settings.json:6", True)]


def test_a_key_of_another_program_and_one_of_nobody_are_told_apart(world: World) -> None:
    world.write(world.config, {"statusLine": {"type": "command"}, "colours": 1, "chat": {"tempo": 1}})
    world.write(
        world.home / ".claude/settings.json", {"cleanupPeriodDays": 3, "env": {"A": "1"}, "chat": {}, "retries": 1}
    )
    found = world.read()

    assert {each.key: each.reason for each in found.entries} == {
        "statusLine": ELSEWHERE,
        "colours": UNKNOWN,
        "chat.tempo": UNKNOWN,
        "cleanupPeriodDays": ELSEWHERE,
        "env.A": "not read from another program's file",
        "retries": "not read from another program's file",
    }
    assert found.settings.retries is None


def test_a_broken_files_denials_are_told_without_a_line(world: World) -> None:
    path = world.write(
        world.config, {"permissions": {"deny": ["Bash"], "defaultMode": "plan"}, "hooks": world.hook("g")}
    )
    world.read()
    path.write_text("{", encoding="utf-8")

    found = world.read().entries

    assert [(each.key, each.value, each.line, each.counts) for each in found] == [
        ("permissions.deny", "Bash", 0, True),
        ("permissions.defaultMode", "plan", 0, True),
        ("hooks.PreToolUse", "(as remembered)", 0, True),
    ]


def test_hooks_that_are_switched_off_and_a_mode_said_twice_do_not_count(world: World) -> None:
    world.write(
        world.config,
        {
            "disableAllHooks": True,
            "hooks": world.hook("x"),
            "defaultTrustLevel": "full",
            "permissions": {"defaultMode": "plan"},
        },
    )
    found = world.read()

    assert found.mode == "plan"
    assert {each.key: each.counts for each in found.entries} == {
        "disableAllHooks": True,
        "hooks.PreToolUse": False,
        "defaultTrustLevel": False,
        "permissions.defaultMode": True,
    }


@pytest.mark.parametrize(
    ("key", "near"), [("permission.allow", "permissions.allow"), ("retrys", "retries"), ("zzz", "")]
)
def test_what_is_no_setting_is_refused_with_the_nearest(world: World, key: str, near: str) -> None:
    with pytest.raises(UserError) as caught:
        world.read().why(key)

    assert (f"Did you mean {near!r}?" in str(caught.value)) == bool(near)


def test_a_setting_that_nobody_says_has_its_default_or_nothing(world: World) -> None:
    found = world.read()

    assert [(each.value, each.counts) for each in found.why("permissions.defaultMode")] == [("default", True)]
    assert found.why("providers.house.model") == found.why("chat") == found.why("models.gpt-5.4.window") == ()


def test_no_entry_of_any_file_has_a_secret(world: World) -> None:
    for path in (world.config, ".backstay/settings.json", ".claude/settings.json"):
        world.write(
            path,
            {
                "providers": {"p": {"type": "google", "apiKey": PLAIN, "headers": {"X": PLAIN}}},
                "provider": {"type": "google", "model": "m", "api_key": PLAIN},
                "env": {"TOKEN": PLAIN},
                "mcpServers": {"s": {"command": "x", "env": {"K": PLAIN}, "headers": {"A": PLAIN}}},
            },
        )
    for trust in (True, False):
        found = world.read(trust=trust)
        assert len(found.entries) > 10
        assert PLAIN not in json.dumps([each.value for each in found.entries])
        assert PLAIN not in str([claim.text for claim in found.trust.survey.claims if claim.kind == "setting"])


def effective(found: Layered) -> dict[str, object]:
    """Some values as the merger has them, by their keys."""
    said = found.settings
    return {
        "chat.max_messages": said.chat.max_messages,
        "chat.default_model": said.chat.default_model,
        "retries": said.retries,
        "auto_compact": said.auto_compact,
        "language": said.language or None,
        "model": said.model or None,
        "currentProvider": said.current_provider or None,
        "providers.p.model": said.providers["p"].model if "p" in said.providers else None,
        "enabledPlugins.a@m": read_enabling(found.files).counts(trusted=found.trust.trusted).get("a@m"),
        "taskContext.dir": said.task_context.dir,
        "permissions.defaultMode": found.mode,
    }


@pytest.mark.parametrize("trust", [True, False])
def test_what_counts_is_what_the_merger_took(world: World, trust: bool) -> None:
    places: tuple[str | Path, ...] = (
        world.managed,
        world.config,
        world.home / ".claude/settings.json",
        *(f".{family}/settings{kind}.json" for family in ("backstay", "claude") for kind in (".local", "")),
    )
    modes = ("plan", "acceptEdits", "default", "dontAsk", "plan", "acceptEdits", "default")
    for number, (place, mode) in enumerate(zip(places, modes, strict=True)):
        content = {
            "chat": {"max_messages": number + 1, "default_model": f"m:{number}"},
            "retries": number,
            "auto_compact": 0.1 + number / 10,
            "language": f"l{number}",
            "model": f"a:{number}",
            "currentProvider": f"p{number}",
            "providers": {"p": {"type": "google", "model": f"g{number}"}},
            "enabledPlugins": {"a@m": bool(number % 2)},
            "taskContext": {"dir": f"d{number}"},
            "permissions": {"defaultMode": mode},
        }
        keys = list(content)
        world.write(place, {key: content[key] for at, key in enumerate(keys) if (at + number) % 3})

    found = world.read(trust=trust)

    for key, value in effective(found).items():
        counting = [each.value for each in found.why(key) if each.counts and each.source != "default"]
        if counting:
            assert counting == [value], key


def test_what_no_session_uses_is_not_explained_as_counting(world: World) -> None:
    world.write(
        world.home / ".claude/settings.json",
        {
            "enabledPlugins": {"p@m": True},
            "extraKnownMarketplaces": {"m": {}},
            "permissions": {"allow": ["Bash()"]},
            "language": 3,
        },
    )
    found = world.read()

    assert {each.key: each.reason for each in found.entries} == {
        "enabledPlugins.p@m": "not read from another program's file",
        "extraKnownMarketplaces.m": "not read from another program's file",
        "permissions.allow": "it is no rule, and allows nothing",
        "language": "It must be a text in quotes, not a whole number.",
    }


@pytest.mark.contract("RB-51")
def test_the_folders_of_instructions_may_be_read_beside_the_persons_rules_and_a_denial_beats_that(world: World) -> None:
    world.write(world.config, {"permissions": {"allow": ["Bash(make)"], "deny": ["Read(.claude/**)"]}})
    found = world.read()

    book = index_rules(found.rules, trusted=found.trust.trusted)

    assert [str(rule) for rule in book.allow.every] == ["Bash(make)", *map(str, DEFAULT_RULES)]
    assert {str(rule) for rule in DEFAULT_RULES} == {
        f"{tool}({folder}/**)" for tool in ("Read", "Glob") for folder in (".agents", ".claude", ".backstay")
    }
    assert [str(rule) for rule in book.deny.reads] == ["Read(.claude/**)"]
