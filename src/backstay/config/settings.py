"""The settings in force: their structures, made from the entries that apply."""

import os
import stat
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from backstay.config.entries import Judgement, SettingsEntry, judge
from backstay.config.json_document import JsonText
from backstay.config.key_lookup import find_nearest
from backstay.config.layer_file import LayerFile
from backstay.config.locations import config_dir, settings_file
from backstay.config.secret import Secret
from backstay.logic.budget import microcents
from backstay.providers.catalog import ModelOverride
from backstay.providers.registry import PROVIDERS
from backstay.system.files import is_missing
from backstay.vocab.errors import UserError
from backstay.vocab.event import OnExceed
from backstay.vocab.specs import FsScope

__all__ = ["ChatSettings", "MemorySettings", "Profile", "Settings", "TaskContext", "fold_settings", "load_settings"]


IDLE_TIMEOUT_S = 120.0
"""How long a provider may be silent when nothing else is said."""
LEGACY = "legacy"
"""The name of the unnamed profile when there is already one with the name of its type."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A provider under a name of one's own."""

    type: str
    """One of the built-in providers."""
    base_url: str = ""
    api_key: Secret | None = None
    headers: Mapping[str, Secret] = {}
    model: str = ""
    """What the profile's name alone means."""
    timeout_s: float | None = None
    """How long an answer may be silent; None: as long as usual."""
    options: Mapping[str, object] = {}
    """What every request has besides, in the provider's own words."""


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults of new conversations. None: not set."""

    fs_scope: FsScope | None = None
    allowed_commands: tuple[str, ...] = ()
    default_model: str | None = None
    max_messages: int | None = None
    """How many messages a request may hold; older ones are left out. Not the cap on turns."""
    max_cost_microcents: int | None = None
    on_exceed: OnExceed = "fail"
    max_session_turns: int | None = None
    """Turns of a session; 0 means the usual number."""
    max_tool_turns: int | None = None
    """Rounds of one turn; 0 means the usual number."""


class TaskContext(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the model is told of the current task, and the folder of tasks."""

    enabled: bool = True
    dir: str = ".agents/tasks"


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the model is told what was noted of the project."""

    enabled: bool = True


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all files that count, under the names that the files use."""

    chat: ChatSettings = ChatSettings()
    models: Mapping[str, ModelOverride] = {}
    providers: Mapping[str, Profile] = {}
    fallback: tuple[str, ...] = ()
    auto_compact: float | Literal[False] | None = None
    """The share of the window at which the conversation is made shorter; False: never; None: not said."""
    retries: int | None = None
    current_provider: str = msgspec.field(default="", name="currentProvider")
    """The profile that answers when no model is named."""
    legacy: str = ""
    """The profile that a `provider` without a name was made into."""
    model: str = ""
    """The model when nothing else says one, as it was written."""
    language: str = ""
    task_context: TaskContext = msgspec.field(default=TaskContext(), name="taskContext")
    memory: MemorySettings = MemorySettings()
    warnings: tuple[str, ...] = ()
    places: Mapping[str, str] = {}
    """Where `currentProvider`, `provider` and `model` stand, as FILE:LINE: what is wrong with them shows when all files are read."""


def load_settings(given: str | Path | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the person's settings, with those of the file `given` over them.

    A person without a settings file has the defaults. Raise `UserError` when a file cannot be read, or `given` is not there.
    """
    wanted = [settings_file(Path(given).expanduser(), "flag")] if given is not None else []
    own = settings_file(config_dir(environment) / "settings.json", "person")
    wanted += [own] if not is_missing(own.path) else []
    texts = [(place, JsonText.read(place.path)) for place in wanted]
    files = [LayerFile(place=place, text=text, content=text.parse()) for place, text in texts]
    return fold_settings(judge(files, trusted=True))


def fold_settings(found: Judgement) -> Settings:
    """Return the settings made of the entries that apply. Raise `UserError` when the value of one has no meaning."""
    values: dict[str, Any] = {}  # Any: JSON, checked by the table of keys
    places: dict[str, str] = {}
    for each in found.entries:
        if not each.counts or each.row is None:
            continue
        first, last = each.where[0], each.where[-1]
        if first in _PLACED and each.text is not None:
            places[first] = each.text.place((first,))
        if each.row.replace_depth:
            continue
        inner = values if len(each.where) == 1 else values.setdefault(first, {})
        if each.row.merge == "highest":
            inner[last] = each.raw
        elif each.raw not in inner.setdefault(last, []):
            inner[last].append(each.raw)
    warnings = list(found.warnings)
    models: dict[str, ModelOverride] = {}
    profiles: dict[str, Profile] = {}
    old: Profile | None = None
    for (first, name, _), said in _group(found.entries).items():
        counts = all(each.counts for each in said.values())
        if first == "models":
            override = _override(said)
            models |= {name: override} if counts else {}
        else:
            profile = fold_profile(name if first == "providers" else None, said, warnings)
            if counts and first == "provider":
                old = profile
            profiles |= {name: profile} if counts and first == "providers" else {}
    legacy = "" if old is None else LEGACY if old.type in profiles else old.type
    return msgspec.structs.replace(
        msgspec.convert(values, Settings),
        models=models,
        providers=profiles if old is None else {**profiles, legacy: old},
        legacy=legacy,
        warnings=tuple(warnings),
        places=places,
    )


def _group(
    entries: Iterable[SettingsEntry],
) -> dict[tuple[str, str, str], dict[tuple[str, ...], SettingsEntry]]:
    """Return the profiles and models of each file, also those that a higher file replaces: they are checked all the same."""
    found: dict[tuple[str, str, str], dict[tuple[str, ...], SettingsEntry]] = {}
    for each in entries:
        size = each.row.replace_depth if each.row is not None else 0
        if size and (each.counts or each.is_overridden):
            unit = (each.where[0], each.where[1] if size > 1 else "", each.file)
            found.setdefault(unit, {})[each.where[size:]] = each
    return found


_PLACED: Final = ("currentProvider", "provider", "model")


def _override(said: Mapping[tuple[str, ...], SettingsEntry]) -> ModelOverride:
    known: dict[str, object] = {where[0]: each.raw for where, each in said.items() if len(where) == 1}
    if prices := {where[1]: _microcents(each) for where, each in said.items() if where[0] == "prices"}:
        known["prices"] = prices
    return msgspec.convert(known, ModelOverride)


def _microcents(price: SettingsEntry) -> int | None:
    try:
        return None if price.raw is None else microcents(Decimal(str(price.raw)), what=str(price.raw))
    except UserError as exc:
        raise price.error(str(exc)) from None


def fold_profile(name: str | None, said: Mapping[tuple[str, ...], SettingsEntry], warnings: list[str]) -> Profile:
    """Return the profile that the entries of one file come to; an older one, under `provider`, has no name.

    Raise `UserError` with the place of what is wrong.
    """
    type_entry = said[("type",)]
    if name is not None and not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise type_entry.error(f"{name!r} cannot name a profile. Use letters, digits, '.', '_' and '-'.", 2)
    if type_entry.raw not in PROVIDERS:
        near = find_nearest(str(type_entry.raw), PROVIDERS)
        meant = f" Did you mean {near!r}?" if near else ""
        raise type_entry.error(f"There is no provider {type_entry.raw!r}. Use {', '.join(PROVIDERS)}.{meant}")
    if name is None:
        warnings.append(type_entry.warning(_OLD.format(type_entry.raw), 1))
    known: dict[str, object] = {where[0]: each.raw for where, each in said.items() if len(where) == 1}
    timeout = known.pop("timeout", None)
    if key := said.get(("api_key",)):
        known["api_key"] = secret = _secret(key)
        if secret.is_plain and key.text is not None and key.text.mode & (stat.S_IRWXG | stat.S_IRWXO):
            warnings.append(key.warning(_READABLE))
    return msgspec.convert(
        {
            **known,
            "base_url": str(known.get("base_url", "")).rstrip("/"),
            "headers": {where[1]: _secret(each) for where, each in said.items() if where[0] == "headers"},
            "timeout_s": timeout / 1000 if isinstance(timeout, int | float) else None,
        },
        Profile,
    )


_OLD = (
    "is an older way to write a profile. Move it to 'providers' under a name, such as {0!r}, "
    'and write "currentProvider": "{0}"'
)
_READABLE = "holds a key that other users of this machine can read. Use $ENV:NAME, or chmod 600 the file"


def _secret(entry: SettingsEntry) -> Secret:
    try:
        return Secret(str(entry.raw), name=f"{'.'.join(entry.spelled)} in {entry.file!r}")
    except UserError as exc:
        raise entry.error(str(exc)) from None
