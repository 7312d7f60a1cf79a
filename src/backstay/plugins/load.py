"""Load the plugins that are switched on: each as it was installed, or not at all."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from backstay.config.layers import Layered
from backstay.config.locations import ProjectPaths
from backstay.plugins.ids import DIRECT, PluginId, compare
from backstay.plugins.install.sources import Source
from backstay.plugins.installed import Enabling, Installed, InstalledPlugins, find_installed, read_enabling
from backstay.plugins.known_marketplaces import KnownMarketplaces, merge_known
from backstay.plugins.plugin import Plugin, read_plugin
from backstay.plugins.tree import tree_digest
from backstay.vocab.errors import UserError

_NOTHING: Final[Mapping[str, bool]] = MappingProxyType({})


class Loaded(Struct, frozen=True, kw_only=True):
    """The plugins of a session."""

    plugins: tuple[Plugin, ...] = ()
    problems: tuple[str, ...] = ()
    """Why an enabled plugin is not loaded, and what of a plugin is left out."""
    held_back: tuple[str, ...] = field(default=())
    """Plugins that the workspace would switch on or off once it is trusted."""


def load_plugins(
    enabled: Mapping[str, bool],
    known_marketplaces: Collection[str] | None,
    data_dir: Path,
    trusted: bool,
    *,
    of_project: Mapping[str, bool] = _NOTHING,
    project: str = "",
) -> Loaded:
    """Load the enabled plugins. Runs nothing and never raises: an error in one plugin hides no other.

    `enabled` and `of_project` are those of `Enabling`; `project` is the root of the project. A plugin of a marketplace that is not among
    `known_marketplaces` (None: not looked at), or whose files are not what was installed, is not loaded, and named.
    """
    wanted = {**enabled, **of_project} if trusted else enabled
    held = () if trusted else tuple(name for name, on in of_project.items() if enabled.get(name, False) != on)
    if not any(wanted.values()):
        return Loaded(held_back=held)
    try:
        book = InstalledPlugins(data_dir)
        installed = book.read()
    except UserError as exc:
        return Loaded(problems=(str(exc),), held_back=held)
    plugins: list[Plugin] = []
    problems: list[str] = []
    for plugin, name in _find_enabled(wanted, installed, problems):
        try:
            _require_known(plugin, known_marketplaces)
            found = _load(plugin, installed[plugin], book, project)
        except UserError as exc:
            problems.append(f"The plugin {name!r} is not loaded: {exc}")
            continue
        problems += found.problems
        plugins.append(found)
    return Loaded(plugins=tuple(plugins), problems=tuple(problems), held_back=held)


def applicable(records: Collection[Installed], project: str) -> Installed | None:
    """Return the record that counts in a project: its own before the person's, and of several the newest version."""
    found: Installed | None = None
    for record in records:
        if record.scope == "project" and record.project != project:
            continue
        if found is None or _goes_before(record, found):
            found = record
    return found


def _goes_before(record: Installed, other: Installed) -> bool:
    if record.scope != other.scope:
        return record.scope == "project"
    return compare(record.version, other.version) == "newer"


def _find_enabled(
    wanted: Mapping[str, bool], installed: Mapping[PluginId, tuple[Installed, ...]], problems: list[str]
) -> Iterator[tuple[PluginId, str]]:
    """Yield the enabled plugins, each once. A bare name means the installed plugin of that name; a disabled `name@marketplace` wins."""
    seen: set[PluginId] = set()
    for name, on in wanted.items():
        if not on:
            continue
        try:
            plugin = find_installed(installed, name)
        except UserError as exc:
            problems.append(str(exc))
            continue
        if plugin not in seen and wanted.get(str(plugin), True) and wanted.get(plugin.name, True):
            seen.add(plugin)
            yield plugin, name


def _require_known(plugin: PluginId, known: Collection[str] | None) -> None:
    if known is not None and plugin.marketplace != DIRECT and plugin.marketplace not in known:
        raise UserError(
            f"its marketplace {plugin.marketplace!r} is not known any more. "
            f"Add it again, or `backstay plugins uninstall {plugin}`."
        )


def _load(plugin: PluginId, records: Collection[Installed], book: InstalledPlugins, project: str) -> Plugin:
    record = applicable(records, project)
    if record is None:
        raise UserError(
            f"it is installed for another project only. `backstay plugins install {plugin}` installs it here."
        )
    folder = book.folder_of(plugin, record.version)
    mend = f"`backstay plugins install {plugin}` installs it again."
    if not folder.is_dir():
        raise UserError(f"its folder {str(folder)!r} is gone. {mend}")
    try:
        digest = tree_digest(folder, remove_bytecode=True)
    except OSError as exc:
        raise UserError(f"its files cannot be read: {exc}. {mend}") from exc
    if digest != record.sha256:
        raise UserError(f"its files in {str(folder)!r} are not what was installed: something changed them. {mend}")
    found = read_plugin(folder, name=plugin.name, marketplace=plugin.marketplace, version=record.version)
    if found.unfit:
        raise UserError(" ".join(found.unfit))
    return found


class PluginConfig(Struct, frozen=True, kw_only=True):
    """The folders and settings of plugins for one project."""

    paths: ProjectPaths
    enabling: Enabling
    trusted: bool

    @classmethod
    def of(cls, layered: Layered) -> "PluginConfig":
        """Return the place of a run whose settings were read already."""
        return cls(paths=layered.paths, enabling=read_enabling(layered.files), trusted=layered.trust.trusted)

    def load(self) -> Loaded:
        """Load the plugins that are switched on here. Fast when there are none."""
        if not self.enabling.enabled and not self.enabling.of_project:
            return Loaded(problems=self.enabling.problems)
        problems = list(self.enabling.problems)
        try:
            known: Collection[str] = merge_known(KnownMarketplaces(self.paths.data), self.marketplaces())
        except UserError as exc:  # then none is known: what comes from one is not loaded
            problems.append(str(exc))
            known = self.marketplaces()
        found = load_plugins(
            self.enabling.enabled,
            known,
            self.paths.data,
            self.trusted,
            of_project=self.enabling.of_project,
            project=str(self.paths.root),
        )
        return Loaded(plugins=found.plugins, problems=(*problems, *found.problems), held_back=found.held_back)

    def marketplaces(self) -> dict[str, Source]:
        """Return the marketplaces of the settings; those of the workspace only when it is trusted."""
        brought = self.enabling.project_marketplaces if self.trusted else {}
        return {**brought, **self.enabling.marketplaces}
