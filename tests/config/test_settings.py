"""Settings: two layers, strict about what is known, and never a key in the open."""

import json
from pathlib import Path

import msgspec
import pytest

from backstay.config.locations import config_dir
from backstay.config.secret import Secret
from backstay.config.settings import ChatSettings, Profile, Settings, load_settings
from backstay.providers.catalog import ModelOverride, facts_of
from backstay.vocab.errors import UserError
from backstay.vocab.specs import Prices

PLAIN = "sk-do-not-show-me-0123456789"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    return folder


def load(home: Path, own: object = None, given: object = None) -> Settings:
    """Write the layers and read them."""
    if own is not None:
        write(home / "settings.json", own)
    path = None if given is None else write(home / "given.json", given)
    return load_settings(path, {"BACKSTAY_CONFIG_DIR": str(home)})


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
    path.chmod(0o600)
    return path


def test_a_person_without_settings_has_the_defaults(home: Path) -> None:
    assert load(home) == Settings()
    assert load_settings(None, {"BACKSTAY_CONFIG_DIR": str(home / "nowhere")}) == Settings()


@pytest.mark.contract("RV-21")
def test_the_defaults_of_chats_are_settings(home: Path) -> None:
    found = load(
        home,
        {
            "chat": {
                "fs_scope": "project",
                "allowed_commands": ["git status", "make"],
                "default_model": "anthropic:claude-sonnet-4-6",
                "max_messages": 40,
                "max_cost_microcents": 5_000_000,
                "on_exceed": "pause_for_approval",
                "max_session_turns": 0,
                "max_tool_turns": 12,
            }
        },
    )

    assert found.chat == ChatSettings(
        fs_scope="project",
        allowed_commands=("git status", "make"),
        default_model="anthropic:claude-sonnet-4-6",
        max_messages=40,
        max_cost_microcents=5_000_000,
        on_exceed="pause_for_approval",
        max_session_turns=0,
        max_tool_turns=12,
    )
    assert found.warnings == ()


def test_a_given_file_stands_over_the_persons_own_key_by_key(home: Path) -> None:
    own = {
        "chat": {"max_messages": 10, "default_model": "openai:gpt-5.4", "on_exceed": "warn"},
        "models": {"mine": {"window": 1}, "other": {"window": 2}},
        "providers": {"a": {"type": "openai-chat"}, "b": {"type": "google"}},
        "fallback": ["x:1"],
        "auto_compact": 0.5,
        "retries": 4,
    }
    given = {
        "chat": {"max_messages": 20},
        "models": {"mine": {"max_output": 3}},
        "providers": {"b": {"type": "anthropic", "base_url": "https://b.example/"}},
        "fallback": [],
        "auto_compact": False,
    }

    found = load(home, own, given)

    assert found.chat == ChatSettings(max_messages=20, default_model="openai:gpt-5.4", on_exceed="warn")
    assert found.models == {"mine": ModelOverride(max_output=3), "other": ModelOverride(window=2)}
    assert found.providers == {
        "a": Profile(type="openai-chat"),
        "b": Profile(type="anthropic", base_url="https://b.example"),
    }
    assert (found.fallback, found.auto_compact, found.retries) == ((), False, 4)


def test_a_model_is_described_in_dollars_and_words(home: Path) -> None:
    prices = {"input": 0.1, "output": 2, "cache_read": 0.025}
    found = load(home, {"models": {"mine": {"window": 9, "prices": prices, "abilities": ["tools", "images"]}}})

    facts = facts_of("openai-chat:mine", found.models)

    assert facts.prices == Prices(input=10_000_000, output=200_000_000, cache_read=2_500_000)
    assert (facts.window, facts.abilities, facts.known) == (9, frozenset(("tools", "images")), True)


def test_a_key_is_in_the_environment_or_is_never_shown(home: Path) -> None:
    found = load(
        home,
        {
            "providers": {
                "a": {"type": "openai-chat", "api_key": "$ENV:MY_KEY", "headers": {"X-Team": PLAIN}},
                "b": {"type": "openai-chat", "api_key": PLAIN},
            }
        },
    )
    a, b = found.providers["a"].api_key, found.providers["b"].api_key
    assert a is not None
    assert b is not None

    assert a.reveal({"MY_KEY": " value\n"}) == "value"
    assert b.reveal({}) == PLAIN
    assert PLAIN not in f"{found!r} {found}"
    with pytest.raises(UserError, match=r"providers\.a\.api_key in .*'MY_KEY', which is not set"):
        a.reveal({})
    with pytest.raises(TypeError):
        msgspec.json.encode(found)


def test_a_plain_key_that_others_can_read_is_a_warning(home: Path) -> None:
    path = write(home / "settings.json", {"providers": {"a": {"type": "google", "api_key": PLAIN}}})
    path.chmod(0o644)

    (warning,) = load(home).warnings

    assert f"{path}:5: 'providers.a.api_key'" in warning
    assert PLAIN not in warning


def test_a_key_that_nobody_knows_is_a_warning_with_its_line(home: Path) -> None:
    content = {"colours": {"sky": []}, "chat": {"tempo": 1}, "models": {"m": {"size": 1}}}

    found = load(home, content)

    assert [warning.partition(" is not")[0] for warning in found.warnings] == [
        f"{home}/settings.json:2: 'colours'",
        f"{home}/settings.json:6: 'chat.tempo'",
        f"{home}/settings.json:10: 'models.m.size'",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ":1: This is not JSON"),
        ('{\n "chat": {\n  "max_messages": 3,\n }\n}', ":4: This is not JSON"),
        ("[1]", ":1: This is not a JSON object"),
        ('{"chat": []}', "1: chat: It must be an object in braces, not a list in brackets."),
        ('{"chat":\n {"max_messages": 0}}', "2: chat.max_messages: It must be a whole number >= 1."),
        (
            '{"chat":\n {"max_messages": "many"}}',
            "2: chat.max_messages: It must be a whole number or null, not a text in quotes.",
        ),
        ('{"chat": {"on_exceed": "panic"}}', "chat.on_exceed: 'panic' is none of its values: "),
        ('{"chat": {"fs_scope": "moon"}}', "chat.fs_scope: 'moon' is none of its values: full, project, sandboxed."),
        ('{"chat": {"allowed_commands": ["a", ""]}}', "chat.allowed_commands"),
        (
            '{"chat": {"max_cost_microcents": 1.5}}',
            "chat.max_cost_microcents: It must be a whole number or null, not a fraction.",
        ),
        ('{"models": {"m": {"prices": {"input": 1}}}}', "models.m.prices: Object missing required field `output`"),
        (
            '{"models": {"m": {"prices": {"input": -1, "output": 1}}}}',
            "models.m.prices.input: It must be a number >= 0",
        ),
        ('{"models": {"m": {"prices": {"input": 1e-9, "output": 1}}}}', "models.m.prices.input"),
        ('{"models": {"m": {"abilities": ["fly"]}}}', "models.m.abilities"),
        ('{"models": {"m": {"window": 0}}}', "models.m.window"),
        ('{"providers": {"p": {}}}', "providers.p: Object missing required field `type`"),
        ('{"providers": {"p": {"type": "skynet"}}}', "providers.p.type: There is no provider 'skynet'"),
        ('{"providers": {"p:q": {"type": "google"}}}', "'p:q' cannot name a profile"),
        ('{"providers": {"": {"type": "google"}}}', "'' cannot name a profile"),
        ('{"providers": {"p": {"type": "google", "base_url": "ftp://x"}}}', "providers.p.base_url"),
        ('{"providers": {"p": {"type": "google", "api_key": ""}}}', "providers.p.api_key: It is empty"),
        (
            '{"providers": {"p": {"type": "google", "api_key": "$KEY"}}}',
            "providers.p.api_key: It looks like a variable",
        ),
        ('{"providers": {"p": {"type": "google", "headers": {"X": "$ENV:"}}}}', "providers.p.headers.X"),
        ('{"fallback": "openai:x"}', "fallback: It must be a list in brackets, not a text in quotes."),
        ('{"auto_compact": 0}', "auto_compact"),
        ('{"auto_compact": 1.01}', "auto_compact"),
        ('{"auto_compact": true}', "auto_compact"),
        ('{"retries": -1}', "retries: It must be a whole number >= 0"),
        ("[" * 100_000, "nested too deeply"),
        ('{"env": ' + "[" * 100 + "]" * 100 + "}", "nested too deeply: more than 64 levels"),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_key(home: Path, content: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        load(home, content)

    assert str(home / "settings.json") in str(caught.value)
    assert words in str(caught.value)


def test_a_wrong_key_is_not_repeated_in_the_error(home: Path) -> None:
    with pytest.raises(UserError) as caught:
        load(home, {"providers": {"p": {"type": "google", "api_key": f"${PLAIN}"}}})

    assert PLAIN not in str(caught.value)


def test_a_file_that_was_asked_for_must_be_there(home: Path) -> None:
    for path in (home / "missing.json", home):
        with pytest.raises(UserError, match=str(path)):
            load_settings(path, {"BACKSTAY_CONFIG_DIR": str(home)})


def test_a_file_that_is_not_text_is_refused_and_a_mark_at_its_start_is_not(home: Path) -> None:
    (home / "settings.json").write_bytes(b'\xef\xbb\xbf{"retries": 2}')
    assert load(home).retries == 2
    (home / "settings.json").write_bytes(b'{"retries": "\xff"}')
    with pytest.raises(UserError, match="not UTF-8"):
        load(home)


def test_the_folder_follows_the_environment() -> None:
    assert config_dir({"BACKSTAY_CONFIG_DIR": "/a"}) == Path("/a")
    assert config_dir({"XDG_CONFIG_HOME": "/b"}) == Path("/b/backstay")
    assert config_dir({}) == Path.home() / ".config" / "backstay"


def test_a_secret_says_only_where_it_is() -> None:
    shown = [repr(Secret(text, name="it")) for text in (PLAIN, "$ENV:A_1")]

    assert shown == ["Secret(...)", "Secret($ENV:A_1)"]
    assert Secret("a", name="x") == Secret("a", name="y") != Secret("b", name="x")
