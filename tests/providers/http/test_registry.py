"""From a name and an environment to a model: its address, its key, its format, and what is said when something is missing."""

import subprocess
import sys

import pytest

from backstay.providers.http.model import HttpModel
from backstay.providers.registry import (
    FORMATS,
    PROVIDERS,
    ModelName,
    find_model,
    http_model,
    key_variable,
    load_format,
    parse_name,
)
from backstay.system.machine import SystemClock, is_loopback
from backstay.vocab.errors import ProviderError, UserError
from backstay.vocab.specs import ModelFacts
from tests.providers.http.server import FakeProvider, collect, says
from tests.providers.http.test_http_model import REQUEST
from tests.providers.http.wires import FORMAT_NAMES

KEYS = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "GEMINI_API_KEY": "g"}


def found(name: str, **environment: str) -> str:
    """What `name` leads to: the model without its key."""
    return repr(http_model(name, environment=environment))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("anthropic:claude", ModelName(provider="anthropic", model="claude")),
        ("openai-chat:llama3:8b", ModelName(provider="openai-chat", model="llama3:8b")),
        ("google:claude@20240229", ModelName(provider="google", model="claude@20240229")),
        (
            "openai-chat:a/b:c@http://127.0.0.1:8080/v1/",
            ModelName(provider="openai-chat", model="a/b:c", address="http://127.0.0.1:8080/v1"),
        ),
        ("openai:x@https://[::1]:1", ModelName(provider="openai", model="x", address="https://[::1]:1")),
        ("anthropic:", ModelName(provider="anthropic", model="")),
        ("nothing", ModelName(provider="nothing", model="")),
        ("", ModelName(provider="", model="")),
    ],
)
def test_a_name_is_taken_apart(name: str, parts: ModelName) -> None:
    assert parse_name(name) == parts


@pytest.mark.parametrize(
    "address",
    [
        "http://",
        "http://:80",
        "http://h:port",
        "http://h:99999",
        "https://a b/",
        "https://user:secret@host/v1",
        "https://host/v1?key=secret",
        "https://host/v1#secret",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_repeating_a_secret(address: str) -> None:
    with pytest.raises(UserError, match="address") as caught:
        parse_name(f"openai-chat:m@{address}")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "here"),
    [
        *((host, True) for host in ("localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "a.localhost")),
        *((host, False) for host in ("example.org", "10.0.0.1", "127.0.0.1.example.org", "", "localhost.org")),
    ],
)
def test_this_machine_is_known_by_its_names(host: str, here: bool) -> None:
    assert is_loopback(host) is here


@pytest.mark.parametrize(
    ("name", "base_url", "format"),
    [
        ("anthropic:m", "https://api.anthropic.com", "anthropic"),
        ("openai:m", "https://api.openai.com/v1", "openai-responses"),
        ("openai-chat:m", "https://api.openai.com/v1", "openai-chat"),
        ("google:m", "https://generativelanguage.googleapis.com", "google"),
    ],
)
def test_each_provider_has_its_address_and_its_format(name: str, base_url: str, format: str) -> None:
    model = find_model(name, SystemClock(), environment=KEYS, facts=lambda name: ModelFacts(window=len(name)))

    assert isinstance(model, HttpModel)
    assert (model.name, model.format, model.facts) == (name, format, ModelFacts(window=len(name)))
    assert repr(model) == f"HttpModel({name!r}, base_url={base_url!r})"


def test_the_environment_may_name_another_address() -> None:
    assert "'http://localhost:1/v1'" in found("openai:m", OPENAI_BASE_URL="http://localhost:1/v1")
    assert "'https://gate.example/x'" in found(
        "google:m", GEMINI_BASE_URL="https://gate.example/x/", GOOGLE_API_KEY="k"
    )


def test_a_name_may_have_its_own_address_and_its_facts_are_those_of_the_bare_name() -> None:
    asked: list[str] = []

    def facts(name: str) -> ModelFacts:
        asked.append(name)
        return ModelFacts()

    model = http_model(
        "openai-chat:m@http://localhost:9/v1", facts=facts, environment={"OPENAI_BASE_URL": "https://no"}
    )

    assert "base_url='http://localhost:9/v1'" in repr(model)
    assert model.name == "openai-chat:m@http://localhost:9/v1"
    assert asked == ["openai-chat:m"]


@pytest.mark.parametrize(
    ("name", "environment", "variable"),
    [
        ("anthropic:m", {}, "ANTHROPIC_API_KEY"),
        ("anthropic:m", {"ANTHROPIC_API_KEY": " "}, "ANTHROPIC_API_KEY"),
        ("openai:m", {}, "OPENAI_API_KEY"),
        ("openai-chat:m", {"OPENAI_BASE_URL": "https://llm.example.org"}, "OPENAI_API_KEY"),
        ("google:m", {}, "GEMINI_API_KEY"),
        ("openai-chat:m@https://llm.example.org/v1", KEYS, "BACKSTAY_API_KEY_LLM_EXAMPLE_ORG"),
    ],
)
def test_a_missing_key_is_asked_for_by_the_name_of_its_variable(
    name: str, environment: dict[str, str], variable: str
) -> None:
    with pytest.raises(UserError, match=rf"no key for .* environment variable {variable}\."):
        http_model(name, environment=environment)


def test_no_two_places_share_the_variable_of_a_key() -> None:
    places = (
        "https://llm.example.org",
        "https://llm-example.org",
        "https://llm.example-org",
        "https://llm.example.org:8443",
        "https://llmexample.org",
        "https://[::1]",
    )

    assert len({key_variable(place) for place in places}) == len(places)
    assert key_variable("https://llm.example.org/v1") == "BACKSTAY_API_KEY_LLM_EXAMPLE_ORG"


def test_a_key_does_not_travel_in_clear_text() -> None:
    key = {"BACKSTAY_API_KEY_LLM_EXAMPLE_ORG": "mine"}
    with pytest.raises(UserError, match="clear text"):
        http_model("openai-chat:m@http://llm.example.org/v1", environment=key)


async def test_a_key_goes_only_where_it_belongs() -> None:
    """An address in a name may come from somebody else's file: it gets its own key, or none, never the provider's."""
    async with FakeProvider("openai-chat", [says("Yes.")] * 3) as server:
        there = {**KEYS, "OPENAI_BASE_URL": server.base_url}
        mine = {**KEYS, key_variable(server.base_url): "mine"}
        for name, environment in (
            ("openai-chat:test-model", there),
            (f"openai-chat:test-model@{server.base_url}", KEYS),
            (f"openai-chat:test-model@{server.base_url}", mine),
        ):
            model = http_model(name, environment=environment)
            await collect(model, REQUEST)
            await model.aclose()

    sent = [asked.headers.get("authorization") for asked in server.requests]
    assert sent == ["Bearer o", None, "Bearer mine"]
    assert {asked.json["model"] for asked in server.requests} == {"test-model"}


async def test_a_key_that_goes_away_is_missed_at_the_next_question() -> None:
    environment = dict(KEYS)
    model = http_model("anthropic:m", environment=environment)
    environment.clear()

    with pytest.raises(ProviderError, match="ANTHROPIC_API_KEY") as caught:
        await collect(model, REQUEST)

    assert caught.value.kind == "auth"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "No model is configured"),
        ("nobody:m", "There is no model 'nobody:m'"),
        ("claude", "There is no model 'claude'"),
        ("anthropic:", "'anthropic:' names no model"),
        ("anthropic", "'anthropic' names no model"),
        ("openai:m", "The address of the environment variable OPENAI_BASE_URL cannot be used"),
    ],
)
def test_a_name_that_leads_nowhere_is_told_what_to_do(name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        find_model(name, SystemClock(), environment={**KEYS, "OPENAI_BASE_URL": "api.example.org"})


def test_somebody_who_asks_for_nobody_is_told_the_choices() -> None:
    with pytest.raises(UserError) as caught:
        find_model("nobody:m", SystemClock())

    for choice in (*(f"{name}:MODEL" for name in PROVIDERS), "scripted:FILE", "local:", "recorded:SESSION_ID"):
        assert choice in str(caught.value)


def test_the_formats_are_the_ones_that_are_written() -> None:
    assert tuple(FORMATS) == FORMAT_NAMES
    assert [load_format(name).name for name in FORMATS] == list(FORMATS)
    with pytest.raises(UserError, match="There is no format 'xml'"):
        load_format("xml")


def test_only_the_format_that_is_needed_is_loaded() -> None:
    code = (
        "import sys; from backstay.providers.registry import http_model\n"
        "http_model('google:m', environment={'GOOGLE_API_KEY': 'k'})\n"
        "print(*sorted(name for name in ('anthropic', 'google', 'openai_chat', 'openai_responses')"
        " if f'backstay.providers.{name}' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "google\n"
