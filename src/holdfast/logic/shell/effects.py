"""What a program with these very arguments does: reads, edits or runs, and the files that it touches."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from holdfast.logic.acts import Access, AccessKind, Rewrites
from holdfast.logic.shell.options import Line, Seen, may_be_option, take_apart
from holdfast.logic.shell.scope import Field, Scope
from holdfast.logic.shell.table import Does, Program, words

_KINDS: Final[dict[str, AccessKind]] = {"read": "read", "write": "write", "remove": "remove", "list": "list"}
_PATH: Final = re.compile(r"[/.~]")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_VARIABLE: Final = re.compile(r"\$\{?[!#]?([A-Za-z_][A-Za-z0-9_]*)")
_STRING: Final = re.compile(r"""'([^'\\\n]{1,200})'|"([^"\\\n]{1,200})\"""")
_LIKE_PATH: Final = re.compile(r"[\w@%+/~-]*[./][\w@%+./~-]*\w")
_ENDING: Final = re.compile(r"\.[A-Za-z0-9]+$")
_MAY_CHANGE: Final = re.compile(
    r"""["'](?:[wax]b?t?\+?b?|r[bt]?\+[bt]?)["']|(?<!stdout\.)(?<!stderr\.)write|unlink|\bremove|rmtree|rmdir|\brm(?:Sync)?\(|rename|truncate"""
    r"""|os\.replace|shutil\.|copyFile|symlink|chmod|\bdump\(|delete|put_contents|O_(?:WRONLY|RDWR|TRUNC)|["']\+?>>?""",
)
"""In the text of a program, what files are changed by; also what looks like it."""
MOST_MENTIONED: Final = 50
_SYSTEM: Final = re.compile(r"/(?:usr/(?:local/)?)?s?bin/[^/]+|/opt/homebrew/bin/[^/]+")

_ALIKE: Final = frozenset(("read", "list", "text"))
"""What operands are that may be any number: none of them is changed."""
_FILES: Final = frozenset(("read", "list", "write", "remove"))
"""What operands are that name files."""
_NOWHERE: Final = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr"))

HERE: Final = Field(".", ".")


class Effect(msgspec.Struct):
    """What was found out about one command; it begins as harmless and is only ever made worse."""

    does: Does = "reads"
    why: str = ""
    accesses: list[Access] = []
    network: bool = False
    exact: bool = False
    opaque: bool = False
    from_input: bool = False
    """Whether it runs what its input says."""
    scripts: list[Field] = []
    """Texts that it gives to a shell."""
    inner: list[list[Field]] = []
    """Commands that it runs."""

    def run(self, why: str) -> None:
        """Note why it is not harmless."""
        self.does = "runs"
        self.why = self.why or why

    def hide(self, why: str) -> None:
        """Note that anything may run."""
        self.run(why)
        self.opaque = True

    def touch(self, kind: AccessKind, field: Field, scope: Scope, *, rewrites: Rewrites = "") -> None:
        """Note that it touches the file that a word names."""
        self.accesses += touched(kind, field, scope, rewrites=rewrites)

    def deepen(self) -> None:
        """Note that it reads everything below what it reads."""
        self.accesses = [
            msgspec.structs.replace(access, deep=True) if access.kind == "read" else access for access in self.accesses
        ]


def touched(
    kind: AccessKind, field: Field, scope: Scope, *, redirect: bool = False, rewrites: Rewrites = ""
) -> Iterator[Access]:
    """Give the accesses to the file that a word names, one for each folder that the command may be in."""
    value = field.value
    if field.pipe or (value == "" and not redirect):
        return
    if value is None:
        yield Access(kind=kind, path="", written=field.text, redirect=redirect)
        return
    for path in scope.paths(value):
        yield Access(kind=kind, path=path, written=field.text, glob=field.glob, redirect=redirect, rewrites=rewrites)


def by_table(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what a program does from its row in the table alone."""
    line = take_apart(fields[1:], program.options, number=program.number, single=program.single)
    return from_line(line, program, scope)


def from_line(line: Line, program: Program, scope: Scope) -> Effect:
    """Say what a program does whose arguments were taken apart."""
    effect = Effect(program.does)
    effect.network = program.network
    for seen in line.seen:
        see(seen, effect, scope)
    suspect(line, program, effect)
    operands(line, program, effect, scope)
    if _FILES.intersection(program.operands):
        _overflow(line, effect, scope)
    if goes_deep(line, program):
        effect.deepen()
    if effect.does == "edits" and effect.accesses and all(access.path in _NOWHERE for access in effect.accesses):
        effect.does, effect.accesses = "reads", []
    if effect.does == "runs":
        effect.run("not known to be harmless")
    return effect


def goes_deep(line: Line, program: Program) -> bool:
    """Whether the options make a program read everything below a folder."""
    return "always" in program.deep or line.has(*program.deep)


def see(seen: Seen, effect: Effect, scope: Scope) -> None:
    """Take in one option: its danger, and the file that its value names."""
    option = seen.option
    if option.danger:
        effect.run(f"{option.name} makes it write or run something")
    if option.strays:
        effect.run(f"{option.name} leads it to files that are not known before it runs")
    kind = _KINDS.get(option.kind)
    if seen.value is not None and kind and seen.value.value != "-":
        effect.touch(kind, seen.value, scope)
    elif seen.value is not None and option.kind == "script":
        effect.scripts.append(seen.value)


def _overflow(line: Line, effect: Effect, scope: Scope) -> None:
    """Take in words that may become several: whatever the first is for, a text or a number, the next may be files."""
    known = {access.written for access in effect.accesses if not access.path}
    for field in (*line.operands, *(seen.value for seen in line.seen if seen.value is not None)):
        if field.many and not field.number and field.text not in known:
            effect.touch("read", field, scope)


def suspect(line: Line, program: Program, effect: Effect) -> None:
    """Mistrust options that are not known, and words that may turn out to be options."""
    if line.unknown and not program.loose:
        effect.run(f"{line.unknown[0]} is not a known option")
    if not program.risky:
        return
    alike = _ALIKE.issuperset(program.operands) and not program.options.writes
    unsure = line.unsure or ("" if alike else _wild(line))
    if program.operands == ("remove",):
        unsure = next((field.text for field in line.operands if may_be_option(field) and not _has_ending(field)), "")
    if unsure:
        effect.run(f"{unsure} may become an option")


def _wild(line: Line) -> str:
    """Give an operand that may become several, as written."""
    return next((field.text for field in line.operands if field.glob), "")


def _has_ending(field: Field) -> bool:
    """Whether a wildcard has an ending like `.pyc`, with which no name is an option that removes more than it says."""
    return field.glob and _ENDING.search(field.value or "") is not None


def operands(line: Line, program: Program, effect: Effect, scope: Scope) -> None:
    """Take in the operands as the files that they are."""
    kinds = program.operands
    if line.has(*program.given):
        kinds = kinds[1:] or kinds
    if not kinds:
        guessed(line.operands, effect, scope)
        return
    named = False
    for at, field in enumerate(line.operands):
        name = kinds[min(at, len(kinds) - 1)]
        kind = _KINDS.get(name)
        if name == "!" or (name in ("write", "remove") and program.does == "reads"):
            effect.run(f"{field.text} makes it change something")
        if kind and not (field.value == "-" and kind in ("read", "write")):
            effect.touch(kind, field, scope)
        named = named or kind is not None
    if program.here and not named:
        effect.touch("list" if program.here == "list" else "read", HERE, scope)


def guessed(fields: Sequence[Field], effect: Effect, scope: Scope) -> None:
    """Take in every word of a program that is not known and that looks like a path, so that rules for files still hold."""
    for field in fields:
        value = field.value
        if value is None or field.pipe:
            continue
        _, equals, after = value.partition("=")
        for part in (value, after) if equals else (value,):
            name = part.removeprefix("@").removeprefix("file://")
            if name.startswith("-") or _SCHEME.match(name):
                continue
            if _PATH.search(name) or any(path in scope.ground.links for path in scope.paths(name)):
                effect.touch("read", Field(name, field.text, field.glob), scope)


def mentioned(code: str, effect: Effect, scope: Scope) -> None:
    """Take in the paths that a program's text names in quotes, so that rules for files still hold."""
    changes = _MAY_CHANGE.search(code) is not None
    for single, double in _STRING.findall(code)[:MOST_MENTIONED]:
        name = single or double
        if _LIKE_PATH.fullmatch(name) and not _SCHEME.match(name):
            effect.touch("read", Field(name, name), scope, rewrites="file" if changes else "")


def unknown_program(fields: Sequence[Field], scope: Scope) -> Effect:
    """Say what can be said of a program that nothing is known about."""
    effect = Effect("runs", "not a program that is known to be harmless")
    guessed(fields[1:], effect, scope)
    return effect


def is_system(name: str) -> bool:
    """Whether a program's name is bare, or leads to a folder of the system."""
    return "/" not in name or _SYSTEM.fullmatch(name) is not None


def base_name(name: str, os: str) -> str:
    """Give the name that a program is known by."""
    base = name.rpartition("/")[2]
    if os == "linux":
        return base
    base = base.rpartition("\\")[2].lower() if os == "windows" else base.lower()
    return base.removesuffix(".exe")


_PLACES: Final = ("PWD", "OLDPWD")
"""Variables of the shell whose names look like those of passwords."""


def shows_secret(fields: Sequence[Field], scope: Scope) -> bool:
    """Whether a word holds a variable whose name says that its value is a secret, or one that was set to such a value."""
    unknown = (name for field in fields if field.value is None for name in _VARIABLE.findall(field.text))
    return any(name in scope.secrets or names_secret(name) for name in unknown)


def names_secret(name: str) -> bool:
    """Whether the name of a variable says that its value is a secret."""
    upper = name.upper()
    if name in _PLACES:
        return False
    if any(word in upper for word in words("variables", "secret")):
        return True
    return not words("variables", "secret_parts").isdisjoint(upper.split("_"))


def is_command_name(name: str) -> bool:
    """Whether a variable's value is a command that some program runs."""
    return name.endswith(tuple(words("variables", "command_endings")))


def quiets(name: str, value: Field | None) -> bool:
    """Whether a value only says that no pager and no editor is wanted: `GIT_PAGER=cat`, `GIT_EDITOR=true`."""
    if value is None or (value.value not in words("variables", "quiet_values") and value.value != ""):
        return False
    return name.endswith(tuple(words("variables", "quiet_endings")))


def steering(name: str, *, exported: bool) -> bool:
    """Whether a variable may change what later programs do."""
    if name in words("variables", "harmless") or name.startswith(tuple(words("variables", "harmless_beginnings"))):
        return False
    if exported or name in words("variables", "steering"):
        return True
    beginnings, endings = words("variables", "steering_beginnings"), words("variables", "steering_endings")
    return name.startswith(tuple(beginnings)) or name.endswith(tuple(endings))
