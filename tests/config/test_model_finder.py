"""Which model answers when nobody names one."""

import pytest

from backstay.config.model_finder import SHORTCUTS, USUAL, choose, full_model
from backstay.config.settings import ChatSettings, Settings
from backstay.providers.catalog import facts_of
from backstay.vocab.errors import UserError
from tests.config.world import World

HOUSE = {"type": "openai-chat", "base_url": "http://127.0.0.1:9/v1", "model": "m1"}
OLD = {"type": "google", "model": "old"}


def chosen(world: World, content: object, environment: dict[str, str] | None = None) -> tuple[str, str] | None:
    """The model that a person's settings lead to, and by which key."""
    world.write(world.config, content)
    choice = choose(world.read().settings, environment or {})
    return None if choice is None else (choice.model, choice.why)


@pytest.mark.contract("RB-84")
def test_the_profile_in_use_goes_before_the_older_form_and_that_before_the_defaults(world: World) -> None:
    content = {
        "currentProvider": "house",
        "provider": OLD,
        "providers": {"house": HOUSE},
        "chat": {"default_model": "x:chat"},
        "model": "x:plain",
    }
    expected = [
        ("house:m1", "currentProvider"),
        ("google:old", "provider"),
        ("x:chat", "chat.default_model"),
        ("x:plain", "model"),
        ("openai:gpt-5.4", "environment"),
    ]
    for key, found in zip((*content, ""), (*expected[:3], expected[2], expected[3], expected[4]), strict=True):
        assert chosen(world, content, {"OPENAI_API_KEY": "k"}) == found, key
        content = {name: value for name, value in content.items() if name != key}


@pytest.mark.contract("RB-84")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"x": 1, "currentProvider": "nobody"}, ":3: currentProvider: There is no profile 'nobody'"),
        (
            {"currentProvider": "bare", "providers": {"bare": {"type": "google"}}},
            ":2: currentProvider: The profile 'bare' names no model",
        ),
        ({"provider": {"type": "google"}}, ":2: provider: The profile 'google' names no model"),
    ],
)
def test_a_profile_that_is_not_there_or_names_no_model_is_an_error_with_its_line(
    world: World, content: object, words: str
) -> None:
    world.write(world.config, content)

    with pytest.raises(UserError) as caught:
        choose(world.read().settings, {"OPENAI_API_KEY": "k"})

    assert f"{world.config}{words}" in str(caught.value)


def test_where_only_a_key_is_known_its_provider_answers_and_that_is_told() -> None:
    found = choose(Settings(), {"GEMINI_API_KEY": "g", "OPENAI_API_KEY": " "})

    assert found is not None
    assert (found.model, found.why) == (f"google:{USUAL['google']}", "environment")
    assert "GEMINI_API_KEY is set" in found.notice
    assert choose(Settings(), {}) is choose(Settings(), {"GEMINI_API_KEY": "g"}, by_key=False) is None
    chat = ChatSettings(default_model="a:b")
    assert choose(Settings(chat=chat), {"GEMINI_API_KEY": "g"}).notice == ""  # type: ignore[union-attr]  # there is one


@pytest.mark.parametrize(
    ("written", "full"),
    [
        ("opus", SHORTCUTS["opus"]),
        ("sonnet[1m]", SHORTCUTS["sonnet"]),
        ("claude-opus-4-5", "anthropic:claude-opus-4-5"),
        ("gpt-5.4", "openai:gpt-5.4"),
        ("gemini-3-pro", "google:gemini-3-pro"),
        ("openrouter:claude-x", "openrouter:claude-x"),
        ("default", "default"),
    ],
)
def test_names_of_other_programs_are_understood(written: str, full: str) -> None:
    assert full_model(written) == full


def test_a_name_that_only_another_program_understands_or_has_the_key_for_is_passed_over(world: World) -> None:
    path = world.write(world.home / ".claude/settings.json", {"model": "opus"})

    assert choose(world.read().settings, {}) is None
    with_key = choose(world.read().settings, {"ANTHROPIC_API_KEY": "k"})
    other = choose(world.read().settings, {"OPENAI_API_KEY": "k"})
    assert with_key is not None
    assert other is not None
    assert (with_key.model, with_key.why) == (SHORTCUTS["opus"], "model")
    assert other.model == "openai:gpt-5.4"
    assert f"{path}:2: model: 'opus' would be 'anthropic:claude-opus-4-6', and there is no key for it" in other.notice
    world.write(path, {"model": "opusplan"})
    odd = choose(world.read().settings, {"OPENAI_API_KEY": "k"})
    assert odd is not None
    assert "'opusplan' means nothing here" in odd.notice


def test_every_usual_model_is_in_the_catalog() -> None:
    names = [*SHORTCUTS.values(), *(f"{provider}:{model}" for provider, model in USUAL.items())]

    assert [name for name in names if not facts_of(name).known] == []
