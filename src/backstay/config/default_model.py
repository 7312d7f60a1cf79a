"""Which model answers when nobody names one: the settings say, or the keys in the environment."""

import os
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from msgspec import Struct

from backstay.config.settings import Settings
from backstay.providers.registry import PROVIDERS
from backstay.vocab.errors import UserError

Why = Literal["currentProvider", "provider", "chat.default_model", "model", "environment"]

SHORTCUTS: Final[Mapping[str, str]] = {
    "opus": "anthropic:claude-opus-4-6",
    "sonnet": "anthropic:claude-sonnet-4-6",
    "haiku": "anthropic:claude-haiku-4-5",
}
"""Names that other programs have for models."""
USUAL: Final[Mapping[str, str]] = {
    "anthropic": "claude-sonnet-4-6",
    "openai": "gpt-5.4",
    "google": "gemini-3.1-pro",
}
"""The model of a provider of which only a key is known."""
_FAMILIES: Final = (("claude-", "anthropic"), ("gpt-", "openai"), ("gemini-", "google"))


class Choice(Struct, frozen=True, kw_only=True):
    """The model that was chosen, and by what."""

    model: str
    """A name that `Finder` finds."""
    why: Why
    notice: str = ""
    """What the person should hear once, when nobody chose this."""


def choose(settings: Settings, environment: Mapping[str, str] = os.environ, *, by_key: bool = True) -> Choice | None:
    """The model of a session that names none; None when nothing says one.

    In order: `currentProvider`, the older `provider`, `chat.default_model`, `model`, and then, unless `by_key` says no, a provider
    whose key is in the environment. Raise `UserError`, with file and line, for a `currentProvider` that has no profile or no model.
    """
    if settings.current_provider:
        return Choice(model=_profiled(settings, "currentProvider", settings.current_provider), why="currentProvider")
    if settings.legacy:
        return Choice(model=_profiled(settings, "provider", settings.legacy), why="provider")
    if settings.chat.default_model:
        return Choice(model=settings.chat.default_model, why="chat.default_model")
    notes: list[str] = []
    if model := _understood(settings, environment, notes):
        return Choice(model=model, why="model")
    return next(_by_keys(environment, notes), None) if by_key else None


def full_model(name: str) -> str:
    """`name` with its provider, when it is one of the names that other programs use without; else as it is."""
    bare = name.partition("[")[0].strip()  # another program marks a longer window so
    if bare in SHORTCUTS:
        return SHORTCUTS[bare]
    family = next((provider for start, provider in _FAMILIES if bare.startswith(start)), "")
    return f"{family}:{bare}" if family and ":" not in bare else name


def _profiled(settings: Settings, key: str, name: str) -> str:
    place = settings.places.get(key, "the settings")
    profile = settings.providers.get(name)
    if profile is None:
        known = ", ".join(map(repr, settings.providers)) or "none"
        raise UserError(f"{place}: {key}: There is no profile {name!r} in `providers`. Those that count here: {known}.")
    if not profile.model and key == "provider" and settings.model:
        return f"{name}:{settings.model}"
    if not profile.model:
        raise UserError(f"{place}: {key}: The profile {name!r} names no model. Give it a `model`, or use --model.")
    return f"{name}:{profile.model}"


def _understood(settings: Settings, environment: Mapping[str, str], notes: list[str]) -> str:
    """The name under `model`, when it means something here. What only another program understands is passed over."""
    written = settings.model
    if not written or ":" in written or written in settings.providers:
        return written
    full = full_model(written)
    place = settings.places.get("model", "the settings")
    if ":" not in full:
        notes.append(f"{place}: model: {written!r} means nothing here; write provider:model.")
        return ""
    provider = full.partition(":")[0]
    if provider not in settings.providers and not _has_key(provider, environment):
        notes.append(f"{place}: model: {written!r} would be {full!r}, and there is no key for it.")
        return ""
    return full


def _by_keys(environment: Mapping[str, str], notes: list[str]) -> Iterator[Choice]:
    for provider, model in USUAL.items():
        if key := _has_key(provider, environment):
            name = f"{provider}:{model}"
            words = (
                f"No model is configured, and {key} is set: {name} answers. To choose: --model, or chat.default_model."
            )
            yield Choice(model=name, why="environment", notice=" ".join((*notes, words)))


def _has_key(provider: str, environment: Mapping[str, str]) -> str:
    return next((each for each in PROVIDERS[provider].keys if environment.get(each, "").strip()), "")
