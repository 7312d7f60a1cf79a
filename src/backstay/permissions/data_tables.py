"""Read the lists of this package that people may want to see and extend: `*.toml` beside this file."""

from functools import cache
from typing import Any, Literal

import msgspec

Mixed = Literal["", "credential", "key"]


class PlaceGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of files and folders that are on a list for one reason."""

    why: str
    names: tuple[str, ...] = ()
    """They hold in any folder. One of a folder covers what is below it."""
    absolute: tuple[str, ...] = ()
    """They begin at the root."""
    home: tuple[str, ...] = ()
    """They hold in the person's home folder alone."""
    mixed: Mixed = ""
    """What some such files hold and most do not: a search of a whole folder asks only about those that do."""
    sealed: Literal["", "folder", "home"] = ""
    """Where the sandbox of programs keeps them from being changed."""


class PlaceList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the lists of places."""

    places: tuple[PlaceGroup, ...]
    templates: PlaceGroup
    """What a name of `places` covers and is not meant all the same."""


@cache
def read_places(name: Literal["protected", "sensitive"]) -> PlaceList:
    """Read a list of places."""
    return msgspec.convert(read_table(name), PlaceList)


def read_lists(name: str) -> dict[str, list[str]]:
    """Read the lists of words of the file called `name`."""
    found: dict[str, list[str]] = read_table(name)
    return found


def read_table(name: str) -> dict[str, Any]:  # Any: the caller knows what stands in it
    """Read the file called `name`."""
    import tomllib  # noqa: PLC0415 - these load when a call is first judged, not with the package
    from importlib import resources  # noqa: PLC0415 - likewise

    text = resources.files("backstay.permissions").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
