"""The settings of a person, and of a file given beside them: strict about what is known, patient with what is not.

Every error names the file, the line and the key. A key that nobody knows is a warning: another version may know it.
"""

import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from backstay.config.json_document import JsonText, is_missing
from backstay.config.key_table import AtLeastOne, Count, Name, Share, Tries
from backstay.config.provider_profiles import LEGACY, Profile, read_legacy, read_profile
from backstay.config.settings_reader import SettingsReader
from backstay.logic.budget import microcents
from backstay.providers.catalog import ModelOverride
from backstay.vocab.errors import UserError
from backstay.vocab.event import OnExceed
from backstay.vocab.specs import Ability, FsScope, Prices

__all__ = [
    "ChatSettings",
    "MemorySettings",
    "Profile",
    "Settings",
    "TaskContext",
    "config_dir",
    "load_settings",
    "settings_over",
]

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


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


class TaskContext(msgspec.Struct, frozen=True, kw_only=True):
    """Whether, and from where, the model is told of the task at hand."""

    enabled: bool = True
    dir: str = ".agents/tasks"


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the model is told what was noted of the project."""

    enabled: bool = True


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the files say, later layers over earlier ones."""

    chat: ChatSettings = ChatSettings()
    models: Mapping[str, ModelOverride] = {}
    providers: Mapping[str, Profile] = {}
    fallback: tuple[str, ...] = ()
    auto_compact: float | Literal[False] | None = None
    """The share of the window at which the conversation is made shorter; False: never; None: not said."""
    retries: int | None = None
    current_provider: str = ""
    """The profile that answers when no model is named."""
    legacy: str = ""
    """The profile that a `provider` without a name was made into."""
    model: str = ""
    """The model when nothing else says one, as it was written."""
    language: str = ""
    task_context: TaskContext = TaskContext()
    memory: MemorySettings = MemorySettings()
    files: tuple[str, ...] = ()
    """The files that were read."""
    warnings: tuple[str, ...] = ()
    places: Mapping[str, str] = {}
    """Where `currentProvider`, `provider` and `model` were said, as FILE:LINE: what is wrong with them shows when all files are read."""


def config_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a person's settings are: `BACKSTAY_CONFIG_DIR`, else under the user's configuration folder."""
    if given := environment.get("BACKSTAY_CONFIG_DIR"):
        return Path(given).expanduser().absolute()
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser().absolute() / "backstay"


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


def settings_over(below: Settings, text: JsonText, *, elsewhere: bool = False) -> Settings:
    """`below` with what the file `text` says in its place. Raise `UserError` when something in it is wrong.

    Of a file of another program (`elsewhere`) only the keys that are shared are read, and a wrong value there is a warning.
    """
    return _Layer(text, elsewhere=elsewhere).over(below)


class _Layer(SettingsReader):
    """One file: what it says, checked key by key."""

    def over(self, below: Settings) -> Settings:
        """`below` with what this file says in its place."""
        said = self.everything()
        self.warn_of_unknown(self.members(self.text.content, ()), ())
        chat = self._section(said, "chat", below.chat)
        models = {key: self._override(key, raw) for key, raw in self.entries(said, "models")}
        legacy, providers = self._providers(said, below)
        for key, kind in _READ_ELSEWHERE.items():
            self.value_or(said, key, kind, None)
        return Settings(
            chat=chat,
            models={**below.models, **models},
            providers=providers,
            fallback=self.value_or(said, "fallback", tuple[Name, ...], below.fallback),
            auto_compact=self._auto_compact(said, below),
            retries=self.value_or(said, "retries", Tries, below.retries),
            current_provider=self.value_or(said, "currentProvider", Name, below.current_provider),
            legacy=legacy,
            model=self.value_or(said, "model", Name, below.model),
            language=self.value_or(said, "language", str, below.language),
            task_context=self._section(said, "taskContext", below.task_context),
            memory=self._section(said, "memory", below.memory),
            files=below.files if self.elsewhere else (*below.files, str(self.text.path)),
            warnings=(*below.warnings, *self.warnings),
            places={**below.places, **{key: self.text.place((key,)) for key in _PLACED if key in said}},
        )

    def value_or(self, said: Mapping[str, Raw], key: str, kind: object, other: T) -> T:
        """What stands under `key`, or `other` when nothing does; in another program's file also when it is wrong."""
        try:
            return super().value_or(said, key, kind, other)
        except UserError as exc:
            if not self.elsewhere:
                raise
            self.warnings.append(f"{exc} It is left out.")
            return other

    def _section(self, said: Mapping[str, Raw], key: str, below: S) -> S:
        """A section whose keys are the fields of a structure: those that it has, over those of `below`."""
        if key not in said:
            return below
        inner = self.members(said[key], (key,))
        self.warn_of_unknown(inner, (key,))
        found = self.convert(said[key], type(below), (key,))
        known = {name: getattr(found, name) for name in below.__struct_fields__ if name in inner}
        if "allowed_commands" in known:  # a list of rules, like those of `permissions`: files add to it
            both = (*getattr(below, "allowed_commands", ()), *known["allowed_commands"])
            known["allowed_commands"] = tuple(dict.fromkeys(both))
        return replace(below, **known)

    def _providers(self, said: Mapping[str, Raw], below: Settings) -> tuple[str, dict[str, Profile]]:
        """What the profile without a name is called now, and all profiles."""
        named = {key: read_profile(self, key, raw) for key, raw in self.entries(said, "providers")}
        found, legacy = {**below.providers, **named}, below.legacy
        if "provider" in said:
            profile = read_legacy(self, said["provider"])
            legacy = LEGACY if profile.type in found and profile.type != below.legacy else profile.type
            found[legacy] = profile
        return legacy, found

    def _auto_compact(self, said: Mapping[str, Raw], below: Settings) -> float | Literal[False] | None:
        if "auto_compact" in said and "autoCompactThreshold" in said:
            raise self.text.wrong(
                ("autoCompactThreshold",), "It stands twice, as 'auto_compact' and as 'autoCompactThreshold'. Keep one."
            )
        name = "autoCompactThreshold" if "autoCompactThreshold" in said else "auto_compact"
        return self.value_or(said, name, Share | Literal[False], below.auto_compact)

    def _override(self, name: str, raw: Raw) -> ModelOverride:
        where = ("models", name)
        self.warn_of_unknown(self.members(raw, where), where)
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


_READ_ELSEWHERE: Final = {"enabledPlugins": dict[str, bool], "extraKnownMarketplaces": dict[str, dict[str, object]]}
"""What others read from the same files; a wrong value is told here, where every file is read strictly."""
_PLACED: Final = ("currentProvider", "provider", "model")


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
