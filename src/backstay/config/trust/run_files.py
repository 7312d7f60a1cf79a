"""Find the files of a project that a hook's command runs, and say when that cannot be told.

A command is followed when each program in it is one whose way to its files is known (`followed.toml`): a script that is named, an
interpreter with its script or module, a runner with the file that says what it runs. What such a file runs in turn is not looked at.
"""

import ast
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from backstay.config.trust.followed import (
    NotFollowed,
    RunManifest,
    Unknown,
    below,
    command_table,
    fetches_unnamed,
    list_written,
    manifest_words,
    require_commands,
    require_python,
    require_words,
    text_of,
)
from backstay.config.trust.python_modules import EXTENSION_ENDINGS, is_module_file
from backstay.system.files import read_regular

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

PROJECT_VARIABLE: Final = re.compile(
    r"\$(?:(?P<braced>\{)?(?:CLAUDE_PROJECT_DIR|BACKSTAY_PROJECT_DIR|PWD)(?(braced)\}|\b))"
)
_HOME_PREFIX: Final = re.compile(r"^(?:~|\$HOME|\$\{HOME\})(?=/)")
BETWEEN_WORDS: Final = re.compile(r"[\s;|&()<>=`'\",\[\]{}]+")
_PLAIN_PATH: Final = re.compile(r"[\w./@+,-]+")
_WORD_OF_SCRIPT: Final = re.compile(r"[\w@][\w@.+-]*")
_DEEPEST_QUOTES: Final = 4
_LONGEST: Final = 4096
_LONGEST_SETTINGS: Final = 256 * 1024
_LONGEST_MANIFEST: Final = 1024 * 1024


def find_mentioned(command: str, bases: tuple[Path, ...], home: Path) -> Iterator[Path]:
    """Yield the files of the project, the first of `bases`, that stand in `command`, looked for from each of them.

    Those that are in the project as written count, wherever a link leads, and those that a link leads into it.
    """
    root = os.path.realpath(bases[0])
    for written in sorted(_words_in_quotes(PROJECT_VARIABLE.sub(".", command), _DEEPEST_QUOTES)):
        if not written or len(written) > _LONGEST or "\0" in written:
            continue
        word = _HOME_PREFIX.sub(lambda _: str(home), written)
        for base in bases:
            path = os.path.normpath(base / word)
            if os.path.isdir(path) or not os.path.lexists(path):
                continue
            if any(_is_below(each, root) for each in (path, _resolve_folder(path), os.path.realpath(path))):
                yield Path(path)


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _resolve_folder(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _words_in_quotes(text: str, depth: int) -> set[str]:
    """Return everything in `text` that a shell could see as a word, also in quotes within quotes."""
    found = {text, *BETWEEN_WORDS.split(text)}
    try:
        split = shlex.split(text)
    except ValueError:
        return found
    found.update(split)
    for word in split if depth else ():
        if word != text and BETWEEN_WORDS.search(word):
            found |= _words_in_quotes(word, depth - 1)
    return found


_HOME: Final = re.compile(r"\$(?:HOME\b|\{HOME\})")
_FILLED: Final = re.compile(r"\$\{(?:CLAUDE|BACKSTAY)_PROJECT_DIR\}")
"""What is filled in where no shell does."""
_TOP: Final = "$(git rev-parse --show-toplevel)"
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\\\\.", re.DOTALL)
_PATTERN: Final = re.compile(r"[*?\[{]")
"""What makes several words of one, where it is not quoted."""
VERSION: Final = re.compile(r"(?<=[a-z])[0-9.]+$")
_MODULE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_ASIDE: Final = re.compile(r"-.*|[0-9.]+[smhd]?|[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
"""What may stand between a wrapper and its command."""
_WRITES: Final = re.compile(r">(?!&\d)")
_DEEPEST: Final = 4
_DYNAMIC: Final = (
    "simple_expansion",
    "expansion",
    "command_substitution",
    "process_substitution",
    "arithmetic_expansion",
)
_UNREADABLE: Final = ("function_definition", "process_substitution", "coproc_statement")


def find_followed_files(
    command: str, args: Sequence[str] | None, bases: tuple[Path, ...], home: Path
) -> tuple[Path, ...]:
    """Return the files that a hook's command runs, looked for from each of `bases`; also those that would run if they were there.

    With `args` the command is one program, started as it is; without, a shell reads it. Raise `NotFollowed`.
    """
    return tuple(dict.fromkeys(follow_command(command, args, bases, home).found))


def follow_command(
    command: str, args: Sequence[str] | None, bases: tuple[Path, ...], home: Path, *, fetches: bool = False
) -> "CommandTrace":
    """Follow a hook's command, as `find_followed_files` does, and return what was seen.

    `fetches`: what is fetched by a name that the command has is what was trusted with it. Raise `NotFollowed`.
    """
    trace = CommandTrace(bases, home, fetches=fetches)
    trace.command(command, args)
    return trace


class CommandTrace:
    """The files that one command runs, as far as it can be followed."""

    def __init__(self, bases: tuple[Path, ...], home: Path, *, fetches: bool = False) -> None:
        self.found: list[Path] = []
        self.module_folders: list[Path] = []
        """Folders in which Python looks for modules before it looks for its own."""
        self._bases = bases
        self._first = len(bases)
        self._home = home
        self._fetches_packages = fetches
        self._written: list[str | None] = []

    def command(self, command: str, args: Sequence[str] | None) -> None:
        """Look at a program with its words, or at a text for a shell. Raise `NotFollowed`."""
        words = [_FILLED.sub(".", word) for word in (command, *(args or ()))]
        try:
            if args is None:
                self.shell(command, _DEEPEST)
            else:
                self.program([None if "${" in word else _literal(word) for word in words], _DEEPEST)
        except RecursionError:  # of the command, or of a package.json
            raise NotFollowed("it is nested too deep") from None
        self._require_unwritten()

    def shell(self, text: str, depth: int) -> None:
        """Follow every program in a text."""
        if not depth:
            raise NotFollowed("it is nested too deep")
        content = self._fill_folders(text.encode("utf-8", "replace"))
        root = _parser().parse(content).root_node
        if root.has_error:
            raise NotFollowed("it cannot be read with certainty")
        self._require_commands(root, content)
        for node in below(root):
            if node.type in _UNREADABLE:
                raise NotFollowed("it defines functions or runs commands beside it")
            if node.type == "variable_assignment" and (name := node.child_by_field_name("name")) is not None:
                value = node.child_by_field_name("value")
                self._assign(text_of(name, content), text_of(value, content) if value is not None else "")
            if node.type == "file_redirect" and _WRITES.search(text_of(node, content).partition("<")[0]):
                destination = node.child_by_field_name("destination")
                self._written.append(_word(destination, content) if destination is not None else None)
            if node.type == "command":
                self.program(_words(node, content), depth)

    def _fill_folders(self, content: bytes) -> bytes:
        """Return the text with the folders in place of what stands for them; in single quotes nothing does."""
        pieces, done = list[bytes](), 0
        for node in below(_parser().parse(content).root_node):
            text = text_of(node, content)
            folder = "." if PROJECT_VARIABLE.fullmatch(text) or text == _TOP else str(self._home)
            if node.start_byte >= done and node.type in _DYNAMIC and (folder == "." or _HOME.fullmatch(text)):
                pieces += (content[done : node.start_byte], folder.encode("utf-8", "surrogateescape"))
                done = node.end_byte
        return b"".join((*pieces, content[done:]))

    def program(self, words: Sequence[str | None], depth: int) -> None:
        """Follow one program with its words; None stands for a word that is known only when it runs."""
        table, (name, *rest) = command_table(), words or (None,)
        if name is None:
            raise NotFollowed("the name of a program is known only when it runs")
        short = os.path.basename(name)
        script = short if short in table.scripts else VERSION.sub("", short)
        self._require_words(short, rest)
        if short == "git" and len(self._bases) > self._first:
            self._repositories()
        if fetches_unnamed(short, rest):
            self._written.append(None)
        if short in table.writers:
            self._written += list_written(rest)
        if "/" in name:
            inside = [path for path in self._at(name) if path.is_relative_to(self._bases[0])]
            self.found += (*inside, *(each for path in inside for each in _environment_of(path)))
        if name == "cd":
            self._enter(rest)
        elif short in table.wrappers and (inner := self._unwrap(rest)):
            self.program(inner, depth)
        elif script in table.scripts:
            self._script(script, rest, depth)
        elif short in table.manifests:
            self._follow_manifest(table.manifests[short], rest)
        elif short == "npx":
            self._package(rest)
        elif short in table.subcommands:
            if not rest or rest[0] not in table.subcommands[short]:
                raise NotFollowed(f"what {short} runs with these words is not known")
        elif short in table.plain:
            pass
        elif "/" in name:
            self._file(name)
        elif not self._fetches(short, rest):
            raise Unknown(f"what {name!r} runs here is not known")

    def _fetches(self, name: str, rest: Sequence[str | None]) -> bool:
        """Return whether a program runs what it fetches by name, and nothing of the folder."""
        words = command_table().fetching.get(name)
        if words is None or not self._fetches_packages or any(word is None for word in rest):
            return False
        first = next((word for word in rest if word and not word.startswith("-")), "")
        if words and first not in words:
            return False
        return not any(place.exists() for word in rest if word for place in self._at(word.partition("=")[2] or word))

    def _unwrap(self, rest: Sequence[str | None]) -> Sequence[str | None]:
        for at, word in enumerate(rest):
            if word is None:
                raise NotFollowed("the name of a program is known only when it runs")
            if not _ASIDE.fullmatch(word):
                return rest[at:]
            self._assign(*word.partition("=")[::2])
        return ()

    def _assign(self, name: str, value: str) -> None:
        if command_table().steers(name):
            raise NotFollowed(f"it sets {name}")

    def _enter(self, rest: Sequence[str | None]) -> None:
        if len(rest) != 1 or rest[0] is None or rest[0].startswith("-"):
            raise NotFollowed("the folder that it goes to is known only when it runs")
        into = self._at(rest[0])
        self._bases = tuple(dict.fromkeys((*self._bases, *into)))

    def _repositories(self) -> None:
        """Raise `NotFollowed` where git obeys another repository in a folder that the command goes to; add where one could appear."""
        for base in self._bases[self._first :]:
            for folder in (base, *base.parents):
                if folder == self._bases[0] or not folder.is_relative_to(self._bases[0]):
                    break
                if os.path.lexists(folder / ".git") or os.path.lexists(folder / "HEAD"):
                    raise NotFollowed(f"git obeys another repository in {str(folder)!r}")
                self.found += (folder / ".git", folder / "HEAD")

    def _script(self, name: str, rest: Sequence[str | None], depth: int) -> None:
        kind = command_table().scripts[name]
        for at, word in enumerate(rest):
            value = rest[at + 1] if at + 1 < len(rest) else None
            if word is None:
                break
            if kind.code and re.fullmatch(kind.code, word):
                return self._code(kind.language, value, depth)
            if kind.modules and re.fullmatch(kind.modules, word):
                self.module_folders += self._bases
                self._module(value)
                return self._require_known(value, command_table().modules)
            if not word.startswith(("-", "+")):
                for path in self._at(word) if kind.settings else ():
                    self._files_of((*self._bases, *_folders_between(self._bases[0], path)), kind.settings)
                return self._follow_beginning(word, kind.endings) if kind.endings else self._file(word)
            if not re.fullmatch(kind.flags, word):
                break
        raise NotFollowed(f"what {name} reads is known only when it runs")

    def _code(self, language: str, text: str | None, depth: int) -> None:
        if text is None:
            raise NotFollowed("its text is known only when it runs")
        if language == "shell":
            return self.shell(text, depth - 1)
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError) as exc:
            raise NotFollowed("its Python text cannot be read") from exc
        require_python(tree, text)
        self.module_folders += self._bases
        self._imports(tree)

    def _imports(self, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for name in names:
                self._module(name)
                self._require_known(name, command_table().imports)

    def _require_commands(self, root: "Node", content: bytes) -> None:
        """Refuse a text in which something may run that is not written as a command."""
        require_commands(root, content)

    def _require_words(self, name: str, rest: Sequence[str | None]) -> None:
        """Refuse words with which a program runs others."""
        require_words(name, rest)

    def _require_known(self, name: str | None, harmless: frozenset[str]) -> None:
        """Raise `NotFollowed` for a module that the folder does not bring, unless it runs nothing of the folder."""
        if name not in harmless and not any(map(os.path.lexists, self._places_of(name))):
            raise NotFollowed(f"what the module {name!r} runs is not known")

    def _require_unwritten(self) -> None:
        """Refuse a command that writes what it runs: what is there before and afterwards says nothing of it."""
        for word in self._written if self.found else ():
            if word is None:
                raise NotFollowed("what it writes is known only when it runs")
            if any(file.is_relative_to(place) for place in self._at(word) for file in self.found):
                raise NotFollowed(f"it writes {word!r} and runs it")

    def _module(self, name: str | None) -> None:
        """Add the file or folder of a module in each place where Python looks; one that appears earlier would run instead."""
        self.found += self._places_of(name)

    def _places_of(self, name: str | None) -> Iterator[Path]:
        if name is None or not _MODULE.fullmatch(name):
            raise NotFollowed("the module is known only when it runs")
        parts = name.split(".")
        for base in self._bases:
            for count in range(1, len(parts) + 1):
                place = base.joinpath(*parts[:count])
                yield from (place.with_name(f"{place.name}.py"), place / "__init__.py")
                yield from _module_files(place)
            yield base.joinpath(*parts) / "__main__.py"

    def _follow_manifest(self, manifest: RunManifest, rest: Sequence[str | None]) -> None:
        """Follow a program that files of known names tell what to run, or files and folders that its words name."""
        named = manifest_words(manifest, rest)
        self._manifest(manifest.files, rest)
        if manifest.brings:
            self.bring(rest)
        for word in named.files:
            self._file(word)
        places = (*self._bases, *(place for word in named.folders for place in self._at(word)))
        self._files_of(places, manifest.files)
        if manifest.gathers:
            self.found += (each for place in places for each in _with_files(place / manifest.gathers))
        if manifest.remade:
            made = [place / name for place in places for name in manifest.files]
            made += (path for word in named.files for path in self._at(word))
            made += self._include(manifest.includes, places, made)
            self.found += (file.parent / each.replace("%", file.name) for file in made for each in manifest.remade)

        for place in places if manifest.programs else ():
            folders = [each for each in (place, *place.parents) if each == place or each.is_relative_to(self._bases[0])]
            names = sorted(_programs_of_scripts(place / "package.json"))
            self.found += (folder / manifest.programs / name for folder in folders for name in names)

    def _include(self, lines: str, places: Sequence[Path], files: Sequence[Path]) -> list[Path]:
        """Add the files that files say are part of them, and return them. Raise `NotFollowed` where a name is computed."""
        included, waiting = list[Path](), list(files)
        while waiting:
            text = _whole_text(waiting.pop()).replace("\\\n", " ")
            for line in re.findall(lines, text, re.MULTILINE) if lines else ():
                for word in line.partition("#")[0].split():
                    if not _PLAIN_PATH.fullmatch(word):
                        raise NotFollowed(f"which files {word!r} stands for is known only when it runs")
                    new = [Path(os.path.normpath(place / word)) for place in places]
                    new = [path for path in new if path not in included]
                    included, waiting = included + new, waiting + new
        self.found += included
        return included

    def _manifest(self, names: Sequence[str], rest: Sequence[str | None]) -> None:
        if any(word is None for word in rest):
            raise NotFollowed("a word of it is known only when it runs")
        places = list(self._bases)
        for word in rest:
            for each in (word or "", (word or "").partition("=")[2], (word or "").removeprefix("-C")):
                places += (place for place in self._at(each) if each and place.is_dir())
        self._files_of(places, names)

    def _files_of(self, places: Sequence[Path], names: Sequence[str]) -> None:
        """Add files of these names, in capitals or small letters, and what those mention that are settings."""
        capitals = {name.lower() for name in names}
        for place in dict.fromkeys(places):
            self.found += (place / name for name in names)
            self.found += (place / each for each in _names_in(place) if each.lower() in capitals)
            for name in command_table().settings.intersection(names):
                self.found += find_mentioned(_start_of(place / name), (*self._bases, place), self._home)

    def bring(self, rest: Sequence[str | None]) -> None:
        """Add what `npx NAME` runs: what the folder brings under this name, before it fetches anything."""
        names = [word for word in rest if word and not word.startswith("-")]
        for base in self._bases:
            for name in names:
                program = name.rpartition("/")[2].partition("@")[0] or name
                self.found += (base / "node_modules/.bin" / program, base / "node_modules" / name)
            self.found.append(base / ".npmrc")
            if _has_programs(base / "package.json"):
                self.found.append(base / "package.json")

    def _package(self, rest: Sequence[str | None]) -> None:
        """Follow `npx NAME`, which runs what is installed in the folder. Raise `NotFollowed` for what it would fetch, which is unknown."""
        if self._fetches_packages and next((word for word in rest if word is None or not word.startswith("-")), None):
            return self.bring(rest)
        name = next((word for word in rest if word is None or not word.startswith("-")), None)
        installed = [] if name is None else [base / "node_modules/.bin" / name for base in self._bases]
        if not any(each.exists() for each in installed):
            raise NotFollowed("npx runs what it fetches")
        self.found += installed

    def _follow_beginning(self, word: str, endings: Sequence[str]) -> None:
        """Follow a file that is found by the beginning of its name, or in a folder."""
        if not {"/", "."} & set(word):
            raise NotFollowed(f"{word!r} may be a command of the program's own")
        self._file(word)
        for path in self._at(word):
            if path.is_relative_to(self._bases[0]) and os.path.lexists(path / "package.json"):
                raise NotFollowed("what runs of a package is known only when it runs")
            self.found += (path / "package.json", *(path / f"index{end}" for end in endings))
            self.found += (path.with_name(f"{path.name}{end}") for end in endings if path not in self._bases)

    def _file(self, word: str) -> None:
        for path in self._at(word):
            if {"dev", "proc"} & set(path.parts[1:2]):
                raise NotFollowed("what it reads is known only when it runs")
            self.found.append(path / "__main__.py" if path.is_dir() else path)
            for folder in (path, path / "__pycache__") if path.is_dir() else ():
                self.found += (folder / name for name in _names_in(folder) if is_module_file(name, "__main__"))

    def _at(self, word: str) -> tuple[Path, ...]:
        if "\0" in word or len(word) > os.pathconf("/", "PC_PATH_MAX"):
            raise NotFollowed("a word of it is no path")
        word = f"{self._home}{word[1:]}" if re.match(r"~(/|$)", word) else word
        return tuple(dict.fromkeys(Path(os.path.normpath(base / word)) for base in self._bases))


def _environment_of(program: Path) -> Iterator[Path]:
    """Yield what an interpreter in a virtual environment obeys before it reads its script."""
    if program.parent.name not in ("bin", "Scripts"):
        return
    top = program.parent.parent
    yield top / "pyvenv.cfg"
    for packages in (*top.glob("lib*/python*/site-packages"), top / "Lib/site-packages"):
        yield from (packages / "sitecustomize.py", packages / "usercustomize.py")
        yield from sorted(packages.glob("*.pth"))


def _names_in(folder: Path) -> Sequence[str]:
    """Return the names in a folder; nothing of one that cannot be looked into: then nothing of it runs either."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return ()


def _module_files(place: Path) -> Iterator[Path]:
    """Yield the files that Python may run for a module, or a package of this name: before `guard.py` it takes `guard.abi3.so`."""
    for beginning in (place, place / "__init__"):
        yield from (beginning.with_name(f"{beginning.name}{ending}") for ending in EXTENSION_ENDINGS)
    yield from (place.parent / name for name in _names_in(place.parent) if is_module_file(name, place.name))
    for name in _names_in(place):
        if is_module_file(name, "__init__") or is_module_file(name, "__main__"):
            yield place / name


def _with_files(folder: Path) -> Iterator[Path]:
    yield folder
    yield from (folder / each for each in _names_in(folder))


def _folders_between(root: Path, path: Path) -> Iterator[Path]:
    """Return the folders of the project above a file."""
    yield from (each for each in path.parents if each.is_relative_to(root))


def _start_of(settings: Path) -> str:
    """Return the text of settings; empty when there are none. What cannot be read is noticed when it is hashed."""
    try:
        content, _ = read_regular(settings, _LONGEST_SETTINGS)
    except OSError:
        return ""
    return content.decode("utf-8", "replace")


def _whole_text(file: Path) -> str:
    """Return the text of a file; empty when there is none. Raise `NotFollowed` when it cannot be read to its end."""
    try:
        return read_regular(file, _LONGEST_MANIFEST)[0].decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as exc:
        raise NotFollowed(f"{file.name!r} cannot be read") from exc


def _programs_of_scripts(manifest: Path) -> set[str]:
    """Return the names of the programs that a package's scripts may run, which is every word of them; without scripts none."""
    text = _whole_text(manifest).removeprefix("\ufeff")
    try:
        scripts = json.loads(text or "{}").get("scripts")
    except (ValueError, AttributeError):
        return set()  # it runs nothing
    texts = [text for text in scripts.values() if isinstance(text, str)] if isinstance(scripts, dict) else []
    words = {word for text in texts for word in _WORD_OF_SCRIPT.findall(text.replace("\\", ""))}
    return {"sh", "node", *words} if texts else set()


def _has_programs(manifest: Path) -> bool:
    """Return whether a package says that it has programs itself; one that cannot be read may."""
    try:
        with manifest.open("rb") as file:
            return b'"bin"' in file.read(1024 * 1024)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _words(command: "Node", content: bytes) -> tuple[str | None, ...]:
    skipped = ("variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect")
    parts = [each for each in command.named_children if each.type not in skipped]
    return tuple(_word(each, content) for each in parts)


def _word(node: "Node", content: bytes) -> str | None:
    """Return what a word is, when that is known before it runs."""
    text = text_of(node, content)
    if any(each.type in _DYNAMIC for each in below(node)) or _PATTERN.search(_QUOTED.sub("", text)):
        return None
    try:
        words = shlex.split(text) if any(quote in text for quote in "\"'\\") else [text]
    except ValueError:
        return None
    if len(words) != 1 or text.startswith(("$'", '$"')) or re.match(r"~[^/]", text):
        return None
    return words[0] if text.startswith("~") else _literal(words[0])


def _literal(word: str) -> str:
    """Return a word in which `~` stands for itself."""
    return f"./{word}" if word.startswith("~") else word


@cache
def _parser() -> "Parser":
    import tree_sitter_bash  # noqa: PLC0415  # a project without hooks needs no grammar, and loading one costs 20 ms
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))


class HookCommand(Struct, frozen=True):
    """A program that the settings name for a hook."""

    command: str
    args: tuple[str, ...] | None
    bash: bool
    variables: frozenset[str]
    """Those that are set for it."""
    fetches: bool = False
    """As in `follow_command`."""

    @property
    def text(self) -> str:
        """The words that tell it from others."""
        return command_text(self.command, self.args)

    def trace(self, bases: tuple[Path, ...], home: Path) -> CommandTrace:
        """Follow it, and return what it runs of the project. Raise `NotFollowed`."""
        if not self.bash:
            raise NotFollowed("it is written for another shell than bash")
        if steered := sorted(filter(command_table().steers, self.variables)):
            raise NotFollowed(f"the settings set {steered[0]} for it")
        return follow_command(self.command, self.args, bases, home, fetches=self.fetches)


def hook_commands(hooks: object, variables: frozenset[str]) -> Iterator[HookCommand]:
    """Yield the programs in a section of hooks, at any depth. `variables` are set for all of them."""
    waiting = [hooks]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += each.values()
            command, args, own = each.get("command"), each.get("args"), each.get("env")
            if isinstance(command, str):
                yield HookCommand(
                    command=command,
                    args=tuple(map(str, args)) if isinstance(args, list) else None,
                    bash=each.get("shell", "bash") == "bash",
                    variables=variables.union(map(str, own) if isinstance(own, Mapping) else ()),
                )
        elif isinstance(each, list | tuple):
            waiting += each


def server_commands(servers: object) -> Iterator[HookCommand]:
    """Yield the programs of MCP servers: each is started as it is, without a shell."""
    for each in servers.values() if isinstance(servers, Mapping) else ():
        if isinstance(each, Mapping) and isinstance(command := each.get("command"), str) and command:
            args, own = each.get("args"), each.get("env")
            yield HookCommand(
                command=command,
                args=tuple(map(str, args)) if isinstance(args, list) else (),
                bash=True,
                variables=frozenset(map(str, own) if isinstance(own, Mapping) else ()),
                fetches=True,
            )


def command_text(command: str, args: Sequence[str] | None) -> str:
    """Return the words that a hook's program is started with, which tell it from others."""
    return " ".join((command, *(args or ())))
