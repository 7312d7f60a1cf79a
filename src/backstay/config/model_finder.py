"""Find the model that a name means: a profile of the settings, a local model, or one of a built-in provider."""

import functools
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from backstay.config.settings import Profile, Settings, load_settings
from backstay.logic.secrets.redact import Redactor
from backstay.ports import Clock, Closable, Model, ModelReply, ModelRequest, Tap
from backstay.providers.catalog import facts_of
from backstay.providers.format import Encoder, Format, HttpRequest
from backstay.providers.registry import PROVIDERS, find_model, load_format, parse_name
from backstay.providers.scripted import PLAYED
from backstay.providers.wrapper import ModelAround
from backstay.system.folders import data_dir
from backstay.system.machine import is_loopback
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import ProviderError, UserError
from backstay.vocab.specs import ModelFacts

_OTHERS: Final = ("scripted", "recorded", "local")
"""Providers that are not asked over the network."""


class Finder:
    """Finds models. Keys reach the model and nothing else: no name, no figure and no error has them."""

    def __init__(self, settings: Settings | None, clock: Clock, *, environment: Mapping[str, str] = os.environ) -> None:
        """Look in `settings`; without, read the person's own when a name is met that is no built-in provider's."""
        self._settings = settings
        self._clock = clock
        self._environment = environment

    @property
    def settings(self) -> Settings | None:
        """The settings, as far as they were needed yet."""
        return self._settings

    def find(self, name: str) -> Model:
        """Return the model called `name`. Raise `UserError` when there is none, or no key for it."""
        provider, _, rest = name.partition(":")
        if not name:
            raise UserError(no_model())
        if profile := self._profile(provider):
            return self._find_in_profile(provider, profile, rest or profile.model)
        if provider == "local":
            from backstay.providers.local.model import find_local  # noqa: PLC0415 - it loads the HTTP client

            return find_local(f"local:{rest}", data_dir() / "models")
        return find_model(name, self._clock, facts=self.facts, environment=self._environment)

    def complete(self, name: str) -> str:
        """Return `name` with the model of the profile, when it is the name of a profile alone."""
        profile = None if ":" in name else self._profile(name)
        return f"{name}:{profile.model}" if profile is not None and profile.model else name

    def facts(self, name: str) -> ModelFacts:
        """Return what is known of the model called `name`, without finding it."""
        provider, _, rest = name.partition(":")
        if provider == "scripted":
            return PLAYED
        if provider == "local":
            from backstay.providers.local.model import FACTS  # noqa: PLC0415 - likewise

            return FACTS
        profile = self._profile(provider)
        if profile is None:
            return facts_of(name, self._settings.models if self._settings else {})
        own = self._load_settings().models
        known = f"{profile.type}:{rest or profile.model}"
        return facts_of(known, {**own, known: own[name]} if name in own else own)

    def _load_settings(self) -> Settings:
        if self._settings is None:
            self._settings = load_settings(environment=self._environment)
        return self._settings

    def _profile(self, provider: str) -> Profile | None:
        built_in = provider in PROVIDERS or provider in _OTHERS
        if not provider or (built_in and self._settings is None):
            return None
        return self._load_settings().providers.get(provider)

    def _find_in_profile(self, called: str, profile: Profile, model: str) -> Model:
        from backstay.providers.http.model import HttpModel  # noqa: PLC0415 - it loads the HTTP client

        if not model:
            raise UserError(f"The profile {called!r} names no model. Write {called}:MODEL, or give it a `model`.")
        provider, name = PROVIDERS[profile.type], f"{called}:{model}"
        if profile.base_url:
            parse_name(f"{profile.type}:{model}@{profile.base_url}")  # refuses what is no address
        key = self._key(called, profile)
        key()
        headers = {header: value.reveal(self._environment) for header, value in profile.headers.items()}
        for header, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                raise UserError(
                    f"The header {header!r} of the profile {called!r} has characters that no header can have."
                )
        format = load_format(provider.format)
        found = HttpModel(
            name,
            model=model,
            format=_with_more(format, headers, profile.options),
            base_url=profile.base_url or provider.base_url,
            key=key,
            facts=self.facts(name),
        )
        return _Discreet(found, tuple(headers.values())) if headers else found

    def idle_timeout_s(self, name: str) -> float | None:
        """Return how long the model called `name` may be silent; None when its profile does not say."""
        profile = self._profile(name.partition(":")[0])
        return None if profile is None else profile.timeout_s

    def _key(self, called: str, profile: Profile) -> Callable[[], str]:
        """Return what reads the key at each question. A built-in provider's own variable is only for its own address."""
        secret, environment = profile.api_key, self._environment
        if secret is not None and secret.is_in_keyring:
            return functools.cache(lambda: secret.reveal(environment))  # a keyring may take long, and ask the person
        if secret is not None:
            return lambda: secret.reveal(environment)
        if profile.base_url and is_loopback(urlsplit(profile.base_url).hostname or ""):
            return lambda: ""
        variables = () if profile.base_url else PROVIDERS[profile.type].keys

        def read() -> str:
            key = next((found for each in variables if (found := environment.get(each, "").strip())), "")
            if not key and not profile.headers:
                raise UserError(f'The profile {called!r} has no key. Give it an `api_key`, such as "$ENV:NAME".')
            return key

        return read


def no_model() -> str:
    """Return what to tell a person when no model is named anywhere: the choices, each with what it needs."""
    with_key = [f"  {name + ':MODEL':20} with a key in {PROVIDERS[name].keys[0]}" for name in _WITH_KEY]
    return "\n".join(
        (
            "No model is configured. Give one with --model (in Python: model=), or as chat.default_model in the settings:",
            *with_key,
            "  openai-chat:MODEL@http://127.0.0.1:8080/v1   any server that speaks Chat Completions",
            f"  {'local:MODEL':20} on this machine, without a key; first: backstay models pull",
            f"  {'scripted:FILE':20} plays a file",
        )
    )


_WITH_KEY: Final = ("anthropic", "openai", "google")


def _with_more(format: Format, headers: Mapping[str, str], options: Mapping[str, object]) -> Format:
    """Return a wire format with the headers and options that a profile adds."""
    encoder = (lambda *who: _WithOptions(format.encoder(*who), options)) if options else format.encoder
    return replace(format, encoder=encoder, more={**format.more, **headers})


class _WithOptions:
    """Writes a profile's options into each request, below what the session itself says in `extra`."""

    def __init__(self, encoder: Encoder, options: Mapping[str, object]) -> None:
        self._encoder, self._options = encoder, options

    def encode(self, request: ModelRequest) -> HttpRequest:
        own = request.parameters.get("extra")
        extra = {**self._options, **own} if isinstance(own, Mapping) else dict(self._options)
        return self._encoder.encode(replace(request, parameters={**request.parameters, "extra": extra}))


class _Discreet(ModelAround):
    """A model whose traces and errors do not have the values of a profile's headers."""

    def __init__(self, inner: Model, secrets: tuple[str, ...]) -> None:
        super().__init__(inner)
        self._secrets = tuple(secret for secret in secrets if secret)
        self._redactor = Redactor(exact=secrets)

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        tap = None if request.tap is None else self._quiet(request.tap)
        try:
            async with self._open_stream(replace(request, tap=tap)) as stream:
                async for item in stream:
                    yield item
        except ProviderError as exc:
            problem = ProviderError(exc.kind, self._redactor.text(str(exc)), retry_after_s=exc.retry_after_s)
        else:
            return
        raise problem  # outside the handler, which would keep the words as they were

    async def aclose(self) -> None:
        if isinstance(self._inner, Closable):
            await self._inner.aclose()

    def _quiet(self, tap: Tap) -> Tap:
        def quiet(kind: str, content: Mapping[str, object]) -> None:
            tap(kind, {name: self._redact(value) for name, value in content.items()})

        return quiet

    def _redact(self, value: object) -> object:
        if isinstance(
            value, bytes
        ):  # a request may be megabytes: only what is known is looked for here, the trace does the rest
            for secret in self._secrets:
                value = value.replace(secret.encode(), b"[REDACTED]")
            return value
        return self._redactor.value(value)


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
    """What to tell the person once, when the environment alone decided."""


def choose(settings: Settings, environment: Mapping[str, str] = os.environ, *, by_key: bool = True) -> Choice | None:
    """Return the model of a session that names none; None when nothing says one.

    In order: `currentProvider`, the older `provider`, `chat.default_model`, `model`, and then, unless `by_key` says no, a provider
    whose key is in the environment. Raise `UserError`, with file and line, for a `currentProvider` that has no profile or no model.
    """
    if settings.current_provider:
        return Choice(
            model=_name_profile_model(settings, "currentProvider", settings.current_provider), why="currentProvider"
        )
    if settings.legacy:
        return Choice(model=_name_profile_model(settings, "provider", settings.legacy), why="provider")
    if settings.chat.default_model:
        return Choice(model=settings.chat.default_model, why="chat.default_model")
    notes: list[str] = []
    if model := _resolve_name(settings, environment, notes):
        return Choice(model=model, why="model")
    return next(_by_keys(environment, notes), None) if by_key else None


def full_model(name: str) -> str:
    """Return `name` with its provider, when it is one of the names that other programs use without; else as it is."""
    bare = name.partition("[")[0].strip()  # another program marks a longer window so
    if bare in SHORTCUTS:
        return SHORTCUTS[bare]
    family = next((provider for start, provider in _FAMILIES if bare.startswith(start)), "")
    return f"{family}:{bare}" if family and ":" not in bare else name


def _name_profile_model(settings: Settings, key: str, name: str) -> str:
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


def _resolve_name(settings: Settings, environment: Mapping[str, str], notes: list[str]) -> str:
    """Return the name under `model`, when it means something here. Pass over what only another program understands."""
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
