"""Look up the facts of a model: window, limits, prices and abilities, from `catalog.toml` and corrected by settings.

A model is found by its id, whoever serves it: `openai:gpt-4o-2024-11-20` and `openai-chat:openai/gpt-4o` are one model. A
date, `-latest` or `-preview` after an id is ignored; anything else after it makes another model, of which nothing is known, because a size
or a window that is guessed too large does more harm than one that is not known.
"""

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final, cast, get_args

import msgspec
from msgspec.structs import replace

from backstay.logic.budget import microcents
from backstay.vocab.specs import Ability, ModelFacts, Prices


class ModelOverride(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a model that settings correct. None keeps the value of the catalog."""

    window: int | None = None
    max_output: int | None = None
    prices: Prices | None = None
    abilities: frozenset[Ability] | None = None


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the catalog."""

    name: str
    """`provider:model`; of a family, the part of the name that all its models begin with."""
    vendor: str
    family: bool
    facts: ModelFacts


def facts_of(name: str, overrides: Mapping[str, ModelOverride] = {}) -> ModelFacts:
    """Return what is known of the model `provider:model` or `provider:model@address`; cautious defaults, `known=False`, when nothing is.

    An override is found under the whole name, the model's id as it was given, or the id that the catalog has.
    """
    bare = _ADDRESS.split(name, maxsplit=1)[0]
    provider, _, given = bare.partition(":")
    entry = None if provider in _NOT_HERE else _find(given)
    facts = entry.facts if entry is not None else ModelFacts()
    for lack in _LACKS.get(provider, ()):
        facts = replace(facts, abilities=facts.abilities - {lack})
    keys = (name, bare, given, entry.name.partition(":")[2] if entry is not None else "")
    override = next((overrides[key] for key in keys if key in overrides), None)
    return facts if override is None else _overridden(facts, override)


def list_known_models() -> tuple[KnownModel, ...]:
    """Return the models of the catalog, vendor by vendor, newest first."""
    return tuple(_entries().values())


_ADDRESS: Final = re.compile(r"@(?=https?://)")
_ENDING: Final = re.compile(
    r"([-@](latest|preview|exp|beta|\d{8}|\d{4}-\d{2}-\d{2}|\d{2}-\d{4}|\d{3,4}))+(:[\w.-]+)?|:[\w.-]+"
)
_NOT_HERE: Final = frozenset(("scripted", "recorded", "local"))
"""Providers whose models know themselves, or are none."""
_LACKS: Final[Mapping[str, tuple[Ability, ...]]] = dict.fromkeys(
    ("openai-chat", "mistral", "deepseek", "groq", "openrouter", "xai", "ollama"), ("web_search",)
)
"""What a wire format cannot ask for, though the model could do it."""
_PROVIDERS: Final = ("anthropic", "openai", "google")
"""Vendors with a wire format of their own; the others speak `openai-chat`."""


def _find(given: str) -> KnownModel | None:
    """Return the entry that `given` means: its longest beginning that is one, when the rest is only a date or the like."""
    entries = _entries()
    for model in dict.fromkeys((given.lower(), given.lower().rpartition("/")[2])):
        for end in range(len(model), 0, -1):
            entry = entries.get(model[:end])
            if entry is not None and _belongs(entry, model[end:]):
                return entry
    return None


def _belongs(entry: KnownModel, ending: str) -> bool:
    if not ending or _ENDING.fullmatch(ending):
        return True
    return entry.family and ending[0] in "-:.@"


@functools.cache
def _entries() -> Mapping[str, KnownModel]:
    text = Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8")
    vendors: dict[str, dict[str, dict[str, object]]] = tomllib.loads(text, parse_float=Decimal)
    groups = cast("Mapping[str, str]", vendors.pop("can"))
    return {
        model: KnownModel(
            name=f"{vendor if vendor in _PROVIDERS else 'openai-chat'}:{model}",
            vendor=vendor,
            family=bool(row.get("family")),
            facts=_facts(model, row, groups),
        )
        for vendor, rows in vendors.items()
        for model, row in rows.items()
    }


def _facts(model: str, row: Mapping[str, object], groups: Mapping[str, str]) -> ModelFacts:
    price = cast("Mapping[str, Decimal | int] | None", row.get("price"))
    return ModelFacts(
        window=cast("int", row["window"]),
        max_output=cast("int", row["output"]),
        prices=_prices(price, what=model) if price else None,
        abilities=frozenset(_abilities(cast("str", row["can"]).split(), groups)),
        known=True,
    )


def _prices(dollars: Mapping[str, Decimal | int], *, what: str) -> Prices:
    found = {kind: microcents(Decimal(amount), what=f"{what}.{kind}") for kind, amount in dollars.items()}
    return Prices(input=found["in"], output=found["out"], cache_read=found.get("read"), cache_write=found.get("write"))


_ABILITIES: Final[tuple[Ability, ...]] = get_args(Ability)


def _abilities(words: Iterable[str], groups: Mapping[str, str]) -> Iterable[Ability]:
    for word in words:
        if word in groups:
            yield from _abilities(groups[word].split(), groups)
        else:
            yield _ABILITIES[_ABILITIES.index(cast("Ability", word))]


def _overridden(facts: ModelFacts, override: ModelOverride) -> ModelFacts:
    return ModelFacts(
        window=facts.window if override.window is None else override.window,
        max_output=facts.max_output if override.max_output is None else override.max_output,
        prices=facts.prices if override.prices is None else override.prices,
        abilities=facts.abilities if override.abilities is None else override.abilities,
        known=facts.known or override.window is not None,
    )
