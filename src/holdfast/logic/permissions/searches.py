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

Which = Literal["all", "shown", "tracked", "named", "repository"]
"""`all` files below a folder; those `shown`, whose names do not begin with a dot; those that git has `tracked`. Of what is `named` to git,
those tracked below it; if there is no such file it may be a revision, and then all of the `repository` that the folder lies in."""

NOT_TOLD: Final = ("",)
"""What is found where nobody could look through all of a folder."""

_MARKS: Final[dict[Which, str]] = {
    "all": "/**/<sensitive>",
    "shown": "/**/<sensitive, shown>",
    "tracked": "/**/<sensitive, tracked>",
    "named": "/**/<sensitive, named to git>",
    "repository": "/**/<sensitive, in the repository>",
}
_MOVERS: Final = frozenset(("cp", "gcp", "mv", "gmv"))
_GREPS: Final = frozenset(("grep", "egrep", "fgrep", "ggrep"))
_PLAIN_PATTERN: Final = re.compile(r"[\w.*?@+-]+")
"""A pattern of a file's name that every program reads alike."""
_UNTRACKED: Final = "--no-index --untracked --no-exclude-standard --recurse-submodules"
_PATHSPECS: Final = "--literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs"
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

    def lookup_of(self, glob: str) -> str:
        """The pattern under which those of its files are found that match a glob; a wildcard of it may stand for folders."""
        return self.lookup + glob

    @property
    def by_git(self) -> bool:
        """Whether it reads nothing but what git has tracked, wherever that lies."""
        return self.which in ("named", "repository")

    def reads(self, path: str, os: str) -> bool:
        """Whether it reads a file that was found."""
        if self.moves:
            inner = path[len(self.folder.rstrip("/")) :] if within(path, (self.folder,)) else path
            return not sensitive_name(inner, os)
        return not self.names or any(fnmatchcase(path.rpartition("/")[2], pattern) for pattern in self.names)


def lookup_parts(lookup: str) -> tuple[str, Which, str] | None:
    """Take a pattern of this module apart: the folder, which of its files are meant, and the glob of `lookup_of`; None for any other."""
    for which, mark in _MARKS.items():
        folder, found, glob = lookup.partition(mark)
        if found:
            return folder or "/", which, glob
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
        return _by_git(words, folder, ground)
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


def _by_git(words: "Sequence[Word]", folder: str, ground: Ground) -> Search | None:
    from holdfast.logic.unasked.git_contents import ENDING, narrowing, shows_contents  # noqa: PLC0415 - likewise
    from holdfast.logic.unasked.options import take_apart  # noqa: PLC0415 - likewise
    from holdfast.logic.unasked.table import programs  # noqa: PLC0415 - likewise

    if not words:
        return Search(folder)
    git = programs()["git"]
    before = take_apart(words, next(row.options for row in git.rows if row.grammar), stop=True)
    first, *inner = before.operands or words[:1]
    name = first.value or ""
    if name not in git.sub:
        return Search(folder) if any((word.value or "").startswith("--no-i") for word in inner) else None
    given = take_apart(inner, git.sub[name].options, number=True)
    if given.has(_UNTRACKED if name == "grep" else "--no-index"):
        return Search(folder)
    if not shows_contents(name, given):
        return None
    paths = tuple(word.value or "" for word in narrowing(name, inner, given))
    here = plain(ground.cwd, ground.os)
    if before.has(_PATHSPECS):
        return Search(folder, "repository")
    if folder != here:
        own = folder.removeprefix(here.rstrip("/") + "/")
        return Search(here, "repository", (own,)) if ENDING.fullmatch(own) else Search(folder, "named")
    names = paths if all(ENDING.fullmatch(path) for path in paths) else ()
    return Search(folder, "tracked" if name == "grep" and not paths else "repository", names)


def _is_plain(patterns: Sequence[str]) -> bool:
    return all(_PLAIN_PATTERN.fullmatch(pattern) for pattern in patterns)
