"""docs/settings.md says everything there is to set, and its example can be used as it stands."""

import re
from pathlib import Path

import pytest

from backstay.config.key_table import KEYS, Key
from backstay.config.settings import load_settings
from backstay.providers.registry import PROVIDERS, key_variable
from tests.e2e.door import Door

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
TOLD = frozenset(re.findall(r"`([^`\n]+)`", TEXT))


def example(door: Door) -> Path:
    (content,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    path = door.folder / "example.json"
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_setting_is_told(key: Key) -> None:
    assert {key.name, key.alias or key.name} <= TOLD


def test_every_variable_is_told() -> None:
    for provider in PROVIDERS.values():
        assert {provider.name, *provider.keys, *provider.addresses} <= TOLD
    for address, variable in re.findall(r"\| `(https?://\S+)` \| `(\w+)` \|", TEXT):
        assert variable == key_variable(address)


def test_the_example_has_every_key_and_loads_without_a_warning(door: Door) -> None:
    found = load_settings(example(door))

    assert found.warnings == ()
    for each in (found.chat, found.models["qwen3-32b"], found.models["qwen3-32b"].prices, found.providers["house"]):
        assert each is not None
        assert all(getattr(each, name) not in (None, (), "", {}) for name in each.__struct_fields__)
    assert (found.fallback, found.auto_compact, found.retries) == (("openai:gpt-4o-mini",), 0.8, 5)


def test_the_profile_of_the_example_is_shown(door: Door) -> None:
    path = str(example(door))
    shown = door.run("models", "show", "house", "--settings", path, "--json").json
    words = door.run("models", "show", "house:qwen3-32b", "--settings", path).out

    assert (shown["name"], shown["type"], shown["window"]) == ("house:qwen3-32b", "openai-chat", 40_960)
    assert (shown["address"], shown["key"]) == ("https://llm.example.org/v1", "HOUSE_KEY")
    assert (shown["headers"], shown["usd_per_million"]["output"]) == ("X-Team", 0.3)
    assert "40,960 tokens" in words
    assert "https://llm.example.org/v1" in words
