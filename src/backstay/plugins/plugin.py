"""Read a plugin's folder: its manifest and its parts. Nothing of it runs."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from msgspec import Raw, Struct, field

from backstay.config.json_document import JsonReader, JsonText
from backstay.plugins.ids import DIRECT, check_name, check_version
from backstay.system.files import is_missing, read_regular
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule

PLACE: Final = ".claude-plugin/plugin.json"
LARGEST: Final = 4 * 1024 * 1024
"""Bytes that such a file may have; a marketplace with thousands of plugins has about one million."""
PATHS: Final = ("skills", "commands", "agents")
"""Keys that name folders or files besides the usual ones."""
COMPONENTS: Final = (*PATHS, "hooks", "mcpServers")
"""Keys that a marketplace may set for a plugin too."""
OURS: Final = ("tools", "permissions", "systemPrompt", "instructions")
_ABOUT: Final = tuple("$schema name version description author homepage repository license keywords".split())
_ELSEWHERE: Final = tuple(
    (
        "outputStyles lspServers dependencies userConfig channels experimental themes monitors workflows displayName "
        "features category tags strict source"
    ).split()
)
"""Keys that other programs know and that have no effect here."""


class Manifest(Struct, frozen=True, kw_only=True):
    """The description of a plugin by itself."""

    name: str
    version: str = ""
    description: str = ""
    author: str = ""
    keywords: tuple[str, ...] = ()


def read_manifest(reader: JsonReader) -> tuple[Manifest, Mapping[str, Raw], tuple[str, ...]]:
    """Return the manifest in a file, all members of the file, and notes. Raise `UserError` with the place."""
    members = reader.members(reader.text.content, ())
    if "name" not in members:
        raise UserError(f"{reader.text.path}:1: name: It is required.")
    try:
        name = check_name(reader.convert(members["name"], str, ("name",)), "plugin")
        version = reader.value_or(members, "version", str, "")
        if version:
            check_version(version, name)
    except UserError as exc:
        raise _with_place(reader, exc) from None
    manifest = Manifest(
        name=name,
        version=version,
        description=reader.value_or(members, "description", str, ""),
        author=author_of(reader, members),
        keywords=reader.value_or(members, "keywords", tuple[str, ...], ()),
    )
    return manifest, members, tuple(_note_odd_keys(reader, members))


def author_of(reader: JsonReader, members: Mapping[str, Raw], key: str = "author") -> str:
    """Return the author, or who else is under `key`: a text, or an object with a name."""
    found: object = reader.value_or(members, key, str | dict[str, object], "")
    return str(found.get("name", "")) if isinstance(found, dict) else str(found)


def _note_odd_keys(reader: JsonReader, members: Mapping[str, Raw]) -> list[str]:
    notes = []
    for key in members:
        if key in _ELSEWHERE:
            notes.append(f"{reader.text.place((key,))}: {key!r} does nothing here.")
        elif key not in (*_ABOUT, *COMPONENTS, *OURS):
            notes.append(f"{reader.text.place((key,))}: {key!r} is not known and is left out.")
    return notes


def _with_place(reader: JsonReader, error: UserError) -> UserError:
    """Put the place in front of an error, unless it is there already."""
    words = str(error)
    return error if words.startswith(str(reader.text.path)) else UserError(f"{reader.text.place(('name',))}: {words}")


def read_object(path: Path) -> JsonReader:
    """Return a reader of the object in a file. Raise `UserError` when there is none."""
    return JsonReader(JsonText.read(path, LARGEST, what="file"))


class PathRefused(UserError):
    """A path that leaves its folder."""

    code = "Extensions.PathRefused"


def resolve_inside(folder: Path, written: str, what: str = "the plugin's folder") -> Path:
    """Return the path below `folder` that `written` means. Raise `PathRefused` when it leaves the folder, else `UserError`."""
    if not written or "\0" in written or "\\" in written:
        raise PathRefused(f"The path {written!r} cannot be used. Write it with '/', beginning with './'.")
    parts = PurePosixPath(written)
    if parts.is_absolute() or ".." in parts.parts or written.startswith("~"):
        raise PathRefused(f"The path {written!r} leaves {what} and is refused.")
    path = folder.joinpath(*parts.parts)
    if not is_inside(folder, path):
        raise PathRefused(f"The path {written!r} leads out of {what} by a link and is refused.")
    try:
        there = path.exists()
    except OSError as exc:  # a name that is too long, or a folder on the way that may not be entered
        raise UserError(f"The path {written[:200]!r} cannot be used: {exc.strerror}.") from None
    if not there:
        raise UserError(f"The path {written!r} is not in {what}.")
    return path


def is_inside(folder: Path, path: Path) -> bool:
    """Return whether `path` is `folder` or below it when every link is followed."""
    top, real = os.path.realpath(folder), os.path.realpath(path)
    return real == top or real.startswith(top.rstrip(os.sep) + os.sep)


HOOKS: Final = "hooks/hooks.json"
SERVERS: Final = ".mcp.json"
MOST_INSTRUCTIONS: Final = 16 * 1024
"""Bytes of instructions that a plugin may add."""
MOST_PATHS: Final = 200
_DECISIONS: Final[tuple[Literal["deny", "ask"], ...]] = ("deny", "ask")


class Plugin(Struct, frozen=True, kw_only=True):
    """A loaded bundle. Every path is below `folder`; every problem names a file, and its line where there is one."""

    name: str
    version: str
    marketplace: str
    folder: Path
    manifest: Manifest
    skills_dirs: tuple[Path, ...] = ()
    """Each is a folder of skills, or the folder of one skill."""
    commands_dirs: tuple[Path, ...] = ()
    """Each is a folder of Markdown files, or one such file."""
    agents_dirs: tuple[Path, ...] = ()
    """As `commands_dirs`."""
    hooks_raw: tuple[Mapping[str, object], ...] = ()
    """The `hooks` sections as they stand in its files."""
    mcp_servers_raw: Mapping[str, object] = field(default_factory=dict)
    """The servers as they stand in its files."""
    deny_rules: tuple[Rule, ...] = ()
    """Rules that deny or ask. A plugin allows nothing."""
    instructions: str = ""
    """Instructions for the model."""
    problems: tuple[str, ...] = ()
    """Parts that were left out, and why."""
    unfit: tuple[str, ...] = ()
    """Why it may not be used at all: a path that leaves it, or hooks or denials that cannot be read."""
    notes: tuple[str, ...] = ()
    """Parts that have no effect here."""

    @property
    def id(self) -> str:
        """`name@marketplace`."""
        return f"{self.name}@{self.marketplace}"


def read_plugin(folder: Path, *, name: str = "", marketplace: str = DIRECT, version: str = "") -> Plugin:
    """Read the plugin in `folder`. `name` and `version` are those it was installed under, by default those of its manifest.

    Raise `UserError` when its manifest cannot be read. What is wrong with a single part of it is one of its `problems`.
    """
    path = folder / PLACE
    if is_missing(path):
        raise UserError(f"{str(folder)!r} is no plugin: it has no {PLACE}.")
    if not is_inside(folder, path):
        raise UserError(f"{PLACE} in {str(folder)!r} leads out of it by a link and is refused.")
    reader = read_object(path)
    manifest, members, notes = read_manifest(reader)
    parts = _Parts(folder, reader, members)
    parts.notes += notes
    if name and name != manifest.name:
        parts.notes.append(f"{reader.text.place(('name',))}: It calls itself {manifest.name!r}; here it is {name!r}.")
    return Plugin(
        name=name or manifest.name,
        version=version or manifest.version,
        marketplace=marketplace,
        folder=folder,
        manifest=manifest,
        skills_dirs=parts.paths("skills"),
        commands_dirs=parts.paths("commands"),
        agents_dirs=parts.paths("agents"),
        hooks_raw=tuple(parts.hooks()),
        mcp_servers_raw=parts.servers(),
        deny_rules=tuple(parts.rules()),
        instructions=parts.instructions(),
        problems=tuple(dict.fromkeys((*parts.problems, *parts.tools()))),
        unfit=tuple(dict.fromkeys(parts.unfit)),
        notes=tuple(parts.notes),
    )


class _Parts:
    """The parts of one plugin; an error in one hides no other."""

    def __init__(self, folder: Path, reader: JsonReader, members: Mapping[str, Raw]) -> None:
        self.problems: list[str] = []
        self.unfit: list[str] = []
        self.notes: list[str] = []
        self._folder = folder
        self._reader = reader
        self._members = members

    def paths(self, key: str) -> tuple[Path, ...]:
        """Return the folder of the usual name, and those that the manifest names. Names of parts of that folder replace it."""
        usual = self._folder / key
        named = [
            path
            for written in self._paths_under(key)
            for path in self._resolve(written, self._reader.text.place((key,), written))
        ]
        chosen = any(usual in path.parents for path in named)
        found = [] if chosen or is_missing(usual) else [*self._resolve(f"./{key}", str(usual))]
        if key == "skills" and not found and not named and not is_missing(self._folder / "SKILL.md"):
            found.append(self._folder)
        return tuple(dict.fromkeys((*found, *named)))

    def hooks(self) -> Iterator[Mapping[str, object]]:
        """Yield the sections of its files, and the one in the manifest itself."""
        yield from self._read_objects("hooks", HOOKS)

    def servers(self) -> dict[str, object]:
        """Return the servers of its files and of the manifest; of two with one name the first counts."""
        found: dict[str, object] = {}
        for section in self._read_objects("mcpServers", SERVERS):
            inner = section.get("mcpServers", section)
            for name, server in inner.items() if isinstance(inner, dict) else ():
                if found.setdefault(name, server) is not server:
                    self.problems.append(f"{self._folder}: The server {name!r} stands twice; the first one counts.")
        return found

    def rules(self) -> Iterator[Rule]:
        """Yield its rules that deny or ask. An unreadable denial makes it unfit; an allowance is refused."""
        try:
            members: dict[str, tuple[str, ...]] = self._reader.value_or(
                self._members, "permissions", dict[str, tuple[str, ...]], {}
            )
        except UserError as exc:
            self.unfit.append(str(exc))
            return
        for decision in _DECISIONS:
            for text in members.get(decision, ()):
                try:
                    yield Rule.parse(decision, text, source="person")
                except UserError as exc:
                    self.unfit.append(f"{self._reader.text.place(('permissions', decision), text)}: {exc}")
        for key in members.keys() - _DECISIONS:
            place = self._reader.text.place(("permissions", key))
            self.problems.append(f"{place}: permissions.{key}: A plugin can deny and ask; {key!r} is refused.")

    def instructions(self) -> str:
        """Return its instructions: a text of the manifest, then Markdown files that it names."""
        texts: list[str] = []
        try:
            texts.append(self._reader.value_or(self._members, "systemPrompt", str, ""))
        except UserError as exc:
            self.problems.append(str(exc))
        for written in self._paths_under("instructions"):
            place = self._reader.text.place(("instructions",), written)
            for path in self._resolve(written, place):
                try:
                    texts.append(read_regular(path, MOST_INSTRUCTIONS)[0].decode())
                except (OSError, UnicodeDecodeError) as exc:
                    self.problems.append(f"{place}: {written!r} is left out: {exc}.")
        text = "\n\n".join(each.strip() for each in texts if each.strip())
        if len(content := text.encode("utf-8", "replace")) > MOST_INSTRUCTIONS:
            self.problems.append(f"{self._folder}: Its instructions are cut after {MOST_INSTRUCTIONS:,} bytes.")
            text = content[:MOST_INSTRUCTIONS].decode("utf-8", "ignore")
        return text

    def tools(self) -> Iterator[str]:
        """Yield why its tools are not loaded."""
        if "tools" in self._members:
            place = self._reader.text.place(("tools",))
            yield f"{place}: tools: Code of a plugin is not loaded into the session. Bring the tools as an MCP server."

    def _read_objects(self, key: str, usual: str) -> Iterator[Mapping[str, object]]:
        """Yield the objects in the usual file, in files that the manifest names, and in the manifest itself."""
        inline: object = None
        try:
            inline = self._reader.value_or(self._members, key, object, None)
        except UserError as exc:
            self.problems.append(str(exc))
        place = self._reader.text.place((key,))
        wanted = [(usual, str(self._folder / usual))] if not is_missing(self._folder / usual) else []
        listed = inline if isinstance(inline, list) else [inline]
        wanted += [(each, place) for each in listed if isinstance(each, str)]
        seen: set[Path] = set()
        for written, where in wanted[:MOST_PATHS]:
            for path in self._resolve(written, where):
                if path not in seen:
                    seen.add(path)
                    yield from self._read_object_at(key, path)
        for each in listed:
            if isinstance(each, dict):
                yield each
            elif not isinstance(each, str | None):
                self.problems.append(f"{place}: {key}: It is neither a path nor an object.")

    def _read_object_at(self, key: str, path: Path) -> Iterator[Mapping[str, object]]:
        try:
            reader = read_object(path)
            yield reader.convert(reader.text.content, dict[str, object], ())
        except UserError as exc:  # a hook may stand guard, so a plugin whose hooks are not known is not used at all
            (self.unfit if key == "hooks" else self.problems).append(str(exc))

    def _paths_under(self, key: str) -> tuple[str, ...]:
        try:
            found: str | tuple[str, ...] = self._reader.value_or(self._members, key, str | tuple[str, ...], "")
        except UserError as exc:
            self.problems.append(str(exc))
            return ()
        return ((found,) if found else ()) if isinstance(found, str) else found[:MOST_PATHS]

    def _resolve(self, written: str, place: str) -> tuple[Path, ...]:
        """Return the path that is meant; none, and a problem, when it is not one of the plugin's."""
        try:
            return (resolve_inside(self._folder, written),)
        except PathRefused as exc:
            self.unfit.append(f"{place}: {exc}")
        except UserError as exc:
            self.problems.append(f"{place}: {exc}")
        return ()
