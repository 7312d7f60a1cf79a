"""Providers under names of one's own, as settings files write them down."""

import stat
from collections.abc import Mapping

import msgspec

from backstay.config.entries import SettingsEntry
from backstay.config.key_table import nearest
from backstay.config.secret import Secret
from backstay.providers.registry import PROVIDERS
from backstay.vocab.errors import UserError

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


def fold_profile(name: str, said: Mapping[tuple[str, ...], SettingsEntry], warnings: list[str]) -> Profile:
    """Return the profile that the entries of one file come to; an older one, under `provider`, has no name.

    Raise `UserError` with the place of what is wrong.
    """
    type_entry = said[("type",)]
    if name and not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise type_entry.error(f"{name!r} cannot name a profile. Use letters, digits, '.', '_' and '-'.", 2)
    if type_entry.found not in PROVIDERS:
        near = nearest(str(type_entry.found), PROVIDERS)
        meant = f" Did you mean {near!r}?" if near else ""
        raise type_entry.error(f"There is no provider {type_entry.found!r}. Use {', '.join(PROVIDERS)}.{meant}")
    if not name:
        warnings.append(type_entry.warning(_OLD.format(type_entry.found), 1))
    known: dict[str, object] = {where[0]: each.found for where, each in said.items() if len(where) == 1}
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
        return Secret(str(entry.found), name=f"{'.'.join(entry.said)} in {entry.file!r}")
    except UserError as exc:
        raise entry.error(str(exc)) from None
