"""What programs do that copy, move, pack and fetch files."""

import posixpath
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from holdfast.logic.shell.effects import HERE, Effect, base_name, by_table, from_line, goes_deep, see, suspect
from holdfast.logic.shell.options import Line, take_apart
from holdfast.logic.shell.scope import Field, Scope, join
from holdfast.logic.shell.table import Program

_LOOKS_AT_PATCH: Final = frozenset(("--dry-run", "-C", "--check", "--version", "-v", "--help"))
_SHOWS: Final = re.compile(r"-[lvtZ]")
MOST_SIDES: Final = 8
_OLD_STYLE: Final = re.compile(r"[A-Za-z]+")
_REMOTE: Final = re.compile(r"[^/:]+:|rsync://|[a-z]+://")
_DELETES: Final = re.compile(r"--del")
_LISTS: Final = re.compile(r"-?[vzjJ]*t[vzjJ]*f")
_WILD: Final = frozenset("*?[")
MOST_NAMES: Final = 200
"""How many names of a wildcard are looked at one by one."""
_CONTENT: Final = ("*", ".??*")
"""What is in a folder; `.*` would be `..` as well, and no place with a meaning has a shorter name."""
_SAME_FOLDER: Final = re.compile(r"/\.?(?=/|$)")
_INLINE: Final = re.compile(r"(?:^|=)[@<]([^;]+)")
_NAMED: Final = re.compile(r"[^=@]*@([^=]+)")
_AT: Final = ("at", "named", "cookies")
"""What an option of `curl` takes that may be text, or a file: `@file`, `name@file`, or any text without `=`."""


def about_copy(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `cp` and its kin do: read all but the last operand, write the last."""
    return _placed(fields, program, scope, moves=False)


def about_patch(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `patch` does: without an operand, the patch names the files that it changes."""
    line = take_apart(fields[1:], program.options)
    effect = from_line(line, program, scope)
    if not line.operands and _LOOKS_AT_PATCH.isdisjoint(line.unknown):
        for folder in line.values("-d", "--directory") or [HERE]:
            effect.touch("read", folder, scope, rewrites="tree")
    return effect


def about_move(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `mv` does: take away all but the last operand, write the last."""
    return _placed(fields, program, scope, moves=True)


def _placed(fields: Sequence[Field], program: Program, scope: Scope, *, moves: bool) -> Effect:
    effect = Effect(program.does, "" if program.does != "runs" else "not known to be harmless")
    effect.network = program.network
    line = take_apart(fields[1:], program.options)
    for seen in line.seen:
        see(seen, effect, scope)
    suspect_copy(line, program, effect)
    targets = line.values("-t", "--target-directory")
    sources = line.operands if targets else line.operands[:-1]
    target = targets[-1] if targets else (line.operands[-1] if line.operands else HERE)
    if len(line.operands) == 1 and not targets:
        sources, target = line.operands, HERE
    for source in sources:
        if program.network and source.value is not None and _REMOTE.match(source.value):
            continue
        effect.touch("read", source, scope)
        if moves or any(name.startswith("--remove-s") for name in line.unknown):
            effect.touch("remove", source, scope)
    if not (program.network and target.value is not None and _REMOTE.match(target.value)):
        effect.touch("write", target, scope)
        if any(_DELETES.match(name) for name in line.unknown):
            effect.touch("remove", target, scope)
        merges = line.has("-T", "--no-target-directory")
        for source in sources:
            if not merges:
                _land(target, source, effect, scope)
            if goes_deep(line, program) and (merges or _means_content(source, fields[0], scope)):
                _land_content(target, source, effect, scope)
    if goes_deep(line, program):
        effect.deepen()
    return effect


def _land(target: Field, source: Field, effect: Effect, scope: Scope) -> None:
    """Take in the files that a source becomes when the target is a folder.

    A wildcard stands for the names that it matches where it is copied from. What they overwrite is found by the same wildcard there.
    """
    below = _below(target, source)
    names = _matched(source, scope)
    if names is None or len(names) > MOST_NAMES or below.value is None:
        effect.touch("write", below if names is None or below.value is None else Field(None, target.text), scope)
        return
    if any(scope.ground.globs.get(path) != () for path in scope.paths(below.value)):
        effect.touch("write", below, scope)
    for name in names:
        effect.touch("write", Field(join(target.value or "", name), target.text), scope)


def _means_content(source: Field, program: Field, scope: Scope) -> bool:
    """Whether a folder is named in the way that means what is in it. A slash is enough for `rsync`, and for the `cp` of BSD."""
    value, name = source.value or "", base_name(program.value or "", scope.ground.os)
    slashed = name == "rsync" or (name == "cp" and scope.ground.os == "darwin")
    return value.rstrip("/").rpartition("/")[2] in ("", ".") or (slashed and value.endswith("/"))


def _land_content(target: Field, source: Field, effect: Effect, scope: Scope) -> None:
    """Take in the files that the content of a folder becomes when it is put over another one."""
    if source.value is None or target.value is None or target.glob:
        return
    starts = _folders(source.value, scope)
    globs = [join(start, names) for start in starts for names in _CONTENT]
    for glob in globs:
        if glob not in scope.ground.globs:  # to be looked up
            effect.touch("list", Field(glob, source.text, glob=True), scope)
    found = [posixpath.split(path) for glob in globs for path in scope.ground.globs.get(glob, ())]
    names = [name for _, name in dict.fromkeys(found) if name not in _CONTENT]  # what matches nothing stays as it is
    unsure = not names or any(folder not in starts for folder, _ in found)  # a link is found by where it leads
    written = Effect()
    for place in _folders(target.value, scope):
        for name in names:
            written.touch("write", Field(join(place, name), target.text), scope)
        for name in _CONTENT if unsure and _holds_workspace(place, scope) else ():
            written.touch("write", Field(join(place, name), target.text, glob=True), scope)
    effect.accesses += [msgspec.structs.replace(access, deep=True) for access in written.accesses]


def _holds_workspace(folder: str, scope: Scope) -> bool:
    """Whether a folder is one that has places with a meaning below it, as far as can be told without looking."""
    dear = (scope.ground.cwd, scope.ground.home, *scope.ground.roots)
    return any(f"{each.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/") for each in dear)


def _folders(name: str, scope: Scope) -> list[str]:
    """Give the absolute paths of a folder, in which no part says nothing, as written and without `..`."""
    found = [path for path in scope.paths(name) if path]
    plain = [_SAME_FOLDER.sub("", path) or "/" for path in found]
    return list(dict.fromkeys((*plain, *map(posixpath.normpath, plain))))


def _matched(source: Field, scope: Scope) -> list[str] | None:
    """Give the names that a wildcard is known to match; None when that is not known."""
    if not source.glob or source.value is None:
        return None
    ending = source.value.rstrip("/").rpartition("/")[2]
    found = [scope.ground.globs.get(path) for path in scope.paths(source.value)]
    if None in found or not _WILD & set(ending):
        return None
    return list(dict.fromkeys(posixpath.basename(path.rstrip("/")) for paths in found for path in paths or ()))


def suspect_copy(line: Line, program: Program, effect: Effect) -> None:
    """Mistrust as elsewhere, except wildcards among what is copied: they do no harm behind a folder's name."""
    settled = Line(line.seen, [field for field in line.operands if not field.glob], line.unknown, line.unsure)
    suspect(settled, program, effect)


def _below(target: Field, source: Field) -> Field:
    """Give the file that a source becomes when the target is a folder."""
    if target.value is None or source.value is None or target.glob:
        return Field(None, target.text)
    name = posixpath.basename(source.value.rstrip("/"))
    if name in ("", ".", ".."):
        return Field(None if name == ".." else target.value, target.text)
    return Field(join(target.value, name) if target.value else None, target.text, source.glob)


def about_tar(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `tar` does."""
    if _only_lists(fields, _LISTS):
        effect = Effect()
        effect.touch("read", fields[2], scope)
        return effect
    effect = Effect("runs", "tar writes files")
    line = take_apart(_dashed(fields[1:], program), program.options)
    for seen in line.seen:
        see(seen, effect, scope)
    flags = "".join(line.unknown) + "".join(field.text for field in fields[1:2])
    creates = any(letter in flags for letter in "cru")
    removes = any(name.startswith("--remove") for name in line.unknown)
    for field in line.values("--checkpoint-action"):
        effect.scripts += (
            [Field(field.value[5:], field.text)] if (field.value or "").startswith("exec=") and field.value else []
        )
    for field in line.values("-f", "--file"):
        if field.value != "-":
            effect.touch("write" if creates else "read", field, scope)
    folders = line.values("-C", "--directory") or [HERE]
    for field in line.operands:
        effect.touch("read", field, scope)
        if removes:
            effect.touch("remove", field, scope)
        if line.has("-C", "--directory") and field.value is not None:
            for folder in folders:
                effect.touch(
                    "read", Field(join(folder.value, field.value) if folder.value else None, field.text), scope
                )
    if not creates and "t" not in flags:
        for folder in folders:
            effect.touch("write", folder, scope)
    return effect


def about_unzip(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `unzip` does: with `-l` it only lists."""
    if _only_lists(fields, _SHOWS):
        effect = Effect()
        effect.touch("read", fields[2], scope)
        return effect
    effect = by_table(fields, program, scope)
    for before, field in pairwise(fields):
        if before.value == "-d":
            effect.touch("write", field, scope)
    return effect


def _only_lists(fields: Sequence[Field], flags: re.Pattern[str]) -> bool:
    """Whether the arguments are one option that lists, and one archive of this machine."""
    if len(fields) != 3 or not flags.fullmatch(fields[1].value or "") or fields[2].glob:
        return False
    archive = fields[2].value
    return archive is not None and not archive.startswith("-") and ":" not in archive


def about_diff(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `diff` does: of a folder and a file it reads the file of that name in the folder too."""
    line = take_apart(fields[1:], program.options, number=program.number)
    effect = from_line(line, program, scope)
    sides = [*line.operands, *line.values("--from-file", "--to-file")]
    for one in sides:
        for other in sides if len(sides) <= MOST_SIDES else ():
            if one is not other and not (one.pipe or other.pipe or other.glob) and other.value != "-":
                effect.touch("read", _below(one, other), scope)
    effect.deepen()
    return effect


def _dashed(fields: Sequence[Field], program: Program) -> list[Field]:
    """Write the old form `czf archive` with a dash for each letter, its values in order."""
    first = fields[0].value if fields else None
    if first is None or not _OLD_STYLE.fullmatch(first):
        return list(fields)
    rest, done = list(fields[1:]), list[Field]()
    for letter in first:
        done.append(Field("-" + letter, fields[0].text))
        option = program.options.short.get("-" + letter)
        if option and option.takes and rest:
            done.append(rest.pop(0))
    return done + rest


def about_assigned_files(fields: Sequence[Field], _program: Program, scope: Scope) -> Effect:
    """Say what `dd` does."""
    effect = Effect("runs", "dd writes files")
    for field in fields[1:]:
        name, _, value = (field.value or "").partition("=")
        if field.value is None:
            effect.touch("write", field, scope)
        elif name == "if":
            effect.touch("read", Field(value, field.text), scope)
        elif name == "of":
            effect.touch("write", Field(value, field.text), scope)
    return effect


def about_curl(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `curl` does."""
    effect = Effect("runs", "curl talks to other machines")
    effect.network = True
    line = take_apart(fields[1:], program.options)
    for seen in line.seen:
        see(seen, effect, scope)
        if seen.option.kind in _AT and seen.value is not None:
            for path in _given_to_curl(seen.option.kind, seen.value.value):
                effect.touch("read", Field(path, seen.value.text), scope)
    for field in (*line.operands, *line.values("--url")):
        if field.value is not None and field.value.lower().startswith("file:"):
            effect.touch("read", Field("/" + field.value[5:].lstrip("/").removeprefix("localhost/"), field.text), scope)
    return effect


def _given_to_curl(kind: str, value: str | None) -> list[str | None]:
    """Give the files that a value names; None for one that is not known."""
    if value is None:
        return [None]
    found = [path.strip('"') for path in _INLINE.findall(value)]
    parts = [part.strip('"') for path in found if "," in path for part in path.split(",")]
    if kind == "named" and (named := _NAMED.fullmatch(value)):
        found.append(named[1])
    elif kind == "cookies" and "=" not in value:
        found.append(value)
    return [path for path in dict.fromkeys((*found, *parts)) if path != "-"]
