"""Look a program up in the tables: what may this command do?"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from backstay.permissions.shell.effects import (
    HERE,
    KINDS,
    Asked,
    Effect,
    guess,
    mention,
    read_copy,
    read_dd,
    read_operands,
    read_patch,
    read_tar,
    read_unzip,
)
from backstay.permissions.shell.expand import Field, Site, base_name
from backstay.permissions.shell.git import read_git
from backstay.permissions.shell.inline_code import read_awk, read_editor, read_interpreter, read_make, read_sed
from backstay.permissions.shell.options import take_apart
from backstay.permissions.shell.table import folders_read, rewriters, rows, talks, words
from backstay.permissions.unasked import operand_kinds

_FD_RUNS: Final = re.compile(r"-[A-Za-z0-9]*[xX]|--exec(?:-batch)?")
_FILE_NAME: Final = re.compile(r"[\w.*?@+-]+")
_PLAIN_NAME: Final = re.compile(r"[\w.@+-]+")
_LIKE_PATH: Final = re.compile(r"[/.~]")
_MIXES: Final = ("-o", "-or", "!", "-not", "(", ")", ",")
"""They make of the tests of `find` more than all of them together."""
_OUTPUT: Final = re.compile(r"-o(?=[^=]*[/.])([^-=][^=]*)")
"""The option `-o` with its value glued on, which looks like a path."""
_INLINE: Final = re.compile(r"(?:^|[=@,])[@<]?([^;=@,]+)")


def effect_of(fields: Sequence[Field], site: Site, given: Sequence[Field] = ()) -> Effect:
    """Say what a command may do whose program is known by its first word."""
    name = base_name(fields[0].value or "", site.call_site.os)
    arguments = fields[1:]
    effect = Effect(network=talks(name, [field.value for field in arguments]))
    row = rows().get("mkfs" if name.startswith("mkfs.") else name)
    if row is None:
        effect.run("not a program that is known to be harmless")
        _guess(name, arguments, effect, site)
        _put_out(name, arguments, effect, site)
    else:
        asked = Asked(name, arguments, take_apart(arguments, row.options, single=row.single), row, site, given)
        effect.edits = row.edits
        for _, kind, value in asked.line.given:
            _take_option(kind, value, effect, site)
        READERS[row.by](asked, effect)
    _rewrite(name, arguments, effect, site)
    if reads := folders_read(name, [field.value for field in arguments]):
        if reads == "own":
            effect.touch("read", HERE, site)
        effect.deepen()
    if name in words("hidden"):
        effect.hide("it runs commands that are not in view")
    if "/" in (fields[0].value or ""):
        effect.run("it is a program in a folder")
    if not effect.edits:
        effect.run("it runs a program")
    return effect


def _take_option(kind: str, value: Field, effect: Effect, site: Site) -> None:
    if kind in KINDS and value.value != "-":
        effect.touch(KINDS[kind], value, site)
    elif kind in ("script", "commas"):
        known = (value.value or "").replace(",", " ") if kind == "commas" and value.value is not None else value.value
        effect.scripts.append(Field(known, value.text))
        effect.exact = True
    elif not kind:
        guess([value], effect, site)


def _guess(name: str, fields: Sequence[Field], effect: Effect, site: Site) -> None:
    """Take in the words of a program that has no row. One that is known to read what it is given reads every word."""
    kinds = operand_kinds(name)
    if not kinds:
        guess(fields, effect, site)
        return
    plain = [field for field in fields if not (field.value or "").startswith("-")]
    if kinds[0] not in KINDS and len(kinds) > 1:
        guess(plain[:1], effect, site)
        plain = plain[1:]
    guess([field for field in fields if field not in plain], effect, site)
    files = [
        kind for kind in kinds if kind in KINDS
    ]  # behind those that the row counts, or a wildcard stands for, any may be one
    for field in plain if files else ():
        effect.touch("list" if files[-1] == "list" else "read", field, site)
    fed = any(field.value is None and field.many and not field.text for field in plain)
    if files[-1:] == ["read"] and name not in words("counters") and (fed or len(plain) == 0):
        # `xargs` may give it any name, or none: then some look through the folder that they are in
        effect.touch("read", HERE, site)
        if fed:
            effect.deepen()


def _put_out(name: str, fields: Sequence[Field], effect: Effect, site: Site) -> None:
    """Take in what a program without a row seems to write: behind an option that says so, and where `docker cp` copies to."""
    outputs = words("outputs")
    for before, field in pairwise(fields):
        if before.value in outputs:
            effect.touch("read", field, site, rewrites="file")
    for field in fields:
        option, equals, value = (field.value or "").partition("=")
        if equals and option in outputs:
            effect.touch("read", Field(value, field.text), site, rewrites="file")
        elif glued := _OUTPUT.fullmatch(field.value or ""):
            effect.touch("read", Field(glued[1], field.text), site, rewrites="file")
    if (
        name in words("containers")
        and any(field.value == "cp" for field in fields[:2])
        and ":" not in (fields[-1].value or "")
    ):
        effect.touch("read", fields[-1], site, rewrites="file")


def _rewrite(name: str, arguments: Sequence[Field], effect: Effect, site: Site) -> None:
    """Take in the files that a formatter puts something else in the place of."""
    given = list(arguments)
    if name.startswith("python") and any(field.value == "-m" for field in given[:-1]):
        at = next(at for at, field in enumerate(given) if field.value == "-m")
        name, given = given[at + 1].value or "", given[at + 2 :]
    rewriter = rewriters().get(name[:1] + name[1:].partition("@")[0])
    if rewriter is None or not rewriter.changes([field.value or "" for field in given]):
        return
    valued = False
    for field in given:
        if field.value != "" and not (field.value or "").startswith("-") and not valued:
            effect.touch("read", field, site, rewrites="file")
        valued = field.value in words("values", "rewriters")


def _read_sql(asked: Asked, effect: Effect) -> None:
    """Take in the database, and the files that texts for it name in quotes: `select readfile('x')`."""
    guess(asked.words, effect, asked.site)
    for code in (*asked.words, *asked.given):
        mention(code.value or "", effect, asked.site)


def _read_curl(asked: Asked, effect: Effect) -> None:
    """Take in the files that values name: `@file`, `name@file`, `=<file`."""
    for _, kind, value in asked.line.given:
        if kind == "at" and value.value is None:
            effect.touch("read", value, asked.site)
        elif kind == "at" and re.search(r"[@<]|^[^=:{ ]+$", value.value or ""):
            for name in dict.fromkeys(_INLINE.findall(value.value or "")):
                effect.touch("read", Field(name.strip('"'), value.text), asked.site)
    for field in (*asked.line.operands, *asked.line.values("--url")):
        if (field.value or "").lower().startswith("file:"):
            path = "/" + (field.value or "")[5:].lstrip("/").removeprefix("localhost/")
            effect.touch("read", Field(path, field.text), asked.site)


def _read_words(asked: Asked, effect: Effect) -> None:
    """Take in words that look like paths; the others are names of scripts and packages."""
    guess((field for field in asked.words if _LIKE_PATH.search(field.value or "")), effect, asked.site)
    _put_out(asked.name, asked.words, effect, asked.site)


def _read_search(asked: Asked, effect: Effect) -> None:
    """Say where `rg` looks: below the folder that it is in, where no file is named, or where others may be."""
    line = asked.line
    files = line.operands[0 if line.has("-e", "--regexp", "-f", "--file", "--files") else 1 :]
    for field in files:
        effect.touch("read", field, asked.site)
    if not files or any(field.value is None and field.many for field in line.operands):
        effect.touch("read", HERE, asked.site)


def _read_folder(asked: Asked, effect: Effect) -> None:
    for field in asked.line.operands[:1]:
        if field.value != "-":
            effect.touch("list", field, asked.site)


def _read_find(asked: Asked, effect: Effect) -> None:
    """Say where a `find` looks, what it removes, writes and runs."""
    fields, at = asked.words, 0
    while at < len(fields) and not _is_test(fields[at].value):
        at += 1
    folders = [field for field in fields[:at] if not (field.value or "").startswith("-")]
    for test, file in pairwise(fields):
        if test.value == "-files0-from":  # what is no name in it is printed with an error
            effect.touch("read", file, asked.site)
    removes = any(field.value == "-delete" for field in fields)
    for folder in folders or [HERE]:
        effect.touch("remove" if removes else "list", folder, asked.site)
    effect.exact = removes
    named = Effect()
    for test, pattern in pairwise(fields[at:]) if removes else ():
        if test.value in ("-name", "-iname") and _PLAIN_NAME.fullmatch(pattern.value or ""):
            for folder in folders or [HERE]:
                named.touch("remove", Field(f"{folder.value or '.'}/{pattern.value}", pattern.text), asked.site)
    effect.accesses += [replace(access, perhaps=True) for access in named.accesses]
    for word, command in _run_by_find(fields[at:]):
        effect.exact = True
        if word.startswith("-f"):
            effect.touch("write", command[0], asked.site)
        elif command:
            effect.inner.append([_fill_in(field) for field in command])
            if is_reader(base_name(command[0].value or "", asked.site.call_site.os)):
                _hand_over(folders or [HERE], fields[at:], effect, asked.site)
        else:
            effect.hide("-exec has no program")


def is_reader(name: str) -> bool:
    """Return whether a program shows what is in the files that it is given."""
    return operand_kinds(name)[-1:] == ("read",) and name not in words("counters")


def _hand_over(folders: Sequence[Field], tests: Sequence[Field], effect: Effect, site: Site) -> None:
    """Take in the files that `find` gives to a program that reads them: those of a name, or all that are there."""
    names = [name.value or "" for test, name in pairwise(tests) if test.value == "-name"]
    narrow = len(names) == 1 and _FILE_NAME.fullmatch(names[0]) and not any(test.value in _MIXES for test in tests)
    for folder in folders:
        if narrow and folder.value and not folder.glob:
            effect.touch("read", Field(f"{folder.value.rstrip('/')}/**/{names[0]}", folder.text, glob=True), site)
        else:
            effect.touch("read", folder, site)
            effect.deepen()


def _is_test(word: str | None) -> bool:
    return word is not None and (
        word in ("(", ")", "!", ",") or (word[:1] == "-" and not re.fullmatch("-[HLP]+|-O[0-9]?|-D", word))
    )


def _run_by_find(fields: Sequence[Field]) -> Iterator[tuple[str, list[Field]]]:
    """Give each action that runs a program or writes a file, with what it is given."""
    for at, field in enumerate(fields):
        if field.value in ("-exec", "-execdir", "-ok", "-okdir"):
            rest = list(fields[at + 1 :])
            end = next((place for place, each in enumerate(rest) if each.value in (";", "+")), len(rest))
            yield field.value, rest[:end]
        elif field.value in ("-fprint", "-fprint0", "-fls", "-fprintf") and at + 1 < len(fields):
            yield field.value, [fields[at + 1]]


def _read_fd(asked: Asked, effect: Effect) -> None:
    """Say where `fd` looks and what it runs for each file."""
    at = next((at for at, field in enumerate(asked.words) if _FD_RUNS.fullmatch(field.value or "")), len(asked.words))
    guess(asked.words[:at], effect, asked.site)
    if inner := [_fill_in(field) for field in asked.words[at + 1 :] if field.value != ";"]:
        effect.exact = True
        effect.inner.append([*inner, Field(None, "", many=True)])


def _fill_in(field: Field) -> Field:
    """Give a word in which another program puts a name for `{}`."""
    return Field(None, field.text) if field.value is not None and "{}" in field.value else field


READERS: Final[Mapping[str, Callable[[Asked, Effect], None]]] = {
    "": read_operands,
    "awk": read_awk,
    "copy": read_copy,
    "curl": _read_curl,
    "dd": read_dd,
    "editor": read_editor,
    "fd": _read_fd,
    "find": _read_find,
    "folder": _read_folder,
    "git": read_git,
    "interpreter": read_interpreter,
    "make": read_make,
    "patch": read_patch,
    "search": _read_search,
    "sql": _read_sql,
    "sed": read_sed,
    "tar": read_tar,
    "unzip": read_unzip,
    "words": _read_words,
}
"""Who reads the arguments of a program, by the `by` of its row."""
