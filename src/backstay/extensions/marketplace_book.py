"""Fetches marketplaces, and knows them from then on."""

import os
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec.structs import replace

from backstay.extensions.install_fetch import Reach, fetch, room_in
from backstay.extensions.install_sources import FolderSource, NpmSource, PythonSource, Source, UrlSource
from backstay.extensions.marketplace import PLACE, Marketplace, read_marketplace
from backstay.extensions.marketplace_known import KnownBook, KnownMarketplace
from backstay.extensions.plugin_names import DIRECT
from backstay.extensions.plugin_tree import Limits, copy_tree, remove_tree
from backstay.files import make_folder
from backstay.vocab.errors import UserError

LIMITS: Final = Limits(files=50_000, total=1024**3)
"""A marketplace may hold all of its plugins."""


class MarketplaceBook(KnownBook):
    """The marketplaces of one person, and the ways to add to them."""

    async def add(self, source: Source, at: int, *, name: str = "", default: bool = False) -> Marketplace:
        """Fetch a marketplace and know it from now on, under its own name or `name`. Raise `UserError` when that cannot be.

        A name that stands for another source already is refused: nothing is replaced without a word.
        """
        if isinstance(source, PythonSource | NpmSource):
            raise UserError(f"{source} is a package, not a marketplace. Install it: backstay plugins install {source}")
        async with room_in(self.folder / "staging") as room:
            found, commit, folder = await self._bring(source, room, name)
            before = self.known().get(found.name)
            if before is not None and before.source != source:
                raise UserError(
                    f"There is a marketplace {found.name!r} already, from {before.source}. "
                    f"Remove it first: backstay plugins marketplace remove {found.name}"
                )
            known = KnownMarketplace(source=source, commit=commit, added=before.added if before else at, updated=at)
            await anyio.to_thread.run_sync(self._keep, found.name, known, folder, default)
        return self.read(found.name)

    async def update(self, name: str, at: int) -> Marketplace:
        """Fetch a marketplace again. When that fails, what was there stays."""
        known = self.known().get(name)
        if known is None:
            raise UserError(
                f"There is no marketplace {name!r}. `backstay plugins marketplace list` shows what there is."
            )
        async with room_in(self.folder / "staging") as room:
            _, commit, folder = await self._bring(known.source, room, name)
            await anyio.to_thread.run_sync(self._keep, name, replace(known, commit=commit, updated=at), folder, False)
        return self.read(name)

    async def _bring(self, source: Source, room: Path, name: str) -> tuple[Marketplace, str, Path]:
        """A marketplace, read, its commit, and the folder that it is to be kept from."""
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
                swap_in(folder, self.place(name, known))
            book.marketplaces[name] = known
            if default:
                book.default = name


def swap_in(folder: Path, target: Path) -> None:
    """Put a copy of `folder` at `target` in place of what is there."""
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
