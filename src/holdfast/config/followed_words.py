"""Words and texts with which programs that usually run nothing run something."""

import ast
import os
import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from holdfast.config.followed_table import Manifest, NotFollowed, command_table
from holdfast.logic.unasked.scripts import is_awk_program, is_sed_script

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_READ_FLAG: Final = re.compile(r"-[ers]*(?P<value>[dinNptu])?")
_SED_FLAG: Final = re.compile(r"-[nErsuz]+|-i[.~\w]*|--(?:quiet|silent|regexp-extended|null-data|separate|in-place)")
_SED_SCRIPT: Final = re.compile(r"-[nErsuz]*e|--expression")
_WRAPPER_FLAG: Final = re.compile(
    r"-|-[0-9]+|-[ip0vfkn]|-[oe][L0-9]+|--(?:foreground|preserve-status|verbose|ignore-environment|(?:signal|kill-after|unset)=\w+)"
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
    """What the words of a program name that is told by files what to run."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def manifest_words(manifest: Manifest, rest: Sequence[str | None]) -> ManifestWords:
    """The files and folders in its words. Raise `NotFollowed` for flags and values that may have it run something else."""
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


def _require_harmless(manifest: Manifest, word: str) -> None:
    name, equals, value = word.partition("=")
    if word.startswith("-"):
        if not re.fullmatch(manifest.flags, word):
            raise NotFollowed(f"what {word!r} has it run is not known")
    elif equals and (command_table().steers(name) or not re.fullmatch(r"[\w.,:@%-]*", value)):
        raise NotFollowed(f"what {word!r} has it run is not known")


def written_by(rest: Sequence[str | None]) -> Iterator[str | None]:
    """What a program may write that writes files of its words: with `ln -s a/b` that is `b`, with `-ox` and `--output=x` it is `x`."""
    for word in rest:
        if word is None or not word.startswith("-"):
            yield word
            yield from (os.path.basename(word),) if word and os.path.basename(word) else ()
        elif word.startswith("--"):
            yield from (word.partition("=")[2],) if not word.endswith("=") and "=" in word else ()
        else:
            yield from (word[at:] for at in range(2, len(word)))


def fetches_unnamed(name: str, rest: Sequence[str | None]) -> bool:
    """Whether a program may write files that no word of it names."""
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
    """Whether a module is known by another name afterwards, or parts of the interpreter are."""
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
    """The words behind these flags, each of which has a value, glued to it or not."""
    words = iter(rest)
    for word in words:
        if word in flags:
            next(words, None)
        elif word is None or not word.startswith(tuple(flags)):
            yield word
            yield from words


def _require_wrapper(name: str, rest: Sequence[str | None]) -> None:
    """The words before the program must be such as change nothing of what runs."""
    for word in rest:
        if word is None or (word.startswith("-") and not _WRAPPER_FLAG.fullmatch(word)):
            raise NotFollowed(f"what {name} runs with these words is not known")
        if not word.startswith("-") and "=" not in word and not word[:1].isdigit():
            return
