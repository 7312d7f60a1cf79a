"""What one command does: its program's row, its flags, and each file that it opens."""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from holdfast.logic.unasked.grammar import Word
from holdfast.logic.unasked.options import Given, Unlisted, take_apart
from holdfast.logic.unasked.scripts import is_awk_program, is_jq_filter, is_sed_script
from holdfast.logic.unasked.table import Row, programs, word_list

Kind = Literal["read", "write", "remove", "list"]

_SYSTEM: Final = re.compile(r"/(?:usr/)?s?bin/(?=[^/]+$)")
_ENDING: Final = re.compile(r"\.[A-Za-z0-9]+$")
_FILES: Final = ("read", "list", "write", "remove")
_TESTS: Final = frozenset("-a -b -c -d -e -f -g -h -k -L -p -r -s -S -u -w -x -O -G -N -nt -ot -ef".split())
_COMPARISONS: Final = frozenset("= == != < > -eq -ne -lt -le -gt -ge -z -n ! -t".split())
_PRINTF: Final = re.compile(r"(?:[^%\\]|\\[abefnrtv\\\"'0-7x]|%%|%[-+ #0]*[0-9]*(?:\.[0-9]+)?[sdiouxXcbqeEfgG])*")
_FIND_ALONE: Final = frozenset(
    "-print -print0 -ls -prune -quit -daystart -depth -d -mount -xdev -noleaf -empty -executable -readable -writable -nouser -nogroup "
    "-true -false -a -and -o -or -not ! ( ) -ignore_readdir_race".split()
)
_FIND_VALUED: Final = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime -atime -ctime -mmin -amin -cmin "
    "-user -group -uid -gid -perm -maxdepth -mindepth -links -inum -lname -ilname -used -printf -newer -anewer -cnewer -newermt".split()
)
_SED_OPTIONS: Final = re.compile(r"-[nErsuz]+|--(?:quiet|silent|regexp-extended|null-data|separate|unbuffered|posix)")
_LISTS_REFS: Final = "--list --contains --no-contains --merged --no-merged --points-at".split()
_READS_CONFIG: Final = "-l --list --get --get-all --get-regexp --get-urlmatch".split()
_GIT_FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    "remote": re.compile(r"|get-url \S+"),
    "stash": re.compile(r"list|show(?: stash@\{[0-9]+\}| [0-9]+)?"),
    "worktree": re.compile(r"list"),
}
_SIGNATURE: Final = re.compile(r"%G")


class Touch(msgspec.Struct, frozen=True):
    """A file that a command opens, looks at or removes."""

    kind: Kind
    path: str
    """Absolute, not normalised."""
    written: str
    glob: bool = False
    redirect: bool = False
    deep: bool = False
    split: bool = False
    """Whether a name with blanks would be taken for several: the files come through `xargs` without `-0`."""


class Effect(msgspec.Struct, frozen=True):
    """All that a command does."""

    touches: tuple[Touch, ...] = ()
    edits: bool = False
    moves_to: tuple[str, ...] = ()
    """The folders that `cd` may go to."""
    runs: int = 0
    """How many words stand before the command that it runs unchanged."""


class Around(msgspec.Struct, frozen=True):
    """Where a command runs."""

    folders: tuple[str, ...]
    """The folders that it may be in."""
    base: str
    """The folder that the text starts in."""
    home: str
    trusted: bool
    os: str
    feeder: tuple[Touch, ...] | None = None
    """What the command before it in the pipe prints, when that is names of files."""

    def touch(self, kind: Kind, word: Word, *, deep: bool = False) -> list[Touch]:
        """Name the file of a word, once for each folder."""
        value = word.value or ""
        if not value:
            raise Unlisted("an empty word is no file")
        paths = [value] if value.startswith("/") else [f"{folder.rstrip('/')}/{value}" for folder in self.folders]
        return [Touch(kind, path, word.text, word.glob, deep=deep) for path in paths]


HERE: Final = Word(".", ".")


def effect_of(words: Sequence[Word], around: Around) -> Effect:
    """Say what a command does; raise `Unlisted` when the tables do not tell."""
    name = _SYSTEM.sub("", words[0].value or "")
    program = programs().get(name)
    if program is None or "/" in name:
        raise Unlisted("its program is not one of those that are known to be harmless")
    if name != words[0].value and name in word_list("words"):
        raise Unlisted("it names a program of the shell by its path")
    why = "it has no known form with these words"
    if program.sub and name != "git" and len(words) > 1 and (row := program.sub.get(words[1].value or "")):
        return _by_row(words[2:], row, around)
    for row in program.rows:
        try:
            return _by_row(words[1:], row, around)
        except Unlisted as unlisted:
            why = why if row.version else str(unlisted)
    raise Unlisted(why)


def _by_row(words: Sequence[Word], row: Row, around: Around) -> Effect:
    if row.trusted and not around.trusted:
        raise Unlisted("it may run what the workspace brings along, and the workspace is not trusted")
    if row.os and row.os != around.os:
        raise Unlisted(f"its flags are known on {row.os} only")
    if row.words:
        return Effect()
    if row.version:
        if [word.value for word in words] != [row.version]:
            raise Unlisted(f"only {row.version} is known of it")
        return Effect()
    if row.match is not None:
        if not row.match.fullmatch(_joined(words)):
            raise Unlisted("its arguments are not among the known ones")
        return Effect()
    if row.runs is not None:
        return _wrapper(words, row)
    if row.grammar:
        return _GRAMMARS[row.grammar](words, row, around)
    return _by_flags(_given(words, row), row, around)


def _joined(words: Sequence[Word]) -> str:
    if any(word.value is None or word.glob or not word.value or " " in word.value for word in words):
        raise Unlisted("one of its words is not plain")
    return " ".join(word.value or "" for word in words)


def _given(words: Sequence[Word], row: Row, *, stop: bool = False) -> Given:
    for word in words:
        if word.glob and (word.value or "")[:1] in "*?[-" and not _is_tame(word, row):
            raise Unlisted(f"{word.text} may become a flag")
    given = take_apart(words, row.flags, stop=stop, number=row.number, single=row.single)
    if row.needs and not given.has(*row.needs):
        raise Unlisted(f"it lacks {row.needs[0]}")
    return given


def _is_tame(word: Word, row: Row) -> bool:
    return row.tame is True or (row.tame == "ending" and _ENDING.search(word.value or "") is not None)


def _by_flags(given: Given, row: Row, around: Around) -> Effect:
    """Say what a row means: the files of its flags, those of its operands."""
    touches: list[Touch] = []
    for flag, value in given.flags:
        if value is not None and flag.kind in _FILES and value.value != "-":
            touches += around.touch("list" if flag.kind == "list" else "read", value)
    kinds = row.operands if not given.has(*row.given) else row.operands[1:] or row.operands
    deep = "always" in row.deep or given.has(*row.deep)
    named = False
    for at, word in enumerate(given.operands):
        kind = kinds[min(at, len(kinds) - 1)] if kinds else "none"
        if kind == "none" or (kind == "format" and not (word.value or "").startswith("+")):
            raise Unlisted(f"{word.text} is an operand that it is not known to take")
        if kind in _FILES:
            named = True
            if word.value != "-":
                touches += around.touch(_kind(kind), word, deep=deep and kind == "read")
        elif word.glob and kind == "text" and "read" not in kinds and "list" not in kinds:
            continue
        elif word.glob:
            raise Unlisted(f"{word.text} may become several words")
    if row.here == "list" and not named:
        touches += around.touch("list", HERE)
    if row.here == "deep" and deep and not named:
        touches += around.touch("read", HERE, deep=True)
    return Effect(tuple(touches), row.edits)


def _kind(name: str) -> Kind:
    assert name in ("read", "list", "write", "remove")
    return name  # type: ignore[return-value] # it is one of the four


def _wrapper(words: Sequence[Word], row: Row) -> Effect:
    """Find the command behind `timeout 5`: the shortest beginning that fits and is followed by a word that is no flag."""
    assert row.runs is not None
    for end in range(len(words)):
        following = words[end].value or ""
        if following[:1] not in ("-", "") and row.runs.fullmatch(_joined(words[:end])):
            return Effect(runs=1 + end)
    raise Unlisted("which command it runs is not known")


def _cd(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    target = words[0] if words else Word("~", around.home)
    value = target.value
    if len(words) > 1 or value is None or target.glob or value[:1] in ("-", ""):
        raise Unlisted("where it goes is not known")
    touches = tuple(around.touch("list", target))
    return Effect(touches, moves_to=tuple(posixpath.normpath(touch.path) for touch in touches))


def _test(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    """Read `test` and `[`: the words between are listed operators or plain text; `-v` and `-R` evaluate text and are not listed."""
    touches: list[Touch] = []
    if words and words[-1].value == "]":
        words = words[:-1]
    for at, word in enumerate(words):
        before = words[at - 1].value if at else None
        after = words[at + 1].value if at + 1 < len(words) else None
        if word.glob or (word.value is None and not _is_compared(word, before, after)):
            raise Unlisted("a word may become an operator")
        if before in _TESTS and word.value:
            touches += around.touch("list", word)
        elif (word.value or "").startswith("-") and word.value not in _TESTS and word.value not in _COMPARISONS:
            raise Unlisted(f"{word.text} is not one of its known operators")
    return Effect(tuple(touches))


def _is_compared(word: Word, before: str | None, after: str | None) -> bool:
    """Whether a word that is not known stands beside an operator that takes two, as one word."""
    whole = word.text == "$?" or word.text.startswith('"')
    return whole and bool({before, after} & {"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


def _printf(words: Sequence[Word], _row: Row, _around: Around) -> Effect:
    form = words[0].value if words else None
    if form is None or form.startswith("-") or words[0].glob or not _PRINTF.fullmatch(form):
        raise Unlisted("its format is not among the known ones")
    return Effect()


def _export(words: Sequence[Word], _row: Row, _around: Around) -> Effect:
    for word in words:
        name, equals, value = (word.value or "").partition("=")
        if not equals or name not in word_list("harmless") or not _PLAIN_VALUE.fullmatch(value) or not word.bare:
            raise Unlisted("it sets variables that may change what follows")
    if not words:
        raise Unlisted("it shows every variable")
    return Effect()


_PLAIN_VALUE: Final = re.compile(r"[A-Za-z0-9_.,:@/+-]*")


def _find(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    """Read `find FOLDER... TEST...`, with tests and the actions that print."""
    folders, at = list[Word](), 0
    while at < len(words) and (words[at].value or "-")[0] not in "-(!":
        folders.append(words[at])
        at += 1
    touches: list[Touch] = []
    while at < len(words):
        word, value = words[at], words[at].value
        at += 1
        if value in _FIND_VALUED:
            if at >= len(words) or words[at].value is None or words[at].glob:
                raise Unlisted(f"the value of {value} is not known")
            if value in ("-newer", "-anewer", "-cnewer"):
                touches += around.touch("list", words[at])
            at += 1
        elif value not in _FIND_ALONE or word.glob:
            raise Unlisted(f"{word.text} is not one of its known tests")
    for folder in folders or [HERE]:
        if folder.glob and (folder.value or "")[0] in "*?[":
            raise Unlisted(f"{folder.text} may become a test")
        touches += around.touch("list", folder)
    return Effect(tuple(touches))


def found_by(words: Sequence[Word], around: Around) -> tuple[Touch, ...] | None:
    """Say which files a command names in its output, for what `xargs` does with them: `find FOLDER... -name PATTERN`."""
    if (words[0].value or "") != "find" or any(
        word.value in ("-o", "-or", "!", "-not", "(", "-printf", "-ls") for word in words
    ):
        return None
    patterns = [after for before, after in zip(words, words[1:], strict=False) if before.value == "-name"]
    folders = [word for word in words[1:] if (word.value or "-")[0] not in "-(!"][: _leading(words)]
    name = patterns[0].value if len(patterns) == 1 else None
    if name is None or "/" in name or not name or re.search(r"[\\{}\[\]]", name):
        return None
    return tuple(
        Touch("read", f"{touch.path.rstrip('/')}/**/{name}", patterns[0].text, glob=True)
        for folder in folders or [HERE]
        for touch in around.touch("read", folder)
    )


def _leading(words: Sequence[Word]) -> int:
    return next((at for at, word in enumerate(words[1:]) if (word.value or "-")[0] in "-(!"), len(words) - 1)


def _xargs(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    """Read `find ... | xargs [-0] [-r] [-n 5] PROGRAM ...`, for programs that do nothing to the files that they are given but read them."""
    at = 0
    while at < len(words) and (words[at].value or "").startswith("-"):
        valued = words[at].value in ("-n", "-L", "-P")
        if words[at].value not in ("-0", "-r") and not valued:
            raise Unlisted(f"{words[at].text} is not one of its known flags")
        if valued and not (at + 1 < len(words) and (words[at + 1].value or "").isdigit()):
            raise Unlisted(f"{words[at].text} lacks its number")
        at += 2 if valued else 1
    rest = words[at:]
    program = programs().get(rest[0].value or "") if rest else None
    if program is None or not program.rows or not program.rows[0].fed or around.feeder is None:
        raise Unlisted("which files it is given is not known")
    zero = any(word.value == "-0" for word in words[:at])
    if zero == any(touch.split for touch in around.feeder) or (not zero and not around.trusted):
        raise Unlisted("a name with blanks would be taken for several files")
    row = program.rows[0]
    given = _given(rest[1:], row)
    if given.has(*row.deep) or (row.operands[0] == "text" and not given.operands and not given.has(*row.given)):
        raise Unlisted("its pattern would be the name of a file")
    return Effect((*_by_flags(given, row, around).touches, *around.feeder))


def _copy(words: Sequence[Word], row: Row, around: Around) -> Effect:
    given = _given(words, row)
    *sources, target = given.operands if len(given.operands) > 1 else (HERE,)
    if (
        not sources
        or target.glob
        or any(word.glob or posixpath.basename(word.value or "") in ("", ".", "..") for word in sources)
    ):
        raise Unlisted("what it copies is not known by name")
    deep = given.has(*row.deep)
    touches = around.touch("write", target)
    for source in sources:
        below = f"{(target.value or '').rstrip('/')}/{posixpath.basename(source.value or '')}"
        touches += around.touch("read", source, deep=deep) + around.touch("write", Word(target.text, below))
        if row.grammar == "move":
            touches += around.touch("remove", source)
    return Effect(tuple(touches), edits=True)


def _sed(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    """Read `sed [-nErsuz] [-i[.ENDING]] SCRIPT FILE...` and `-e SCRIPT`."""
    scripts: list[Word] = []
    files: list[Word] = []
    in_place, ending, rest = False, "", list(words)
    while rest:
        word = rest.pop(0)
        value = word.value or ""
        if value in ("-e", "--expression") and rest:
            scripts.append(rest.pop(0))
        elif around.os == "linux" and (value == "-i" or re.fullmatch(r"-i\.[a-z]+", value)):
            in_place, ending = True, value[2:]
        elif value.startswith("-") and value != "-":
            if not _SED_OPTIONS.fullmatch(value):
                raise Unlisted(f"{word.text} is not one of its known flags")
        else:
            files.append(word)
    if not scripts:
        scripts, files = files[:1], files[1:]
    if not scripts or not all(script.value and not script.glob and is_sed_script(script.value) for script in scripts):
        raise Unlisted("its script is not one of the known forms")
    if in_place and not files:
        raise Unlisted("it names no file")
    return _filtered(files, around, writes=in_place, ending=ending)


def _filtered(files: Sequence[Word], around: Around, *, writes: bool = False, ending: str = "") -> Effect:
    """Name the files that a filter reads, and with `writes` puts back changed."""
    touches: list[Touch] = []
    for word in files:
        if word.value is None or (word.glob and (word.value[:1] in "*?[-" or writes)):
            raise Unlisted(f"{word.text} may become a flag")
        touches += around.touch("read", word)
        for name in dict.fromkeys((word.value, word.value + ending)) if writes else ():
            touches += around.touch("write", Word(word.text, name))
    return Effect(tuple(touches), edits=writes)


def _awk(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    """Read `awk [-F x] [-v name=value] PROGRAM FILE...`."""
    rest = list(words)
    while rest and (rest[0].value or "").startswith("-") and rest[0].value != "-":
        flag = rest.pop(0).value or ""
        value = flag[2:] if len(flag) > 2 else (rest.pop(0).value if rest else None)
        if flag[:2] not in ("-F", "-v") or value is None or "\n" in value:
            raise Unlisted(f"{flag} is not one of its known flags")
        if flag[:2] == "-v" and not re.fullmatch(r"[a-z]+=.*", value):
            raise Unlisted("it sets a variable that may mean something")
    program = rest.pop(0) if rest else Word("", None)
    if program.value is None or program.glob or not is_awk_program(program.value):
        raise Unlisted("its program is not one of the known forms")
    if any("=" in (word.value or "=") for word in rest):
        raise Unlisted("it sets a variable between its files")
    return _filtered(rest, around)


def _jq(words: Sequence[Word], row: Row, around: Around) -> Effect:
    given = _given(words, row)
    script, *files = given.operands or (Word("", "."),)
    if script.value is None or script.glob or not is_jq_filter(script.value):
        raise Unlisted("its filter is not one of the known forms")
    return _filtered(files, around)


def _git(words: Sequence[Word], row: Row, around: Around) -> Effect:
    """Read a subcommand of git that only reads, in the repository of the workspace."""
    before = take_apart(words, row.flags, stop=True)
    name = before.operands[0].value or "" if before.operands else ""
    sub = programs()["git"].sub.get(name)
    if sub is None:
        raise Unlisted(f"git {name} is not one of its subcommands that are known to read")
    places = [*around.folders, *(touch.path for word in before.values("-C") for touch in around.touch("list", word))]
    if any(posixpath.normpath(place) != posixpath.normpath(around.base) for place in places):
        raise Unlisted("another repository's configuration can run programs")
    arguments = before.operands[1:]
    if any(_SIGNATURE.search(word.value or "") for word in arguments):
        raise Unlisted("it has signatures checked by a program")
    given = _given(arguments, sub)
    operands = " ".join(word.value or "" for word in given.operands)
    if sub.operands[0] == "listed" and operands and not given.has("-l" if name == "tag" else "--list", *_LISTS_REFS):
        raise Unlisted(f"this form of git {name} makes one")
    if sub.operands[0] == "config" and not (given.has(*_READS_CONFIG) or re.fullmatch(r"[a-zA-Z]+\.[\w.-]+", operands)):
        raise Unlisted("this form of git config sets something")
    if name in _GIT_FORMS and not _GIT_FORMS[name].fullmatch(operands):
        raise Unlisted(f"this form of git {name} may change something")
    if name == "reflog" and re.match(r"(?:expire|delete|exists|write|drop)\b", operands):
        raise Unlisted("this form of git reflog may change something")
    if any(word.glob for word in given.operands) and sub.operands[-1] not in ("read", "list"):
        raise Unlisted("a wildcard may become several words")
    plain = (
        sub if sub.operands[0] in ("text", "read", "list", "none") else msgspec.structs.replace(sub, operands=("text",))
    )
    return _with_paths(_by_flags(given, plain, around), given, plain, around)


def _with_paths(effect: Effect, given: Given, sub: Row, around: Around) -> Effect:
    """Add the files that revisions name, as in `HEAD:src/a.py`, and the folder for patterns that git expands itself."""
    touches = list(effect.touches)
    for word in (*given.operands, *given.values("-L")):
        _, colon, path = (word.value or "").rpartition(":")
        if colon and path and "read" in sub.operands:
            touches += around.touch("read", Word(word.text, path))
        if "read" in sub.operands and not word.glob and re.search(r"[*?\[]", word.value or ""):
            touches += around.touch("read", HERE)
    return msgspec.structs.replace(effect, touches=tuple(touches))


_GRAMMARS: Final[Mapping[str, Callable[[Sequence[Word], Row, Around], Effect]]] = {
    "awk": _awk,
    "cd": _cd,
    "copy": _copy,
    "export": _export,
    "find": _find,
    "git": _git,
    "jq": _jq,
    "move": _copy,
    "printf": _printf,
    "sed": _sed,
    "test": _test,
    "xargs": _xargs,
}
