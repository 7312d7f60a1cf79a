"""The catalog: one model under its many names, nothing invented for the others."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.providers.catalog import ModelOverride, facts_of, list_known_models
from backstay.vocab.specs import ModelFacts, Prices

SONNET = facts_of("anthropic:claude-sonnet-4-6")


@pytest.mark.contract("RB-88")
@pytest.mark.parametrize(
    ("name", "window", "output"),
    [
        ("anthropic:claude-opus-4-6", 1_000_000, 128_000),
        ("anthropic:claude-sonnet-4-6", 1_000_000, 64_000),
        ("anthropic:claude-haiku-4-5", 200_000, 64_000),
        ("anthropic:claude-sonnet-4-5", 200_000, 64_000),
        ("anthropic:claude-opus-4-5", 200_000, 64_000),
        ("anthropic:claude-haiku-4-5-20251001", 200_000, 64_000),
        ("openai-chat:deepseek-chat", 1_000_000, 384_000),
        ("openai:gpt-4o", 128_000, 16_384),
        ("google:gemini-2.5-flash", 1_048_576, 65_536),
        ("openai:some-model-of-tomorrow", 200_000, 16_384),
    ],
)
def test_each_model_has_its_own_window(name: str, window: int, output: int) -> None:
    facts = facts_of(name)

    assert (facts.window, facts.max_output) == (window, output)


@pytest.mark.parametrize(
    "name",
    [
        "anthropic:claude-sonnet-4-6-20260217",
        "anthropic:claude-sonnet-4-6-latest",
        "anthropic:claude-sonnet-4-6@20260217",
        "anthropic:Claude-Sonnet-4-6",
        "anthropic:claude-sonnet-4-6@https://proxy.example.org/v1",
        "my-profile:anthropic/claude-sonnet-4-6",
        "my-profile:anthropic/claude-sonnet-4-6:beta",
    ],
)
def test_a_date_an_address_or_a_maker_does_not_make_another_model(name: str) -> None:
    assert facts_of(name) == SONNET


@pytest.mark.parametrize(
    "name",
    [
        "anthropic:claude-sonnet-4-60",
        "anthropic:claude-opus-4-9",
        "openai:gpt-5.99",
        "openai:gpt-4o-audio",
        "openai:gpt",
        "openai:",
        "openai",
        "",
        "scripted:/tmp/gpt-4o",
        "recorded:gpt-4o",
        "local:qwen2.5-coder",
    ],
)
def test_another_model_is_not_guessed_at(name: str) -> None:
    assert facts_of(name) == ModelFacts(known=False)


def test_a_family_takes_any_ending_and_has_no_price() -> None:
    names = ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-70b", "llama-3.1")

    found = {facts_of(f"openai-chat:{name}") for name in names}

    assert [(one.known, one.window, one.prices) for one in found] == [(True, 131_072, None)]


def test_the_longest_beginning_wins() -> None:
    assert facts_of("openai:gpt-4o-mini-2024-07-18") == facts_of("openai:gpt-4o-mini") != facts_of("openai:gpt-4o")
    assert facts_of("openai:gpt-4o-2024-05-13").max_output == 4_096
    assert facts_of("openai:gpt-4o-2024-11-20") == facts_of("openai:gpt-4o")


@pytest.mark.contract("RV-B7")
def test_prices_are_whole_micro_cents_for_a_million_tokens() -> None:
    assert SONNET.prices == Prices(
        input=300_000_000, output=1_500_000_000, cache_read=30_000_000, cache_write=375_000_000
    )
    assert facts_of("openai:gpt-4o-mini").prices == Prices(input=15_000_000, output=60_000_000, cache_read=7_500_000)


def test_a_search_of_the_web_is_an_ability_and_not_of_every_wire_format() -> None:
    assert "web_search" in facts_of("openai:gpt-5.4").abilities
    assert facts_of("openai-chat:gpt-5.4").abilities == facts_of("openai:gpt-5.4").abilities - {"web_search"}


def test_settings_know_better_under_any_of_a_models_names() -> None:
    own = ModelOverride(window=1_234, prices=Prices(input=1, output=2))
    dated = "anthropic:claude-sonnet-4-6-20260217"

    for key in (dated, "claude-sonnet-4-6-20260217", "claude-sonnet-4-6"):
        facts = facts_of(dated, {key: own})
        assert (facts.window, facts.prices, facts.max_output, facts.abilities) == (
            *(1_234, Prices(input=1, output=2)),
            *(SONNET.max_output, SONNET.abilities),
        )
    assert facts_of("openai-chat:mine", {"mine": own}).known
    assert not facts_of("openai-chat:mine", {"mine": ModelOverride(max_output=9)}).known
    assert facts_of("openai-chat:mine", {"other": own}) == ModelFacts()


def test_every_entry_is_sound() -> None:
    names = [model.name for model in list_known_models()]

    assert len(names) == len(set(names)) > 100
    for model in list_known_models():
        facts = model.facts
        assert re.fullmatch(r"(anthropic|openai|google|openai-chat):[a-z0-9.-]+", model.name), model.name
        assert facts.known
        assert 4_096 <= facts.max_output <= facts.window <= 2_100_000, model.name
        assert facts_of(model.name).window == facts.window, model.name
        if facts.prices is not None:
            prices = facts.prices
            assert 0 < prices.input < prices.output, model.name
            assert (prices.cache_read or 0) <= prices.input, model.name
            assert prices.input <= (prices.cache_write or prices.input) <= 2 * prices.input, model.name


@given(st.text(st.sampled_from(string.ascii_lowercase + "0123456789-:/@."), max_size=40))
def test_any_name_gets_an_answer(name: str) -> None:
    assert facts_of(name).window > 0
