"""Find what the person's own hooks and servers would run out of a workspace: they are started in it, and some look there first.

What the person's command names wherever it is started, such as a script of the home folder, is the person's own word. What it finds only
because it is started in this folder came with the folder.
"""

import ast
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from backstay.config.trust.digests import Digests
from backstay.config.trust.followed import NotFollowed, Unknown, below, command_table, takes_variables, text_of
from backstay.config.trust.run_files import BETWEEN_WORDS, VERSION, CommandTrace, command_text, find_mentioned

if TYPE_CHECKING:
    from tree_sitter import Node

_ELSEWHERE: Final = Path("/nonexistent/elsewhere")
"""A folder that is no workspace: what a command names from there as well, it names by itself."""
_NEW_PYTHON: Final = re.compile(r"python3\.(\d+)")
_SAFE_SINCE: Final = 11
"""From this version on, Python 3 obeys PYTHONSAFEPATH."""
_PYTHONS: Final = re.compile(r"(?:i|j|micro)?pythonw?[0-9.]*(?:-dbg|d|t)?|(?:pypy|graalpy)[0-9.]*")
_MOST_PROGRAMS: Final = 100
_SAFE_PATH: Final = "PYTHONSAFEPATH"
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NODE: Final = frozenset(("node", "bun", "tsx", "ts-node"))
_NODE_CODE: Final = re.compile(r"-(?:e|p|pe|r)|--(?:eval|print|require|import|loader|experimental-loader)")
_ASKED_FOR: Final = re.compile(r"\b(?:require|import)\s*\(\s*([^)]*)\)|\b(?:from|import)\s*(['\"][^'\"]+['\"])")
_LITERAL: Final = re.compile(r"\s*(['\"])([^'\"]+)\1\s*")
_NODE_PARTS: Final = frozenset(
    """
    assert async_hooks buffer child_process cluster console constants crypto dgram dns domain events fs fs/promises
    http http2 https inspector module net os path perf_hooks process punycode querystring readline repl stream
    string_decoder sys timers tls tty url util v8 vm worker_threads zlib
    """.split()
)
"""Modules that Node.js has itself: no folder can bring another in their place."""
_WITH_SCRIPTS: Final = ("awk", "gawk", "mawk", "sed", "jq")
"""Programs that run no file but one that an option names."""
_WITH_PACKAGES: Final = ("npm", "pnpm", "yarn", "bunx")
_BUILDERS: Final = ("docker", "podman")
_BUILDS: Final = frozenset(("compose", "build", "buildx"))
"""Words with which those read files of the folder."""
_TEXT_ALONE: Final = re.compile(r"-[a-zA-Z]*[ep]")
"""With it, Perl and Ruby run the text that follows, and look in no folder that the text does not name."""


class OwnProgram(Struct, frozen=True, kw_only=True):
    """What a command of the person's would run out of a workspace. Paths are absolute; most of them do not exist."""

    found: tuple[Path, ...] = ()
    """Found because the command is started there."""
    modules: tuple[Path, ...] = ()
    """Of Python, which are looked for there unless Python is told not to."""
    named: tuple[Path, ...] = ()
    """Named by the command itself, and in the workspace all the same."""
    doubt: str = ""
    """Why something of it cannot be told."""
    safe: bool = False
    """Whether Python can be told not to look for modules there."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them."""
        return (*self.found, *self.modules, *self.named)


def own_program(command: str, args: Sequence[str] | None, root: Path, cwd: Path, home: Path) -> OwnProgram:
    """Return what `command` would run out of the workspace `root` when it is started in `cwd`; both without links."""
    bases = (root, *(each for each in (cwd, *cwd.parents) if each != root and each.is_relative_to(root)))
    trace, elsewhere = _trace(command, args, bases, home), _trace(command, args, (_ELSEWHERE,), home)
    text = command_text(command, args)
    seen = dict.fromkeys((*trace.found, *(find_mentioned(text, bases, home) if trace.doubt else ())))
    inside = [path for path in seen if _is_in(path, root)]
    named = {path for path in inside if path in elsewhere.found or _is_said(path, text, home)}
    return OwnProgram(
        found=tuple(path for path in inside if path not in named),
        modules=tuple(dict.fromkeys(path for path in trace.modules if _is_in(path, root))),
        named=tuple(path for path in inside if path in named),
        doubt=trace.doubt,
        safe=trace.is_safe,
    )


def is_foreign_module(path: Path) -> bool:
    """Return whether Python itself has no module of that name: then the one in the folder may be meant."""
    name = path.parent.name if path.stem.startswith("__") else path.stem
    return not {name, path.parent.name} & sys.stdlib_module_names


def _trace(command: str, args: Sequence[str] | None, bases: tuple[Path, ...], home: Path) -> "_OwnTrace":
    trace = _OwnTrace(bases, home)
    try:
        trace.command(command, args)
    except NotFollowed as exc:
        trace.doubt = trace.doubt or str(exc)
    if not trace.is_safe:
        trace.add_imported()
    return trace


def _is_said(path: Path, text: str, home: Path) -> bool:
    """Return whether a command has the whole path of a file."""
    if str(path) in text:
        return True
    below = f"/{path.relative_to(home)}" if path.is_relative_to(home) else None
    return below is not None and any(f"{word}{below}" in text for word in ("~", "$HOME", "${HOME}"))


def _is_in(path: Path, root: Path) -> bool:
    return path.is_relative_to(root) or Path(os.path.realpath(path)).is_relative_to(root)


class _OwnTrace(CommandTrace):
    """The trace of a command that the person wrote: a program that is in no list is the person's word."""

    def __init__(self, bases: tuple[Path, ...], home: Path) -> None:
        super().__init__(bases, home)
        self.modules: list[Path] = []
        self.doubt = ""
        self.safe = True
        self.uses_python = False
        self.reads_script = False
        self._variables_gone = False
        self._imported: list[str] = []
        self._followed: set[tuple[object, ...]] = set()
        self._looked_up: set[str] = set()

    @property
    def is_safe(self) -> bool:
        """Whether every Python in it can be told where not to look for modules."""
        return self.uses_python and self.safe and not self.reads_script

    def add_imported(self) -> None:
        """Add the modules of the folder that those that it names may import, for a Python that looks there first."""
        if not self._imported:
            return
        for base in self._bases:
            self.modules += Digests(base).shadows(base)
        foreign = [name for name in self._imported if name.partition(".")[0] not in sys.stdlib_module_names]
        if foreign and not self.doubt:
            self.doubt = f"Python may look in this folder for what the module {foreign[0]!r} imports"

    def shell(self, text: str, depth: int) -> None:
        if _SAFE_PATH in text:
            self.safe = False
        super().shell(text, depth)

    def program(self, words: Sequence[str | None], depth: int) -> None:
        followed = (*words, self._bases, self._variables_gone)
        if followed in self._followed:
            return
        if len(self._followed) >= _MOST_PROGRAMS:
            raise NotFollowed("it starts too many programs")
        self._followed.add(followed)
        name = words[0] if words else None
        short = os.path.basename(name or "")
        rest = tuple(words[1:])
        if name and "/" in name:
            self.found += self._at(name)
        elif name:
            self.found += _find_on_path(name, self._bases)
        try:
            if (by_hand := self._by_hand(short, rest, depth)) is not None:
                by_hand()
            else:
                self._follow(words, short, rest, depth)
        except NotFollowed as exc:
            self.doubt = self.doubt or str(exc)

    def _follow(self, words: Sequence[str | None], short: str, rest: tuple[str | None, ...], depth: int) -> None:
        table, unknown, before = command_table(), _is_unknown(short), self._variables_gone
        self._variables_gone = before or takes_variables(short, rest) or (unknown and short not in table.fetching)
        try:
            super().program(words, depth)
        except Unknown:
            self._read_by(rest)
        finally:
            if short in _WITH_SCRIPTS and any(word and word.startswith(("-f", "--file")) for word in rest):
                self._read_by(rest)
            wraps = short in table.wrappers and (rest[:1] or ("",))[0]
            if unknown or _runs_others(short, rest) or (wraps and wraps.startswith("-")):
                self._go_on(rest, depth)
            self._variables_gone = before

    def _carry(self, name: str, rest: tuple[str | None, ...], depth: int) -> None:
        """Follow the command behind a program that leaves its variables as they are."""
        self._read_by(rest)
        hit = self._go_on(rest, depth)
        if files := command_table().carriers[name]:
            self._manifest(files, rest)
        if not hit and None in rest:
            raise NotFollowed("a word of it is known only when it runs")

    def _go_on(self, words: tuple[str | None, ...], depth: int) -> bool:
        """Follow each later word of a program that may be a command, or a text with one. Return whether there is any."""
        hit = False
        for at, word in enumerate(words):
            try:
                hit |= word is not None and self._go_on_at(word, words[at:], depth - 1)
            except NotFollowed as exc:
                hit, self.doubt = True, self.doubt or str(exc)
                if depth <= 1 or len(self._followed) >= _MOST_PROGRAMS:
                    raise
        return hit

    def _go_on_at(self, word: str, words: tuple[str | None, ...], depth: int) -> bool:
        if "/" in word:
            self.found += (path for path in self._at(word) if _is_program(path))
        elif word not in self._looked_up:
            self.found += _find_on_path(word, self._bases)
        self._looked_up.add(word)
        texts = tuple(_texts_in(word))
        command = _may_be_command(word)
        if (command or texts) and depth <= 0:
            raise NotFollowed("it is nested too deep")
        if assigned := _ASSIGNMENT.fullmatch(word):
            self._assign(assigned[1], assigned[2])
        elif command:
            self.program(words, depth)
        for text in texts:
            self.shell(text, depth)
        return command or bool(texts)

    def _read_by(self, words: tuple[str | None, ...]) -> None:
        """Add the files that stand in the words of a program, and the programs in a text among them."""
        for word in filter(None, words):
            for written in dict.fromkeys((word, word.partition("=")[2], word.removeprefix("-f"))):
                self.found += (path for path in self._at(written) if written and path.is_file())
            for part in BETWEEN_WORDS.split(word) if any(map(str.isspace, word)) else ():
                self.found += (path for path in self._at(part) if "/" in part and _is_program(path))

    def _by_hand(self, short: str, rest: tuple[str | None, ...], depth: int) -> Callable[[], None] | None:
        """Return how to follow a program that is followed in another way here."""
        table = command_table()
        if short.startswith("python") and VERSION.sub("", short) in table.scripts:
            self.uses_python = True
            self.safe = self.safe and not self._variables_gone and _obeys(short)
            self.reads_script = self.reads_script or not any(_is_module_or_text(word) for word in rest)
        elif _PYTHONS.fullmatch(short):
            raise NotFollowed(f"where {short} looks for modules is not known")
        if short == "npx":
            return lambda: self._bring_one(rest, depth)
        if short in _NODE and any(word and _NODE_CODE.fullmatch(word) for word in rest):
            return lambda: self._ask(rest)
        if short in ("perl", "ruby") and any(word and _TEXT_ALONE.fullmatch(word) for word in rest):
            return lambda: None
        if short in table.subcommands:  # what the git configuration of a workspace names is looked at by itself
            return lambda: None
        if short in _WITH_PACKAGES:
            return lambda: self._bring_all(short, rest, depth)
        if short in table.projects:
            return lambda: self._project(short, rest, depth)
        if short in table.carriers:
            return lambda: self._carry(short, rest, depth)
        return None

    def _bring_one(self, rest: tuple[str | None, ...], depth: int) -> None:
        self.bring(rest)
        self._go_on(rest, depth)
        if {"-c", "--call"} & {word for word in rest if word}:
            self.doubt = self.doubt or "npx runs a text"

    def _bring_all(self, name: str, rest: tuple[str | None, ...], depth: int) -> None:
        self.bring(rest)
        manifest = command_table().manifests.get(name)
        self._manifest((*(manifest.files if manifest else ()), "package.json"), rest)
        self._go_on(rest, depth)

    def _project(self, name: str, rest: tuple[str | None, ...], depth: int) -> None:
        """Add what a project runs, unless the program is told of a folder elsewhere or asked for something else."""
        words = [word or "" for word in rest]
        folders = {flag: value for flag, value in _flag_values(words) if flag in ("--directory", "--project")}
        elsewhere = {flag for flag, value in folders.items() if self._is_elsewhere(value)}
        if name in _BUILDERS and not _BUILDS & set(words):
            return
        if "--directory" not in elsewhere:
            if {"run", "exec"} & set(words):
                self._read_by(rest)
            self._go_on(rest, depth)
        if not elsewhere and not (name == "uv" and words[:1] == ["tool"]):
            self._manifest(command_table().projects[name], rest)

    def _is_elsewhere(self, folder: str) -> bool:
        return os.path.isabs(folder) and not Path(os.path.realpath(folder)).is_relative_to(self._bases[0])

    def _require_commands(self, root: "Node", content: bytes) -> None:
        """Accept the text: what it evaluates is the person's word. A variable may be taken away whose name is not written."""
        for node in below(root):
            if node.type == "unset_command" and any(each.type != "variable_name" for each in node.named_children):
                self.safe = self.safe and text_of(node, content).split()[1:2] == ["-f"]

    def _require_words(self, name: str, rest: Sequence[str | None]) -> None:
        """Accept the words of a program, which are the person's."""

    def _require_known(self, name: str | None, harmless: frozenset[str]) -> None:
        """Accept the module: it is the person's word unless the folder brings it."""

    def _require_unwritten(self) -> None:
        """Accept what it writes, which is no matter here."""

    def _assign(self, name: str, value: str) -> None:
        """Accept what leads to folders elsewhere: it is the person's word."""
        folders = [Path(os.path.realpath(each)) for each in value.strip("\"'").split(os.pathsep) if os.path.isabs(each)]
        if len(folders) != value.count(os.pathsep) + 1 or any(each.is_relative_to(self._bases[0]) for each in folders):
            super()._assign(name, value)

    def _code(self, language: str, text: str | None, depth: int) -> None:
        """Accept a text of Python, which is the person's word; look in the folder for what it imports."""
        if language != "python" or text is None:
            super()._code(language, text, depth)
            return
        try:
            self._imports(ast.parse(text))
        except (SyntaxError, ValueError, RecursionError):
            if not self.safe:
                raise NotFollowed("its Python text cannot be read") from None

    def _module(self, name: str | None) -> None:
        self._imported += (name,) if name else ()
        before, self.found = self.found, []
        try:
            super()._module(name)
            self.modules += self.found
            project = [base / each for each in command_table().projects.get(name or "", ()) for base in self._bases]
        finally:
            self.found = before
        self.found += project

    def _ask(self, rest: tuple[str | None, ...]) -> None:
        """Add what a text for Node.js asks for; modules are looked for in the folder."""
        for at, word in enumerate(rest):
            if word is None:
                self.doubt = self.doubt or "a word of it is known only when it runs"
            elif _NODE_CODE.fullmatch(word) and word not in ("-e", "-p", "-pe", "--eval", "--print"):
                self._add_node_module((rest[at + 1] if at + 1 < len(rest) else None) or "")
            else:
                for name in _find_requests(word.partition("=")[2] if word.startswith("--") else word):
                    self._add_node_module(name)

    def _add_node_module(self, name: str) -> None:
        if name.startswith((".", "/")):
            for path in self._at(name):
                self.found += (
                    path,
                    *(path.with_name(f"{path.name}{end}") for end in (".js", ".cjs", ".mjs", ".json")),
                    path / "index.js",
                )
        elif name.removeprefix("node:") == name and name not in _NODE_PARTS:
            self.found += (base / "node_modules" / name for base in self._bases)


def _find_requests(text: str) -> Iterator[str]:
    for hit in _ASKED_FOR.finditer(text):
        literal = _LITERAL.fullmatch(hit[1] if hit[1] is not None else hit[2])
        yield literal[2] if literal else ""  # the folder of modules itself, when the name is known only when it runs


def _is_unknown(name: str) -> bool:
    """Return whether no list tells how a program is followed."""
    table = command_table()
    known = name in table.plain or name in table.wrappers or name in table.subcommands
    return not (known or name in table.manifests or VERSION.sub("", name) in table.scripts or name in table.scripts)


def _may_be_command(word: str) -> bool:
    """Return whether a word of a program may be a command that this program starts."""
    table, name = command_table(), os.path.basename(word)
    if name in (".", "source") or "://" in word:  # no program
        return False
    lists = (table.scripts, table.manifests, table.projects, table.wrappers, table.carriers, table.fetching)
    named = any(name in each for each in lists) or VERSION.sub("", name) in table.scripts
    return named or name in ("npx", *_WITH_PACKAGES) or _PYTHONS.fullmatch(name) is not None


def _texts_in(word: str) -> Iterator[str]:
    """Yield the texts for a shell that a word may be: that of `"python3 -m x"`, of `-c"python3 -m x"` and `--command="python3 -m x"`."""
    glued = word.partition("=")[2] if word.startswith("--") else word[2:] if word.startswith("-") else ""
    for text in filter(None, (word, glued)):
        if any(map(str.isspace, text)) and any(_may_be_command(each) for each in BETWEEN_WORDS.split(text)):
            yield text


def _runs_others(name: str, rest: Sequence[str | None]) -> bool:
    """Return whether a program that runs no others by itself is told to."""
    pieces = command_table().running.get(name, ())
    return any(word is not None and piece in word for word in rest for piece in pieces)


def _flag_values(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word, following in pairwise((*words, "")):
        flag, equals, value = word.partition("=")
        yield flag, value if equals else following


def _find_on_path(name: str, bases: Sequence[Path]) -> Iterator[Path]:
    """Yield the program that a shell finds on PATH, and before it those that relative entries would find in the workspace, there or not."""
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(entry):
            if _is_program(path := Path(os.path.normpath(entry), name)):
                yield path
                return
        elif os.path.normpath(entry) != ".":  # commands get PATH without the folder itself
            yield from (Path(os.path.normpath(base / entry), name) for base in bases)


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _is_module_or_text(word: str | None) -> bool:
    return word == "-" or (word is not None and re.fullmatch(r"-[BEIOPSsuqvbd]*[cm]", word) is not None)


def _obeys(name: str) -> bool:
    """Return whether a Python is known to be new enough to be told where not to look."""
    path = os.path.realpath(shutil.which(name) or name)
    if path == os.path.realpath(sys.executable):
        return True
    said = _NEW_PYTHON.fullmatch(os.path.basename(path))
    return said is not None and int(said[1]) >= _SAFE_SINCE
