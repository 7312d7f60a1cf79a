"""The marketplaces that a person knows: kept in the data folder, fetched and updated."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio.to_thread
import msgspec
from msgspec.structs import replace

from backstay.config.private_file import Book
from backstay.plugins.ids import DIRECT, check_name
from backstay.plugins.install.fetch import Reach, fetch, room_in
from backstay.plugins.install.sources import (
    FolderSource,
    GitSource,
    NpmSource,
    PythonSource,
    Source,
    UrlSource,
)
from backstay.plugins.marketplace import PLACE, Marketplace, read_marketplace
from backstay.plugins.tree import TreeLimits, copy_tree, remove_tree
from backstay.system.files import make_folder
from backstay.vocab.errors import UserError

DEFAULT: Final = "claude-plugins-official"
DEFAULT_SOURCE: Final = GitSource(url="https://github.com/anthropics/claude-plugins-official.git")
"""The marketplace that is known from the start. It is not fetched before it is asked for."""
LIMITS: Final = TreeLimits(files=50_000, total=1024**3)
"""Limits of a marketplace, which may hold all of its plugins."""


class KnownMarketplace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A known marketplace."""

    source: Source
    commit: str = ""
    """The commit of a repository, as it was fetched."""
    added: int = 0
    updated: int = 0
    """The time of the last fetch, in microseconds since 1970; 0: never."""

    @property
    def fetched(self) -> bool:
        """Whether its list is here."""
        return self.updated > 0 or isinstance(self.source, FolderSource)


class _MarketplacesFile(msgspec.Struct, kw_only=True):
    version: int = 1
    default: str = DEFAULT
    marketplaces: dict[str, KnownMarketplace] = msgspec.field(
        default_factory=lambda: {DEFAULT: KnownMarketplace(source=DEFAULT_SOURCE)}
    )

    def __post_init__(self) -> None:
        for name in self.marketplaces:
            check_name(name, "marketplace")


class KnownMarketplaces:
    """The marketplaces of one person, in the data folder, as they were last fetched."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "plugins"
        path, action = self.folder / "known_marketplaces.json", "change which marketplaces are known"
        self._book = Book(path, _MarketplacesFile, "add your marketplaces", person=action)

    def read_known(self) -> dict[str, KnownMarketplace]:
        """Return every marketplace, by name. Raise `UserError` when the file cannot be trusted."""
        return self._book.read().marketplaces

    @property
    def default(self) -> str:
        """The default marketplace; empty when it was removed."""
        book = self._book.read()
        return book.default if book.default in book.marketplaces else ""

    def read(self, name: str) -> Marketplace:
        """Return the list of a marketplace, as it was fetched. Raise `UserError` when it is unknown, or not fetched yet."""
        known = self.read_known().get(name)
        if known is None:
            raise UserError(
                f"There is no marketplace {name!r}. `backstay plugins marketplace list` shows what there is."
            )
        if not known.fetched:
            raise UserError(
                f"The marketplace {name!r} was not fetched yet. `backstay plugins marketplace update {name}` does it."
            )
        return read_marketplace(self.folder_of(name, known), name=name, local=isinstance(known.source, FolderSource))

    def read_all(self) -> tuple[tuple[Marketplace, ...], tuple[str, ...]]:
        """Return the lists that are here, and their problems."""
        found: list[Marketplace] = []
        problems: list[str] = []
        for name, known in self.read_known().items():
            if not known.fetched:
                continue
            try:
                found.append(self.read(name))
            except UserError as exc:
                problems.append(f"The marketplace {name!r} is left out: {exc}")
                continue
            problems += found[-1].problems
        return tuple(found), tuple(problems)

    def remove(self, name: str) -> bool:
        """Remove a marketplace and its files; return whether it was known. Its plugins are not loaded any more."""
        with self._book.changing() as book:
            known = book.marketplaces.pop(name, None)
        if known is not None and not isinstance(known.source, FolderSource):
            remove_tree(self.folder / "marketplaces" / check_name(name, "marketplace"))
        return known is not None

    def folder_of(self, name: str, known: KnownMarketplace) -> Path:
        """Return the folder of a marketplace's list, there or not."""
        if isinstance(known.source, FolderSource):
            return Path(known.source.path)
        return self.folder / "marketplaces" / check_name(name, "marketplace")

    async def add(self, source: Source, at: int, *, name: str = "", default: bool = False) -> Marketplace:
        """Fetch a marketplace and store it under its own name or `name`. Raise `UserError` when that cannot be done.

        A name that stands for another source already is refused: nothing is replaced without a word.
        """
        if isinstance(source, PythonSource | NpmSource):
            raise UserError(f"{source} is a package, not a marketplace. Install it: backstay plugins install {source}")
        async with room_in(self.folder / "staging") as room:
            found, commit, folder = await self._bring(source, room, name)
            before = self.read_known().get(found.name)
            if before is not None and before.source != source:
                raise UserError(
                    f"There is a marketplace {found.name!r} already, from {before.source}. "
                    f"Remove it first: backstay plugins marketplace remove {found.name}"
                )
            known = KnownMarketplace(source=source, commit=commit, added=before.added if before else at, updated=at)
            await anyio.to_thread.run_sync(self._keep, found.name, known, folder, default)
        return self.read(found.name)

    async def update(self, name: str, at: int) -> Marketplace:
        """Fetch a marketplace again. When that fails, the old list stays."""
        known = self.read_known().get(name)
        if known is None:
            raise UserError(
                f"There is no marketplace {name!r}. `backstay plugins marketplace list` shows what there is."
            )
        async with room_in(self.folder / "staging") as room:
            _, commit, folder = await self._bring(known.source, room, name)
            await anyio.to_thread.run_sync(self._keep, name, replace(known, commit=commit, updated=at), folder, False)
        return self.read(name)

    async def _bring(self, source: Source, room: Path, name: str) -> tuple[Marketplace, str, Path]:
        """Fetch and read a marketplace; return it, its commit, and its folder."""
        if isinstance(source, UrlSource):
            content, _, _ = await Reach.of_person().web.page(source.url)
            await anyio.to_thread.run_sync(_write_list, room / "list", content)
            folder, commit = room / "list", ""
        else:
            fetched = await fetch(source, room, Reach.of_person())
            folder, commit = fetched.folder, fetched.commit
        local = isinstance(source, FolderSource)
        found = await anyio.to_thread.run_sync(lambda: read_marketplace(folder, name=name, local=local))
        if found.name == DIRECT:
            raise UserError(f"A marketplace cannot be called {DIRECT!r}. Give it another name with --name.")
        return found, commit, folder

    def _keep(self, name: str, known: KnownMarketplace, folder: Path, default: bool) -> None:
        with self._book.changing() as book:
            if not isinstance(known.source, FolderSource):
                swap_in(folder, self.folder_of(name, known))
            book.marketplaces[name] = known
            if default:
                book.default = name


def merge_known(book: KnownMarketplaces, extra: Mapping[str, Source]) -> dict[str, KnownMarketplace]:
    """Return the stored marketplaces and those that settings name besides; of two with one name the stored one counts."""
    return {**{name: KnownMarketplace(source=source) for name, source in extra.items()}, **book.read_known()}


def swap_in(folder: Path, target: Path) -> None:
    """Put a copy of `folder` at `target`, in place of what is there."""
    make_folder(target.parent)
    fresh, old = target.with_name(f".{target.name}.new"), target.with_name(f".{target.name}.old")
    for each in (fresh, old):
        remove_tree(each)
    copy_tree(folder, fresh, LIMITS, tolerant=True)
    if target.exists():
        os.rename(target, old)
    os.rename(fresh, target)
    remove_tree(old)


def _write_list(folder: Path, content: bytes) -> None:
    place = folder / PLACE
    make_folder(place.parent)
    place.write_bytes(content)
