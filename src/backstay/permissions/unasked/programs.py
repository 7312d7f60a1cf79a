"""Tell what one command does, by its program's row and flags, and each file that it opens."""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Final, Literal, get_args

import msgspec

from backstay.permissions.unasked.options import Given, Unlisted, take_apart
from backstay.permissions.unasked.scripts import is_awk_program, is_jq_filter, is_sed_script
from backstay.permissions.unasked.shell_grammar import Word
from backstay.permissions.unasked.table import Row, programs, word_list


def tests_of(words: Sequence[Word]) -> list[tuple[str, Word | None]]:
    """Tell the tests and actions of `find` from their values."""
    tests, rest = list[tuple[str, Word | None]](), list(reversed(words))
    while rest:
        word = rest.pop()
        if word.value in word_list("find_valued", "reading"):
            if not rest or rest[-1].value is None or rest[-1].glob:
                raise Unlisted(f"the value of {word.text} is not known")
            tests.append((word.value or "", rest.pop()))
        elif word.value in word_list("find_alone", "reading") and not word.glob:
            tests.append((word.value or "", None))
        else:
            raise Unlisted(f"{word.text} is not one of its known tests")
    return tests


def first_test(words: Sequence[Word]) -> int:
    return next((at for at, word in enumerate(words) if (word.value or "-")[0] in "-(!"), len(words))


ENDING: Final = re.compile(r"\*[\w.+@-]+")
"""A pathspec that is about the end of a name. In any other, `*` may stand for folders."""
REVISION_PATH: Final = re.compile(r"[\w.~^/@-]+:(?P<path>[\w.+@-][\w./+@-]*)")
"""`HEAD~2:src/a.py`: one file or folder of a revision."""
COMMIT: Final = re.compile(r"HEAD(?:[~^]\d*)*(?:\^\{(?:commit|tree)\})?")
"""What is a commit or a list of names for certain. Any other word may be the name of a file's content."""

_BY_DEFAULT: Final = ("diff", "show", "range-diff")
_WHEN_ASKED: Final = ("log", "whatchanged", "reflog", "diff-tree", "diff-index", "diff-files", "stash")
_PATCH: Final = (
    "-p -u --patch -U --unified --patch-with-raw --patch-with-stat --cc -c --dd --diff-merges -m --binary -W --function-context "
    "--word-diff --word-diff-regex --color-words -S -G --check"
)
_INSTEAD: Final = (
    "--stat --numstat --shortstat --dirstat -X --cumulative --summary --name-only --name-status --raw -s --no-patch -q --quiet "
    "--compact-summary"
)
"""Flags that take the place of a patch."""


def shows_contents(name: str, given: Given) -> bool:
    """Return whether a subcommand shows what is in files that it need not name, or tells what is in them."""
    if name != "grep" and given.has("-L") and not given.has("--full-diff"):
        return False  # lines of a file that it names
    if name == "show" and not all(COMMIT.fullmatch(word.value or "") for word in given.operands):
        return True  # the content of a file is shown with any flags
    if name in _BY_DEFAULT:
        return given.has(_PATCH) or not given.has(_INSTEAD)
    return (
        name == "grep"
        or (name in _WHEN_ASKED and given.has(_PATCH))
        or (name == "status" and given.has("-v --verbose"))
    )


def may_show(name: str) -> bool:
    """Return whether some flags make a subcommand show what is in files."""
    return name in _BY_DEFAULT or name in _WHEN_ASKED


def narrowing(name: str, words: Sequence[Word], given: Given) -> tuple[Word, ...]:
    """Give the operands that may be pathspecs; without `--` each may be a revision as well. None of them: everything is shown."""
    if given.has("--full-diff") or name in ("stash", "range-diff"):
        return ()
    if name == "grep":
        return given.operands[0 if given.has("-e -f") else 1 :]
    values = [word.value for word in words]
    return tuple(words[values.index("--") + 1 :]) if "--" in values else given.operands


Kind = Literal["read", "write", "remove", "list"]

HERE: Final = Word(".", ".")
_SYSTEM: Final = re.compile(r"^/(?:usr/)?s?bin/(?=[^/]+$)")
_WINDOWS: Final = re.compile(r"\\|^//|^[A-Za-z]:")
_SED_FLAGS: Final = re.compile(r"-[nErsuz]+|--(?:quiet|silent|regexp-extended|null-data|separate|unbuffered|posix)")


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
    """Whether a name with blanks would be taken for several: it comes through `xargs` without `-0`."""


class Effect(msgspec.Struct, frozen=True):
    """All that a command does."""

    touches: tuple[Touch, ...] = ()
    edits: bool = False
    moves_to: tuple[str, ...] = ()
    """The folders that `cd` may go to."""
    runs: int = 0
    """How many words stand before the command that it runs unchanged."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command would run."""

    cwd: str
    home: str
    shell: str = "bash"
    os: str = "linux"
    trusted: bool = True
    """Whether nothing in the workspace waits for trust."""
    trust_given: bool = True
    """Whether a person said that it is trusted."""


class Around(msgspec.Struct, frozen=True):
    """Where a command runs."""

    folders: tuple[str, ...]
    """The folders that it may be in."""
    place: Place
    """Where the text starts."""
    feeder: tuple[Touch, ...] | None = None
    """What the command before it in the pipe prints, when that is names of files."""

    def touch(self, kind: Kind, word: Word, *, deep: bool = False) -> list[Touch]:
        """Name the file of a word, once for each folder."""
        value = word.value or ""
        if not value or (self.place.os == "windows" and _WINDOWS.search(value)):
            raise Unlisted("an empty word, or one with a drive or a backslash, is no plain file")
        paths = [value] if value.startswith("/") else [f"{folder}/{value}" for folder in self.folders]
        return [Touch(kind, re.sub(r"/\.?(?=/)", "", path), word.text, word.glob, deep=deep) for path in paths]


def effect_of(words: Sequence[Word], around: Around) -> Effect:
    """Say what a command does; raise `Unlisted` when the tables do not tell."""
    name = _SYSTEM.sub("", words[0].value or "")
    program = programs().get(name)
    if program is None or (name != words[0].value and name in word_list("words")):
        raise Unlisted("its program is not one of those that are known to be harmless")
    if program.sub and name != "git" and len(words) > 1 and (row := program.sub.get(words[1].value or "")):
        return _by_row(words[2:], row, around)
    why = "not known to be harmless with these words"
    for row in program.rows:
        try:
            return _by_row(words[1:], row, around)
        except Unlisted as unlisted:
            why = why if row.version else str(unlisted)
    raise Unlisted(why)


def _by_row(words: Sequence[Word], row: Row, around: Around) -> Effect:
    if row.trusted and not around.place.trust_given:
        raise Unlisted("it may run what the workspace brings along, and nobody said that the workspace is trusted")
    if row.os and row.os != around.place.os:
        raise Unlisted(f"its flags are known on {row.os} only")
    if row.grammar:
        return _GRAMMARS[row.grammar](words, row, around)
    if row.runs is not None:
        return _runner(words, row.runs)
    if row.words:
        fits = not row.first or bool(words and not words[0].glob and re.fullmatch(row.first, words[0].value or ""))
    elif row.version:
        fits = [word.value for word in words] == [row.version]
    elif row.match is not None:
        fits = re.fullmatch(row.match, _join(words)) is not None
    else:
        return _by_flags(_read_arguments(words, row), row, around)
    if not fits:
        raise Unlisted("its arguments are not among those that are known to be harmless")
    return Effect(tuple(touch for word in words if word.glob for touch in around.touch("list", word)))


def _join(words: Sequence[Word]) -> str:
    if any(not word.value or word.glob or " " in word.value for word in words):
        raise Unlisted("one of its words is not plain")
    return " ".join(word.value or "" for word in words)


def _read_arguments(words: Sequence[Word], row: Row) -> Given:
    for word in words:
        tame = row.tame is True or (row.tame and re.search(r"\.[A-Za-z0-9]+$", word.value or ""))
        if word.glob and (word.value or "")[:1] in "*?[" and not tame:
            raise Unlisted(f"{word.text} may become a flag")
    given = take_apart(words, row.options, stop=row.stops, number=row.number, single=row.single)
    if row.needs and not given.has(row.needs):
        raise Unlisted(f"it lacks {row.needs}")
    return given


def _by_flags(given: Given, row: Row, around: Around) -> Effect:
    """Say what a row means: the files of its flags, those of its operands."""
    touches = list[Touch]()
    for flag, value in given.flags:
        if value is not None and flag.kind and value.value != "-":
            touches += around.touch("list" if flag.kind == "list" else "read", value)
    kinds = row.operands.split()[1 if given.has(row.given) else 0 :] or row.operands.split()
    deep = row.deep == "always" or given.has(row.deep)
    named = False
    for at, word in enumerate(given.operands):
        kind, *later = kinds[at:] or kinds[-1:]
        if kind == "none" or not re.fullmatch(row.plain or r"[\s\S]*", word.value or ""):
            raise Unlisted(f"{word.text} is an operand that it is not known to take")
        if word.glob and later and {kind} != set(later):
            raise Unlisted(f"{word.text} may become several words")
        named = named or kind in get_args(Kind)
        if kind in get_args(Kind) and (kind, word.value) != ("read", "-"):
            touches += around.touch(kind, word, deep=deep and kind == "read")  # type: ignore[arg-type] # it is one of the four
        elif word.glob:
            touches += around.touch("list", word)
    if row.pairs and len(given.operands) > 2:
        raise Unlisted("it takes two files")
    for one, other in permutations(given.operands, 2) if row.pairs else ():
        touches += around.touch(
            "read", Word(one.text, f"{one.value}/{posixpath.basename(other.value or '')}", one.glob or other.glob)
        )
    if row.here and not named and (row.here == "list" or deep):
        touches += around.touch("list" if row.here == "list" else "read", HERE, deep=row.here == "deep")
    return Effect(tuple(touches), row.edits)


def _runner(words: Sequence[Word], pattern: str) -> Effect:
    """Find the command behind `timeout 5`: the shortest beginning that fits, followed by a word that is no flag."""
    for end in range(len(words)):
        if (words[end].value or "-")[0] != "-" and re.fullmatch(pattern, _join(words[:end])):
            return Effect(runs=1 + end)
    raise Unlisted("no command stands behind it that is known before it runs")


def _cd(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    target = words[0] if words else Word("~", around.place.home)
    if len(words) > 1 or target.glob or (target.value or "-")[0] == "-":
        raise Unlisted("where it goes is not known")
    parts = (target.value or "").split("/")
    if ".." in parts and (around.folders != (around.place.cwd,) or set(parts[: parts.index("..")]) - {".", ""}):
        raise Unlisted("where .. behind a folder leads is up to the links there")
    touches = tuple(around.touch("list", target))
    return Effect(touches, moves_to=tuple(posixpath.normpath(touch.path) for touch in touches))


def _test(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    """Read `test` and `[`: words that are not known stand beside an operator that compares two."""
    files, compares, touches = word_list("test_files"), word_list("test_compares"), list[Touch]()
    if words and words[-1].value == "]":
        words = words[:-1]
    for at, word in enumerate(words):
        before, value = words[at - 1].value if at else None, word.value
        after = words[at + 1].value if at + 1 < len(words) else None
        whole = word.text == "$?" or word.text.startswith('"')
        if word.glob or (value is None and not (whole and compares & {before, after})):
            raise Unlisted("a word may become an operator")
        if (value or "")[:1] == "-" and value not in files | compares | word_list("test_others"):
            raise Unlisted(f"{word.text} is not one of its known operators")
        if value and (before in files or after in ("-nt", "-ot", "-ef")):
            touches += around.touch("list", word)
    return Effect(tuple(touches))


def _find(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    """Read `find FOLDER... TEST...`, with tests and the actions that print."""
    start = first_test(words)
    if any(folder.glob and (folder.value or "")[0] in "*?[" for folder in words[:start]):
        raise Unlisted("a folder may become a test")
    touches = [touch for folder in words[:start] or [HERE] for touch in around.touch("list", folder)]
    for test, value in tests_of(words[start:]):
        touches += around.touch("list", value) if value and test in ("-newer", "-anewer", "-cnewer") else []
    return Effect(tuple(touches))


def files_printed_by(words: Sequence[Word], around: Around) -> tuple[Touch, ...] | None:
    """Say which files a command names in its output, for `xargs` behind it: `find FOLDER... -name PATTERN`.

    With `-o` in it, only what stands behind the last one may print.
    """
    if words[0].value != "find" or (words[1:2] and words[1].value == "--version"):
        return None
    start = 1 + first_test(words[1:])
    tests = tests_of(words[start:])
    values = [test for test, _ in tests]
    last = len(values) - values[::-1].index("-o") if "-o" in values else 0
    prints = [value for value in values if value in ("-print", "-print0")]
    if (last and not prints) or (prints and prints != values[-1:]):
        return None
    names = [value.value or "" for test, value in tests[last:] if test == "-name" and value]
    if len(names) != 1 or re.search(r"[\\{}\[\]/]|^$", names[0]) or word_list("find_mixes", "reading") & set(values):
        return None
    return tuple(
        Touch("read", f"{touch.path.rstrip('/')}/**/{names[0]}", names[0], glob=True, split="-print0" not in values)
        for folder in words[1:start] or [HERE]
        for touch in around.touch("read", folder)
    )


def _xargs(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    """Read `find ... | xargs [-0] [-r] [-n 5] PROGRAM ...`, for programs that only read the files that they are given; alone it prints."""
    given = take_apart(words, "-0 -r -n: -L: -P:", stop=True)
    if any(value is not None and not (value.value or "").isdigit() for _, value in given.flags):
        raise Unlisted("a flag lacks its number")
    if not given.operands:
        return Effect()
    program = programs().get(given.operands[0].value or "")
    if program is None or not program.rows or not program.rows[0].fed or around.feeder is None:
        raise Unlisted("which files it is given is not known")
    if given.has("-0") == any(touch.split for touch in around.feeder) or not (given.has("-0") or around.place.trusted):
        raise Unlisted("a name with blanks would be taken for several files")
    row, inner = program.rows[0], _read_arguments(given.operands[1:], program.rows[0])
    if inner.has(row.deep) or (row.operands.startswith("text") and not inner.operands and not inner.has(row.given)):
        raise Unlisted("its pattern would be the name of a file")
    return Effect((*_by_flags(inner, row, around).touches, *around.feeder))


def _copy(words: Sequence[Word], row: Row, around: Around) -> Effect:
    """Read `cp` and `mv` of files and folders that are named one by one."""
    given = _read_arguments(words, row)
    *sources, target = given.operands if len(given.operands) > 1 else (HERE,)
    if (
        not sources
        or given.has(row.deep)
        or any(word.glob or posixpath.basename(word.value or "") in ("", ".", "..") for word in sources)
        or target.glob
    ):
        raise Unlisted("what it copies is not known by name")
    touches = around.touch("write", target)
    for source in sources:
        below = f"{(target.value or '').rstrip('/')}/{posixpath.basename(source.value or '')}"
        touches += around.touch("read", source) + around.touch("write", Word(target.text, below))
        touches += around.touch("remove", source) if row.grammar == "move" else []
    return Effect(tuple(touches), edits=True)


def _sed(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    """Read `sed [-nErsuz] [-i[.ENDING]] SCRIPT FILE...` and `-e SCRIPT`."""
    scripts, files, ending, rest = list[Word](), list[Word](), None, list(reversed(words))
    while rest:
        word = rest.pop()
        value = word.value or ""
        if value in ("-e", "--expression") and rest:
            scripts.append(rest.pop())
        elif around.place.os == "linux" and re.fullmatch(r"-i(?:\.[a-z]+)?", value):
            ending = value[2:]
        elif value[:1] != "-" or value == "-":
            files.append(word)
        elif not _SED_FLAGS.fullmatch(value):
            raise Unlisted(f"{word.text} is not one of its known flags")
    if not scripts:
        scripts, files = files[:1], files[1:]
    if (
        not scripts
        or any(script.glob or not is_sed_script(script.value or "") for script in scripts)
        or (ending is not None and not files)
    ):
        raise Unlisted("its script is not one of the known forms")
    effect = _effect_of_filter(files, around)
    if ending is None:
        return effect
    if any(word.glob for word in files):
        raise Unlisted("which files it changes is not known")
    written = [Word(word.text, f"{word.value}{end}") for word in files for end in dict.fromkeys(("", ending))]
    return Effect((*effect.touches, *(touch for word in written for touch in around.touch("write", word))), edits=True)


def _effect_of_filter(files: Sequence[Word], around: Around) -> Effect:
    """Name the files that a filter reads."""
    if any(word.value is None or (word.glob and word.value[:1] in "*?[-") for word in files):
        raise Unlisted("a word may become a flag")
    return Effect(tuple(touch for word in files if word.value != "-" for touch in around.touch("read", word)))


def _awk(words: Sequence[Word], _row: Row, around: Around) -> Effect:
    """Read `awk [-F x] [-v name=value] PROGRAM FILE...`."""
    given = take_apart(words, "-F: -v:", stop=True)
    program, *files = given.operands or (Word("", ""),)
    if any(not re.fullmatch(r"[a-z]+=.*", word.value or "") for word in given.values("-v")):
        raise Unlisted("it sets a variable that may mean something")
    if (
        program.glob
        or not is_awk_program(program.value or "")
        or any(re.search("=|^/inet", word.value or "") for word in files)
    ):
        raise Unlisted("its program is not one of the known forms")
    return _effect_of_filter(files, around)


def _jq(words: Sequence[Word], row: Row, around: Around) -> Effect:
    script, *files = _read_arguments(words, row).operands or (Word("", "."),)
    if script.glob or not is_jq_filter(script.value or ""):
        raise Unlisted("its filter is not one of the known forms")
    return _effect_of_filter(files, around)


def _git(words: Sequence[Word], row: Row, around: Around) -> Effect:
    """Read a subcommand of git that only reads, in the repository of the workspace."""
    before = take_apart(words, row.options, stop=True)
    name = (before.operands[0].value or "") if before.operands else ""
    sub = programs()["git"].sub.get(name)
    here = all(word.value in (".", around.place.cwd) for word in before.values("-C")) and around.folders == (
        around.place.cwd,
    )
    if sub is None or not here:
        raise Unlisted(f"git {name} may change something, or another repository is meant")
    given = _read_arguments(before.operands[1:], sub)
    signs = [word for word in words if re.search(r"%[-+ ]?G|%\(\*?signature|signature:", word.value or "")]
    if signs or any("signature" in (word.value or "") for word in given.values("--sort")):
        raise Unlisted("it has signatures checked by a program")
    if any(word.value != "all" for word in given.values("--ignore-submodules")):
        raise Unlisted("git starts git in a submodule, with a configuration of its own")
    apart = [word for flag, word in given.flags if flag.name != "--sort" and word in words]
    if name != "grep" and any(word and (word.value or "")[:1] == "-" for word in (*apart, *given.operands)):
        raise Unlisted("git, which looks through its words twice, may take one that is none for a flag")
    joined = " ".join(word.value or "" for word in given.operands)
    if (
        sub.leads
        and given.operands
        and (given.operands[0] is not before.operands[1] or any(word.value == "--" for word in before.operands))
    ):
        raise Unlisted(f"git {name} may take its words for files")
    if sub.form is not None and not re.fullmatch(sub.form, joined) and not given.has(sub.lists):
        raise Unlisted(f"this form of git {name} may change something, or show a secret")
    if sub.operands.startswith("text") and any(word.glob for word in given.operands):
        raise Unlisted("a wildcard may become several words")
    touches = list(_by_flags(given, sub, around).touches)
    for word in (*given.operands, *given.values("-L")):
        path = (word.value or "").rpartition(":")[2]
        if path and path != word.value:  # as in `HEAD:src/a.py`
            touches += around.touch("read", Word(word.text, path))
        if sub.operands.endswith("read") and not word.glob and re.search(r"[*?\[\\]|^:", word.value or ""):
            touches += around.touch("read", HERE)  # git expands it itself
    return Effect((*touches, *_git_contents(name, before.operands[1:], given, around)))


def _git_contents(name: str, words: Sequence[Word], given: Given, around: Around) -> list[Touch]:
    """Name what git shows of files: below a path that is given, else all that is tracked."""
    if name == "cat-file" and not given.has("-t -s -e --batch-check"):
        value = given.operands[-1].value or "" if given.operands else ""
        if not REVISION_PATH.fullmatch(value) and not COMMIT.fullmatch(value):
            raise Unlisted("it shows an object of which nobody knows what file it is")
        return []
    if name == "grep" or given.has("--no-index") or not shows_contents(name, given):
        return []  # a search reaches below what it names by itself
    touches = list[Touch]()
    two = (
        given.operands if name == "diff" and len(given.operands) == 2 else ()
    )  # they may be compared without a repository
    for word in two or narrowing(name, words, given) or (HERE,):
        value = word.value or ""
        inner = REVISION_PATH.fullmatch(value)
        if re.search(r"[*?\[\\]|^:", value):
            touches += around.touch("read", HERE, deep=True)
            touches += around.touch("read", word, deep=True) if word.glob else []
        elif inner is None:
            touches += around.touch("read", word, deep=True)
        elif name != "show":  # that lists a folder; the others go through it
            touches += around.touch("read", Word(word.text, inner["path"]), deep=True)
    return touches


_GRAMMARS: Final[Mapping[str, Callable[[Sequence[Word], Row, Around], Effect]]] = {
    "awk": _awk,
    "cd": _cd,
    "copy": _copy,
    "find": _find,
    "git": _git,
    "jq": _jq,
    "move": _copy,
    "sed": _sed,
    "test": _test,
    "xargs": _xargs,
}
