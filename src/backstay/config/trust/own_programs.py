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
from pathlib import Path
from typing import Final

from msgspec import Struct

from backstay.config.trust.followed import NotFollowed, Unknown, command_table
from backstay.config.trust.run_files import CommandTrace, command_text, find_mentioned

_ELSEWHERE: Final = Path("/nonexistent/elsewhere")
"""A folder that is no workspace: what a command names from there as well, it names by itself."""
_NEW_PYTHON: Final = re.compile(r"python3\.(\d+)")
_SAFE_SINCE: Final = 11
"""From this version on, Python 3 obeys PYTHONSAFEPATH."""
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
        safe=trace.uses_python and trace.safe and not trace.reads_script,
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

    def program(self, words: Sequence[str | None], depth: int) -> None:
        name = words[0] if words else None
        short = os.path.basename(name or "")
        rest = tuple(words[1:])
        if name and "/" in name:
            self.found += self._at(name)
        elif name and (path := shutil.which(name)) is not None:
            self.found.append(Path(os.path.abspath(path)))
        by_hand = self._by_hand(short, rest)
        if by_hand is not None:
            by_hand()
            return
        try:
            super().program(words, depth)
            if short in _WITH_SCRIPTS and any(word and word.startswith(("-f", "--file")) for word in rest):
                self._read_by(rest)
        except Unknown:
            self._read_by(rest)
        except NotFollowed as exc:
            self.doubt = self.doubt or str(exc)

    def _read_by(self, words: tuple[str | None, ...]) -> None:
        """Add the files that stand in the words of a program."""
        for word in filter(None, words):
            for written in dict.fromkeys((word, word.partition("=")[2], word.removeprefix("-f"))):
                self.found += (path for path in self._at(written) if written and path.is_file())

    def _by_hand(self, short: str, rest: tuple[str | None, ...]) -> Callable[[], None] | None:
        """Return how to follow a program that is followed in another way here."""
        table = command_table()
        if short.startswith("python"):
            self.uses_python = True
            self.safe = self.safe and _obeys(short)
            self.reads_script = self.reads_script or not any(_is_module_or_text(word) for word in rest)
        if short == "npx":
            return lambda: self._bring_one(rest)
        if short in _NODE and any(word and _NODE_CODE.fullmatch(word) for word in rest):
            return lambda: self._ask(rest)
        if short in ("perl", "ruby") and any(word and _TEXT_ALONE.fullmatch(word) for word in rest):
            return lambda: None
        if short in table.subcommands:  # what the git configuration of a workspace names is looked at by itself
            return lambda: None
        if short in _WITH_PACKAGES:
            return lambda: self._bring_all(short, rest)
        if short in table.projects:
            return lambda: self._project(table.projects[short], short, rest)
        return None

    def _bring_one(self, rest: tuple[str | None, ...]) -> None:
        self.bring(rest)
        if {"-c", "--call"} & {word for word in rest if word}:
            self.doubt = self.doubt or "npx runs a text"

    def _bring_all(self, name: str, rest: tuple[str | None, ...]) -> None:
        self.bring(rest)
        manifest = command_table().manifests.get(name)
        self._manifest((*(manifest.files if manifest else ()), "package.json"), rest)

    def _project(self, files: Sequence[str], name: str, rest: tuple[str | None, ...]) -> None:
        """Add what a project of these files runs, unless the program is told of a folder elsewhere or asked for something else."""
        words = [word or "" for word in rest]
        at = next((count for count, word in enumerate(words) if word in ("--directory", "--project")), None)
        elsewhere = at is not None and at + 1 < len(words) and os.path.isabs(words[at + 1])
        fetched = name == "uv" and words[:1] == ["tool"]
        aside = name in _BUILDERS and not _BUILDS & set(words)
        if not (elsewhere or fetched or aside):
            self._manifest(files, rest)

    def _require_commands(self, root: object, content: bytes) -> None:
        """Accept the text: what it evaluates is the person's word."""

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


def _is_module_or_text(word: str | None) -> bool:
    return word == "-" or (word is not None and re.fullmatch(r"-[BEIOPSsuqvbd]*[cm]", word) is not None)


def _obeys(name: str) -> bool:
    """Return whether a Python is known to be new enough to be told where not to look."""
    path = os.path.realpath(shutil.which(name) or name)
    if path == os.path.realpath(sys.executable):
        return True
    said = _NEW_PYTHON.fullmatch(os.path.basename(path))
    return said is not None and int(said[1]) >= _SAFE_SINCE
