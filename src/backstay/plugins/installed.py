"""The book of what is installed: `installed_plugins.json`, with the version and the hash that each plugin is pinned to."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from backstay.config.private_file import Book
from backstay.plugins.ids import PluginId, check_name, check_version
from backstay.plugins.install.sources import Source
from backstay.vocab.errors import UserError

Scope = Literal["person", "project"]


class Installed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One plugin that is installed."""

    version: str
    sha256: str
    """Over every file of it, as it was when the person said yes."""
    source: Source
    scope: Scope = "person"
    project: str = ""
    """The root of the project that it is for; empty for the person's own."""
    commit: str = ""
    at: int = 0
    """When, in microseconds since 1970."""


class _InstalledFile(msgspec.Struct, kw_only=True):
    version: int = 1
    plugins: dict[str, tuple[Installed, ...]] = {}

    def __post_init__(self) -> None:
        for name, records in self.plugins.items():
            PluginId.parse(name)
            for record in records:
                check_version(record.version, name)


class InstalledPlugins:
    """What is installed on this machine, in one file of the data folder."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "plugins"
        path, action = self.folder / "installed_plugins.json", "change which plugins are installed"
        self._book = Book(path, _InstalledFile, "install your plugins", person=action)

    def read(self) -> dict[PluginId, tuple[Installed, ...]]:
        """Everything that is installed. Raise `UserError` when the book cannot be believed."""
        return {PluginId.parse(name): records for name, records in self._book.read().plugins.items()}

    def place(self, plugin: PluginId, version: str) -> Path:
        """Where the files of a plugin are, or will be."""
        folder = (
            self.folder / "cache" / check_name(plugin.marketplace, "marketplace") / check_name(plugin.name, "plugin")
        )
        return folder / check_version(version, plugin.name)

    def add(self, plugin: PluginId, record: Installed) -> None:
        """Write down that a plugin is installed, in place of what was there for the same scope and project.

        Others that have the same version share its files, so they are pinned to them too.
        """
        with self._book.changing() as book:
            others = [each for each in book.plugins.get(str(plugin), ()) if not _same_place(each, record)]
            kept = [replace(each, sha256=record.sha256) if each.version == record.version else each for each in others]
            book.plugins[str(plugin)] = (*kept, record)

    def remove(self, plugin: PluginId, scope: Scope, project: str) -> tuple[Installed, ...]:
        """Forget a plugin of one scope; return what was forgotten."""
        with self._book.changing() as book:
            records = book.plugins.pop(str(plugin), ())
            gone = tuple(
                each for each in records if each.scope == scope and (scope == "person" or each.project == project)
            )
            if left := tuple(each for each in records if each not in gone):
                book.plugins[str(plugin)] = left
        return gone


def find_installed(installed: Mapping[PluginId, tuple[Installed, ...]], text: str) -> PluginId:
    """The installed plugin that `name` or `name@marketplace` means. Raise `UserError` when there is none, or more than one."""
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
