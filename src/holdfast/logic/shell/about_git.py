"""What `git` does: which subcommand in which form only reads, and what its configuration options run."""

import posixpath
import re
import shlex
from collections.abc import Sequence
from typing import Final

from holdfast.logic.shell.about_git_files import given_files
from holdfast.logic.shell.effects import HERE, Effect, from_line, goes_deep, see
from holdfast.logic.shell.options import Line, take_apart
from holdfast.logic.shell.scope import Field, Scope
from holdfast.logic.shell.table import Program

_PATHSPEC: Final = re.compile(r"[*?\[]|^:[(/!^]")
_SIGNATURE: Final = re.compile(r"%[-+ ]?G[?GSKFPT]|%\(\*?signature|signature:")
"""In a format, what is known of a commit's signature only after it was checked."""
_LISTING: Final = ("--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_READING: Final = {
    "stash": ("list", "show"),
    "worktree": ("list",),
    "notes": ("list", "show"),
    "bisect": ("log", "terms"),
    "remote": ("get-url",),
}
"""For subcommands with subcommands: those that read."""
_REFLOG_WRITES: Final = ("expire", "delete", "drop", "write", "exists")
_CONFIG_READS: Final = (
    "--get",
    "--get-all",
    "--get-regexp",
    "--get-urlmatch",
    "--list",
    "-l",
    "--get-color",
    "--get-colorbool",
)


def about_git(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what a `git` command does."""
    before = take_apart(fields[1:], program.options, stop=True)
    effect = Effect()
    for seen in before.seen:
        see(seen, effect, scope)
    if before.unknown or before.unsure:
        effect.run(f"{before.unsure or before.unknown[0]} is not a known option")
    _configured(before, effect)
    _place(before, effect, scope)
    if not before.operands:
        if not before.seen:
            effect.run("git without a subcommand")
        return effect
    name = before.operands[0].value
    sub = program.sub.get(name) if name is not None and not before.operands[0].glob else None
    rest = before.operands[1:]
    if sub is not None and rest and (rest[0].value or "") in sub.sub:
        name, sub, rest = f"{name} {rest[0].value}", sub.sub[rest[0].value or ""], rest[1:]
    effect.network = sub is not None and sub.network
    if name is None or sub is None or sub.does == "runs":
        effect.run(f"git {before.operands[0].text} is not known to only read")
        _given_commands(name, rest, effect)
        given_files(name, rest, before.values("-C"), effect, scope)
        return effect
    _join(effect, _subcommand(name, rest, sub, scope))
    if effect.does == "runs":
        _given_commands(name, rest, effect)
    return effect


def _given_commands(name: str | None, arguments: Sequence[Field], effect: Effect) -> None:
    """Take in the commands that some subcommands run."""
    words = [field.value or "" for field in arguments]
    if (name, *words[:1]) in (("submodule", "foreach"), ("bisect", "run")):
        rest = [field for field in arguments[1:] if field.value not in ("--recursive", "--quiet", "-q")]
        effect.scripts.append(Field(" ".join(field.value or field.hint or "$__" for field in rest), "foreach"))
    for at, word in enumerate(words):
        option, _, value = word.partition("=")
        if option in ("-x", "--exec", "--extcmd", "--upload-pack", "--receive-pack") or option.endswith("-filter"):
            field = Field(value, word) if value else (arguments[at + 1] if at + 1 < len(arguments) else Field("", ""))
            effect.scripts.append(field)


def _join(effect: Effect, other: Effect) -> None:
    effect.accesses += other.accesses
    effect.scripts += other.scripts
    effect.network = effect.network or other.network
    if other.does != "reads":
        effect.run(other.why)


def _subcommand(name: str, arguments: Sequence[Field], sub: Program, scope: Scope) -> Effect:
    line = take_apart(arguments, sub.options, number=sub.number)
    effect = from_line(line, sub, scope)
    if any(_SIGNATURE.search(field.value or field.text) for field in arguments):
        effect.run("it has signatures checked by a program that the repository's configuration names")
    for field in line.operands:
        if field.value is not None and ":" in field.value and sub.operands:
            _, _, path = field.value.partition(":")
            effect.touch("read", Field(path.removeprefix("./"), field.text), scope)
    for field in line.values("-L") if name not in ("blame", "annotate", "grep") else ():
        effect.touch("read", Field((field.value or "").rpartition(":")[2] or None, field.text), scope)
    _searched(line, sub, effect, scope)
    if not _harmless_form(name, line):
        effect.run(f"this form of git {name} may change something")
    return effect


def _searched(line: Line, sub: Program, effect: Effect, scope: Scope) -> None:
    """Take in the folder where paths are left out, or where git itself expands wildcards."""
    paths = [field for field in line.operands if sub.operands[-1:] == ("read",) and not field.glob]
    wild = any(_PATHSPEC.search(field.value or "") for field in paths)
    deep = goes_deep(line, sub)
    if wild or (deep and len(line.operands) < 2):
        effect.touch("read", HERE, scope)
    if wild or deep:
        effect.deepen()


def _harmless_form(name: str, line: Line) -> bool:
    """Whether the operands make a subcommand that can do both only read."""
    words = [field.value for field in line.operands]
    first = words[0] if words else None
    if name in _READING:
        if not words:
            return name == "remote"
        return first in _READING[name] and (name != "remote" or len(words) == 2)
    if name in ("branch", "tag"):
        return not words or line.has(*(_LISTING if name == "tag" else ("--list", *_LISTING[2:])))
    if name == "reflog":
        return first not in _REFLOG_WRITES and (not words or first is not None)
    if name == "config":
        return _config(line, words)
    return True


def _config(line: Line, words: Sequence[str | None]) -> bool:
    if None in words:
        return False
    if line.has(*_CONFIG_READS):
        return True
    if words[:1] in (["get"], ["list"]):
        return True
    return len(words) == 1 and words[0] is not None and "." in words[0]


def _configured(before: Line, effect: Effect) -> None:
    """Take in `-c name=value`: a value may be a command, and an alias may be any subcommand."""
    if before.has("-c", "--config-env", "--exec-path", "--git-dir", "--work-tree"):
        effect.exact = True
    for field in before.values("-c"):
        name, _, value = (field.value or "").partition("=")
        if field.value is None:
            effect.hide("an option of git that is not known may run anything")
        elif value.startswith("!"):
            effect.scripts.append(Field(value[1:], field.text))
        elif name.lower().startswith("alias."):
            effect.inner.append([Field("git", "git"), *_split(value)])
        elif " " in value or "/" in value:
            effect.scripts.append(Field(value, field.text))
    if before.has("--config-env", "--exec-path"):
        effect.hide("git takes programs from elsewhere")


def _split(text: str) -> list[Field]:
    try:
        return [Field(word, word) for word in shlex.split(text)]
    except ValueError:
        return [Field(None, text, many=True)]


def _place(before: Line, effect: Effect, scope: Scope) -> None:
    """Distrust a repository that is not the session's: its configuration can run programs."""
    ground = scope.ground
    if not ground.trusted:
        effect.run("the repository's configuration can run programs, and the workspace is not trusted")
    folders = list(scope.folders)
    for field in before.values("-C"):
        folders = [
            None if folder is None or field.value is None else posixpath.join(folder, field.value) for folder in folders
        ]
    home = posixpath.normpath(ground.cwd)
    if any(folder is None or posixpath.normpath(folder) != home for folder in folders):
        effect.run("another repository's configuration can run programs")
