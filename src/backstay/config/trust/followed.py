"""Read `followed.toml`: the programs that hooks run, and how each finds the files that it runs."""

import ast
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from backstay.permissions.unasked.scripts import is_awk_program, is_sed_script

if TYPE_CHECKING:
    from tree_sitter import Node


class NotFollowed(ValueError):
    """Raised for a command whose files cannot be found out, with the reason."""


class Unknown(NotFollowed):
    """A program that is in no list."""


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """How a program that reads scripts finds them: see `followed.toml`."""

    flags: str = ""
    code: str = ""
    modules: str = ""
    language: str = ""
    endings: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


class RunManifest(Struct, frozen=True, forbid_unknown_fields=True):
    """The files from which a program reads what it runs: see `followed.toml`."""

    files: tuple[str, ...]
    flags: str = ""
    file: str = ""
    folder: str = ""
    words: str = ""
    brings: bool = False
    remade: tuple[str, ...] = ()
    gathers: str = ""
    includes: str = ""
    programs: str = ""


class ProgramTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The tables of `followed.toml`."""

    plain: frozenset[str]
    running: Mapping[str, tuple[str, ...]]
    writers: frozenset[str]
    subcommands: Mapping[str, tuple[str, ...]]
    wrappers: frozenset[str]
    ahead: frozenset[str]
    variables: frozenset[str]
    families: tuple[str, ...]
    shell: frozenset[str]
    expansions: frozenset[str]
    modules: frozenset[str]
    imports: frozenset[str]
    settings: frozenset[str]
    scripts: Mapping[str, Script]
    manifests: Mapping[str, RunManifest]
    projects: Mapping[str, tuple[str, ...]]
    """Followed for the person's own programs alone."""
    fetching: Mapping[str, tuple[str, ...]]
    carriers: Mapping[str, tuple[str, ...]]
    """Followed for the person's own programs alone."""

    def steers(self, variable: str) -> bool:
        """Return whether a variable changes which programs or files run."""
        return variable in self.variables or variable.startswith(self.families)


@cache
def command_table() -> ProgramTable:
    """Return the table of known programs."""
    text = Path(__file__).with_name("followed.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), ProgramTable)


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_READ_FLAG: Final = re.compile(r"-[ers]*(?P<value>[dinNptu])?")
_SED_FLAG: Final = re.compile(r"-[nErsuz]+|-i[.~\w]*|--(?:quiet|silent|regexp-extended|null-data|separate|in-place)")
_SED_SCRIPT: Final = re.compile(r"-[nErsuz]*e|--expression")
_WRAPPER_FLAG: Final = re.compile(
    r"-[0-9]+|-[ip0vfkn]|-[oe][L0-9]+|--(?:foreground|preserve-status|verbose|(?:signal|kill-after)=\w+)"
)
_RUNS: Final = re.compile(r"system|subprocess|popen|spawn|exec|eval|compile|__|runpy|importlib|startfile")
_REACHES: Final = frozenset(
    ("getattr", "setattr", "delattr", "vars", "globals", "locals", "open", "breakpoint", "help")
)
_INNARDS: Final = frozenset(("modules", "meta_path", "path_hooks", "path_importer_cache", "builtins", "codecs"))


def require_words(name: str, rest: Sequence[str | None]) -> None:
    """Raise `NotFollowed` for words with which a program runs others, and for words that may be such."""
    pieces = command_table().running.get(name, ())
    if pieces and any(word is None or any(piece in word for piece in pieces) for word in rest):
        raise NotFollowed(f"{name} may run other programs")
    match name:
        case "read":
            _require_names(rest)
        case "printf" if not rest or rest[0] is None or rest[0].startswith("-"):
            raise NotFollowed("printf may set a variable")
        case "test" | "[" if {"-v", "-R"} & set(rest) or (
            len(rest) > 1 and rest[-2] is None and rest[0] in (None, "!")
        ):
            raise NotFollowed("it looks at a variable whose name the shell evaluates")
        case "osascript" if any(word != "-e" for word in rest[::2]):
            raise NotFollowed("it runs a script")
        case "git" if "config" in rest[:1] and len([word for word in rest if word is None or word[:1] != "-"]) > 2:
            raise NotFollowed("git config may name a program")
        case "sed":
            _require_sed(rest)
        case "awk" | "gawk" | "mawk":
            _require_awk(rest)
        case _ if name in command_table().wrappers:
            _require_wrapper(name, rest)


class ManifestWords(Struct, frozen=True):
    """The files and folders named by the words of a program that reads from files what it runs."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def manifest_words(manifest: RunManifest, rest: Sequence[str | None]) -> ManifestWords:
    """Return the files and folders in its words. Raise `NotFollowed` for flags and values that may have it run something else."""
    files: list[str | None] = []
    folders: list[str | None] = []
    others: list[str] = []
    words = iter(rest)
    for word in words:
        if word is None:
            raise NotFollowed("a word of it is known only when it runs")
        if word == "--" and manifest.words:
            break
        for pattern, into in ((manifest.file, files), (manifest.folder, folders)):
            if pattern and (hit := re.fullmatch(f"(?:{pattern})(?P<value>.*)", word, re.DOTALL)):
                into.append(hit["value"].removeprefix("=") or next(words, None))
                break
        else:
            _require_harmless(manifest, word)
            others += () if word.startswith("-") else (word,)
    if manifest.words and not re.fullmatch(manifest.words, others[0] if others else ""):
        raise NotFollowed("what it runs with these words is not known")
    if None in files or None in folders:
        raise NotFollowed("a word of it is known only when it runs")
    return ManifestWords(tuple(filter(None, files)), tuple(filter(None, folders)))


def _require_harmless(manifest: RunManifest, word: str) -> None:
    name, equals, value = word.partition("=")
    if word.startswith("-"):
        if not re.fullmatch(manifest.flags, word):
            raise NotFollowed(f"what {word!r} has it run is not known")
    elif equals and (command_table().steers(name) or not re.fullmatch(r"[\w.,:@%-]*", value)):
        raise NotFollowed(f"what {word!r} has it run is not known")


def list_written(rest: Sequence[str | None]) -> Iterator[str | None]:
    """Yield what a program that writes files of its words may write: with `ln -s a/b` that is `b`, with `-ox` and `--output=x` it is
    `x`.
    """
    for word in rest:
        if word is None or not word.startswith("-"):
            yield word
            yield from (os.path.basename(word),) if word and os.path.basename(word) else ()
        elif word.startswith("--"):
            yield from (word.partition("=")[2],) if not word.endswith("=") and "=" in word else ()
        else:
            yield from (word[at:] for at in range(2, len(word)))


def fetches_unnamed(name: str, rest: Sequence[str | None]) -> bool:
    """Return whether a program may write files that no word of it names."""
    if name == "wget":
        return not {"-O", "-qO", "-O-", "-qO-"} & set(rest)
    return name == "curl" and any(
        word is None or re.match(r"-[A-Za-z0-9#]*[OJK]|--(?:remote|config|output-d)", word) for word in rest
    )


def require_python(tree: ast.AST, text: str) -> None:
    """Raise `NotFollowed` for a text of Python that runs other programs or text, or comes to them by other ways than their names."""
    if _RUNS.search(text):
        raise NotFollowed("its Python text runs other programs or text")
    for node in ast.walk(tree):
        reaches = isinstance(node, ast.Name) and node.id in _REACHES
        inner = isinstance(node, ast.Attribute) and (node.attr in _INNARDS or _is_search_path(node))
        renamed = isinstance(node, ast.ImportFrom | ast.Import) and _takes_apart(node)
        if reaches or inner or renamed:
            raise NotFollowed("its Python text reaches what it does not name")


def _is_search_path(node: ast.Attribute) -> bool:
    return node.attr == "path" and not (isinstance(node.value, ast.Name) and node.value.id == "os")


def _takes_apart(node: ast.Import | ast.ImportFrom) -> bool:
    """Return whether a module is known by another name afterwards, or parts of the interpreter are."""
    if isinstance(node, ast.ImportFrom):
        return node.module in ("os", "sys") or any(each.name == "*" for each in node.names)
    return any(each.asname for each in node.names)


def _require_names(rest: Sequence[str | None]) -> None:
    words = iter(rest)
    for word in words:
        flag = _READ_FLAG.fullmatch(word or "")
        if flag and word:
            if flag["value"]:
                next(words, None)
        elif word is None or not _NAME.fullmatch(word) or command_table().steers(word):
            raise NotFollowed("what read sets is not known")


def _require_sed(rest: Sequence[str | None]) -> None:
    words = iter(rest)
    scripts: list[str | None] = []
    others: list[str | None] = []
    for word in words:
        if word is not None and _SED_SCRIPT.fullmatch(word):
            scripts.append(next(words, None))
        elif word is None or not word.startswith("-"):
            others.append(word)
        elif not _SED_FLAG.fullmatch(word):
            raise NotFollowed("what sed does with these words is not known")
    if not all(script is not None and is_sed_script(script) for script in scripts or others[:1]):
        raise NotFollowed("sed may run other programs")


def _require_awk(rest: Sequence[str | None]) -> None:
    program = next(_behind(rest, ("-F", "-v")), None)
    if program is None or program.startswith("-") or not is_awk_program(program):
        raise NotFollowed("awk may run other programs")


def _behind(rest: Sequence[str | None], flags: Sequence[str]) -> Iterator[str | None]:
    """Yield the words behind these flags, each of which has a value, glued to it or not."""
    words = iter(rest)
    for word in words:
        if word in flags:
            next(words, None)
        elif word is None or not word.startswith(tuple(flags)):
            yield word
            yield from words


def takes_variables(name: str, rest: Sequence[str | None]) -> bool:
    """Return whether a program may start another without some of its variables: `env -i`, `env -u X`, `exec -c`."""
    return name in ("env", "exec") and bool(rest) and (rest[0] is None or rest[0].startswith("-"))


def _require_wrapper(name: str, rest: Sequence[str | None]) -> None:
    """Raise `NotFollowed` unless the words before the program change nothing of what runs."""
    if takes_variables(name, rest):
        raise NotFollowed(f"{name} may take away the variable that keeps Python from bytecode of the folder")
    for word in rest:
        if word is None or (word.startswith("-") and not _WRAPPER_FLAG.fullmatch(word)):
            raise NotFollowed(f"what {name} runs with these words is not known")
        if not word.startswith("-") and "=" not in word and not word[:1].isdigit():
            return


_EVALUATED: Final = re.compile(r"\$\(|`")
"""In a text that is no command yet: a command, once it is evaluated."""
_ARITHMETIC: Final = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_NUMBERS: Final = re.compile(r"-?\d+|\$[?#]|\$\{#?[?#]?\}")


def require_commands(root: "Node", content: bytes) -> None:
    """Raise `NotFollowed` for a text in which something may run that is not written as a command."""
    table = command_table()
    for node in below(root):
        if node.is_named and node.type not in table.shell:
            raise NotFollowed(f"it has what nobody looks through ({node.type.replace('_', ' ')})")
        match node.type:
            case "for_statement":
                _require_plain_names(node, content)
            case "declaration_command" | "unset_command":
                if node.children[0].type not in ("export", "readonly", "unset") or any(
                    _is_word(each) for each in node.children
                ):
                    raise NotFollowed("it declares variables in a way that the shell evaluates")
                _require_plain_names(node, content)
            case "compound_statement" if node.children[0].type == "((":
                raise NotFollowed("it computes, which the shell evaluates")
            case "expansion" if not table.expansions >= {each.type for each in node.children}:
                raise NotFollowed("it has an expansion that sets or evaluates something")
            case "variable_assignment" | "test_command" if _is_evaluated(node, content):
                raise NotFollowed("it holds a text that the shell may evaluate")
            case "test_command":
                _require_plain_test(node, content)


def below(node: "Node") -> Iterator["Node"]:
    """Yield a node and all that is in it, in order."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += reversed(each.children)


def text_of(node: "Node", content: bytes) -> str:
    """Return the text of a node."""
    return content[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _is_word(node: "Node") -> bool:
    return node.is_named and node.type not in ("variable_assignment", "variable_name")


def _require_plain_names(node: "Node", content: bytes) -> None:
    for each in node.children:
        if each.type == "variable_name" and command_table().steers(name := text_of(each, content)):
            raise NotFollowed(f"it sets {name}")


def _is_evaluated(node: "Node", content: bytes) -> bool:
    """Return whether there is a command in quotes that keep it from being one here."""
    return any(each.type == "raw_string" and _EVALUATED.search(text_of(each, content)) for each in below(node))


def _require_plain_test(node: "Node", content: bytes) -> None:
    double = node.children[0].type == "[["
    for each in below(node):
        operators = [text_of(child, content) for child in each.children if child.type == "test_operator"]
        if {"-v", "-R"} & set(operators):
            raise NotFollowed("it looks at a variable whose name the shell evaluates")
        if double and _ARITHMETIC & set(operators):
            values = [text_of(child, content) for child in each.children if child.type != "test_operator"]
            if not all(_NUMBERS.fullmatch(value.strip('"')) for value in values):
                raise NotFollowed("it compares numbers that the shell evaluates")
