"""Commands that read files which they do not name: what is below a folder, and what `find` hands to `xargs`.

Which sensitive files are there is looked up before the call is weighed, under a pattern of this module's own in `Ground.globs`. Flags
narrow what a search opens (`--include`, `-g`, hidden files left out); flags that are not known narrow nothing.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.logic.acts import Access, Command, Ground
from holdfast.logic.permissions.deep import is_deep, program_of
from holdfast.logic.permissions.paths import plain, within
from holdfast.logic.permissions.places import sensitive_name
from holdfast.logic.permissions.removals import literal_folder

if TYPE_CHECKING:
    from holdfast.logic.unasked.grammar import Word
    from holdfast.logic.unasked.options import Given

Which = Literal["all", "shown", "tracked"]
"""`all` files below a folder; those `shown`, whose names do not begin with a dot; those that git has `tracked`."""

NOT_TOLD: Final = ("",)
"""What is found where nobody could look through all of a folder."""

_MARKS: Final[dict[Which, str]] = {
    "all": "/**/<sensitive>",
    "shown": "/**/<sensitive, shown>",
    "tracked": "/**/<sensitive, tracked>",
}
_MOVERS: Final = frozenset(("cp", "gcp", "mv", "gmv"))
_GREPS: Final = frozenset(("grep", "egrep", "fgrep", "ggrep"))
_PLAIN_PATTERN: Final = re.compile(r"[\w.*?@+-]+")
"""A pattern of a file's name that every program reads alike."""
_UNTRACKED: Final = "--no-index --untracked --no-exclude-standard --recurse-submodules"
_TYPES: Final = {
    "c": "*.c *.h *.H *.cats",
    "cpp": "*.C *.cc *.cpp *.cxx *.c++ *.H *.hh *.hpp *.hxx *.h *.inl *.in",
    "cs": "*.cs",
    "css": "*.css *.scss",
    "go": "*.go",
    "html": "*.htm *.html *.ejs",
    "java": "*.java *.jsp *.jspx *.properties",
    "js": "*.js *.jsx *.cjs *.mjs *.vue",
    "kotlin": "*.kt *.kts",
    "md": "*.md *.markdown *.mdown *.mdwn *.mdx *.mkd *.mkdn",
    "php": "*.php *.php3 *.php4 *.php5 *.php7 *.php8 *.pht *.phtml",
    "py": "*.py *.pyi",
    "rust": "*.rs",
    "swift": "*.swift",
    "ts": "*.ts *.tsx *.cts *.mts",
}
"""Kinds of files as `rg -t` knows them, and the names that they have. It reads a hidden file of such a name, too."""


class Search(msgspec.Struct, frozen=True):
    """What a command reads below a folder."""

    folder: str
    """Absolute, without detours."""
    which: Which = "all"
    names: tuple[str, ...] = ()
    """Patterns of which the name of a file must match one; none for every file."""
    moves: bool = False
    """Whether it shows nothing and puts the folder elsewhere: there a file may lack the name by which it is known as sensitive."""

    @property
    def lookup(self) -> str:
        """The pattern under which the sensitive files are found."""
        return self.folder.rstrip("/") + _MARKS[self.which]

    def reads(self, path: str, os: str) -> bool:
        """Whether it reads a file that was found."""
        if self.moves:
            inner = path[len(self.folder.rstrip("/")) :] if within(path, (self.folder,)) else path
            return not sensitive_name(inner, os)
        return not self.names or any(fnmatchcase(path.rpartition("/")[2], pattern) for pattern in self.names)


def lookup_parts(lookup: str) -> tuple[str, Which] | None:
    """Take a pattern of this module apart: the folder, and which of its files are meant; None for any other pattern."""
    for which, mark in _MARKS.items():
        if lookup.endswith(mark):
            return lookup.removesuffix(mark) or "/", which
    return None


def search_of(access: Access, command: Command | None, ground: Ground) -> Search | None:
    """Say what an access reads that it does not name; None when it reads what it names."""
    if command is None or access.kind != "read" or access.redirect or not access.known:
        return None
    if access.glob:
        return _handed_over(access.path, ground) if "/**/" in access.path else None
    if not is_deep(access, command):
        return None
    folder = plain(access.path, ground.os)
    program, rest = program_of(command)
    if program in _MOVERS:
        return Search(folder, moves=True)
    from holdfast.logic.unasked.grammar import Word  # noqa: PLC0415 - the tables load when the first command is read
    from holdfast.logic.unasked.options import Unlisted  # noqa: PLC0415 - likewise

    try:
        return _narrowed(program, [Word(word or "", word) for word in rest], folder, ground)
    except Unlisted:
        return Search(folder)


def read_by(search: Search, ground: Ground) -> tuple[str, ...] | None:
    """Name the sensitive files that a search reads; None when nobody could look through all of the folder."""
    found = ground.globs.get(search.lookup, () if ground.described else NOT_TOLD)
    if found == NOT_TOLD:
        return None
    return tuple(path for path in found if search.reads(plain(path, ground.os), ground.os))


def _handed_over(pattern: str, ground: Ground) -> Search:
    """What `find FOLDER -name NAME` prints: a wildcard of `find` stands for hidden files too."""
    name = pattern.rpartition("/")[2]
    return Search(plain(literal_folder(pattern) or "/", ground.os), names=(name,) if _is_plain([name]) else ())


def _narrowed(program: str, words: "Sequence[Word]", folder: str, ground: Ground) -> Search | None:
    from holdfast.logic.unasked.options import take_apart  # noqa: PLC0415 - likewise
    from holdfast.logic.unasked.table import programs  # noqa: PLC0415 - likewise

    if program == "git":
        git = programs()["git"]
        name, *rest = take_apart(words, git.rows[0].options, stop=True).operands or words[:1]
        if name.value == "grep":
            return _by_git(take_apart(rest, git.sub["grep"].options, number=True), folder, ground)
        return Search(folder) if any((word.value or "").startswith("--no-i") for word in rest) else None
    if program == "rg":
        return _by_rg(take_apart(words, programs()["rg"].rows[0].options), folder)
    if program in _GREPS:
        return _by_grep(take_apart(words, programs()["grep"].rows[0].options, number=True), folder)
    return Search(folder)


def _by_grep(given: "Given", folder: str) -> Search:
    chosen = [(flag.name, word.value or "") for flag, word in given.flags if word and flag.name in _CHOOSING]
    names = [value for name, value in chosen if name == "--include"]
    # behind an `--exclude` that comes first, what no pattern is about is read
    return Search(folder, names=tuple(names) if names and chosen[0][0] == "--include" and _is_plain(names) else ())


_CHOOSING: Final = ("--include", "--exclude")


def _by_rg(given: "Given", folder: str) -> Search | None:
    if given.has("--files --type-list"):
        return None
    globs = [word.value or "" for word in given.values("-g") + given.values("--glob")]
    wanted = [glob for glob in globs if not glob.startswith("!")]
    kinds = [word.value or "" for word in given.values("-t") + given.values("--type")]
    if given.has("--iglob") or not _is_plain(wanted) or not _TYPES.keys() >= set(kinds):
        return Search(folder)
    if wanted:  # beside those, `-t` means nothing
        return Search(folder, names=tuple(wanted))
    if kinds:
        return Search(folder, names=tuple(name for kind in kinds for name in _TYPES[kind].split()))
    unrestricted = sum(flag.name in ("-u", "--unrestricted") for flag, _ in given.flags)
    return Search(folder, "all" if given.has("--hidden -.") or unrestricted > 1 else "shown")


def _by_git(given: "Given", folder: str, ground: Ground) -> Search:
    paths = [word.value or "" for word in given.operands[0 if given.has("-e -f") else 1 :]]
    by_name = paths and folder == plain(ground.cwd, ground.os) and all("*" in path for path in paths)
    names = tuple(paths) if by_name and _is_plain(paths) else ()
    return Search(folder, "all" if given.has(_UNTRACKED) else "tracked", names)


def _is_plain(patterns: Sequence[str]) -> bool:
    return all(_PLAIN_PATTERN.fullmatch(pattern) for pattern in patterns)
