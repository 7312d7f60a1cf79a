"""Finds extensions that installed packages offer. Only those that the person's own settings name are loaded: loading runs their code."""

from collections.abc import Collection, Iterable
from importlib.metadata import EntryPoint
from typing import Final

from msgspec import Struct

from backstay.runtime.barrier import Fault, guarded

GROUP: Final = "backstay.extensions"


class FoundExtensions(Struct, frozen=True, kw_only=True):
    """Extensions of packages."""

    extensions: tuple[object, ...] = ()
    """Not checked yet; `Extensions.start` does that."""
    problems: tuple[str, ...] = ()


async def find_extensions(names: Collection[str], points: Iterable[EntryPoint] | None = None) -> FoundExtensions:
    """Load the extensions called `names`, in that order. Never raises: one that cannot be loaded is a problem.

    An entry point leads to an extension, or to something that makes one when it is called without arguments.
    """
    if not names:
        return FoundExtensions()
    offered: dict[str, EntryPoint] = {}
    for point in _installed() if points is None else points:
        offered.setdefault(point.name, point)
    found: list[object] = []
    problems: list[str] = []
    for name in dict.fromkeys(names):
        if name not in offered:
            problems.append(f"The extension {name!r} is not installed: no package offers it under {GROUP!r}.")
            continue
        made = await _made(offered[name])
        if isinstance(made, Fault):
            problems.append(f"The extension {name!r} cannot be loaded: {made.message}")
        else:
            found.append(made)
    return FoundExtensions(extensions=tuple(found), problems=tuple(problems))


async def _made(point: EntryPoint) -> object:
    async def make() -> object:
        loaded = point.load()
        return loaded() if isinstance(loaded, type) or not hasattr(loaded, "activate") else loaded

    return await guarded(f"the extension {point.name!r}, load", make)


def _installed() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - it looks through every installed package

    return entry_points(group=GROUP)
