"""Manage plugins: list, install, update, uninstall and switch them. The command line is made of this."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from backstay.config.json_changes import change_setting, remove_setting
from backstay.config.layers import read_layers
from backstay.config.trust.trust_store import TrustStore
from backstay.plugins.ids import DIRECT, PluginId, check_name
from backstay.plugins.install.fetch import Reach
from backstay.plugins.install.install import Staged, install, staging, uninstall
from backstay.plugins.install.sources import ARCHIVES, Source, source_of
from backstay.plugins.installed import ENABLED, Installed, InstalledPlugins, Scope, find_installed
from backstay.plugins.known_marketplaces import KnownMarketplace, KnownMarketplaces, merge_known
from backstay.plugins.load import PluginConfig, applicable, load_plugins
from backstay.plugins.marketplace import Marketplace, MarketplaceEntry
from backstay.ports import Clock
from backstay.vocab.errors import UserError

SETTINGS: Final = ".backstay/settings.json"
"""The file in which a project names its plugins."""
PluginState = Literal["on", "off", "held back", "not loaded", "not installed"]


class PluginRow(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin as a list shows it."""

    id: str
    state: PluginState
    version: str = ""
    scope: str = ""
    description: str = ""
    source: str = ""
    sha256: str = ""
    commit: str = ""
    problem: str = ""
    """Why it is not loaded, or what of it is left out."""


class Plugins:
    """The plugins of one person in one working folder."""

    def __init__(self, cwd: Path, clock: Clock, environment: Mapping[str, str] = os.environ) -> None:
        self._cwd = cwd.expanduser().absolute()
        self._clock = clock
        self._environment = environment
        self._layered = read_layers(self._cwd, environment=environment)
        self.config = PluginConfig.of(self._layered)
        self.marketplaces = KnownMarketplaces(self.config.paths.data)
        self.installed = InstalledPlugins(self.config.paths.data)

    def rows(self) -> tuple[PluginRow, ...]:
        """Return every plugin that is installed or switched on, with its state here."""
        installed = self.installed.read()
        rows = [self._row(plugin, records) for plugin, records in installed.items()]
        wanted = self.config.enabling.counts(trusted=self.config.trusted)
        held = () if self.config.trusted else tuple(self.config.enabling.of_project)
        for name in dict.fromkeys((*wanted, *held)):
            try:
                find_installed(installed, name)
            except UserError as exc:
                if wanted.get(name):
                    rows.append(PluginRow(id=name, state="not installed", problem=str(exc)))
                elif name in held and self.config.enabling.of_project[name]:
                    rows.append(PluginRow(id=name, state="held back", problem="This workspace is not trusted."))
        return tuple(sorted(rows, key=lambda row: row.id))

    @asynccontextmanager
    async def staging(self, text: str) -> AsyncIterator[Staged]:
        """Fetch and inspect the plugin that `text` means: `name`, `name@marketplace`, or a source. Raise `UserError` if that fails."""
        if _is_name(text):
            entry, known = await self._entry(text)
            reach = Reach.of_marketplace(known.source)
            async with staging(self.config.paths.data, entry.source, entry=entry, reach=reach) as staged:
                yield staged
        else:
            async with staging(self.config.paths.data, source_of(text, self._cwd)) as staged:
                yield staged

    @asynccontextmanager
    async def staging_again(self, plugin: PluginId) -> AsyncIterator[Staged]:
        """Fetch an installed plugin again from where it came; its marketplace is fetched anew first."""
        if plugin.marketplace != DIRECT:
            await self.marketplaces.update(plugin.marketplace, self._clock.now())
            async with self.staging(str(plugin)) as staged:
                yield staged
            return
        record = self.record(plugin)
        async with staging(self.config.paths.data, record.source) as staged:
            if staged.id != plugin:
                raise UserError(
                    f"{record.source} is now called {staged.id.name!r}. Uninstall {str(plugin)!r}, then install that."
                )
            yield staged

    def here(self) -> Iterator[tuple[PluginId, Installed]]:
        """Yield the plugins installed for the person or for this project."""
        for plugin, records in self.installed.read().items():
            found = applicable(records, str(self.config.paths.root))
            if found is not None:
                yield plugin, found

    def record(self, plugin: PluginId) -> Installed:
        """Return the record of a plugin installed here. Raise `UserError` when there is none."""
        found = applicable(self.installed.read().get(plugin, ()), str(self.config.paths.root))
        if found is None:
            raise UserError(f"The plugin {str(plugin)!r} is not installed here.")
        return found

    def install(self, staged: Staged, scope: Scope, *, switch_on: bool = True) -> Installed:
        """Install a staged plugin and switch it on, unless it is to stay as it is."""
        project = str(self.config.paths.root)
        record = install(self.config.paths.data, staged, scope=scope, project=project, at=self._clock.now())
        if switch_on:
            self.switch(str(staged.id), True, scope)
        return record

    def uninstall(self, text: str, scope: Scope) -> PluginId:
        """Remove a plugin of one scope, and its entry in that scope's settings. Raise `UserError` when it is not installed there."""
        plugin = find_installed(self.installed.read(), text)
        if not uninstall(self.config.paths.data, plugin, scope=scope, project=str(self.config.paths.root)):
            raise UserError(f"The plugin {str(plugin)!r} is not installed for this {scope}. Say --scope.")
        self.switch(str(plugin), None, scope)
        return plugin

    def switch(self, plugin: str, on: bool | None, scope: Scope) -> Path:
        """Write into the settings of a scope that a plugin is on or off; None removes the entry. Return the file."""
        path = self.config.paths.config / "settings.json" if scope == "person" else self.config.paths.root / SETTINGS
        root, keys = None if scope == "person" else self.config.paths.root, (ENABLED, plugin)
        if on is None:
            changed = remove_setting(path, keys, data=self.config.paths.data, root=root)
        else:
            changed = change_setting(path, keys, on, data=self.config.paths.data, root=root)
        if changed and scope == "project":
            now = read_layers(self._cwd, environment=self._environment)
            book = TrustStore(self.config.paths.data)
            book.renew(self._layered.trust, now.trust.survey, only=SETTINGS, at=self._clock.now())
        self._layered = read_layers(self._cwd, environment=self._environment)
        self.config = PluginConfig.of(self._layered)
        return path

    def find(self, text: str) -> PluginId:
        """Return the installed plugin that is meant. Raise `UserError` when there is none, or more than one."""
        return find_installed(self.installed.read(), text)

    def list_marketplaces(self) -> dict[str, KnownMarketplace]:
        """Return the known marketplaces: stored ones, and those of settings that count."""
        return merge_known(self.marketplaces, self.config.marketplaces())

    async def _entry(self, text: str) -> tuple[MarketplaceEntry, KnownMarketplace]:
        name, _, wanted = text.partition("@")
        check_name(name, "plugin")
        if wanted:
            found = await self._fetch_list(wanted)
            return found.entry(name), self.list_marketplaces()[wanted]
        hits: list[MarketplaceEntry] = []
        for each in sorted(self.marketplaces.read_all()[0], key=lambda one: one.name != self.marketplaces.default):
            hits += (entry for entry in each.entries if entry.name == name)
        if not hits:
            raise UserError(
                f"No marketplace that was fetched has a plugin {name!r}. Fetch them anew with `backstay plugins marketplace update`, "
                f"name one with {name}@MARKETPLACE, or write ./{name} for a folder."
            )
        if len(hits) > 1 and hits[0].marketplace != self.marketplaces.default:
            options = ", ".join(f"{name}@{hit.marketplace}" for hit in hits)
            raise UserError(f"More than one marketplace has {name!r}. Name one of {options}.")
        return hits[0], self.list_marketplaces()[hits[0].marketplace]

    async def _fetch_list(self, name: str) -> Marketplace:
        """Return the list of a marketplace, fetched when it is not here yet."""
        known = self.list_marketplaces().get(name)
        if known is None and name in self.config.enabling.project_marketplaces:
            raise UserError(
                f"The marketplace {name!r} comes with this workspace, which is not trusted. See `backstay trust`."
            )
        if known is None:
            raise UserError(
                f"There is no marketplace {name!r}. `backstay plugins marketplace list` shows what there is."
            )
        if name not in self.marketplaces.read_known():
            return await self.marketplaces.add(known.source, self._clock.now(), name=name)
        return (
            self.marketplaces.read(name) if known.fetched else await self.marketplaces.update(name, self._clock.now())
        )

    def _row(self, plugin: PluginId, records: tuple[Installed, ...]) -> PluginRow:
        record = applicable(records, str(self.config.paths.root))
        if record is None:
            others = ", ".join(sorted(each.project for each in records))
            return PluginRow(
                id=str(plugin), state="off", scope="project", problem=f"It is installed for {others} only."
            )
        wanted = self.config.enabling.counts(trusted=self.config.trusted)
        names = (str(plugin), plugin.name)
        on = any(wanted.get(name) for name in names) and all(wanted.get(name, True) for name in names)
        state, about, problems = self._outcome(plugin, on)
        return PluginRow(
            id=str(plugin),
            state=state,
            version=record.version,
            scope=record.scope,
            description=about,
            source=str(record.source),
            sha256=record.sha256,
            commit=record.commit,
            problem=" ".join(problems),
        )

    def _outcome(self, plugin: PluginId, on: bool) -> tuple[PluginState, str, tuple[str, ...]]:
        """Load an installed plugin; return its state, its description, and its problems."""
        loaded = load_plugins(
            {str(plugin): True},
            self.list_marketplaces().keys(),
            self.config.paths.data,
            True,
            project=str(self.config.paths.root),
        )
        about = next((each.manifest.description for each in loaded.plugins), "")
        if on:
            return ("on" if loaded.plugins else "not loaded"), about, loaded.problems
        held = not self.config.trusted and any(
            self.config.enabling.of_project.get(name) for name in (str(plugin), plugin.name)
        )
        return ("held back" if held else "off"), about, ()


def marketplaces_held_back(place: PluginConfig) -> Iterator[tuple[str, Source]]:
    """Yield the marketplaces of an untrusted workspace, which do not count."""
    if not place.trusted:
        yield from place.enabling.project_marketplaces.items()


def _is_name(text: str) -> bool:
    """Return whether a plugin of a marketplace is meant: `name` or `name@marketplace`. A folder is written with `./` in front.

    So nothing that lies in a workspace can stand in for what was meant.
    """
    return not any(each in text for each in "/:\\~#") and not text.startswith(".") and not text.endswith(ARCHIVES)
