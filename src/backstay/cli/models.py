"""`backstay models`: list models, show what is known of one, and read recorded answers."""

import os
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import click

from backstay.cli import models_pull, output
from backstay.cli.shared_options import as_json, settings
from backstay.config.model_finder import Finder
from backstay.config.settings import Profile, load_settings
from backstay.providers.catalog import list_known_models
from backstay.providers.local.model import FACTS, PREFIX, choose
from backstay.providers.local.pins import list_pins as pins
from backstay.providers.local.pins import megabytes
from backstay.providers.registry import FORMATS, PROVIDERS, key_variable, parse_name
from backstay.system.folders import data_dir
from backstay.system.machine import SystemClock, is_loopback
from backstay.testing.recorded_answers import decode_lines
from backstay.vocab.errors import UserError
from backstay.vocab.ids import provider_of
from backstay.vocab.specs import ModelFacts

_DOLLAR: Final = 100_000_000
_NOT_OVER_HTTP: Final = ("local", "recorded", "scripted")


@click.group("models")
def command() -> None:
    """List models, show what is known of one, and read recorded answers."""


@command.command("list")
@as_json
def list_models(as_json: bool) -> int:
    """List the models of the catalog, and those that run on this machine."""
    if as_json:
        catalog = (_as_object(each.name, each.facts, _format(each.name)) for each in list_known_models())
        local = (_as_object(name, facts, _local_source(name)[1]) for name, facts in _local_models())
        output.print_json([*catalog, *local])
        return 0
    known = [(f"{each.name}{'...' if each.family else ''}", each.facts) for each in list_known_models()]
    every = (*known, *_local_models())
    rows = [(name, f"{facts.window:,}", f"{facts.max_output:,}", *_price_cells(facts)) for name, facts in every]
    output.print_table(("model", "window", "output", "$ in", "$ out"), rows)
    return 0


@command.command()
@click.argument("name")
@settings
@as_json
def show(name: str, settings: str | None, as_json: bool) -> int:
    """Show what is known of a model, such as anthropic:claude-sonnet-4-6, local: or a profile of the settings."""
    in_force = load_settings(settings)
    finder = Finder(in_force, SystemClock())
    name = finder.complete(name)
    profile = in_force.providers.get(provider_of(name))
    _check(name, profile, in_force.providers)
    remark = ""
    if profile is not None:
        source = _profile_source(profile)
    elif provider_of(name) == "local":
        name, source, remark = _local_source(name)
    else:
        source = _provider_source(name)
    facts = finder.facts(name)
    if as_json:
        output.print_json(_as_object(name, facts, source))
        return 0
    if not facts.known:
        output.print_line("Nothing is known of this model; it can be used, with these cautious values.")
    if profile is None and is_loopback(urlsplit(source.get("address", "")).hostname or ""):
        source["key"] += ", if the server wants one"
    for key, value in (_as_words(name, facts) | source).items():
        output.print_line(f"{key:11} {output.escape_line(value)}")
    if remark:
        output.warn(remark)
    return 0


command.add_command(models_pull.command)


@command.command()
@click.option(
    "--format", "format_name", required=True, type=click.Choice(tuple(FORMATS)), help="The API that answered."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which random splits to use.")
@click.argument("source", type=click.Choice(["-"]), metavar="-")
def decode(format_name: str, seed: int, source: str) -> int:
    """Read recorded answers, a JSON object a line, from standard input; answer a line each.

    \b
    In:   {"id","status","content_type","body"}   or "chunks": [...] instead of a body
    Out:  {"id","message":{"role","content"},"usage","stop","model","notes"}
          {"id","error":{"kind","message","retry_after_s"?}}

    The bytes of each body are passed on in random pieces, as a network would.
    """
    return decode_lines(format_name, seed)


def _check(name: str, profile: Profile | None, profiles: Mapping[str, Profile]) -> None:
    provider, _, model = name.partition(":")
    if provider == "local" or (model and (profile is not None or provider in (*PROVIDERS, *_NOT_OVER_HTTP))):
        return
    if profile is not None:
        raise UserError(f"The profile {provider!r} names no model. Write {provider}:MODEL, or give it a `model`.")
    known = ", ".join((*PROVIDERS, *profiles))
    raise UserError(f"{name!r} names no model. Write provider:model; the providers are {known}, local.")


# --- where a model is asked ------------------------------------------------------------------------------------------------------


def _format(name: str) -> dict[str, str]:
    return {"format": PROVIDERS[provider_of(name)].format}


def _provider_source(name: str) -> dict[str, str]:
    """Return the address of a built-in provider, and the variable of its key."""
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


def _profile_source(profile: Profile) -> dict[str, str]:
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


def _local_source(name: str) -> tuple[str, dict[str, str], str]:
    """Return the local model that `name` means, the path of its file, and a remark about the choice."""
    folder = data_dir() / "models"
    pin, remark = choose(f"{PREFIX}{name.partition(':')[2]}", folder)
    path = folder / pin.file
    missing = f"no; fetch it ({megabytes(pin.bytes)}): backstay models pull {pin.name}"
    return f"{PREFIX}{pin.name}", {"pulled": f"yes: {path}" if path.exists() else missing, "can": pin.can}, remark


def _local_models() -> Iterator[tuple[str, ModelFacts]]:
    yield from ((f"{PREFIX}{pin.name}", FACTS) for pin in pins())


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


def _as_object(name: str, facts: ModelFacts, source: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {"name": name, **source}
    if "pulled" in source:
        found["pulled"] = source["pulled"].startswith("yes")
    found |= {"known": facts.known, "window": facts.window, "max_output": facts.max_output}
    found["abilities"] = sorted(facts.abilities)
    if prices := _dollars(facts):
        found["usd_per_million"] = prices
    return found


def _dollars(facts: ModelFacts) -> dict[str, float]:
    """Return the known prices of a million tokens."""
    if facts.prices is None:
        return {}
    prices = {"input": facts.prices.input, "output": facts.prices.output}
    rest = {"cache_read": facts.prices.cache_read, "cache_write": facts.prices.cache_write}
    return {kind: price / _DOLLAR for kind, price in {**prices, **rest}.items() if price is not None}


def _price_cells(facts: ModelFacts) -> tuple[str, str]:
    prices = _dollars(facts)
    return (f"{prices['input']:g}", f"{prices['output']:g}") if prices else ("", "")
