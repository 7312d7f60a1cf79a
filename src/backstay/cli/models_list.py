"""What is known of models, for people and for programs: the catalog, the models in the box, and the profiles of the settings."""

import os
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from backstay.cli import output
from backstay.config.model_finder import Finder
from backstay.config.settings import Profile, load_settings
from backstay.providers.catalog import known_models
from backstay.providers.registry import PROVIDERS, is_loopback, key_variable, parse_name
from backstay.sandbox.folders import data_dir
from backstay.system.machine import SystemClock
from backstay.vocab.errors import UserError
from backstay.vocab.ids import provider_of
from backstay.vocab.specs import ModelFacts

_DOLLAR: Final = 100_000_000
_ELSEWHERE: Final = ("local", "recorded", "scripted")
"""Providers whose models are not asked over HTTP."""


def list_models(*, as_json: bool) -> int:
    """Print the models of the catalog, and those that run on this machine."""
    if as_json:
        output.say_json(
            [*(_as_object(each.name, each.facts, _format(each.name)) for each in known_models()), *_boxed()]
        )
        return 0
    known = [(f"{each.name}{'...' if each.family else ''}", each.facts) for each in known_models()]
    rows = [(name, f"{facts.window:,}", f"{facts.max_output:,}", *_paid(facts)) for name, facts in (*known, *_local())]
    output.say_table(("model", "window", "output", "$ in", "$ out"), rows)
    return 0


def show(name: str, *, settings: str | None = None, as_json: bool) -> int:
    """Print what is known of one model. Raise `UserError` when nobody could be asked for it."""
    said = load_settings(settings)
    finder = Finder(said, SystemClock())
    name = finder.complete(name)
    profile = said.providers.get(provider_of(name))
    _check(name, profile, said.providers)
    remark = ""
    if profile is not None:
        place = _place_of_profile(profile)
    elif provider_of(name) == "local":
        name, place, remark = _in_the_box(name)
    else:
        place = _place(name)
    facts = finder.facts(name)
    if as_json:
        output.say_json(_as_object(name, facts, place))
        return 0
    if not facts.known:
        output.say("Nothing is known of this model; it can be used, with these cautious values.")
    if profile is None and is_loopback(urlsplit(place.get("address", "")).hostname or ""):
        place["key"] += ", if the server wants one"
    for key, value in (_as_words(name, facts) | place).items():
        output.say(f"{key:11} {output.escape_terminal(value)}")
    if remark:
        output.warn(remark)
    return 0


def _check(name: str, profile: Profile | None, profiles: Mapping[str, Profile]) -> None:
    provider, _, model = name.partition(":")
    if provider == "local" or (model and (profile is not None or provider in (*PROVIDERS, *_ELSEWHERE))):
        return
    if profile is not None:
        raise UserError(f"The profile {provider!r} names no model. Write {provider}:MODEL, or give it a `model`.")
    known = ", ".join((*PROVIDERS, *profiles))
    raise UserError(f"{name!r} names no model. Write provider:model; the providers are {known}, local.")


# --- where it is asked -----------------------------------------------------------------------------------------------------------


def _format(name: str) -> dict[str, str]:
    return {"format": PROVIDERS[provider_of(name)].format}


def _place(name: str) -> dict[str, str]:
    """Where a model of a built-in provider is asked, and which variable has its key."""
    parts = parse_name(name)
    provider = PROVIDERS.get(parts.provider)
    if provider is None:
        return {}
    if parts.address:
        address, key = parts.address, key_variable(parts.address)
    else:
        named = next((found for each in provider.addresses if (found := os.environ.get(each, "").strip())), "")
        address, key = named or provider.base_url, " or ".join(provider.keys)
    return _format(name) | {"address": address, "key": key}


def _place_of_profile(profile: Profile) -> dict[str, str]:
    provider = PROVIDERS[profile.type]
    found = {"type": profile.type, "format": provider.format, "address": profile.base_url or provider.base_url}
    if profile.api_key is not None:
        named = repr(profile.api_key).removeprefix("Secret(").removesuffix(")")
        found["key"] = "in the settings" if profile.api_key.is_plain else named.removeprefix("$ENV:")
    elif not profile.base_url:
        found["key"] = " or ".join(provider.keys)
    if profile.headers:
        found["headers"] = ", ".join(profile.headers)
    return found


# --- the models in the box -------------------------------------------------------------------------------------------------------


def _in_the_box(name: str) -> tuple[str, dict[str, str], str]:
    """Which local model `name` means, where its file is, and what is to be said about the choice."""
    from backstay.providers.local.model import PREFIX, choose
    from backstay.providers.local.pins import megabytes

    folder = data_dir() / "models"
    pin, remark = choose(f"{PREFIX}{name.partition(':')[2]}", folder)
    path = folder / pin.file
    missing = f"no; fetch it ({megabytes(pin.bytes)}): backstay models pull {pin.name}"
    return f"{PREFIX}{pin.name}", {"pulled": f"yes: {path}" if path.exists() else missing, "can": pin.can}, remark


def _local() -> Iterator[tuple[str, ModelFacts]]:
    from backstay.providers.local.model import FACTS, PREFIX
    from backstay.providers.local.pins import known_models as pins

    yield from ((f"{PREFIX}{pin.name}", FACTS) for pin in pins())


def _boxed() -> Iterator[dict[str, object]]:
    yield from (_as_object(name, facts, _in_the_box(name)[1]) for name, facts in _local())


# --- words -----------------------------------------------------------------------------------------------------------------------


def _as_words(name: str, facts: ModelFacts) -> dict[str, str]:
    words = {
        "model": name,
        "window": f"{facts.window:,} tokens",
        "output": f"{facts.max_output:,} tokens",
        "abilities": ", ".join(sorted(facts.abilities)),
    }
    if prices := _dollars(facts):
        words["prices"] = ", ".join(f"{kind} ${price:g}" for kind, price in prices.items()) + " for a million tokens"
    return words


def _as_object(name: str, facts: ModelFacts, place: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {"name": name, **place}
    if "pulled" in place:
        found["pulled"] = place["pulled"].startswith("yes")
    found |= {"known": facts.known, "window": facts.window, "max_output": facts.max_output}
    found["abilities"] = sorted(facts.abilities)
    if prices := _dollars(facts):
        found["usd_per_million"] = prices
    return found


def _dollars(facts: ModelFacts) -> dict[str, float]:
    """The prices of a million tokens that are known."""
    if facts.prices is None:
        return {}
    prices = {"input": facts.prices.input, "output": facts.prices.output}
    rest = {"cache_read": facts.prices.cache_read, "cache_write": facts.prices.cache_write}
    return {kind: price / _DOLLAR for kind, price in {**prices, **rest}.items() if price is not None}


def _paid(facts: ModelFacts) -> tuple[str, str]:
    prices = _dollars(facts)
    return (f"{prices['input']:g}", f"{prices['output']:g}") if prices else ("", "")
