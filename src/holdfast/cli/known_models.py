"""What the catalog knows of models, for people and for programs."""

from typing import Final

from holdfast.cli import telling
from holdfast.providers.catalog import facts_of, known_models
from holdfast.providers.registry import PROVIDERS
from holdfast.vocab.errors import UserError
from holdfast.vocab.ids import provider_of
from holdfast.vocab.specs import ModelFacts

_DOLLAR: Final = 100_000_000
_ELSEWHERE: Final = ("local", "recorded", "scripted")
"""Providers whose models are not asked over HTTP."""


def list_models(*, as_json: bool) -> int:
    """Print the models of the catalog."""
    if as_json:
        telling.say_json([_as_object(each.name, each.facts) for each in known_models()])
        return 0
    rows = [
        (
            f"{each.name}{'...' if each.family else ''}",
            f"{each.facts.window:,}",
            f"{each.facts.max_output:,}",
            *_paid(each.facts),
        )
        for each in known_models()
    ]
    telling.say_table(("model", "window", "output", "$ in", "$ out"), rows)
    return 0


def show(name: str, *, as_json: bool) -> int:
    """Print what is known of one model. Raise `UserError` when nobody could be asked for it."""
    provider = provider_of(name)
    if ":" not in name or provider not in (*PROVIDERS, *_ELSEWHERE):
        raise UserError(f"{name!r} names no model. Write provider:model; the providers are {', '.join(PROVIDERS)}.")
    facts = facts_of(name)
    if as_json:
        telling.say_json(_as_object(name, facts))
        return 0
    if not facts.known:
        telling.say("Nothing is known of this model; it can be used, with these cautious values.")
    for key, value in _as_words(name, facts).items():
        telling.say(f"{key:11} {telling.harmless(value)}")
    return 0


def _as_words(name: str, facts: ModelFacts) -> dict[str, str]:
    words = {
        "model": name,
        "window": f"{facts.window:,} tokens",
        "output": f"{facts.max_output:,} tokens",
        "abilities": ", ".join(sorted(facts.abilities)),
    }
    if prices := _dollars(facts):
        words["prices"] = ", ".join(f"{kind} ${price:g}" for kind, price in prices.items()) + " for a million tokens"
    if provider := PROVIDERS.get(provider_of(name)):
        words |= {"format": provider.format, "address": provider.base_url, "key": " or ".join(provider.keys)}
    return words


def _as_object(name: str, facts: ModelFacts) -> dict[str, object]:
    found: dict[str, object] = {"name": name}
    if provider_of(name) in PROVIDERS:
        found["format"] = PROVIDERS[provider_of(name)].format
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
