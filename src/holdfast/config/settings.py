"""The settings of a person, and of a file given beside them: strict about what is known, patient with what is not.

Every error names the file, the line and the key. A key that nobody knows is a warning: another version may know it.
"""

import os
import stat
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType
from msgspec.structs import replace

from holdfast.config.json_reader import JsonReader
from holdfast.config.json_text import JsonText, is_missing
from holdfast.config.secret import Secret
from holdfast.logic.pricing import microcents
from holdfast.providers.catalog import ModelOverride
from holdfast.providers.registry import PROVIDERS
from holdfast.vocab.errors import UserError
from holdfast.vocab.event import OnExceed
from holdfast.vocab.specs import Ability, FsScope, Prices

Count = Annotated[int, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(gt=0, le=1)]
Name = Annotated[str, Meta(min_length=1)]


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How conversations are held when nothing else is said. None: not said."""

    fs_scope: FsScope | None = None
    allowed_commands: tuple[Name, ...] = ()
    default_model: Name | None = None
    max_messages: AtLeastOne | None = None
    """How many messages a request may hold; older ones are left out. Not the cap on turns."""
    max_cost_microcents: Count | None = None
    on_exceed: OnExceed = "fail"
    max_session_turns: Count | None = None
    """Turns of a session; 0 means the usual number."""
    max_tool_turns: Count | None = None
    """Rounds of one turn; 0 means the usual number."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A provider under a name of one's own."""

    type: str
    """One of the built-in providers."""
    base_url: str = ""
    api_key: Secret | None = None
    headers: Mapping[str, Secret] = {}
    model: str = ""
    """What the profile's name alone means."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the files say, later layers over earlier ones."""

    chat: ChatSettings = ChatSettings()
    models: Mapping[str, ModelOverride] = {}
    providers: Mapping[str, Profile] = {}
    fallback: tuple[str, ...] = ()
    auto_compact: float | Literal[False] | None = None
    """The share of the window at which the conversation is made shorter; False: never; None: not said."""
    retries: int | None = None
    files: tuple[str, ...] = ()
    """The files that were read."""
    warnings: tuple[str, ...] = ()


def config_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a person's settings are: `HOLDFAST_CONFIG_DIR`, else under the user's configuration folder."""
    if given := environment.get("HOLDFAST_CONFIG_DIR"):
        return Path(given).expanduser().absolute()
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser().absolute() / "holdfast"


def load_settings(given: str | Path | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """The person's settings, with those of the file `given` over them.

    A person without a settings file has the defaults. Raise `UserError` when a file cannot be read, or `given` is not there.
    """
    found = Settings()
    own = config_dir(environment) / "settings.json"
    for path, needed in ((own, False), *(((Path(given).expanduser(), True),) if given is not None else ())):
        if needed or not is_missing(path):
            found = settings_over(found, JsonText.read(path))
    return found


def settings_over(below: Settings, text: JsonText) -> Settings:
    """`below` with what the file `text` says in its place. Raise `UserError` when something in it is wrong."""
    return _Layer(text).over(below)


class _Layer(JsonReader):
    """One file: what it says, checked key by key."""

    def over(self, below: Settings) -> Settings:
        """`below` with what this file says in its place."""
        said = self.members(self.text.content, ())
        self.warn_of_others(said, (*_KEYS, *OF_SAFETY), ())
        chat = self._chat(said["chat"], below.chat) if "chat" in said else below.chat
        models = {key: self._override(key, raw) for key, raw in self.entries(said, "models")}
        providers = {key: self._profile(key, raw) for key, raw in self.entries(said, "providers")}
        return Settings(
            chat=chat,
            models={**below.models, **models},
            providers={**below.providers, **providers},
            fallback=self.value_or(said, "fallback", tuple[Name, ...], below.fallback),
            auto_compact=self.value_or(said, "auto_compact", Share | Literal[False], below.auto_compact),
            retries=self.value_or(said, "retries", Annotated[int, Meta(ge=0, le=20)], below.retries),
            files=(*below.files, str(self.text.path)),
            warnings=(*below.warnings, *self.warnings),
        )

    def _chat(self, raw: Raw, below: ChatSettings) -> ChatSettings:
        said = self.members(raw, ("chat",))
        self.warn_of_others(said, ChatSettings.__struct_fields__, ("chat",))
        found = self.convert(raw, ChatSettings, ("chat",))
        known = {name: getattr(found, name) for name in ChatSettings.__struct_fields__ if name in said}
        if "allowed_commands" in known:  # a list of rules, like those of `permissions`: files add to it
            known["allowed_commands"] = tuple(dict.fromkeys((*below.allowed_commands, *found.allowed_commands)))
        return replace(below, **known)

    def _override(self, name: str, raw: Raw) -> ModelOverride:
        where = ("models", name)
        self.warn_of_others(self.members(raw, where), _OverrideShape.__struct_fields__, where)
        found = self.convert(raw, _OverrideShape, where)
        return ModelOverride(
            window=found.window,
            max_output=found.max_output,
            prices=None if found.prices is None else self._prices(found.prices, where),
            abilities=None if found.abilities is None else frozenset(found.abilities),
        )

    def _prices(self, found: "_PricesShape", where: tuple[str, ...]) -> Prices:
        amounts: dict[str, int | None] = {}
        for kind in found.__struct_fields__:
            amount, place = getattr(found, kind), (*where, "prices", kind)
            try:
                amounts[kind] = None if amount is None else microcents(amount, what=str(amount))
            except UserError as exc:
                raise self.text.wrong(place, str(exc)) from None
        return msgspec.convert(amounts, Prices)

    def _profile(self, name: str, raw: Raw) -> Profile:
        where = ("providers", name)
        self.warn_of_others(self.members(raw, where), _ProfileShape.__struct_fields__, where)
        found = self.convert(raw, _ProfileShape, where)
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise self.text.wrong(where, f"{name!r} cannot name a profile. Use letters, digits, '.', '_' and '-'.")
        if found.type not in PROVIDERS:
            raise self.text.wrong((*where, "type"), f"There is no provider {found.type!r}. Use {', '.join(PROVIDERS)}.")
        if found.base_url and not found.base_url.startswith(("http://", "https://")):
            raise self.text.wrong((*where, "base_url"), "It is not an address. It begins with https://.")
        return Profile(
            type=found.type,
            base_url=found.base_url.rstrip("/"),
            api_key=None if isinstance(found.api_key, UnsetType) else self._secret(found.api_key, (*where, "api_key")),
            headers={key: self._secret(value, (*where, "headers", key)) for key, value in found.headers.items()},
            model=found.model,
        )

    def _secret(self, text: str, where: tuple[str, ...]) -> Secret:
        try:
            secret = Secret(text, name=f"{'.'.join(where)} in {str(self.text.path)!r}")
        except UserError as exc:
            raise self.text.wrong(where, str(exc)) from None
        if secret.is_plain and where[-1] == "api_key" and self.text.mode & (stat.S_IRWXG | stat.S_IRWXO):
            self.warn(
                where, "holds a key that other users of this machine can read. Use $ENV:NAME, or chmod 600 the file"
            )
        return secret


_KEYS: Final = ("chat", "models", "providers", "fallback", "auto_compact", "retries")
OF_SAFETY: Final = ("permissions", "hooks", "disableAllHooks", "env", "mcpServers", "$schema")
"""Keys that `config/layer_file.py` reads: what is allowed, and what would run."""


class _PricesShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars for a million tokens."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None


class _OverrideShape(msgspec.Struct, frozen=True, kw_only=True):
    window: AtLeastOne | None = None
    max_output: AtLeastOne | None = None
    prices: _PricesShape | None = None
    abilities: tuple[Ability, ...] | None = None


class _ProfileShape(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    base_url: str = ""
    api_key: str | UnsetType = UNSET
    headers: dict[str, str] = {}
    model: str = ""
