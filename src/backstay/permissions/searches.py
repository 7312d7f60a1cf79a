"""Commands that read files which they do not name: what is below a folder, and what `find` hands to `xargs`.

Which sensitive files are there is looked up before the call is judged, under a pattern of this module's own in `CallSite.globs`. Flags
narrow what a search opens (`--include`, `-g`, hidden files left out); flags that are not known narrow nothing.
"""

import posixpath
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from backstay.permissions.bulk_changes import Arguments, goes_below, is_deep, literal_folder, programs_of, takes_all
from backstay.permissions.call_site import Access, CallSite, Command
from backstay.permissions.path_rules import absolute_patterns, path_pattern
from backstay.permissions.paths import plain, within
from backstay.permissions.sensitive_paths import sensitive_name
from backstay.vocab.rules import Rule

if TYPE_CHECKING:
    from backstay.permissions.unasked.options import Given
    from backstay.permissions.unasked.shell_grammar import Word

Which = Literal[
    "all", "followed", "shown", "taken", "tracked", "named", "repository", "elsewhere", "handed", "revision", "shared"
]
"""`all` files below a folder; what links there lead to besides, where they are `followed`; those `shown`, whose names do not begin with a
dot; what is `taken` away with it; those that git has `tracked`; of what is `named` to git, those tracked below it; all that is tracked in
the `repository` that the folder lies in. Where there is no such file as is `named` it is a revision: what lies there, or `elsewhere`,
may be denied and is else taken for what is tracked now. Of what `find` has `handed` over, one of the files that are what they seem, and
all that are not. `shared` is the file itself where it has another name, by a hard link: no folder."""

NOT_TOLD: Final = ("",)
"""What stands for a folder that could not be searched to its end."""

MOST_NARROWED: Final = 60
"""Files that a command names, of which it is looked at for each how its options narrow what is read below it."""

_MARK: Final = re.compile(
    r"<(all|followed|shown|taken|tracked|named|repository|elsewhere|handed|revision|shared)(, each)?(, and before)? (\d+)(?: (\d+))?>"
)
_MOVERS: Final = frozenset(("cp", "mv"))
_GREPS: Final = frozenset(("grep", "egrep", "fgrep"))
_FOLLOWERS: Final = frozenset(("diff", "colordiff", "sdiff"))
_PLAIN_PATTERN: Final = re.compile(r"[\w.*?@+-]+")
"""A pattern of a file's name that every program reads alike."""
_UNTRACKED: Final = "--no-index --untracked --no-exclude-standard"
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


class Lookup(msgspec.Struct, frozen=True):
    """What is to be found below a folder."""

    folder: str
    """Absolute."""
    which: Which = "all"
    each: bool = False
    """Whether the folder is a pattern, and everything is meant that a shell makes of it."""
    past: bool = False
    """Whether git shows older contents too, which are not known."""
    patterns: tuple[str, ...] = ()
    """What the files are about, as `path_rules.absolute_patterns` gives it; the sensitive ones where nothing is said."""
    compared: tuple[str, ...] = ()
    """A path and what `git diff` may compare it with, `*` for anything: if both are there, all below the path counts too."""

    @property
    def text(self) -> str:
        """The name under which `CallSite.globs` has what was found. No path begins like it."""
        flags = f"{', each' if self.each else ''}{', and before' if self.past else ''}"
        compared = "\n".join(self.compared)
        mark = f"<{self.which}{flags} {len(self.folder)}{f' {len(compared)}' if compared else ''}>"
        return mark + self.folder + compared + "\n".join(self.patterns)

    @property
    def by_git(self) -> bool:
        """Whether it is about nothing but what git has tracked."""
        return self.which in ("tracked", "named", "repository", "elsewhere")


def lookup_of(text: str) -> Lookup | None:
    """Read the text of a lookup; None for any other pattern."""
    found = _MARK.match(text)
    if found is None:
        return None
    middle = found.end() + int(found[4])
    end = middle + int(found[5] or 0)
    compared = tuple(text[middle:end].split("\n")) if middle < end else ()
    patterns = tuple(text[end:].split("\n")) if end < len(text) else ()
    which: Which = found[1]  # type: ignore[assignment]  # the expression has these words and no other
    return Lookup(text[found.end() : middle], which, bool(found[2]), bool(found[3]), patterns, compared)


class Search(msgspec.Struct, frozen=True):
    """What a command reads below a folder, or takes away with it."""

    place: Lookup
    names: tuple[str, ...] = ()
    """Patterns of which the name of a file must match one; none for every file."""
    moves: bool = False
    """Whether it shows nothing and puts the folder elsewhere: there a file may lack the name by which it is known as sensitive."""
    unsure: bool = False
    """Whether some of its words are not known: an option among them may let it read what is denied."""

    def about(self, rules: Sequence[Rule], call_site: CallSite) -> Lookup | None:
        """Return what is to be looked up to find those of its files that rules are about; None when no rule has a pattern."""
        texts = [text for rule in rules if rule.pattern is not None for text in absolute_patterns(rule, call_site)]
        patterns = tuple(dict.fromkeys(text.replace("\n", "?") for text in texts))
        which = "all" if self.unsure else self.place.which
        return msgspec.structs.replace(self.place, patterns=patterns, which=which) if patterns else None

    def includes(self, path: str) -> bool:
        """Return whether a file that was found has a name that it reads."""
        return not self.names or any(fnmatchcase(path.rpartition("/")[2], pattern) for pattern in self.names)

    def shows(self, path: str, os: str) -> bool:
        """Return whether a sensitive file that was found could be read by it, or later where it was moved to."""
        return not sensitive_name(self._inner(path, os), os) if self.moves else self.includes(path)

    def _inner(self, path: str, os: str) -> str:
        """Return what is moved with a folder: the path below it."""
        folder = plain(self.place.folder, os)
        if not self.place.each:
            return path[len(folder.rstrip("/")) :] if within(path, (folder,)) else path
        parts = self.place.folder.split("/")
        return "" if {"**", ".", ".."} & set(parts) else "/" + "/".join(path.split("/")[len(parts) :])


def search_of(access: Access, command: Command | None, call_site: CallSite) -> Search | None:
    """Say what an access reads that it does not name; None when it reads what it names."""
    if command is None or access.kind != "read" or access.redirect or not access.known:
        return None
    if not is_deep(access, command):
        return _search_printed_by_find(access.path, call_site) if access.glob and "/**/" in access.path else None
    place = _place_of(access, call_site)
    programs = programs_of(command)
    if len(programs) > 1:
        programs = [each for each in programs if each[0] == "git" or goes_below(*each)]
    if any(program in _FOLLOWERS or (program in _GREPS and "-R" in rest) for program, rest in programs):
        return Search(msgspec.structs.replace(place, which="followed"))
    if len(programs) != 1 or len(command.accesses) > MOST_NARROWED:  # which of its words is the program cannot be told
        return Search(place)
    program, rest = programs[0]
    if program in _MOVERS:
        return Search(place, moves=True)
    from backstay.permissions.unasked.options import Unlisted  # noqa: PLC0415 - likewise
    from backstay.permissions.unasked.shell_grammar import Word  # noqa: PLC0415 - the tables load when the first command is read

    try:
        found = _narrow(program, [Word(word or "", word) for word in rest], place, call_site)
    except Unlisted:
        return Search(place)
    if found is not None and found.place.by_git and command.after_adding:
        folder = place.folder if found.place.which == "tracked" else plain(call_site.cwd, call_site.os)
        return Search(msgspec.structs.replace(found.place, compared=(folder, "*")))
    return found


def find_taken_files(access: Access, command: Command | None, call_site: CallSite) -> Search | None:
    """Say what an access takes away or replaces with a folder; None when it changes what it names."""
    if not access.known or not takes_all(access, command):
        return None
    return Search(msgspec.structs.replace(_place_of(access, call_site), which="taken"))


def _place_of(access: Access, call_site: CallSite) -> Lookup:
    path = access.path.rstrip("/") or "/"
    # behind a link, `..` is not the folder above
    return Lookup(path if access.glob or ".." in path.split("/") else plain(path, call_site.os), each=access.glob)


def read_by(search: Search, call_site: CallSite) -> tuple[str, ...] | None:
    """Name the sensitive files that a search reads; None when the folder could not be searched to its end."""
    found = call_site.globs.get(search.place.text, () if call_site.described else NOT_TOLD)
    if found == NOT_TOLD:
        return None
    return tuple(path for path in found if search.shows(plain(path, call_site.os), call_site.os))


def match_rules(search: Search, rules: Sequence[Rule], call_site: CallSite) -> list[tuple[str, Rule]] | None:
    """Name the files of a search that rules are about, and the rules; None when the folder could not be searched to its end."""
    lookup = search.about(rules, call_site)
    if lookup is None:
        return []
    found = call_site.globs.get(lookup.text)
    if (
        found is None and call_site.described and not lookup.by_git
    ):  # no files are described: what is denied may be there to be read
        reached = lookup.which != "taken" and any(
            _may_reach(rule, lookup.folder, call_site) for rule in rules if rule.pattern
        )
        return None if reached else []
    if found is None or found == NOT_TOLD:
        return None
    return [
        (path, rule)
        for path in found
        for rule in rules
        if rule.pattern is not None and (search.unsure or search.includes(path))
        if path_pattern(rule, call_site).covers(plain(path, call_site.os))
        or (lookup.past and _may_reach(rule, plain(path, call_site.os), call_site))
    ]


def _may_reach(rule: Rule, folder: str, call_site: CallSite) -> bool:
    return path_pattern(rule, call_site).may_reach_below(folder)


def from_the_root(access: Access, command: Command | None, call_site: CallSite) -> str:
    """Return the name under which `CallSite.globs` has the file that `REVISION:path` means; empty for any other access.

    git takes the path from the root of the repository, which the working folder may lie below, unless it begins with a dot.
    """
    rest = next((rest for program, rest in programs_of(command) if program == "git"), ())
    if access.kind != "read":
        return ""
    here = plain(call_site.cwd, call_site.os)
    name = _of_revisions(rest, here, call_site.os).get(plain(access.path, call_site.os))
    return Lookup(here, "revision", patterns=(name,)).text if name else ""


@lru_cache(maxsize=64)
def _of_revisions(rest: Arguments, here: str, os: str) -> dict[str, str]:
    """Return the paths behind revisions among the words of git, by the files of the folder that they look like."""
    if any((word or "").startswith("-L") for word in rest):
        return {}
    names = [found[1] for found in (_OF_A_REVISION.fullmatch(word or "") for word in rest) if found]
    return {plain(f"{here}/{name}", os): name for name in reversed(names)}


_OF_A_REVISION: Final = re.compile(r"(?!-).*:(?!\.{1,2}/)([^:(!^/][^:]*)", re.DOTALL)


def lookup_of_names(access: Access, command: Command | None) -> str:
    """Return the key in `CallSite.globs` for the files that a command writes and that have other names; empty for any other access."""
    if command is None or access.kind != "write" or not access.known:
        return ""  # a file tool refuses them by itself
    return Lookup(access.path, "shared", each=access.glob).text


def glob_of_handed_files(access: Access) -> str:
    """Return the key in `CallSite.globs` for files with odd names that `find FOLDER -name NAME` prints; empty for any other access.

    Where a program reads more of them than can be named, these and the searches of the folder tell what it may meet.
    """
    folder, _, name = access.path.partition("/**/")
    if access.kind != "read" or not access.glob or "/" in name or not _is_plain([name]) or set(folder) & set("*?[{"):
        return ""
    return Lookup(folder or "/", "handed", patterns=(name,)).text


def _search_printed_by_find(pattern: str, call_site: CallSite) -> Search:
    """Return what `find FOLDER -name NAME` prints: a wildcard of `find` stands for hidden files too."""
    name = pattern.rpartition("/")[2]
    folder = literal_folder(pattern) or "/"
    place = Lookup(folder if ".." in folder.split("/") else plain(folder, call_site.os))
    return Search(place, names=(name,) if _is_plain([name]) else ())


def _narrow(program: str, words: "Sequence[Word]", place: Lookup, call_site: CallSite) -> Search | None:
    from backstay.permissions.unasked.options import take_apart  # noqa: PLC0415 - likewise
    from backstay.permissions.unasked.table import programs  # noqa: PLC0415 - likewise

    if program == "git":
        found = _by_git(words, place, call_site)
        compared = _find_comparison(words, place, call_site) if found is not None and found.place.which != "all" else ()
        return Search(msgspec.structs.replace(found.place, compared=compared)) if found and compared else found
    if program == "rg":
        known = [word for word in words if word.value is not None]
        found = _by_rg(take_apart(known, programs()["rg"].rows[0].options), place)
        return found and msgspec.structs.replace(found, unsure=len(known) < len(words))
    if program in _GREPS:
        return _by_grep(take_apart(words, programs()["grep"].rows[0].options, number=True), place)
    return Search(place)


def _by_grep(given: "Given", place: Lookup) -> Search:
    chosen = [(flag.name, word.value or "") for flag, word in given.flags if word and flag.name in _CHOOSING]
    names = [value for name, value in chosen if name == "--include"]
    # behind an `--exclude` that comes first, what no pattern is about is read
    return Search(place, names=tuple(names) if names and chosen[0][0] == "--include" and _is_plain(names) else ())


_CHOOSING: Final = ("--include", "--exclude")


def _by_rg(given: "Given", place: Lookup) -> Search | None:
    if given.has("--files --type-list"):
        return None
    globs = [word.value or "" for word in given.values("-g") + given.values("--glob")]
    wanted = [glob for glob in globs if not glob.startswith("!")]
    kinds = [word.value or "" for word in given.values("-t") + given.values("--type")]
    if given.has("--iglob") or not _is_plain(wanted) or not _TYPES.keys() >= set(kinds):
        return Search(place)
    if wanted:  # beside those, `-t` means nothing
        return Search(place, names=tuple(wanted))
    if kinds:
        return Search(place, names=tuple(name for kind in kinds for name in _TYPES[kind].split()))
    unrestricted = sum(flag.name in ("-u", "--unrestricted") for flag, _ in given.flags)
    if given.has("--hidden -.") or unrestricted > 1:
        return Search(place)
    return Search(msgspec.structs.replace(place, which="shown"))


def _by_git(words: "Sequence[Word]", place: Lookup, call_site: CallSite) -> Search | None:
    from backstay.permissions.shell.git import SHOWERS, shows  # noqa: PLC0415 - the tables load when the first command is read
    from backstay.permissions.unasked.options import take_apart  # noqa: PLC0415 - likewise
    from backstay.permissions.unasked.programs import COMMIT, ENDING, narrowing  # noqa: PLC0415 - likewise
    from backstay.permissions.unasked.table import programs  # noqa: PLC0415 - likewise

    given_later = any(word.value is None for word in words)
    words = [word for word in words if word.value is not None]
    if not words:
        return Search(place)
    git = programs()["git"]
    before = take_apart(words, next(row.options for row in git.rows if row.grammar), stop=True)
    first, *inner = before.operands or words[:1]
    name = first.value or ""
    if name not in git.sub:
        if any((word.value or "").startswith("--no-i") for word in inner):
            return Search(place)
        return Search(Lookup(plain(call_site.cwd, call_site.os), "repository", past=True)) if name in SHOWERS else None
    given = take_apart(inner, git.sub[name].options, number=True)
    if given.has(_UNTRACKED if name == "grep" else "--no-index"):
        return Search(place)
    if not shows(name, given):
        return None
    paths = tuple(word.value or "" for word in narrowing(name, inner, given))
    here = plain(call_site.cwd, call_site.os)
    values = [word.value or "" for word in inner]
    ahead = values[: values.index("--")] if "--" in values else values
    narrowed = len(ahead) < len(values)
    if any(_PUT_AWAY.search(value) for value in ahead):
        return Search(Lookup(here, "elsewhere", past=True))
    if name in _OF_ANYWHERE or (given.has(_ANYWHERE) and not narrowed):
        return Search(Lookup(here, "elsewhere"))
    if place.each:
        return Search(msgspec.structs.replace(place, which="tracked"))
    past = given_later or name in _LOGS or any(_EARLIER.fullmatch(value) for value in ahead)
    whole = Lookup(here, "repository", past=past)
    if before.has(_PATHSPECS):
        return Search(whole)
    folder = plain(place.folder, call_site.os)
    if folder == here:
        names = paths if all(ENDING.fullmatch(path) for path in paths) else ()
        own = Lookup(here, "tracked", past=past) if name == "grep" and not paths else whole
        return Search(own, names)
    word = folder.removeprefix(here.rstrip("/") + "/")
    if ENDING.fullmatch(word):
        return Search(whole, (word,))
    if word in ahead and not narrowed and (COMMIT.fullmatch(word) or _EARLIER.fullmatch(word)):
        return Search(whole)
    return Search(Lookup(folder, "tracked" if narrowed else "named"))


def _find_comparison(words: "Sequence[Word]", place: Lookup, call_site: CallSite) -> tuple[str, ...]:
    """Return a path and what `git diff` may compare it with where it finds no repository, or one that does not hold both.

    It reads both to their ends then, tracked or not. Empty when the path is none of two that are named.
    """
    from backstay.permissions.unasked.options import take_apart  # noqa: PLC0415 - the tables load when the first command is read
    from backstay.permissions.unasked.table import programs  # noqa: PLC0415 - likewise

    git = programs()["git"]
    known = [word for word in words if word.value is not None]
    before = take_apart(known, next(row.options for row in git.rows if row.grammar), stop=True)
    if not before.operands or before.operands[0].value != "diff":
        return ()
    given = take_apart(before.operands[1:], git.sub["diff"].options, number=True)
    values = [word.value or "" for word in given.operands]
    path = plain(place.folder, call_site.os)
    bases = ((at, _base_of(path, value, call_site)) for at, value in enumerate(values))
    at, base = next(((at, base) for at, base in bases if base), (0, ""))
    unclear = len(known) < len(words) or any(map(_UNCLEAR.search, values))
    if not base or (len(values) < 2 and not unclear):
        return ()
    if unclear or at > 1:
        return (place.folder, "*") if unclear else ()
    return (place.folder, plain(posixpath.join(base, values[1 - at]), call_site.os))


def _base_of(path: str, value: str, call_site: CallSite) -> str:
    """Return the folder that a word was written in, if it means the path; else an empty text."""
    if path == plain(posixpath.join(call_site.cwd, value), call_site.os):
        return call_site.cwd
    tail = plain(f"/{value}", call_site.os)
    return path.removesuffix(tail) or "/" if path.endswith(tail) or tail == "/" else ""


_UNCLEAR: Final = re.compile(r"[*?\[\\\n]|(?:^|/)\.\.?(?:/|$)")
"""What may be several words, or in which folder it was written cannot be told."""
_LOGS: Final = ("log", "whatchanged")
_OF_ANYWHERE: Final = ("stash", "reflog", "range-diff")
_ANYWHERE: Final = "--all --branches --tags --remotes --glob --reflog -g --walk-reflogs"
"""What shows other branches than the one that is worked on, and what was put away."""
_PUT_AWAY: Final = re.compile(r"\^3|\^@|\^!|stash.*\^")
"""The third parent of a stash has files that git never tracked."""
_HERE: Final = r"(?:HEAD|@|[0-9a-f]{7,64})(?:[~^]\d*)*"
_EARLIER: Final = re.compile(
    rf"(?!(?:HEAD|@)$){_HERE}|(?:{_HERE})?\.\.(?:{_HERE})?|[\w./@~^-]*\.\.\.(?:(?:HEAD|@)(?:[~^]\d*)*)?"
)
"""Revisions of which it is certain that they are some, and part of the history of what is worked on: hashes are taken for such."""


def _is_plain(patterns: Sequence[str]) -> bool:
    return all(_PLAIN_PATTERN.fullmatch(pattern) for pattern in patterns)
