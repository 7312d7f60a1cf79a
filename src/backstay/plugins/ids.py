"""Names and versions of plugins and marketplaces. A name becomes part of a path, so it is checked before anything else."""

import re
from typing import Final, Literal, NamedTuple

from backstay.vocab.errors import UserError

DIRECT: Final = "direct"
"""The marketplace of plugins that were installed without one: from a folder, a repository or an archive."""
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_VERSION: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+-]{0,62}[A-Za-z0-9])?")


class PluginId(NamedTuple):
    """A plugin's name and its marketplace, written `name@marketplace`."""

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


Order = Literal["newer", "older", "same", "other"]
"""`other`: at least one of them is no version, such as the name of a commit, so it cannot be told."""
_SEMANTIC_VERSION: Final = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)"
    r"(?:-(?P<before>[0-9A-Za-z.-]+)|[._]?(?P<marked>(?:a|b|c|rc|alpha|beta|pre|preview|dev|post)[.-]?\d*(?:\.dev\d+)?))?"
    r"(?:\+[0-9A-Za-z.-]+)?"
)
_PIECE: Final = re.compile(r"\d+|[A-Za-z]+")
_Key = tuple[tuple[int, ...], bool, bool, tuple[tuple[int, int, str], ...]]


def compare(version: str, than: str) -> Order:
    """Compare `version` with another one."""
    if version == than:
        return "same"
    one, two = version_key(version), version_key(than)
    if one is None or two is None:
        return "other"
    return "same" if one == two else "newer" if one > two else "older"


def version_key(text: str) -> _Key | None:
    """Return a key that sorts as versions do; None for a text that is no version.

    What comes before a release (`1.0-rc.1`, `1.0b2`) sorts before it, `1.0.post1` after it. What stands behind a `+` does not count.
    """
    found = _SEMANTIC_VERSION.fullmatch(text.strip())
    if found is None:
        return None
    release = [int(each) for each in found["release"].split(".")]
    while len(release) > 1 and not release[-1]:
        release.pop()
    extra = (found["before"] or found["marked"] or "").lower()
    after = extra.startswith("post")
    return tuple(release), after, after or not extra, tuple(_piece(each) for each in _PIECE.findall(extra))


def _piece(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isdigit() else (1, 0, text)
