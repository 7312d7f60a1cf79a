"""What plugins and marketplaces are called. A name becomes part of a path, so it is checked before anything else is done with it."""

import re
from typing import Final, NamedTuple

from backstay.vocab.errors import UserError

DIRECT: Final = "direct"
"""The marketplace of what was installed without one: from a folder, a repository, an archive or a package index."""
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_VERSION: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+-]{0,62}[A-Za-z0-9])?")


class PluginId(NamedTuple):
    """A plugin's name and where it comes from, written `name@marketplace`."""

    name: str
    marketplace: str

    def __str__(self) -> str:
        return f"{self.name}@{self.marketplace}"

    @classmethod
    def parse(cls, text: str) -> "PluginId":
        """Read `name@marketplace`. Raise `UserError` when it is something else."""
        name, sign, marketplace = text.partition("@")
        if not sign:
            raise UserError(f"{text!r} names no marketplace. Write NAME@MARKETPLACE.")
        return cls(check_name(name, "plugin"), check_name(marketplace, "marketplace"))


def check_name(text: str, what: str) -> str:
    """Return `text` when it can name a plugin or a marketplace; raise `UserError` otherwise."""
    if not _NAME.fullmatch(text) or ".." in text:
        raise UserError(
            f"{text!r} cannot name a {what}. Use 1 to 64 letters, digits, '.', '_' or '-', without '..', "
            "beginning and ending with a letter or a digit."
        )
    return text


def check_version(text: str, name: str) -> str:
    """Return `text` when it can be a version; raise `UserError` otherwise."""
    if not _VERSION.fullmatch(text) or ".." in text:
        raise UserError(
            f"{text!r} cannot be the version of {name!r}. Use digits, letters, '.', '-' and '+', like 1.2.0."
        )
    return text
