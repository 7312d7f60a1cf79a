"""Scan the folders of skills, commands and agents in the order in which the first of a name wins; report what is wrong with files."""

import errno
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import anyio.to_thread
from msgspec import Struct, field

from backstay.config.locations import ProjectPaths
from backstay.config.private_file import writable_name
from backstay.config.trust.inventory import WorkspaceInventory
from backstay.skills.agents import BUILT_IN, AgentDefinition, read_agent
from backstay.skills.frontmatter import Patience, good_name
from backstay.skills.problems import SkillProblem, Unusable
from backstay.skills.skill import LARGEST, SKILL_FILES, FileOrigin, Skill, digest, read_command, read_skill
from backstay.system.files import Stamp, has_changed, read_regular, stamp_of
from backstay.vocab.errors import UserError

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


# --- files ---------------------------------------------------------------------------------------------------------------------------

DEEPEST_COMMANDS: Final = 6
ENDING: Final = ".md"
_NOT_COMMANDS: Final = frozenset(("readme.md",))


def command_name(file: Path, top: Path) -> str:
    """Return what the command in `file` is called: `name`, or `folder:name` when it is in a folder below `top`. Raise `Unusable`."""
    parts = (*file.relative_to(top).parts[:-1], file.name.removesuffix(ENDING))
    bad = next((part for part in parts if not good_name(part)), None)
    if bad is not None:
        raise Unusable(str(file), 1, f"{bad[:80]!r} cannot be part of a command's name. Use letters, digits, - and _.")
    return ":".join(parts)


def markdown_files(
    top: Path, *, most: int, visit: Callable[[str], os.stat_result | None]
) -> tuple[list[Path], list[SkillProblem]]:
    """Return the Markdown files of a folder, those of its folders after them, and what was left out. Links to folders are not followed.

    `visit` hears of every folder and file. Raise `OSError` when the folder itself cannot be looked into.
    """
    found: list[Path] = []
    problems: list[SkillProblem] = []
    waiting = [(top, 1)]
    while waiting:
        folder, depth = waiting.pop(0)
        below: list[tuple[Path, int]] = []
        for entry in _entries(folder, top, most, problems):
            path = folder / entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                below.append((path, depth + 1))
            elif entry.name.endswith(ENDING) and entry.name.lower() not in _NOT_COMMANDS:
                found.append(path)
                visit(str(path))
        if len(found) > most or len(waiting) > most:
            problems.append(_warning(folder, f"There are more than {most:,} files. The rest is left out."))
            return found[:most], problems
        if below and depth == DEEPEST_COMMANDS:
            problems.append(_warning(folder, f"Folders more than {DEEPEST_COMMANDS} deep are not looked into."))
        else:
            waiting += below
            for each, _ in below:
                visit(str(each))
    return found, problems


def _entries(folder: Path, top: Path, most: int, problems: list[SkillProblem]) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as listing:
            return sorted(islice(listing, most + 1), key=lambda entry: entry.name)
    except OSError as exc:
        if folder == top:
            raise
        problems.append(_warning(folder, f"It cannot be looked into: {exc.strerror}."))
        return []


def _warning(folder: Path, message: str) -> SkillProblem:
    return SkillProblem(file=str(folder), line=1, message=message, severity="warning")


MOST_ENTRIES: Final = 3_000
"""Entries that are looked at for one owner: the project, the person, a plugin."""
DEEPEST: Final = 64
"""Folders of a path that are remembered one by one."""
MOST_BYTES: Final = 32 * 1024 * 1024
MOST_CHARACTERS: Final = 1024 * 1024
"""Characters of frontmatters that are read for one owner: about a second's work when they are made to take long."""

Named = TypeVar("Named", Skill, AgentDefinition)


class Found(Struct, frozen=True, kw_only=True):
    """The results of a scan. Of each name only the first counts; one that is not trusted never hides one that is."""

    skills: tuple[Skill, ...] = ()
    commands: tuple[Skill, ...] = ()
    agents: tuple[AgentDefinition, ...] = BUILT_IN
    shadowed: tuple[Skill | AgentDefinition, ...] = ()
    """What has the name of something that goes before it."""
    problems: tuple[SkillProblem, ...] = ()
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    """What was looked at, and how it was then."""

    @property
    def for_model(self) -> tuple[Skill, ...]:
        """The skills and commands that a model may invoke, and is told about by name and description."""
        return tuple(each for each in (*self.skills, *self.commands) if each.model_invocable)

    @property
    def usable_agents(self) -> tuple[AgentDefinition, ...]:
        """The agents that work may be handed to."""
        return tuple(each for each in self.agents if each.trusted)

    def skill(self, name: str) -> Skill:
        """Return the skill or command called `name`. Raise `UserError` when there is none."""
        return find_named(name, (*self.skills, *self.commands), "skill or command", "backstay skills list")

    def agent(self, name: str) -> AgentDefinition:
        """Return the agent called `name`. Raise `UserError` when there is none, or when it is not trusted."""
        agent = find_named(name, self.agents, "agent", "backstay agents list")
        if not agent.trusted:
            raise UserError(
                f"The agent {name!r} comes from {agent.file!r}, which is not trusted. First: backstay trust"
            )
        return agent

    def is_stale(self) -> bool:
        """Return whether anything that was looked at has changed, come or gone. It looks at the disk."""
        return has_changed(self.stamps)


async def scan(sources: Sources) -> Found:
    """Look at all sources, in a thread. Nothing raises for what is wrong with a file; it is among the problems."""
    return await anyio.to_thread.run_sync(scan_now, sources)


def scan_now(sources: Sources) -> Found:
    """Scan as `scan` does, in the calling thread."""
    look = _FolderScan(sources)
    for folder in folders(sources):
        look.into(folder)
    skills, hidden_skills = _first(look.skills)
    agents, hidden_agents = _first((*look.agents, *BUILT_IN))
    return Found(
        skills=tuple(each for each in skills if each.kind == "skill"),
        commands=tuple(each for each in skills if each.kind == "command"),
        agents=agents,
        shadowed=(*hidden_skills, *hidden_agents),
        problems=tuple(look.problems),
        stamps=look.stamps,
    )


class _Allowance:
    """The number of files of one owner that are read. Each owner has a limit of its own: a folder that is too full hides no other."""

    def __init__(self) -> None:
        self.entries = MOST_ENTRIES
        self.bytes = MOST_BYTES
        self.patience = Patience(MOST_CHARACTERS)


class _FolderScan:
    """Looks into folders, within bounds."""

    def __init__(self, sources: Sources) -> None:
        self.skills: list[Skill] = []
        self.agents: list[AgentDefinition] = []
        self.problems: list[SkillProblem] = []
        self.stamps: dict[str, Stamp] = {}
        self._root = os.path.realpath(sources.paths.root)
        self._seen = sources.seen
        self._allowances: defaultdict[tuple[str, str], _Allowance] = defaultdict(_Allowance)
        self._folders: dict[str, str] = {}
        self._done: set[tuple[str, str]] = set()

    def into(self, folder: Folder) -> None:
        """Look at everything in a folder. What is wrong with one file does not hide another."""
        try:
            if (stamp := self._stamp(str(folder.path))) is None:
                return
            real = self._resolve_within(str(folder.path), folder)
            if (real, folder.what) in self._done:  # two names for one folder
                return
            self._done.add((real, folder.what))
            for file in self._files(folder, stamp):
                self._one(file, folder)
        except Unusable as exc:
            self.problems.append(exc.problem)
        except OSError as exc:
            self._warn(str(folder.path), f"It cannot be looked into: {exc.strerror}.")

    def _files(self, folder: Folder, stamp: os.stat_result) -> Iterator[Path]:
        if not stat.S_ISDIR(stamp.st_mode):
            yield folder.path
        elif folder.what == "skills":
            yield from self._skill_files(folder)
        else:
            allowance = self._allowance(folder)
            found, problems = markdown_files(folder.path, most=allowance.entries, visit=self._stamp)
            allowance.entries -= len(found)
            self.problems += problems
            yield from found

    def _skill_files(self, folder: Folder) -> Iterator[Path]:
        if folder.origin.source == "plugin" and (own := self._skill_file(folder.path)) is not None:
            yield own  # the folder of one skill
            return
        allowance = self._allowance(folder)
        with os.scandir(folder.path) as listing:
            names = [entry.name for entry in islice(listing, allowance.entries + 1)]
        if len(names) > allowance.entries:
            self._warn(str(folder.path), f"There are more than {MOST_ENTRIES:,} entries. The rest is left out.")
            names = names[: allowance.entries]
        allowance.entries -= len(names)
        for name in sorted(names):
            if not name.startswith(".") and (file := self._skill_file(folder.path / name)) is not None:
                yield file

    def _allowance(self, folder: Folder) -> _Allowance:
        return self._allowances[folder.origin.source, folder.origin.plugin]

    def _skill_file(self, folder: Path) -> Path | None:
        for name in SKILL_FILES:
            if self._stamp(f"{folder}{os.sep}{name}") is not None:
                return folder / name
        return None

    def _one(self, file: Path, folder: Folder) -> None:
        try:
            content, origin = self._read(file, folder)
            patience = self._allowance(folder).patience
            problems: tuple[SkillProblem, ...]
            if folder.what == "agents":
                agent, problems = read_agent(content, file, origin, patience)
                self.agents.append(agent)
            elif folder.what == "skills":
                skill, problems = read_skill(content, file, origin, patience)
                self.skills.append(skill)
            else:
                top = folder.path if folder.path != file else file.parent
                skill, problems = read_command(content, file, command_name(file, top), origin, patience)
                self.skills.append(skill)
            self.problems += problems
        except Unusable as exc:
            self.problems.append(exc.problem)
        except OSError as exc:
            self._warn(str(file), f"It cannot be read: {exc.strerror}.")

    def _read(self, file: Path, folder: Folder) -> tuple[bytes, FileOrigin]:
        """Return the bytes of a file, and what a file with these bytes may do."""
        allowance = self._allowance(folder)
        if allowance.bytes <= 0:
            raise Unusable(str(file), 1, f"There are more than {MOST_BYTES:,} bytes before this file. It is left out.")
        real = self._resolve_within(str(file), folder)
        if folder.within is not None and not real.endswith(ENDING):
            raise Unusable(str(file), 1, "A link leads to something that is no Markdown file. Such files are not read.")
        content, _ = read_regular(Path(real), LARGEST)
        allowance.bytes -= len(content)
        origin = folder.origin
        if origin.source == "project" and origin.trusted and not self._is_as_trusted(real, content):
            self._warn(str(file), "It was not looked at when the workspace was trusted. It can be read, not obeyed.")
            origin = FileOrigin(source="project", trusted=False)
        return content, origin

    def _resolve_within(self, path: str, folder: Folder) -> str:
        """Return where `path` leads. Raise `Unusable` when that is outside of what its owner may bring."""
        real = self._real(path)
        if folder.within is None:
            return real
        top = self._real(str(folder.within))
        if real != top and not real.startswith(f"{top.rstrip(os.sep)}{os.sep}"):
            raise Unusable(path, 1, f"A link leads out of {str(folder.within)!r}. Such files are not read.")
        return real

    def _real(self, path: str) -> str:
        """Return `path` without links. The folders are remembered: many files are in one."""
        above, name = os.path.split(path)
        if not name or name in (".", "..") or path.count(os.sep) > DEEPEST or stat.S_ISLNK(os.lstat(path).st_mode):
            return os.path.realpath(path)
        if above not in self._folders:
            self._folders[above] = self._real(above)
        return os.path.join(self._folders[above], name)

    def _is_as_trusted(self, real: str, content: bytes) -> bool:
        if self._seen is None:
            return True
        name = writable_name(os.path.relpath(real, self._root))
        return self._seen.get(f"file:{name}", "")[1:] == digest(content)

    def _stamp(self, path: str) -> os.stat_result | None:
        """Return what the system says about a path, which is remembered; None when nothing is there."""
        try:
            found = os.stat(path)
        except OSError as exc:
            if exc.errno not in (errno.ENOENT, errno.ENOTDIR):
                self._warn(path, f"It cannot be looked at: {exc.strerror}.")
            self.stamps[path] = None
            return None
        self.stamps[path] = stamp_of(found)
        return found

    def _warn(self, file: str, message: str) -> None:
        self.problems.append(SkillProblem(file=file, line=1, message=message, severity="warning"))


def _first(found: Iterable[Named]) -> tuple[tuple[Named, ...], tuple[Named, ...]]:
    """Return the first of each name and the others, where one that is not trusted comes after all that are."""
    winners: dict[str, Named] = {}
    hidden: list[Named] = []
    for each in sorted(found, key=lambda one: not one.trusted):
        if winners.setdefault(each.name, each) is not each:
            hidden.append(each)
    return tuple(sorted(winners.values(), key=lambda one: one.name)), tuple(hidden)


def find_named(name: str, found: Iterable[Named], kind: str, listing: str) -> Named:
    """Return the first of `found` that is called `name`. Raise `UserError` that names `listing` when there is none."""
    for each in found:
        if each.name == name:
            return each
    raise UserError(f"There is no {kind} {name!r}. See: {listing}")
