"""Install plugins: fetch, inspect, show to the person, and only then put in place, pinned by version and hash."""

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio.to_thread
import msgspec
from msgspec import Struct

from backstay.config.private_file import alone
from backstay.config.trust.inventory import hook_words, server_words
from backstay.logic.stored_content import replace_surrogates
from backstay.plugins.ids import DIRECT, PluginId, check_version
from backstay.plugins.install.archive import plugin_in
from backstay.plugins.install.fetch import Fetched, Reach, fetch, room_in
from backstay.plugins.install.sources import ArchiveSource, Source
from backstay.plugins.installed import Installed, InstalledPlugins, Scope
from backstay.plugins.marketplace import MarketplaceEntry
from backstay.plugins.plugin import PLACE, Plugin, read_object, read_plugin
from backstay.plugins.tree import copy_tree, remove_tree, tree_digest
from backstay.system.files import make_folder, sync_folder
from backstay.vocab.errors import UserError

_MOST: Final = 500
_DEEPEST: Final = 4


class PluginContents(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a plugin, each as a line."""

    hooks: tuple[str, ...] = ()
    """Commands and requests that would run by themselves."""
    servers: tuple[str, ...] = ()
    """Programs that would be started, or addresses that would be asked."""
    commands: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    """Rules that deny or ask."""
    instructions: str = ""
    """Instructions for the model."""
    problems: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether anything of it would run by itself."""
        return bool(self.hooks or self.servers)


def list_contents(plugin: Plugin) -> PluginContents:
    """List what a plugin brings. Nothing of it runs."""
    top = f"{plugin.folder}{os.sep}"
    return PluginContents(
        hooks=_some(words for section in plugin.hooks_raw for words, _ in hook_words(section)),
        servers=_some(words for words, _ in server_words(plugin.mcp_servers_raw, hide=False)),
        commands=tuple(replace_surrogates(f"/{plugin.name}:{name}") for name in _names(plugin.commands_dirs)),
        skills=tuple(replace_surrogates(f"{plugin.name}:{name}") for name in _skills(plugin)),
        agents=tuple(map(replace_surrogates, _names(plugin.agents_dirs))),
        rules=_some(f"{rule.decision} {rule}" for rule in plugin.deny_rules),
        instructions=plugin.instructions,
        problems=tuple(replace_surrogates(each.replace(top, "")) for each in (*plugin.problems, *plugin.notes)),
    )


def _some(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the first lines, and the number of the others."""
    found = tuple(lines)
    return found if len(found) <= _MOST else (*found[:_MOST], f"(and {len(found) - _MOST:,} more)")


def _names(places: tuple[Path, ...]) -> Iterator[str]:
    """Yield the names of the Markdown files below some folders; nested ones as `folder:name`."""
    count = 0
    for place in places:
        files = [place] if place.is_file() else _below(place, 0)
        for file in files:
            count += 1
            if count > _MOST:
                return
            parts = file.relative_to(place).with_suffix("").parts if place.is_dir() else (file.stem,)
            yield ":".join(parts)


def _below(folder: Path, depth: int) -> Iterator[Path]:
    for each in sorted(folder.iterdir()):
        if each.is_dir() and not each.is_symlink() and depth < _DEEPEST:
            yield from _below(each, depth + 1)
        elif each.suffix == ".md" and each.is_file():
            yield each


def _skills(plugin: Plugin) -> Iterator[str]:
    count = 0
    for place in plugin.skills_dirs:
        folders = [place] if (place / "SKILL.md").is_file() else sorted(place.iterdir()) if place.is_dir() else []
        for folder in folders:
            if (folder / "SKILL.md").is_file() and count < _MOST:
                count += 1
                yield plugin.name if folder == plugin.folder else folder.name


class Staged(Struct, frozen=True, kw_only=True):
    """A plugin that was fetched and inspected, and is not installed yet."""

    id: PluginId
    version: str
    sha256: str
    source: Source
    commit: str
    plugin: Plugin
    brings: PluginContents
    """What it would run or add: to be shown before the person agrees."""


@asynccontextmanager
async def staging(
    data: Path, source: Source, *, entry: MarketplaceEntry | None = None, reach: Reach | None = None
) -> AsyncIterator[Staged]:
    """Fetch a plugin into a temporary folder and inspect it. It is removed after the block unless it was installed.

    `entry` is what a marketplace says of it, `reach` how far that may lead. Raise `UserError` when it cannot be had or is not fit to be
    used: a path that leaves it, a link that leads out, hooks that cannot be read.
    """
    async with room_in(data / "plugins" / "staging") as room:
        fetched = await fetch(source, room, reach or Reach.of_person())
        yield await anyio.to_thread.run_sync(_stage, fetched, room / "tree", source, entry)


def install(data: Path, staged: Staged, *, scope: Scope, project: str, at: int) -> Installed:
    """Move a staged plugin into place and record it. Raise `UserError` when it changed since it was shown."""
    book = InstalledPlugins(data)
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
            _put(staged.plugin.folder, book.folder_of(staged.id, staged.version))
            book.add(staged.id, record)
            _sweep(book, staged.id, {each.version for each in before})
    except OSError as exc:
        raise UserError(f"{str(staged.id)!r} cannot be written to {str(book.folder)!r}: {exc.strerror}.") from exc
    return record


def uninstall(data: Path, plugin: PluginId, *, scope: Scope, project: str) -> tuple[Installed, ...]:
    """Remove a plugin of one scope, and its files when no other scope uses them. Return its records."""
    book = InstalledPlugins(data)
    try:
        with alone(book.folder / "change"):
            gone = book.remove(plugin, scope, project)
            _sweep(book, plugin, {each.version for each in gone})
    except OSError as exc:
        raise UserError(f"The files of {str(plugin)!r} in {str(book.folder)!r} cannot be removed: {exc}.") from exc
    return gone


def _put(folder: Path, target: Path) -> None:
    """Move a folder into place. A crash in between leaves files that do not match their record, and so are not loaded."""
    make_folder(target.parent)
    old = target.with_name(f".{target.name}.old")
    remove_tree(old)
    if target.exists():
        os.rename(target, old)
    os.rename(folder, target)
    sync_folder(target.parent)
    remove_tree(old)


def _sweep(book: InstalledPlugins, plugin: PluginId, versions: set[str]) -> None:
    """Remove the versions that no record uses."""
    kept = {each.version for each in book.read().get(plugin, ())}
    for version in versions - kept:
        remove_tree(book.folder_of(plugin, version))


def _stage(fetched: Fetched, tree: Path, source: Source, entry: MarketplaceEntry | None) -> Staged:
    try:
        packed = entry is None and isinstance(source, ArchiveSource) and not (fetched.folder / PLACE).is_file()
        copy_tree(plugin_in(fetched.folder) if packed else fetched.folder, tree)
        if entry is not None:
            _complete(tree, entry)
        plugin = read_plugin(tree, name=entry.name if entry else "", marketplace=entry.marketplace if entry else DIRECT)
        digest = tree_digest(tree)
    except OSError as exc:
        raise UserError(f"{str(source)!r} cannot be copied: {exc}.") from exc
    if plugin.unfit:
        shown = " ".join(plugin.unfit).replace(f"{tree}/", "")
        raise UserError(f"The plugin {plugin.name!r} is refused: {shown}")
    version = plugin.version or (entry.version if entry else "") or fetched.commit[:12] or digest[:12]
    return Staged(
        id=PluginId(plugin.name, plugin.marketplace),
        version=check_version(version, plugin.name),
        sha256=digest,
        source=source,
        commit=fetched.commit,
        plugin=plugin,
        brings=list_contents(plugin),
    )


def _complete(tree: Path, entry: MarketplaceEntry) -> None:
    """Fill the gaps of a plugin's manifest, or make it, from its marketplace entry: then its files are complete."""
    path = tree / PLACE
    manifest: dict[str, object] = {}
    if path.is_symlink() or path.parent.is_symlink():
        raise UserError(f"{PLACE} of {entry.name!r} is a link. It is refused.")
    if path.is_file():
        reader = read_object(path)
        manifest = reader.convert(reader.text.content, dict[str, object], ())
    filled = {**{key: value for key, value in _manifest_of(entry).items() if value}, **manifest}
    if filled != manifest:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(filled), indent=2))


def _manifest_of(entry: MarketplaceEntry) -> Mapping[str, object]:
    return {
        "name": entry.name,
        "version": entry.version,
        "description": entry.description,
        "author": {"name": entry.author} if entry.author else None,
        "keywords": entry.keywords,
        **entry.parts,
    }
