"""Tell what `git` does to files: those it replaces, those it writes, what its configuration runs."""

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from backstay.permissions.shell.effects import HERE, Asked, Effect, guess
from backstay.permissions.shell.expand import Field, Site
from backstay.permissions.shell.options import Line, take_apart
from backstay.permissions.unasked.options import Given, Unlisted
from backstay.permissions.unasked.options import take_apart as given_to
from backstay.permissions.unasked.programs import COMMIT, REVISION_PATH, may_show, shows_contents
from backstay.permissions.unasked.shell_grammar import Word
from backstay.permissions.unasked.table import programs

_PATHSPEC: Final = re.compile(r"[*?\[\\]|^:[(/!^]")
_WRITTEN: Final = ("-o", "--output", "--output-directory", "--separate-git-dir")
_READ: Final = ("-F", "--file", "--template")
_WRITERS: Final = ("archive", "format-patch", "clone", "init", "bundle", "diagnose", "bugreport")
_RUNNERS: Final = (
    "filter-branch",
    "send-email",
    "difftool",
    "mergetool",
    "instaweb",
    "daemon",
    "upload-pack",
    "receive-pack",
    "imap-send",
)
"""They run programs that their options name."""
_MOVERS: Final = (
    "am",
    "cherry-pick",
    "commit",
    "gc",
    "merge",
    "prune",
    "pull",
    "rebase",
    "reset",
    "revert",
    "stash",
    "switch",
    "update-ref",
)
"""They change a repository whose files they need not name."""
SHOWERS: Final = ("archive", "bundle", "checkout-index", "difftool", "fast-export", "format-patch", "grep")
"""They show or copy what is in files that they need not name."""
_FILE: Final = re.compile(r"(?:^\.{0,2}/|.\.[A-Za-z]\w*$)|^\.$")
"""What is a file rather than a branch: with an ending, or a way to it."""
_NEW_BRANCH: Final = ("-b", "-B", "--orphan", "-t", "--track", "-d", "--detach")
_LOOKS: Final = ("--check", "--stat", "--numstat", "--summary", "--cached", "--help", "--dry-run")
_VALUED: Final = (
    "-s: --source: --conflict: -U: --unified: -m: --message: -o: --output: --output-directory: --separate-git-dir: -b: -B: --orphan: "
    "-x: --exec: -O? --open-files-in-pager? "
    "--extcmd: --blob: --prefix: "
    "--upload-pack: --receive-pack: -c: --config: --template: -f: --file: --depth: -e: -F: -C: --reference: --origin: --branch:"
)
_TEXTS: Final = {
    "-m": ("commit", "merge", "notes", "stash", "tag"),
    "--message": ("commit", "merge", "notes", "stash", "tag"),
    "-e": ("grep",),
}
"""Flags whose value is a text for these subcommands. Any other value may be a file: most flags take one for some subcommands only."""
_RUNS: Final = (
    "-O",
    "--open-files-in-pager",
    "-x",
    "--exec",
    "--extcmd",
    "--upload-pack",
    "--receive-pack",
    "-c",
    "--config",
    "--template",
)


def read_git(asked: Asked, effect: Effect) -> None:
    """Say what a `git` command may do."""
    before = take_apart(asked.words, asked.row.options, stop=True)
    site = asked.site
    for folder in before.values("-C"):
        site = site.below(folder)
    _configure(before, effect)
    if not before.operands:
        return
    name, rest = before.operands[0].value or "", before.operands[1:]
    line = take_apart(rest, _VALUED)
    values = [value for option, _, value in line.given if name not in _TEXTS.get(option, ())]
    for field in (*line.operands, *values):
        guess([field], effect, site)
        _, colon, path = (field.value or "").partition(":")
        if colon and not path.startswith("//"):
            guess([Field(path, field.text)], effect, site)
    effect.exact = effect.exact or (name not in _WRITERS and bool(line.values("--output")))
    for field in line.values(*(_WRITTEN if name in _WRITERS else ("--output",))):
        effect.touch("write", field, site)
    for field in line.values("-f", *_READ) if name == "grep" else line.values(*_READ):
        effect.touch("read", field, site)
    shows_others = name in SHOWERS and (name != "bundle" or _creates(rest))
    if shows_others or line.has("--no-index") or _shows(name, rest):
        for field in (*_below(name, rest), *(field for field in line.operands if field.glob)):
            effect.touch("read", field, site)
        effect.deepen()
    if name in _MOVERS and before.has("-C"):
        effect.touch("read", HERE, site, rewrites="file")
    _take_commands(name, rest, line, effect)
    if name in _SUBCOMMANDS:
        _SUBCOMMANDS[name](line, effect, site)
        if name == "clean" and before.has("--work-tree"):
            _cleans(msgspec.structs.replace(line, operands=before.values("--work-tree")), effect, site)
        if name in _REPLACERS and values:
            _SUBCOMMANDS[name](msgspec.structs.replace(line, operands=values), effect, site)


def _creates(rest: Sequence[Field]) -> bool:
    return not rest or rest[0].value in ("create", None)


def _shows(name: str, rest: Sequence[Field]) -> bool:
    """Return whether a subcommand shows files that it need not name; with unknown flags it may."""
    sub = programs()["git"].sub.get(name)
    words = [Word(field.text, field.value, field.glob) for field in rest if field.value is not None]
    try:
        return sub is not None and shows(name, given_to(words, sub.options, number=True))
    except Unlisted:
        return may_show(name) or name == "cat-file"


def shows(name: str, given: Given) -> bool:
    """Return whether a subcommand shows files that it need not name: `cat-file` does where an object is unknown."""
    if name != "cat-file":
        return shows_contents(name, given)
    objects = [word.value or "" for word in given.operands if word.value not in ("blob", "commit", "tree", "tag")]
    plain = all(COMMIT.fullmatch(each) or REVISION_PATH.fullmatch(each) for each in objects)
    return not given.has("-t -s -e --batch-check") and not (objects and plain)


def _below(name: str, rest: Sequence[Field]) -> Sequence[Field]:
    """Give the folders whose contents are shown: those that stand behind `--`, or the one that it runs in."""
    values = [field.value for field in rest]
    paths = rest[values.index("--") + 1 :] if "--" in values and name not in SHOWERS else []
    plain = all(field.value and not field.glob and not _PATHSPEC.search(field.value) for field in paths)
    return paths if paths and plain else [HERE]


def _configure(before: Line, effect: Effect) -> None:
    """Take in `-c name=value`: a value may be a command, and an alias may be any subcommand."""
    if before.has("-c", "--config-env", "--exec-path", "--git-dir", "--work-tree"):
        effect.exact = True
    for field in before.values("-c"):
        name, _, value = (field.value or "").partition("=")
        _set(name, Field(None if field.value is None else value, field.text), effect)
    if before.has("--config-env", "--exec-path"):
        effect.hide("git takes programs from elsewhere")


def _set(name: str, field: Field, effect: Effect) -> None:
    """Take in a value of the configuration: it may be a command, and an alias may be any subcommand."""
    value = field.value
    if value is None:
        effect.hide("an option of git that is not known may run anything")
    elif name.lower().startswith("alias.") and not value.startswith("!"):
        effect.inner.append([Field("git", "git"), *_split(value)])
    elif " " in value or "/" in value or value.startswith("!"):
        effect.scripts.append(Field(value.removeprefix("!"), field.text))


def _split(text: str) -> list[Field]:
    try:
        return [Field(word, word) for word in shlex.split(text)]
    except ValueError:
        return [Field(None, text, many=True)]


def _take_commands(name: str, rest: Sequence[Field], line: Line, effect: Effect) -> None:
    """Take in the commands that some subcommands run."""
    if name in _RUNNERS or (name == "clone" and line.has("-u", "--upload-pack")):
        effect.exact = True
    words = [field for field in rest if field.value not in ("--recursive", "--quiet", "-q")]
    if words and (name, words[0].value) in (("submodule", "foreach"), ("bisect", "run")):
        effect.exact = True
        given = words[1:]
        known = all(field.value is not None for field in given)
        effect.scripts.append(Field(" ".join(field.value or "" for field in given) if known else None, "foreach"))
    if any(option in _RUNS and option.startswith("--") for option in line.names):
        effect.exact = True
    for option, _, value in line.given:
        if option in _RUNS or option.endswith("-filter"):
            effect.exact = True
            effect.scripts.append(Field((value.value or "").partition("=")[2] or value.value, value.text))


def _mends(line: Line, effect: Effect, site: Site) -> None:
    if line.has("--in-place"):
        _replace(line.operands, effect, site)


def _merges_into(line: Line, effect: Effect, site: Site) -> None:
    if not line.has("-p", "--stdout"):
        _replace(line.operands[:1], effect, site)


def _removes(line: Line, effect: Effect, site: Site) -> None:
    if not line.has("--cached", "--dry-run", "-n"):
        _replace(line.operands, effect, site)


def _restores(line: Line, effect: Effect, site: Site) -> None:
    if not line.has("--staged", "-S") or line.has("--worktree", "-W"):
        _replace(line.operands, effect, site)


def _checks_out(line: Line, effect: Effect, site: Site) -> None:
    """Take in the files of a `checkout`. A word may be a branch: it is looked up like a wildcard, and counts when it names a file."""
    if not line.has(*_NEW_BRANCH):
        _replace(line.operands if "--" in line.names else [_perhaps(field) for field in line.operands], effect, site)


def _perhaps(field: Field) -> Field:
    """Give a word that may be a branch or a file; it is looked up like a wildcard."""
    return field if _FILE.search(field.value or "") else Field(field.value, field.text, glob=True)


def _applies(line: Line, effect: Effect, site: Site) -> None:
    if not line.has(*_LOOKS) or line.has("--apply"):
        _replace([HERE], effect, site)


def _copies_out(line: Line, effect: Effect, site: Site) -> None:
    for field in line.values("--prefix"):
        effect.touch("write", field, site)
    if not line.has("--prefix"):
        _replace([HERE], effect, site)


def _cleans(line: Line, effect: Effect, site: Site) -> None:
    """Take in what `clean` takes away: all that git does not track, which in a home folder, or one that is not known, may be everything."""
    if not line.has("--dry-run", "-n", "--help"):
        _replace(line.operands or [HERE], effect, site)
        home = f"{site.call_site.home.rstrip('/')}/"
        for field in line.operands or [HERE]:
            paths = [posixpath.normpath(path) if path else "" for path in site.paths(field.value or "")]
            if any(not path or home.startswith(f"{path.rstrip('/')}/") for path in paths):
                effect.touch("remove", field, site)


def _configures(line: Line, effect: Effect, site: Site) -> None:
    """Take in the file of the configuration that it writes: two operands or more, or an option that changes it."""
    files = line.values("-f", "--file")
    for field in files:
        effect.touch("read", field, site)
    asks = line.has(
        "--get", "--get-all", "--get-regexp", "--get-urlmatch", "-l", "--list", "--get-color", "--get-colorbool"
    )
    if asks or (
        len(line.operands) < 2 and not line.has("--unset", "--unset-all", "--add", "-e", "--edit", "--remove-section")
    ):
        return
    for before, field in pairwise(line.operands):
        _set(before.value or "", field, effect)
    if not files:
        files = [Field("~/.gitconfig" if line.has("--global") else ".git/config", "the configuration")]
    for field in files:
        value = field.value
        full = f"{site.call_site.home}/{value[2:]}" if value is not None and value.startswith("~/") else value
        effect.touch("write", Field(full, field.text), site)


def _clones(line: Line, effect: Effect, site: Site) -> None:
    for field in line.operands[1:2]:
        effect.touch("write", field, site)


def _tells(line: Line, effect: Effect, site: Site) -> None:
    """Take in the file in which passwords are kept, which is where most helpers take them from."""
    effect.touch("read", Field(f"{site.call_site.home}/.git-credentials", "kept passwords"), site)


def _makes(line: Line, effect: Effect, site: Site) -> None:
    first = line.operands[0].value if line.operands else None
    for field in line.operands[1:2] if first in ("add", "move", "create") else ():
        effect.touch("write", field, site)


def _adds(line: Line, effect: Effect, site: Site) -> None:
    if line.operands[:1] and line.operands[0].value == "add":
        for field in line.operands[2:3]:
            effect.touch("write", field, site)


def _begins(line: Line, effect: Effect, site: Site) -> None:
    """Take in a new repository, or an old one that hooks are put into."""
    for field in line.operands[:1]:
        effect.touch("write", field, site)
    if line.has("--template"):
        folder = line.operands[0].value if line.operands else "."
        effect.touch("write", Field(folder and posixpath.join(folder, ".git/hooks"), "hooks"), site)


def _installs(line: Line, effect: Effect, site: Site) -> None:
    if [field.value for field in line.operands[:1]] == ["install"]:
        effect.touch("write", Field(".git/hooks", "hooks"), site)


def _replace(fields: Sequence[Field], effect: Effect, site: Site) -> None:
    for field in fields:
        wild = _PATHSPEC.search(field.value or "")
        effect.touch("read", HERE if wild else field, site, rewrites="tree")


_REPLACERS: Final = ("checkout", "clean", "mv", "restore", "rm")
"""Subcommands that put something in the place of the files that they name, or take them away."""
_SUBCOMMANDS: Final[Mapping[str, Callable[[Line, Effect, Site], None]]] = {
    "apply": _applies,
    "bundle": _makes,
    "checkout": _checks_out,
    "checkout-index": _copies_out,
    "clean": _cleans,
    "clone": _clones,
    "config": _configures,
    "credential": _tells,
    "credential-cache": _tells,
    "credential-store": _tells,
    "init": _begins,
    "interpret-trailers": _mends,
    "lfs": _installs,
    "merge-file": _merges_into,
    "mv": _removes,
    "restore": _restores,
    "rm": _removes,
    "submodule": _adds,
    "worktree": _makes,
}
