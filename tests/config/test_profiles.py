"""Profiles of providers: two spellings, an older form, and errors that name their line."""

import json
from pathlib import Path
from typing import Any

import pytest

from backstay import open_store
from backstay.config.secret import Secret
from backstay.config.settings import IDLE_TIMEOUT_S, Profile, Settings, load_settings
from backstay.session.apply_settings import apply_settings
from backstay.session.options import Options
from backstay.system.machine import SystemClock
from backstay.vocab.errors import UserError


def load(folder: Path, content: object, given: object = None) -> Settings:
    """Settings of a person's file, and of a given one over it."""
    paths = [folder / "settings.json", folder / "given.json"]
    for path, each in zip(paths, (content, given), strict=True):
        text = each if isinstance(each, str) else json.dumps(each, indent=1)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
    return load_settings(paths[1] if given is not None else None, {"BACKSTAY_CONFIG_DIR": str(folder)})


@pytest.mark.contract("RB-84")
def test_a_profile_can_be_written_in_either_spelling(tmp_path: Path) -> None:
    more = {"type": "openai-chat", "model": "m", "timeout": 2_500, "options": {"top_k": 3, "deep": {"a": [1]}}}
    ours = {**more, "base_url": "https://a.example/v1/", "api_key": "$ENV:A", "headers": {"X": "$ENV:B"}}
    theirs = {**more, "baseURL": "https://a.example/v1/", "apiKey": "$ENV:A", "headers": {"X": "$ENV:B"}}

    found = load(tmp_path, {"providers": {"ours": ours, "theirs": theirs}})

    assert (
        found.providers["ours"]
        == found.providers["theirs"]
        == Profile(
            type="openai-chat",
            base_url="https://a.example/v1",
            api_key=Secret("$ENV:A", name=""),
            headers={"X": Secret("$ENV:B", name="")},
            model="m",
            timeout_s=2.5,
            options={"top_k": 3, "deep": {"a": [1]}},
        )
    )
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"providers": {\n"p": {}}}', ":2: providers.p: Object missing required field `type`"),
        ('{"providers": {"p": {\n"type": "antropic"}}}', ":2: providers.p.type: There is no provider 'antropic'"),
        ('{"providers": {"p": {"type": "antropic"}}}', "Did you mean 'anthropic'?"),
        (
            '{"providers": {"p": {"type": "google",\n"api_key": "a",\n"apiKey": "b"}}}',
            ":3: providers.p.apiKey: It stands",
        ),
        ('{"providers": {"p": {"type": "google", "baseURL": "x", "base_url": "y"}}}', "providers.p.baseURL: It stands"),
        ('{"providers": {"p": {"type": "google", "baseURL": "ftp://x"}}}', "providers.p.baseURL: It is not an address"),
        ('{"providers": {"p": {"type": "google", "timeout": 0}}}', "providers.p.timeout"),
        ('{"providers": {"p": {"type": "google", "options": []}}}', "providers.p.options"),
        (
            '{"providers": {"p": {"type": "google", "apiKey": "$KEYRING:x"}}}',
            "providers.p.apiKey: It looks like a variable",
        ),
        ('{"provider": {\n"model": "m"}}', ":1: provider: Object missing required field `type`"),
        ('{"provider": {"type": "google",\n"name": "google"}}', ":2: provider.name: It stands twice"),
        ('{"provider": {"name": "skynet"}}', "provider.name: There is no provider 'skynet'"),
        ('{"provider": "google"}', "provider: It must be an object in braces, not a text in quotes."),
        ('{"auto_compact": 0.5,\n"autoCompactThreshold": 0.6}', ":2: autoCompactThreshold: It stands twice"),
        ('{"autoCompactThreshold": 2}', "autoCompactThreshold"),
        ('{"currentProvider": ""}', "currentProvider"),
        ('{"enabledPlugins": {"a@b": "yes"}}', "enabledPlugins"),
        ('{"extraKnownMarketplaces": {"m": "x"}}', "extraKnownMarketplaces"),
        ('{"taskContext": {"dir": 3}}', "taskContext.dir"),
        ('{"memory": {"enabled": "no"}}', "memory.enabled"),
        ('{"language": 3}', "language"),
    ],
)
@pytest.mark.contract("RB-84")
def test_what_is_wrong_is_named_with_file_line_and_key(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, content)

    assert str(tmp_path / "settings.json") in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.contract("RB-84")
def test_the_older_provider_becomes_a_profile_with_a_warning_that_says_how_to_move(tmp_path: Path) -> None:
    old = {"name": "anthropic", "model": "claude-x", "apiKey": "$ENV:A"}

    found = load(tmp_path, {"provider": old})

    profile = Profile(type="anthropic", model="claude-x", api_key=Secret("$ENV:A", name=""))
    assert (found.legacy, found.providers) == ("anthropic", {"anthropic": profile})
    (warning,) = found.warnings
    assert warning.startswith(f"{tmp_path}/settings.json:2: 'provider' is an older way")
    assert '"currentProvider": "anthropic"' in warning


def test_the_older_provider_takes_no_profiles_name(tmp_path: Path) -> None:
    content = {
        "providers": {"google": {"type": "google", "model": "own"}},
        "provider": {"type": "google", "model": "old"},
    }

    found = load(tmp_path, content, {"provider": {"type": "google", "model": "older"}})

    assert {name: each.model for name, each in found.providers.items()} == {"google": "own", "legacy": "older"}
    assert found.legacy == "legacy"


def test_a_higher_files_profile_replaces_a_profile_whole_so_that_no_key_is_led_astray(tmp_path: Path) -> None:
    mine = {"providers": {"p": {"type": "anthropic", "apiKey": "$ENV:MINE", "model": "m"}}}

    found = load(tmp_path, mine, {"providers": {"p": {"type": "anthropic", "baseURL": "https://thief.example"}}})

    assert found.providers["p"] == Profile(type="anthropic", base_url="https://thief.example")


def test_a_profile_that_is_replaced_is_checked_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"settings\.json:4: providers\.p\.type: There is no provider 'skynet'"):
        load(tmp_path, {"providers": {"p": {"type": "skynet"}}}, {"providers": {"p": {"type": "google"}}})


@pytest.mark.contract("RB-84")
def test_a_provider_may_be_silent_for_two_minutes_unless_something_else_is_said() -> None:
    assert IDLE_TIMEOUT_S == 120.0 == Options().idle_timeout_s


@pytest.mark.parametrize(
    ("said", "patience"),
    [
        ({"model": "slow:m"}, 300.0),
        ({"model": "usual:m"}, 120.0),
        ({"model": "quick:m"}, 5.0),
        ({"model": "quick:m", "fallback_models": ["usual:m"]}, 120.0),
        ({"model": "quick:m", "fallback_models": ["slow:m"]}, 300.0),
        ({"model": "slow:m", "idle_timeout_s": 7.0}, 7.0),
        ({"model": "slow:m", "idle_timeout_s": None}, None),
        ({}, 300.0),
    ],
)
async def test_a_profile_says_how_long_it_may_be_silent(said: dict[str, Any], patience: float | None) -> None:
    waits = {"slow": 300.0, "usual": None, "quick": 5.0}
    profiles = {
        name: Profile(type="openai-chat", base_url="http://127.0.0.1:9", model="m", timeout_s=wait)
        for name, wait in waits.items()
    }
    settings = Settings(providers=profiles, current_provider="slow")
    store = await open_store("memory:", clock=SystemClock())

    found = await apply_settings(Options(settings=settings, bare=True, **said), store)

    assert found.idle_timeout_s == patience
    await store.close()


def test_sections_are_merged_key_by_key_and_names_one_by_one(tmp_path: Path) -> None:
    below = {
        "taskContext": {"dir": "tasks"},
        "memory": {"enabled": False},
        "language": "Welsh",
        "autoCompactThreshold": 0.5,
    }
    above = {
        "taskContext": {"enabled": False},
    }

    found = load(tmp_path, below, above)

    assert (found.task_context.dir, found.task_context.enabled, found.memory.enabled) == ("tasks", False, False)
    assert (found.language, found.auto_compact, found.warnings) == ("Welsh", 0.5, ())
