"""The table of built-in providers, and the model that a name of one means.

An address comes from the model's name (`openai-chat:MODEL@http://127.0.0.1:8080/v1`), else from the environment (`OPENAI_BASE_URL`), else
from the table. A key belongs to a host: the provider's own variables are read for the provider's address and for the one that the
environment names, and never for an address in a model's name, which may come from a file that somebody else wrote. Such an address has a
variable of its own, `BACKSTAY_API_KEY_` and the host: `BACKSTAY_API_KEY_LLM_EXAMPLE_ORG`. An address on this machine needs no key.
"""

import functools
import importlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from backstay.ports import Clock, Model
from backstay.providers.format import Format
from backstay.providers.scripted import ScriptedModel, parse_scripted
from backstay.system.machine import is_loopback
from backstay.vocab.errors import ProviderError, UserError
from backstay.vocab.specs import ModelFacts

if TYPE_CHECKING:
    from backstay.providers.http.model import HttpModel

_NAME: Final = re.compile(r"(?P<provider>[^:@/]*):(?P<model>.*?)(?:@(?P<address>https?://.*))?", re.DOTALL)


_MEANT_AS_ADDRESS: Final = re.compile(
    r"@(?:[a-z][a-z0-9+.-]*://|localhost\b|\[|[\w.-]+:\d+|[\w-]+(?:\.[\w-]+)+/)", re.IGNORECASE
)
"""What follows the name of a model and was surely not meant as part of it."""


class ModelName(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of `provider:model` or `provider:model@address`.

    Only `@http://` or `@https://` begins an address, so a model's own name may contain `:` and `@`.
    """

    provider: str
    model: str
    address: str = ""

    @property
    def bare(self) -> str:
        """The name without the address: what a catalog knows."""
        return f"{self.provider}:{self.model}"


def parse_name(name: str) -> ModelName:
    """Take a model's name apart. A name without a colon is all provider. Raise `UserError` when its address cannot be used."""
    found = _NAME.fullmatch(name)
    if found is None:
        return ModelName(provider=name, model="")
    address = (found["address"] or "").rstrip("/")
    if address:
        check_address(address, f"the name {name.partition('@')[0]!r}")
    elif _MEANT_AS_ADDRESS.search(found["model"]):
        raise UserError(
            f"The address in {name!r} must begin with http:// or https://: provider:model@http://host:port/path."
        )
    return ModelName(provider=found["provider"], model=found["model"], address=address)


def check_address(address: str, whose: str) -> None:
    """Raise `UserError` unless `address`, which `whose` has, is a place to ask and nothing more."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not address.isascii() or not address.isprintable() or " " in address:
        raise UserError(f"The address of {whose} cannot be used. It looks like http://host:port/path.")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError(
            f"The address of {whose} may have a host, a port and a path, nothing else. A key does not belong there: "
            "addresses are written into logs."
        )


FindFacts = Callable[[str], ModelFacts]
"""What is known of the model `provider:model`."""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A service that can be asked over HTTP."""

    name: str
    format: str
    base_url: str
    keys: tuple[str, ...]
    """Environment variables that may hold the key; the first that is set counts."""
    addresses: tuple[str, ...]
    """Environment variables that may hold another address; likewise."""


def _compatible(name: str, base_url: str) -> Provider:
    """Return a service that speaks OpenAI's Chat format."""
    variable = name.upper()
    return Provider(
        name=name,
        format="openai-chat",
        base_url=base_url,
        keys=(f"{variable}_API_KEY",),
        addresses=(f"{variable}_BASE_URL",),
    )


PROVIDERS: Final[Mapping[str, Provider]] = {
    each.name: each
    for each in (
        Provider(
            name="anthropic",
            format="anthropic",
            base_url="https://api.anthropic.com",
            keys=("ANTHROPIC_API_KEY",),
            addresses=("ANTHROPIC_BASE_URL",),
        ),
        Provider(
            name="openai",
            format="openai-responses",
            base_url="https://api.openai.com/v1",
            keys=("OPENAI_API_KEY",),
            addresses=("OPENAI_BASE_URL",),
        ),
        Provider(
            name="openai-chat",
            format="openai-chat",
            base_url="https://api.openai.com/v1",
            keys=("OPENAI_API_KEY",),
            addresses=("OPENAI_BASE_URL",),
        ),
        Provider(
            name="google",
            format="google",
            base_url="https://generativelanguage.googleapis.com",
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            addresses=("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
        ),
        _compatible("mistral", "https://api.mistral.ai/v1"),
        _compatible("deepseek", "https://api.deepseek.com/v1"),
        _compatible("groq", "https://api.groq.com/openai/v1"),
        _compatible("openrouter", "https://openrouter.ai/api/v1"),
        _compatible("xai", "https://api.x.ai/v1"),
        _compatible("ollama", "http://127.0.0.1:11434/v1"),
    )
}

FORMATS: Final[Mapping[str, str]] = {
    "anthropic": "backstay.providers.anthropic",
    "openai-responses": "backstay.providers.openai_responses",
    "openai-chat": "backstay.providers.openai_chat",
    "google": "backstay.providers.google",
}
"""The wire formats and the modules that hold them."""


def load_format(name: str) -> Format:
    """Return the wire format called `name`; only its own module is loaded. Raise `UserError` when there is none."""
    if name not in FORMATS:
        raise UserError(f"There is no format {name!r}. The formats are {', '.join(FORMATS)}.")
    found: Format = importlib.import_module(FORMATS[name]).FORMAT
    return found


def http_model(
    name: str, *, facts: FindFacts | None = None, environment: Mapping[str, str] = os.environ
) -> "HttpModel":
    """Return the model `provider:model` or `provider:model@address` of a provider of the table.

    Raise `UserError` when the name is incomplete or there is no key. The key is read again at each question.
    """
    from backstay.providers.http.model import HttpModel  # noqa: PLC0415 - it loads the HTTP client

    parts = parse_name(name)
    provider = PROVIDERS[parts.provider]
    if not parts.model:
        raise UserError(f"{name!r} names no model. Write {provider.name}:MODEL; `backstay models list` shows some.")
    place = _place(provider, parts, environment)
    if place.needs_key and not place.key():
        raise UserError(f"There is no key for {name!r}. Put it into the environment variable {place.variables[0]}.")
    return HttpModel(
        name,
        model=parts.model,
        format=load_format(provider.format),
        base_url=place.url,
        key=functools.partial(_key_now, name, place),
        facts=(facts or catalog_facts)(parts.bare),
    )


def catalog_facts(name: str) -> ModelFacts:
    """Return what the catalog knows of the model `provider:model`."""
    try:
        catalog = importlib.import_module("backstay.providers.catalog")
    except ModuleNotFoundError:
        return ModelFacts()
    found: ModelFacts = catalog.facts_of(name)
    return found


class _Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a provider, and where its key is."""

    url: str
    variables: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def needs_key(self) -> bool:
        return not is_loopback(urlsplit(self.url).hostname or "")

    def key(self) -> str:
        return _first(self.environment, self.variables)


def key_variable(address: str) -> str:
    """Return the variable for the key of a server that is asked by its address. No two hosts and ports have the same one."""
    parts = urlsplit(address)
    host = (parts.hostname or "").upper().replace("-", "__").replace(".", "_")
    port = f"_PORT_{parts.port}" if parts.port else ""
    return "BACKSTAY_API_KEY_" + re.sub(r"[^A-Z0-9_]", lambda found: f"_X{ord(found[0]):X}_", host) + port


def _place(provider: Provider, parts: ModelName, environment: Mapping[str, str]) -> _Endpoint:
    if parts.address:
        place = _Endpoint(url=parts.address, variables=(key_variable(parts.address),), environment=environment)
        if place.needs_key and not parts.address.lower().startswith("https://") and place.key():
            raise UserError(f"{parts.address!r} is asked in clear text, and a key does not travel that way. Use https.")
        return place
    url = _first(environment, provider.addresses) or provider.base_url
    check_address(url, f"the environment variable {' or '.join(provider.addresses)}")
    return _Endpoint(url=url, variables=provider.keys, environment=environment)


def _key_now(name: str, place: _Endpoint) -> str:
    key = place.key()
    if place.needs_key and not key:
        raise ProviderError("auth", f"The key for {name!r} is gone. Put it into {place.variables[0]}.")
    return key


def _first(environment: Mapping[str, str], variables: tuple[str, ...]) -> str:
    return next((value for each in variables if (value := environment.get(each, "").strip())), "")


CHOICES: Final = (
    "Give one with --model or model=: "
    + ", ".join(f"{name}:MODEL" for name in PROVIDERS)
    + " (each may end in @http://HOST/PATH for another server), local:MODEL, scripted:FILE, recorded:SESSION_ID."
)


def full_name(name: str, cwd: Path) -> str:
    """Return `name` as the log holds it: a script's path is made absolute, so that a resume finds it from anywhere."""
    provider, _, rest = name.partition(":")
    if provider != "scripted" or not rest:
        return name
    path, start = parse_scripted(rest)
    return f"scripted:{cwd / Path(path).expanduser()}{f'@{start + 1}' if start else ''}"


def find_model(
    name: str, clock: Clock, *, facts: FindFacts | None = None, environment: Mapping[str, str] = os.environ
) -> Model:
    """Return the model called `name`. Raise `UserError` when there is none, or no key for it.

    `facts` tells what is known of a model that is asked over HTTP: the catalog, unless something else is given.
    """
    provider, _, rest = name.partition(":")
    if not name:
        raise UserError(f"No model is configured. {CHOICES}")
    if provider == "scripted" and rest:
        path, start = parse_scripted(rest)
        return ScriptedModel.load(path, start, name=name, clock=clock)
    if provider in PROVIDERS:
        return http_model(name, facts=facts, environment=environment)
    raise UserError(f"There is no model {name!r} here. {CHOICES}")
