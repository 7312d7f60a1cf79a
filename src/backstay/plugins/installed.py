"""What is installed, in `installed_plugins.json` with the pinned version and hash of each plugin; and what settings say about plugins."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.config.json_document import JsonReader
from backstay.config.layer_file import LayerFile
from backstay.config.private_file import Book
from backstay.plugins.ids import PluginId, check_name, check_version
from backstay.plugins.install.sources import EntrySource, Source, UrlSource, check_url, entry_source
from backstay.vocab.errors import UserError

Scope = Literal["person", "project"]


class Installed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One installed plugin."""

    version: str
    sha256: str
    """Over all of its files, as they were when the person agreed."""
    source: Source
    scope: Scope = "person"
    project: str = ""
    """The root of its project; empty for the person's own."""
    commit: str = ""
    at: int = 0
    """The time of the installation, in microseconds since 1970."""


class _InstalledFile(msgspec.Struct, kw_only=True):
    version: int = 1
    plugins: dict[str, tuple[Installed, ...]] = {}

    def __post_init__(self) -> None:
        for name, records in self.plugins.items():
            PluginId.parse(name)
            for record in records:
                check_version(record.version, name)


class InstalledPlugins:
    """The plugins that are installed on this machine, in one file of the data folder."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "plugins"
        path, action = self.folder / "installed_plugins.json", "change which plugins are installed"
        self._book = Book(path, _InstalledFile, "install your plugins", person=action)

    def read(self) -> dict[PluginId, tuple[Installed, ...]]:
        """Return everything that is installed. Raise `UserError` when the file cannot be trusted."""
        return {PluginId.parse(name): records for name, records in self._book.read().plugins.items()}

    def folder_of(self, plugin: PluginId, version: str) -> Path:
        """Return the folder of a plugin's files, there or not."""
        folder = (
            self.folder / "cache" / check_name(plugin.marketplace, "marketplace") / check_name(plugin.name, "plugin")
        )
        return folder / check_version(version, plugin.name)

    def add(self, plugin: PluginId, record: Installed) -> None:
        """Record an installed plugin, in place of the one of the same scope and project.

        Others that have the same version share its files, so they are pinned to them too.
        """
        with self._book.changing() as book:
            others = [each for each in book.plugins.get(str(plugin), ()) if not _same_place(each, record)]
            kept = [replace(each, sha256=record.sha256) if each.version == record.version else each for each in others]
            book.plugins[str(plugin)] = (*kept, record)

    def remove(self, plugin: PluginId, scope: Scope, project: str) -> tuple[Installed, ...]:
        """Remove the records of a plugin in one scope; return them."""
        with self._book.changing() as book:
            records = book.plugins.pop(str(plugin), ())
            gone = tuple(
                each for each in records if each.scope == scope and (scope == "person" or each.project == project)
            )
            if left := tuple(each for each in records if each not in gone):
                book.plugins[str(plugin)] = left
        return gone


def find_installed(installed: Mapping[PluginId, tuple[Installed, ...]], text: str) -> PluginId:
    """Return the installed plugin that `name` or `name@marketplace` means. Raise `UserError` when there is none, or more than one."""
    if "@" in text:
        wanted = PluginId.parse(text)
        if wanted in installed:
            return wanted
        raise UserError(f"The plugin {text!r} is not installed. `backstay plugins install {text}` installs it.")
    found = [each for each in installed if each.name == text]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"The plugin {text!r} is not installed. `backstay plugins list` shows what is.")
    raise UserError(f"There is more than one {text!r}: {', '.join(sorted(map(str, found)))}. Name one of them.")


def _same_place(one: Installed, other: Installed) -> bool:
    return (one.scope, one.project) == (other.scope, other.project)


ENABLED: Final = "enabledPlugins"
MARKETPLACES: Final = "extraKnownMarketplaces"
_ABOVE: Final = ("managed", "flag")
"""Sources that go before the workspace."""


class Enabling(Struct, frozen=True, kw_only=True):
    """The settings about plugins."""

    enabled: Mapping[str, bool] = field(default_factory=dict)
    """Plugins switched on or off without the workspace."""
    of_project: Mapping[str, bool] = field(default_factory=dict)
    """Plugins switched on or off by the workspace. They count over `enabled` when it is trusted, and not at all otherwise."""
    marketplaces: Mapping[str, Source] = field(default_factory=dict)
    """Marketplaces of the person's settings."""
    project_marketplaces: Mapping[str, Source] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def counts(self, *, trusted: bool) -> dict[str, bool]:
        """Return which plugins are on and which are off."""
        return {**self.enabled, **self.of_project} if trusted else dict(self.enabled)


def read_enabling(files: Sequence[LayerFile]) -> Enabling:
    """Read both sections of valid settings files, highest first. Errors become problems with their place.

    The person's settings for another program are left out: its plugins are not installed here.
    """
    fixed: dict[str, bool] = {}
    own: dict[str, bool] = {}
    project: dict[str, bool] = {}
    known: dict[str, Source] = {}
    brought: dict[str, Source] = {}
    problems: list[str] = []
    for file in files:
        if file.text is None or (file.place.family == "claude" and not file.place.of_project):
            continue
        into = fixed if file.place.source in _ABOVE else project if file.place.of_project else own
        for name, on in _section(file, problems).items():
            into.setdefault(name, on)
        for name, source in _marketplaces(file, problems).items():
            (brought if file.place.of_project else known).setdefault(name, source)
    return Enabling(
        enabled={**own, **fixed},
        of_project={name: on for name, on in project.items() if name not in fixed},
        marketplaces=known,
        project_marketplaces={name: source for name, source in brought.items() if name not in known},
        problems=tuple(problems),
    )


def _section(file: LayerFile, problems: list[str]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for name, on in _read(file, ENABLED, problems).items():
        place = file.text.place((ENABLED, name)) if file.text is not None else file.path
        try:
            if "@" in name:
                PluginId.parse(name)
            else:
                check_name(name, "plugin")
        except UserError as exc:
            problems.append(f"{place}: {ENABLED}: {exc}")
            continue
        if not isinstance(on, bool):
            problems.append(f"{place}: {ENABLED}.{name}: It is neither true nor false; the plugin is left off.")
        found[name] = on is True
    return found


def _marketplaces(file: LayerFile, problems: list[str]) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for name, members in _read(file, MARKETPLACES, problems).items():
        place = file.text.place((MARKETPLACES, name)) if file.text is not None else file.path
        try:
            inner = members.get("source", members) if isinstance(members, dict) else members
            found[check_name(name, "marketplace")] = _marketplace_source(inner)
        except UserError as exc:
            problems.append(f"{place}: {MARKETPLACES}.{name}: {exc}")
    return found


def _marketplace_source(members: object) -> Source:
    if not isinstance(members, dict) or not all(isinstance(each, str) for each in members.values()):
        raise UserError('A source is an object like {"source": "github", "repo": "OWNER/REPO"}.')
    known = {key: value for key, value in members.items() if key in EntrySource.__struct_fields__}
    if "source" not in known:
        raise UserError("It has no source.")
    if known["source"] == "url":  # the address of the file itself, unlike in a marketplace's own entries
        return UrlSource(url=check_url(known.get("url", ""), ("https", "http")))
    return entry_source(EntrySource(**known), local=False)


def _read(file: LayerFile, key: str, problems: list[str]) -> dict[str, object]:
    if file.text is None:
        return {}
    reader = JsonReader(file.text)
    try:
        members = reader.members(file.text.content, ())
        return reader.convert(members[key], dict[str, object], (key,)) if key in members else {}
    except UserError as exc:
        problems.append(str(exc))
        return {}
