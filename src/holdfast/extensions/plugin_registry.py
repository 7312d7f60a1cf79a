"""The book of what is installed: `installed_plugins.json`, with the version and the hash that each plugin is pinned to."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from holdfast.config.person import require_person
from holdfast.config.private_file import alone, read_private, write_private
from holdfast.extensions.install_sources import Source
from holdfast.extensions.plugin_names import PluginId, check_name, check_version
from holdfast.vocab.errors import UserError

Scope = Literal["person", "project"]
SCOPES: Final[tuple[Scope, ...]] = ("person", "project")


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


class _Book(msgspec.Struct, kw_only=True):
    version: int = 1
    plugins: dict[str, list[Installed]] = {}


class InstalledBook:
    """What is installed on this machine, in one file of the data folder."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "plugins"
        self._path = self.folder / "installed_plugins.json"

    def read(self) -> dict[PluginId, tuple[Installed, ...]]:
        """Everything that is installed. Raise `UserError` when the book cannot be believed."""
        content = read_private(self._path)
        if content is None:
            return {}
        try:
            found = msgspec.json.decode(content, type=_Book).plugins
            for name, records in found.items():
                for record in records:
                    check_version(record.version, name)
            return {PluginId.parse(name): tuple(records) for name, records in found.items()}
        except (msgspec.DecodeError, UserError) as exc:
            raise UserError(
                f"{str(self._path)!r} is damaged ({exc}). Remove it, and install your plugins again."
            ) from exc

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
        with self._changing() as plugins:
            others = [each for each in plugins.get(str(plugin), ()) if not _same_place(each, record)]
            kept = [replace(each, sha256=record.sha256) if each.version == record.version else each for each in others]
            plugins[str(plugin)] = [*kept, record]

    def remove(self, plugin: PluginId, scope: Scope, project: str) -> tuple[Installed, ...]:
        """Forget a plugin of one scope; return what was forgotten."""
        with self._changing() as plugins:
            records = plugins.get(str(plugin), [])
            gone = tuple(
                each for each in records if each.scope == scope and (scope == "person" or each.project == project)
            )
            left = [each for each in records if each not in gone]
            if left:
                plugins[str(plugin)] = left
            else:
                plugins.pop(str(plugin), None)
        return gone

    @contextmanager
    def _changing(self) -> Iterator[dict[str, list[Installed]]]:
        require_person("change which plugins are installed")
        try:
            with alone(self._path):
                plugins = {str(name): list(records) for name, records in self.read().items()}
                yield plugins
                content = msgspec.json.encode(_Book(plugins=plugins))
                write_private(self._path, msgspec.json.format(content, indent=2))
        except OSError as exc:
            raise UserError(f"{str(self._path)!r} cannot be written: {exc.strerror}.") from exc


def find_installed(installed: Mapping[PluginId, tuple[Installed, ...]], text: str) -> PluginId:
    """The installed plugin that `name` or `name@marketplace` means. Raise `UserError` when there is none, or more than one."""
    if "@" in text:
        wanted = PluginId.parse(text)
        if wanted in installed:
            return wanted
        raise UserError(f"The plugin {text!r} is not installed. `holdfast plugins install {text}` installs it.")
    found = [each for each in installed if each.name == text]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"The plugin {text!r} is not installed. `holdfast plugins list` shows what is.")
    raise UserError(f"There is more than one {text!r}: {', '.join(sorted(map(str, found)))}. Name one of them.")


def _same_place(one: Installed, other: Installed) -> bool:
    return (one.scope, one.project) == (other.scope, other.project)
