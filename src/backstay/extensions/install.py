"""Installs plugins: fetched and looked at first, shown to the person, and only then put in their place, pinned by version and hash."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
import msgspec
from msgspec import Struct

from backstay.config.private_file import alone
from backstay.extensions.install_brings import Brings, what_it_brings
from backstay.extensions.install_fetch import Fetched, Reach, fetch, room_in
from backstay.extensions.install_sources import Source
from backstay.extensions.marketplace import MarketplaceEntry
from backstay.extensions.plugin import Plugin, read_plugin
from backstay.extensions.plugin_json import read_object
from backstay.extensions.plugin_manifest import PLACE
from backstay.extensions.plugin_names import DIRECT, PluginId, check_version
from backstay.extensions.plugin_registry import Installed, InstalledBook, Scope
from backstay.extensions.plugin_tree import copy_tree, remove_tree, tree_digest
from backstay.files import make_folder, sync_folder
from backstay.vocab.errors import UserError


class Staged(Struct, frozen=True, kw_only=True):
    """A plugin that was fetched and looked at, and is not installed yet."""

    id: PluginId
    version: str
    sha256: str
    source: Source
    commit: str
    plugin: Plugin
    brings: Brings
    """What it would run or add: to be shown before anybody says yes."""


@asynccontextmanager
async def staging(
    data: Path, source: Source, *, entry: MarketplaceEntry | None = None, reach: Reach | None = None
) -> AsyncIterator[Staged]:
    """Fetch a plugin into a folder of its own and look at it; nothing of it runs. What is not installed in the block is removed.

    `entry` is what a marketplace says of it, `reach` how far that may lead. Raise `UserError` when it cannot be had or is not fit to be
    used: a path that leaves it, a link that leads out, hooks that cannot be read.
    """
    async with room_in(data / "plugins" / "staging") as room:
        fetched = await fetch(source, room, reach or Reach.of_person())
        yield await anyio.to_thread.run_sync(_staged, fetched, room / "tree", source, entry)


def install(data: Path, staged: Staged, *, scope: Scope, project: str, at: int) -> Installed:
    """Put a staged plugin in its place and write it down. Raise `UserError` when it changed since it was shown."""
    book = InstalledBook(data)
    if tree_digest(staged.plugin.folder) != staged.sha256:
        raise UserError(f"The files of {str(staged.id)!r} changed while they were looked at. Nothing was installed.")
    record = Installed(
        version=staged.version,
        sha256=staged.sha256,
        source=staged.source,
        scope=scope,
        project=project if scope == "project" else "",
        commit=staged.commit,
        at=at,
    )
    try:
        with alone(book.folder / "change"):
            before = book.read().get(staged.id, ())
            _put(staged.plugin.folder, book.place(staged.id, staged.version))
            book.add(staged.id, record)
            _sweep(book, staged.id, {each.version for each in before})
    except OSError as exc:
        raise UserError(f"{str(staged.id)!r} cannot be written to {str(book.folder)!r}: {exc.strerror}.") from exc
    return record


def uninstall(data: Path, plugin: PluginId, *, scope: Scope, project: str) -> tuple[Installed, ...]:
    """Forget a plugin of one scope, and remove its files when no other scope has them. Return what was installed."""
    book = InstalledBook(data)
    try:
        with alone(book.folder / "change"):
            gone = book.remove(plugin, scope, project)
            _sweep(book, plugin, {each.version for each in gone})
    except OSError as exc:
        raise UserError(f"The files of {str(plugin)!r} in {str(book.folder)!r} cannot be removed: {exc}.") from exc
    return gone


def _put(folder: Path, target: Path) -> None:
    """Move a folder to its place. A crash in between leaves files that are not what the book says, and so are not loaded."""
    make_folder(target.parent)
    old = target.with_name(f".{target.name}.old")
    remove_tree(old)
    if target.exists():
        os.rename(target, old)
    os.rename(folder, target)
    sync_folder(target.parent)
    remove_tree(old)


def _sweep(book: InstalledBook, plugin: PluginId, versions: set[str]) -> None:
    """Remove the versions that nobody has any more."""
    kept = {each.version for each in book.read().get(plugin, ())}
    for version in versions - kept:
        remove_tree(book.place(plugin, version))


def _staged(fetched: Fetched, tree: Path, source: Source, entry: MarketplaceEntry | None) -> Staged:
    try:
        copy_tree(fetched.folder, tree)
        if entry is not None:
            _complete(tree, entry)
        plugin = read_plugin(tree, name=entry.name if entry else "", marketplace=entry.marketplace if entry else DIRECT)
        digest = tree_digest(tree)
    except OSError as exc:
        raise UserError(f"{str(source)!r} cannot be copied: {exc}.") from exc
    if plugin.unfit:
        shown = " ".join(plugin.unfit).replace(f"{tree}/", "")
        raise UserError(f"The plugin {plugin.name!r} is refused: {shown}")
    version = (
        plugin.version or (entry.version if entry else "") or fetched.version or fetched.commit[:12] or digest[:12]
    )
    return Staged(
        id=PluginId(plugin.name, plugin.marketplace),
        version=check_version(version, plugin.name),
        sha256=digest,
        source=source,
        commit=fetched.commit,
        plugin=plugin,
        brings=what_it_brings(plugin),
    )


def _complete(tree: Path, entry: MarketplaceEntry) -> None:
    """Fill the gaps of a plugin's manifest, or make it, from what its marketplace says: then its files are all there is to know."""
    path = tree / PLACE
    said: dict[str, object] = {}
    if path.is_symlink() or path.parent.is_symlink():
        raise UserError(f"{PLACE} of {entry.name!r} is a link. It is refused.")
    if path.is_file():
        reader = read_object(path)
        said = reader.convert(reader.text.content, dict[str, object], ())
    filled = {**{key: value for key, value in _told(entry).items() if value}, **said}
    if filled != said:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(filled), indent=2))


def _told(entry: MarketplaceEntry) -> Mapping[str, object]:
    return {
        "name": entry.name,
        "version": entry.version,
        "description": entry.description,
        "author": {"name": entry.author} if entry.author else None,
        "keywords": entry.keywords,
        **entry.parts,
    }
