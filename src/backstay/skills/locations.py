"""Where skills, commands and agents are looked for, and in which order: the first of a name wins."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, field

from backstay.config.locations import claude_dir, config_dir, home_dir
from backstay.config.trust.inventory import WorkspaceInventory
from backstay.sandbox.folders import project_root
from backstay.skills.skill import FileOrigin

if TYPE_CHECKING:
    from backstay.plugins.plugin import Plugin

What = Literal["skills", "commands", "agents"]
MOST_LEVELS: Final = 32
"""Folders between the working folder and the project's root that are looked into."""


class PluginFolders(Struct, frozen=True, kw_only=True):
    """What a plugin that is switched on brings. Each path is a folder, or a single file or skill."""

    name: str
    root: Path
    skills: tuple[Path, ...] = ()
    commands: tuple[Path, ...] = ()
    agents: tuple[Path, ...] = ()
    data: str = ""
    """Where it may keep files of its own."""


class Sources(Struct, frozen=True, kw_only=True):
    """Everything that a scan needs to know about where it is."""

    cwd: Path
    root: Path
    """The project's."""
    home: Path
    config: Path
    """The person's folder for Backstay."""
    claude: Path
    """The person's folder for another program, read along."""
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
    cwd: Path,
    *,
    trusted: bool,
    survey: WorkspaceInventory | None = None,
    plugins: tuple[PluginFolders, ...] = (),
    environment: Mapping[str, str] = os.environ,
) -> Sources:
    """The sources of a session in `cwd`. `survey` is what trust was given to; without it, `trusted` holds for whatever is there."""
    cwd = Path(os.path.abspath(cwd))
    return Sources(
        cwd=cwd,
        root=project_root(cwd),
        home=home_dir(environment),
        config=config_dir(environment),
        claude=claude_dir(environment),
        trusted=trusted,
        seen=None if survey is None else survey.seen,
        plugins=plugins,
    )


def plugin_folders(plugin: "Plugin", data: str = "") -> PluginFolders:
    """The folders that a loaded plugin brings."""
    return PluginFolders(
        name=plugin.name,
        root=plugin.folder,
        skills=plugin.skills_dirs,
        commands=plugin.commands_dirs,
        agents=plugin.agents_dirs,
        data=data,
    )


def folders(sources: Sources) -> Iterator[Folder]:
    """The folders to look into, those that win first.

    Of the project, the folder nearest to the working folder goes first. A skill goes before a command of the same owner.
    """
    yield from _of_project(sources, ".backstay/skills", "skills")
    yield from _of_project(sources, ".claude/skills", "skills")
    yield from _of_project(sources, ".backstay/commands", "commands")
    yield from _of_project(sources, ".claude/commands", "commands")
    yield _of_person(sources.config / "skills", "skills")
    yield from _of_project(sources, ".agents/skills", "skills")
    yield _of_person(sources.claude / "skills", "skills")
    yield _of_person(sources.home / ".agents" / "skills", "skills")
    yield from _of_plugins(sources, "skills")
    yield _of_person(sources.config / "commands", "commands")
    yield _of_person(sources.claude / "commands", "commands")
    yield from _of_plugins(sources, "commands")
    for family in (".backstay", ".agents", ".claude"):
        yield from _of_project(sources, f"{family}/agents", "agents")
    for top in (sources.config, sources.claude, sources.home / ".agents"):
        yield _of_person(top / "agents", "agents")
    yield from _of_plugins(sources, "agents")


def _of_project(sources: Sources, name: str, what: What) -> Iterator[Folder]:
    origin = FileOrigin(source="project", trusted=sources.trusted)
    own = {sources.config, sources.claude, sources.home / ".agents"}
    for folder in _levels(sources):
        path = folder / name
        if path.parent not in own:  # who works in the home folder has the person's own there
            yield Folder(path=path, what=what, origin=origin, within=sources.root, label=str(path))


def _levels(sources: Sources) -> Iterator[Path]:
    """The working folder and those above it, up to the project's root."""
    for folder in (sources.cwd, *sources.cwd.parents)[:MOST_LEVELS]:
        if folder == sources.root:
            break
        if sources.root not in folder.parents:
            break
        yield folder
    yield sources.root


def _of_person(path: Path, what: What) -> Folder:
    return Folder(path=path, what=what, origin=FileOrigin(source="person"), label=str(path))


def _of_plugins(sources: Sources, what: What) -> Iterator[Folder]:
    for plugin in sources.plugins:
        origin = FileOrigin(source="plugin", plugin=plugin.name, plugin_root=str(plugin.root), plugin_data=plugin.data)
        paths = {"skills": plugin.skills, "commands": plugin.commands, "agents": plugin.agents}[what]
        for path in paths:
            yield Folder(path=path, what=what, origin=origin, within=plugin.root, label=f"plugin {plugin.name}")
