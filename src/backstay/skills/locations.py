"""List the folders of skills, commands and agents, in the order in which they are searched: the first of a name wins."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, field

from backstay.config.locations import ProjectPaths
from backstay.config.trust.inventory import WorkspaceInventory
from backstay.skills.skill import FileOrigin

if TYPE_CHECKING:
    from backstay.plugins.plugin import Plugin

What = Literal["skills", "commands", "agents"]
MOST_LEVELS: Final = 32
"""Folders between the working folder and the project's root that are looked into."""


class PluginFolders(Struct, frozen=True, kw_only=True):
    """The skills, commands and agents of a plugin that is switched on. Each path is a folder, or a single file or skill."""

    name: str
    root: Path
    skills: tuple[Path, ...] = ()
    commands: tuple[Path, ...] = ()
    agents: tuple[Path, ...] = ()
    data: str = ""
    """Where it may keep files of its own."""


class Sources(Struct, frozen=True, kw_only=True):
    """Everything that a scan needs to know about where it is."""

    paths: ProjectPaths
    trusted: bool = False
    """Whether the person trusts the project."""
    seen: Mapping[str, str] | None = None
    """The files that were seen when the project was trusted (`WorkspaceInventory.seen`): any other is not trusted."""
    plugins: tuple[PluginFolders, ...] = ()


class Folder(Struct, frozen=True, kw_only=True):
    """A folder to look into."""

    path: Path
    what: What
    origin: FileOrigin
    within: Path | None = None
    """Nothing that a link leads out of this is read. None: links may lead anywhere."""
    label: str = field(default="")
    """Where it is, for people."""


def sources_of(
    paths: ProjectPaths,
    *,
    trusted: bool,
    inventory: WorkspaceInventory | None = None,
    plugins: tuple[PluginFolders, ...] = (),
) -> Sources:
    """Return the sources of a session. `inventory` is what trust was given to; without it, `trusted` holds for every file there is."""
    seen = None if inventory is None else inventory.seen
    return Sources(paths=paths, trusted=trusted, seen=seen, plugins=plugins)


def plugin_folders(plugin: "Plugin", data: str = "") -> PluginFolders:
    """Return the folders that a loaded plugin brings."""
    return PluginFolders(
        name=plugin.name,
        root=plugin.folder,
        skills=plugin.skills_dirs,
        commands=plugin.commands_dirs,
        agents=plugin.agents_dirs,
        data=data,
    )


def folders(sources: Sources) -> Iterator[Folder]:
    """Yield the folders to look into, those that win first.

    Of the project, the folder nearest to the working folder goes first. A skill goes before a command of the same owner.
    """
    yield from _of_project(sources, ".backstay/skills", "skills")
    yield from _of_project(sources, ".claude/skills", "skills")
    yield from _of_project(sources, ".backstay/commands", "commands")
    yield from _of_project(sources, ".claude/commands", "commands")
    yield _of_person(sources.paths.config / "skills", "skills")
    yield from _of_project(sources, ".agents/skills", "skills")
    yield _of_person(sources.paths.claude / "skills", "skills")
    yield _of_person(sources.paths.home / ".agents" / "skills", "skills")
    yield from _of_plugins(sources, "skills")
    yield _of_person(sources.paths.config / "commands", "commands")
    yield _of_person(sources.paths.claude / "commands", "commands")
    yield from _of_plugins(sources, "commands")
    for family in (".backstay", ".agents", ".claude"):
        yield from _of_project(sources, f"{family}/agents", "agents")
    for top in (sources.paths.config, sources.paths.claude, sources.paths.home / ".agents"):
        yield _of_person(top / "agents", "agents")
    yield from _of_plugins(sources, "agents")


def _of_project(sources: Sources, name: str, what: What) -> Iterator[Folder]:
    origin = FileOrigin(source="project", trusted=sources.trusted)
    own = {sources.paths.config, sources.paths.claude, sources.paths.home / ".agents"}
    for folder in _levels(sources):
        path = folder / name
        if path.parent not in own:  # who works in the home folder has the person's own there
            yield Folder(path=path, what=what, origin=origin, within=sources.paths.root, label=str(path))


def _levels(sources: Sources) -> Iterator[Path]:
    """Yield the working folder and those above it, up to the project's root."""
    for folder in (sources.paths.cwd, *sources.paths.cwd.parents)[:MOST_LEVELS]:
        if folder == sources.paths.root:
            break
        if sources.paths.root not in folder.parents:
            break
        yield folder
    yield sources.paths.root


def _of_person(path: Path, what: What) -> Folder:
    return Folder(path=path, what=what, origin=FileOrigin(source="person"), label=str(path))


def _of_plugins(sources: Sources, what: What) -> Iterator[Folder]:
    for plugin in sources.plugins:
        origin = FileOrigin(source="plugin", plugin=plugin.name, plugin_root=str(plugin.root), plugin_data=plugin.data)
        paths = {"skills": plugin.skills, "commands": plugin.commands, "agents": plugin.agents}[what]
        for path in paths:
            yield Folder(path=path, what=what, origin=origin, within=plugin.root, label=f"plugin {plugin.name}")
