"""List what a workspace brings that would run or loosen something, and the file contents that trust in it depends on."""

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field

from backstay.config.json_document import LARGEST, JsonText
from backstay.config.layer_file import LayerFile
from backstay.config.private_file import writable_name
from backstay.config.secret import mask
from backstay.config.trust.digests import ABSENT, MOST_BYTES, MOST_FILES, OWN, Digests, sha
from backstay.config.trust.followed import NotFollowed
from backstay.config.trust.git_config import (
    TooMany,
    git_parts,
    is_harmless,
    own_folders,
    program_keys,
    submodules,
)
from backstay.config.trust.git_places import GitPlaces
from backstay.config.trust.own_programs import is_foreign_module, own_program
from backstay.config.trust.run_files import (
    HookCommand,
    find_followed_files,
    find_mentioned,
    hook_commands,
    server_commands,
)
from backstay.logic.decide.policy import looser
from backstay.sandbox.git import FoundRepository, find_repository
from backstay.sandbox.git_files import Unclear
from backstay.skills.frontmatter import normalise_key, read_frontmatter
from backstay.skills.problems import Unusable
from backstay.system.files import is_missing, open_regular, read_regular
from backstay.vocab.errors import UserError
from backstay.vocab.specs import Mode

LARGEST_TEXT: Final = 512 * 1024
"""Bytes of a text whose top is read."""


def hook_words(hooks: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield each handler of a section of hooks, in any shape, after its words: what it runs, with which variables."""
    inner = hooks.get("hooks")
    for event, value in (inner if isinstance(inner, dict) else hooks).items():
        for handler, variables in _handlers(value, ()):
            yield f"{event}: {' '.join((*show_texts(_strip_conditions(handler)), *variables))}", handler


def _handlers(value: object, variables: tuple[str, ...]) -> Iterator[tuple[object, tuple[str, ...]]]:
    if isinstance(value, list):
        for each in value:
            yield from _handlers(each, variables)
    elif isinstance(value, dict) and "hooks" in value:
        yield from _handlers(value["hooks"], (*variables, *show_texts({"env": value.get("env")})))
    elif value is not None:
        yield value, variables


def _strip_conditions(handler: object) -> object:
    """Return what a handler runs or asks, without the keys that only say when and how."""
    if not isinstance(handler, dict):
        return handler
    quiet = ("type", "timeout", "statusMessage", "matcher", "shell", "async", "asyncRewake", "onFailure", "once")
    return {key: value for key, value in handler.items() if key not in quiet}


def server_words(servers: object, *, hide: bool = True) -> Iterator[tuple[str, object]]:
    """Yield each server after its words; with `hide`, without secrets."""
    for name, server in servers.items() if isinstance(servers, dict) else ():
        seen = mask(("mcpServers", str(name)), server) if hide else server
        yield f"{name}: {' '.join(show_texts(seen))}", server


def show_texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value, in order; variables with their names."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name == "env" and isinstance(inner, Mapping):
                yield from (f"{variable}={each}" for variable, each in inner.items())
            else:
                yield from show_texts(inner)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from show_texts(each)
    elif value is not None:
        yield str(value)


def describe_allowed_tools(path: Path) -> Iterator[str]:
    """Yield what the text of a skill or command may use without asking while it is followed."""
    try:
        content, _ = read_regular(path, LARGEST_TEXT)
        head = read_frontmatter(content, str(path)) if b"llowed" in content else None
    except (OSError, Unusable):  # such a text is not loaded either
        return
    for key, value in head.values.items() if head is not None else ():
        if normalise_key(key) == "allowedtools" and value:
            words = value if isinstance(value, str) else ", ".join(all_texts(value))
            yield f"{words} (while this text is followed)"


def env_words(file: LayerFile) -> tuple[str, ...]:
    """Return the variables that a file sets, with their values."""
    if file.environment is None:
        return ("it cannot be read",)
    return tuple(f"{name}={value}" for name, value in file.environment.items())


def setting_words(changes: Mapping[str, object]) -> Iterator[str]:
    """Yield the other settings that a file changes."""
    for section, value in changes.items():
        for name, each in value.items() if isinstance(value, dict) else (("", value),):
            words = " ".join(all_texts(mask((section, name) if name else (section,), each)))
            yield f"{section}.{name}: {words}" if name else f"{section}: {words}"


def all_texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value, in order, without the names of objects' members."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += reversed(tuple(each.values()))
        elif isinstance(each, list | tuple):
            waiting += reversed(each)
        elif each is not None:
            yield str(each)


ClaimKind = Literal["hook", "server", "allow", "folder", "mode", "env", "setting", "extension", "git", "own"]
FAMILIES: Final = (".backstay", ".claude", ".agents")
EXTENSIONS: Final = ("agents", "commands", "hooks", "output-styles", "plugins", "skills", "workflows")
"""Folders of those families whose files shape what runs. A file that is not in the survey must not be loaded."""
SERVERS: Final = ".mcp.json"
MOST_GIT_KEYS: Final = 200
LONGEST_COMMAND: Final = 16 * 1024
"""Characters of a command in which files are looked for."""


class InventoryItem(Struct, frozen=True, kw_only=True):
    """One thing that a workspace would run or loosen."""

    kind: ClaimKind
    text: str
    """In the workspace's own words: not to be shown on a terminal as it is."""
    file: str
    """Below the project's root."""
    note: str = ""
    """Why trust in it does not last, when it runs something that cannot be followed."""


class WorkspaceInventory(Struct, frozen=True, kw_only=True):
    """Everything in a workspace that would run or loosen something, with the digests of the files that were read."""

    root: str
    """The project's root, without links."""
    claims: tuple[InventoryItem, ...] = ()
    seen: Mapping[str, str] = field(default_factory=dict)
    """Everything that was looked at, as `kind:name`, and the digest of it."""
    problem: str = ""
    """Why not everything could be looked at: then it cannot be trusted for good."""
    unfollowed: Mapping[str, str] = field(default_factory=dict)
    """The commands of hooks and servers whose files cannot be told, and why."""
    named: Mapping[str, str] = field(default_factory=dict)
    """The files of the workspace that the person's own programs name, wherever they are started, and their digests."""
    own: tuple[str, ...] = ()
    """The commands of the person's own programs that were looked at; those of plugins and of this run's servers are not among them."""
    running: tuple[str, ...] = ()
    """Files and folders of the workspace that hooks, servers and git run, there or not; absolute, as named and as they lead."""
    bare: bool = False
    """Whether git takes what lies around the working folder for a repository, without any `.git`."""

    @property
    def digest(self) -> str:
        """One digest over everything that was looked at."""
        lines = "".join(f"{name}\0{digest}\0" for name, digest in sorted(self.seen.items()))
        return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def survey(
    root: Path,
    cwd: Path,
    files: Sequence[LayerFile],
    *,
    home: Path,
    own: Sequence[LayerFile] = (),
    mode: Mode = "default",
    bare: bool = False,
    most_files: int = MOST_FILES,
    most_bytes: int = MOST_BYTES,
    environment: Mapping[str, str] = os.environ,
) -> WorkspaceInventory:
    """Look at what the project `root` brings along. `files` are its settings, already read: those very bytes are looked at.

    Nothing is run, no link of an extension is followed, and what is looked at is bounded. `mode` is the one that
    holds without the project. `own` are the person's files: what their programs would run out of the project. `bare`: only
    that, and what git would run. `environment` says where git is led to.
    """
    found = _Collector(Path(os.path.realpath(root)), Path(os.path.realpath(cwd)), home, most_files, most_bytes)
    if not bare:
        steered = frozenset(name for file in files for name in file.environment or ())
        for file in files:
            found.settings(file, mode, steered)
        found.servers()
        found.extensions()
    for file in own:
        found.own(file)
    led = (each for file in (*reversed(own), *reversed(files)) for each in (file.environment or {}).items())
    found.git({**environment, **{name: str(value) for name, value in led if name.startswith("GIT_")}})
    return WorkspaceInventory(
        root=str(found.root),
        claims=tuple(dict.fromkeys(found.claims)),
        seen=found.seen,
        problem=found.problem,
        unfollowed=found.unfollowed,
        named=found.named,
        own=tuple(dict.fromkeys(found.commands)),
        running=tuple(dict.fromkeys(each for path in found.running for each in (str(path), os.path.realpath(path)))),
        bare=found.bare,
    )


def find_drift(before: WorkspaceInventory) -> tuple[str, ...]:
    """Return the scripts and extensions that are no longer as they were in a survey: what is about to run is compared with it."""
    digests = Digests(Path(before.root))
    changed: list[str] = []
    for known, digest in before.seen.items():
        kind, _, name = known.partition(":")
        if kind == "modules":
            there = map(digests.name, digests.shadows(_path(before.root, name)))
            changed += (each for each in there if f"script:{each}" not in before.seen)
        if kind in ("script", "file") and digests.of(_path(before.root, name), follow=kind == "script") != digest:
            changed.append(name)
    return tuple(changed)


def _path(root: str, name: str) -> Path:
    return Path(root, os.fsdecode(bytes.fromhex(name[2:])) if name.startswith("//") else name)


class _Collector(Digests):
    """Collects what a project brings along, as far as its bounds go."""

    def __init__(
        self, root: Path, cwd: Path, home: Path, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES
    ) -> None:
        super().__init__(root, most_files, most_bytes)
        self.claims: list[InventoryItem] = []
        self.seen: dict[str, str] = {}
        self.unfollowed: dict[str, str] = {}
        self.named: dict[str, str] = {}
        self.commands: list[str] = []
        self.running: list[Path] = []
        self.bare = False
        self._git_known: set[tuple[str, str, str]] = set()
        self._bases = (root,) if cwd == root else (root, cwd)
        self._home = home

    # --- settings --------------------------------------------------------------------------------------------------------------------

    def settings(self, file: LayerFile, mode: Mode, steered: frozenset[str]) -> None:
        name = writable_name(os.path.relpath(file.path, file.place.root))
        self.seen[f"settings:{name}"] = file.text.digest if file.text is not None else sha(file.broken.encode())
        if file.broken:
            self.problem = self.problem or f"{name} is broken"
        self._follow(hook_commands(file.hooks, steered))
        self._follow(server_commands(file.servers))
        self.claims += (
            InventoryItem(kind="hook", text=words, file=name, note=self._note_of(hook_commands(handler, frozenset())))
            for words, handler in hook_words({} if file.hooks_off else file.hooks)
        )
        self._servers(name, file.servers)
        self._claim("allow", name, map(str, file.permissions.select("allow")))
        self._claim("folder", name, file.permissions.folders)
        wanted = file.permissions.mode
        possible = wanted is not None and wanted != "bypassPermissions" and looser(wanted, mode)
        self._claim("mode", name, (wanted,) if wanted is not None and possible else ())
        self._claim("env", name, env_words(file))
        self._claim("setting", name, setting_words(file.changes))
        self._scripts(all_texts((file.hooks, file.servers)))

    def servers(self) -> None:
        path = self.root / SERVERS
        if is_missing(path):
            return
        try:
            text = JsonText.read(path)
        except UserError as exc:
            self.seen[f"servers:{SERVERS}"] = sha(str(exc).encode("utf-8", "replace"))
            self._claim("server", SERVERS, ("it cannot be read",))
            return
        self.seen[f"servers:{SERVERS}"] = text.digest
        said = text.parse()
        servers = said.get("mcpServers", said)
        self._follow(server_commands(servers))
        self._servers(SERVERS, servers)
        self._scripts(all_texts(said))

    def _servers(self, file: str, servers: object) -> None:
        self.claims += (
            InventoryItem(kind="server", text=words, file=file, note=self._note_of(server_commands({"": server})))
            for words, server in server_words(servers)
        )

    def _scripts(self, texts: Iterable[str]) -> None:
        for text in texts:
            for path in self._find_mentioned(text):
                self._script(path)

    def _script(self, path: Path) -> None:
        self.running.append(path)
        known = f"script:{self.name(path)}"
        if known not in self.seen:
            self.seen[known] = self.of(path, follow=True)
            first = _first_line(path)
            if path.suffix == ".py" or "python" in first:
                self._modules(Path(os.path.realpath(path)).parent)
            for interpreter in self._find_mentioned(first):
                self._script(interpreter)

    def _follow(self, commands: Iterable[HookCommand]) -> None:
        for each in commands:
            try:
                trace = each.trace(self._bases, self._home) if len(each.text) <= LONGEST_COMMAND else None
            except NotFollowed as exc:
                self.unfollowed[each.text] = str(exc)
                continue
            for path in trace.found if trace is not None else ():
                self._script(path)
            for folder in trace.module_folders if trace is not None else ():
                self._modules(folder)

    def _modules(self, folder: Path) -> None:
        """Add the modules of a folder that Python would import before its own, which import one another."""
        known = f"modules:{self.name(folder)}"
        if known not in self.seen and folder.is_relative_to(self.root):
            self.seen[known] = ABSENT  # each that is there has a line of its own
            for path in self.shadows(folder):
                self._script(path)

    def _note_of(self, commands: Iterable[HookCommand]) -> str:
        return next((self.unfollowed[each.text] for each in commands if each.text in self.unfollowed), "")

    def own(self, file: LayerFile) -> None:
        """Add what the person's own programs would run out of the project."""
        hooks = () if file.hooks_off else hook_commands(file.hooks, frozenset())
        for what, commands in (("hook", hooks), ("server", server_commands(file.servers))):
            for each in commands:
                self._own(what, each)

    def _own(self, what: str, each: HookCommand) -> None:
        program = own_program(each.command, each.args, self.root, self._bases[-1], self._home)
        self.running += program.paths
        self.commands.append(each.text)
        self.named |= {self.name(path): self.of(path, follow=True) for path in program.named}
        new = [path for path in program.modules if os.path.lexists(path)]
        modules = program.modules if not program.safe or any(map(is_foreign_module, new)) else ()
        there = [path for path in (*program.found, *modules) if os.path.lexists(path)]
        for path in there:
            self.seen[f"{OWN}{self.name(path)}"] = self.of(path, follow=True)
        if there:
            self._claim("own", self.name(there[0]), (f"your {what} {each.text}",))

    def _find_mentioned(self, text: str) -> Iterator[Path]:
        self.count(0)
        if len(text) > LONGEST_COMMAND:
            self.problem = self.problem or f"a command of {len(text):,} characters is too long to look at"
        elif not self.problem:
            yield from find_mentioned(text, self._bases, self._home)

    def _claim(self, kind: ClaimKind, file: str, texts: Iterable[str]) -> None:
        self.claims += (InventoryItem(kind=kind, text=text, file=file) for text in texts)

    # --- extensions ------------------------------------------------------------------------------------------------------------------

    def extensions(self) -> None:
        for family in FAMILIES:
            if (self.root / family).is_symlink():
                where = os.readlink(self.root / family)
                self.seen[f"link:{family}"] = sha(os.fsencode(where))
                continue  # settings are read through it; nothing else is
            for folder in EXTENSIONS:
                self._folder(self.root / family / folder)

    def _folder(self, top: Path) -> None:
        waiting = [top]
        while waiting and not self.problem:
            folder = waiting.pop()
            if folder.is_symlink() or not folder.is_dir():
                if not is_missing(folder):
                    self._extension(folder)
                continue
            for entry in self._list(folder):
                if entry.is_dir(follow_symlinks=False):
                    self.count(0)
                    waiting.append(Path(entry.path))
                else:
                    self._extension(Path(entry.path))

    def _extension(self, path: Path) -> None:
        name = self.name(path)
        self.seen[f"file:{name}"] = self.of(path, follow=False)
        if "hooks" not in name.split(os.sep)[1:2]:  # a script there does nothing until a hook names it
            self._claim("extension", name, (name,))
        if path.suffix == ".md" and {"skills", "commands", "plugins"} & set(name.split(os.sep)[1:2]):
            self._claim("allow", name, describe_allowed_tools(path) if not path.is_symlink() else ())

    # --- git -------------------------------------------------------------------------------------------------------------------------

    def git(self, environment: Mapping[str, str]) -> None:
        cwd, repository = self._bases[-1], None
        self.running += git_parts(cwd)
        try:
            repository = find_repository(cwd, environment)
        except ValueError as exc:
            self._git_item("found", f"git was asked for its repository: {exc}", "", cwd / ".git")
        own = [(folder, self.root) for folder in own_folders(self.root, cwd)]
        if repository is not None:
            self.bare = repository.bare
            self._add_unnamed((*repository.folders, *repository.files))
            own += ((folder, repository.tree or cwd) for folder in repository.folders)
        places = GitPlaces(self.root)
        if repository is not None and "GIT_DIR" in environment:  # the person leads git there
            places.accept(*repository.folders)
        for folder in {os.path.realpath(folder): folder for folder, _ in reversed(own)}.values():
            self._git_folder(folder, own=True)
        self._git_places(places, (folder for folder, _ in own))
        self._git_settings(repository)
        try:
            inner = submodules(own, self.files_left)
        except (TooMany, OSError) as exc:
            self.problem = self.problem or str(exc)
            return
        self._add_unnamed(inner.folders)
        self._git_places(places, inner.folders)
        for folder in inner.folders:
            self._git_folder(folder, own=False)
        for index, why in inner.unread:
            self._git_item("", f"cannot be read: {why}", "", index)

    def _git_places(self, places: GitPlaces, folders: Iterable[Path]) -> None:
        """Add what of git folders lies outside of the workspace: git shows it as if it were the workspace's own."""
        for folder in {os.path.realpath(folder): folder for folder in folders}.values():
            if not folder.is_dir():
                continue
            if not places.admit(folder):
                self._git_item("elsewhere", f"{folder} is the repository of another folder", "", folder)
                continue
            try:
                for number, (path, target) in enumerate(places.find_ways_out(folder)):
                    self._git_item(f"leads {number}", f"{path.name} leads to {target}", "", path)
            except TooMany as exc:
                self.problem = self.problem or str(exc)

    def _add_unnamed(self, paths: Iterable[Path]) -> None:
        """Add what git reads in the project and no list of protected names has."""
        cwd = self._bases[-1]
        for path in (Path(os.path.realpath(each)) for each in paths):
            top = cwd if path.is_relative_to(cwd) else self.root
            if path.is_relative_to(top) and ".git" not in path.relative_to(top).parts:
                self.running.append(path)

    def _git_settings(self, repository: FoundRepository | None) -> None:
        """Add what git says that the repository sets and that was not found in its files, as in what they include."""
        found: dict[Path, list[tuple[str, str]]] = {}
        for path, key, value in repository.settings if repository is not None else ():
            pairs = found.setdefault(path, [])
            if not is_harmless(key, value) and (os.path.realpath(path), key, value) not in self._git_known:
                pairs.append((key, value))
        for path, pairs in found.items():
            self._git_keys(path.parent, path, pairs, own=True)

    def _git_folder(self, folder: Path, *, own: bool) -> None:
        for name in ("config", "config.worktree"):
            self._git_config(folder, folder / name, own=own)
        hooks = folder / "hooks"
        for entry in self._list(hooks) if hooks.is_dir() else ():
            if not entry.name.endswith(".sample") and not entry.is_dir() and os.access(entry.path, os.X_OK):
                self._git_item("", "", self.of(Path(entry.path), follow=True), Path(entry.path))

    def _list(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as listing:
                return sorted(islice(listing, max(0, self.files_left + 1)), key=lambda entry: entry.name)
        except OSError as exc:
            self.problem = self.problem or f"{str(folder)!r} cannot be looked into: {exc.strerror}"
            return []

    def _git_config(self, folder: Path, path: Path, *, own: bool) -> None:
        if is_missing(path):
            return
        try:
            content, _ = read_regular(path, LARGEST)
            found = program_keys(content.decode("utf-8", "surrogateescape"))
        except (OSError, Unclear) as exc:
            self._git_item("", f"cannot be read: {getattr(exc, 'strerror', None) or exc}", "", path)
            return
        self._git_known |= {(os.path.realpath(path), key, value) for key, value in found}
        self._git_keys(folder, path, found, own=own)

    def _git_keys(self, folder: Path, path: Path, found: Sequence[tuple[str, str]], *, own: bool) -> None:
        if len(found) > MOST_GIT_KEYS:
            self.problem = self.problem or f"{path} names more than {MOST_GIT_KEYS} programs"
        count: Counter[str] = Counter()
        for key, value in found[:MOST_GIT_KEYS]:
            if key == "core.worktree" and self._is_own_tree(folder, os.path.realpath(folder / value), own=own):
                continue
            inner = "".join(self._git_value(folder, key, value))
            count[key] += 1
            self._git_item(f"{key} {count[key]}" if count[key] > 1 else key, f"{key} = {value}", inner, path)

    def _is_own_tree(self, folder: Path, tree: str, *, own: bool) -> bool:
        """Return whether a work tree is the one that a git folder is expected to have: the project, or for a submodule a folder in it.

        The submodules of the repository that a linked work tree belongs to lie in the main one's.
        """
        main, modules, _ = os.path.realpath(folder).partition(f"{os.sep}.git{os.sep}modules{os.sep}")
        tops = (str(self.root), *((main,) if modules else ()))
        return tree == tops[0] or (not own and any(tree.startswith(f"{top}{os.sep}") for top in tops))

    def _git_value(self, folder: Path, key: str, value: str) -> Iterator[str]:
        """Yield the digests of the files that a value leads to, so that a change of them is noticed."""
        for path in self._find_mentioned(value):
            self.running.append(path)
            yield self.of(path, follow=True)
        target = Path(os.path.expanduser(value))
        if key.startswith("include"):
            self.running.append(folder / target)
            if (folder / target).is_file():
                yield self.of(folder / target, follow=True)
        if key == "core.hookspath":
            self.running.append(Path(os.path.normpath(self.root / target)))
            yield from self._git_hooks(self.root / target)
        with contextlib.suppress(NotFollowed):
            for path in find_followed_files(value.removeprefix("!"), None, self._bases, self._home):
                self.running.append(path)
                yield self.of(path, follow=True)

    def _git_hooks(self, folder: Path) -> Iterator[str]:
        """Yield the names and digests of the hooks in a folder: one that is added runs as well."""
        try:
            with os.scandir(folder) as listing:
                entries = sorted(islice(listing, max(0, self.files_left + 1)), key=lambda entry: entry.name)
        except OSError as exc:
            yield f"cannot be looked into: {exc.strerror}"
            return
        for entry in entries:
            if not entry.is_dir():
                yield f"{entry.name}\0{self.of(Path(entry.path), follow=True)}"

    def _git_item(self, key: str, text: str, inner: str, path: Path) -> None:
        name = self.name(path)
        self.seen[f"git:{name} {key}".rstrip()] = sha(f"{text}\0{inner}".encode("utf-8", "surrogateescape"))
        self._claim("git", name, (text or name,))


def _first_line(path: Path) -> str:
    """Return the line of a script that names its interpreter; empty when it has none."""
    try:
        with open_regular(path) as file:
            line = file.readline(LONGEST_COMMAND)
    except OSError:
        return ""  # the look at its content says so
    return line[2:].decode("utf-8", "surrogateescape") if line.startswith(b"#!") else ""
