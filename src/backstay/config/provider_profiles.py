"""Providers under names of one's own, as settings files write them down."""

import stat
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Raw, UnsetType

from backstay.config.key_table import Milliseconds, nearest
from backstay.config.secret import Secret
from backstay.config.settings_reader import SettingsReader
from backstay.providers.registry import PROVIDERS
from backstay.vocab.errors import UserError

IDLE_TIMEOUT_S = 120.0
"""How long a provider may be silent when nothing else is said."""
LEGACY = "legacy"
"""What the unnamed profile is called when there is already one with the name of its type."""


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


def read_profile(reader: SettingsReader, name: str, raw: Raw) -> Profile:
    """The profile called `name`. Raise `UserError` with its place when something in it is wrong."""
    where = ("providers", name)
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise reader.text.wrong(where, f"{name!r} cannot name a profile. Use letters, digits, '.', '_' and '-'.")
    return _profile(reader, raw, where)


def read_legacy(reader: SettingsReader, raw: Raw) -> Profile:
    """The one profile that stands under `provider`, without a name; a warning says how to write it today."""
    where = ("provider",)
    said = reader.members(raw, where)
    if "name" in said:
        if "type" in said:
            raise reader.text.wrong((*where, "name"), "The type stands twice, as 'type' and as 'name'. Keep one.")
        raw = Raw(msgspec.json.encode({"type" if key == "name" else key: value for key, value in said.items()}))
    elif "type" not in said:
        raise reader.text.wrong(where, f"Object missing required field `type`. Use one of {', '.join(PROVIDERS)}.")
    found = _profile(reader, raw, where)
    reader.warn(
        where,
        f"is an older way to write a profile. Move it to 'providers' under a name, such as {found.type!r}, "
        f'and write "currentProvider": "{found.type}"',
    )
    return found


def _profile(reader: SettingsReader, raw: Raw, where: tuple[str, ...]) -> Profile:
    reader.warn_of_unknown(reader.members(raw, where), where)
    found = reader.convert(raw, _Shape, where)
    address = _one(reader, where, "base_url", found.base_url, "baseURL", found.baseURL)
    key = _one(reader, where, "api_key", found.api_key, "apiKey", found.apiKey)
    if found.type not in PROVIDERS:
        near = nearest(found.type, PROVIDERS)
        meant = f" Did you mean {near!r}?" if near else ""
        known = ", ".join(PROVIDERS)
        raise reader.text.wrong((*where, "type"), f"There is no provider {found.type!r}. Use {known}.{meant}")
    if address is not None and address[1] and not address[1].startswith(("http://", "https://")):
        raise reader.text.wrong((*where, address[0]), "It is not an address. It begins with https://.")
    return Profile(
        type=found.type,
        base_url="" if address is None else address[1].rstrip("/"),
        api_key=None if key is None else _secret(reader, key[1], (*where, key[0]), warned=True),
        headers={name: _secret(reader, value, (*where, "headers", name)) for name, value in found.headers.items()},
        model=found.model,
        timeout_s=None if found.timeout is None else found.timeout / 1000,
        options=found.options,
    )


def _one(
    reader: SettingsReader,
    where: tuple[str, ...],
    usual: str,
    value: str | UnsetType,
    other: str,
    other_value: str | UnsetType,
) -> tuple[str, str] | None:
    """The value of a key that has two spellings, with the one that was used."""
    if not isinstance(value, UnsetType) and not isinstance(other_value, UnsetType):
        raise reader.text.wrong((*where, other), f"It stands twice, as {usual!r} and as {other!r}. Keep one.")
    if not isinstance(value, UnsetType):
        return usual, value
    return None if isinstance(other_value, UnsetType) else (other, other_value)


def _secret(reader: SettingsReader, text: str, where: tuple[str, ...], *, warned: bool = False) -> Secret:
    try:
        secret = Secret(text, name=f"{'.'.join(where)} in {str(reader.text.path)!r}")
    except UserError as exc:
        raise reader.text.wrong(where, str(exc)) from None
    if secret.is_plain and warned and reader.text.mode & (stat.S_IRWXG | stat.S_IRWXO):
        reader.warn(
            where, "holds a key that other users of this machine can read. Use $ENV:NAME, or chmod 600 the file"
        )
    return secret


class _Shape(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    base_url: str | UnsetType = UNSET
    baseURL: str | UnsetType = UNSET
    api_key: str | UnsetType = UNSET
    apiKey: str | UnsetType = UNSET
    headers: dict[str, str] = {}
    model: str = ""
    timeout: Milliseconds | None = None
    options: dict[str, object] = {}
