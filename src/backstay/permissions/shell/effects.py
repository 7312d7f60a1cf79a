"""Collect the effects of one command: files, programs that it runs, other machines.

Nothing here says that a command is harmless: that is proved elsewhere (`permissions/unasked/`). What is found denies, asks and explains.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from backstay.permissions.call_site import Access, AccessKind, Rewrites
from backstay.permissions.shell.expand import Field, Site, join
from backstay.permissions.shell.options import Line, take_apart
from backstay.permissions.shell.table import Row

KINDS: Final[Mapping[str, AccessKind]] = {"read": "read", "write": "write", "remove": "remove", "list": "list"}
_PATH: Final = re.compile(r"[/.~]")
_NAME: Final = re.compile(r"(?=.*[A-Za-z_])[\w@%+-]{1,100}")
_SEPARATOR: Final = re.compile(r"[=:,]")
"""What stands between names in one word: `-v FILE:PLACE`, `--mount type=bind,src=FILE`."""
MOST_PARTS: Final = 12
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_STRING: Final = re.compile(r"""'([^'\\\n]{1,200})'|"([^"\\\n]{1,200})\"""")
_LIKE_PATH: Final = re.compile(r"[\w@%+/~-]*[./][\w@%+./~-]*\w")
_MAY_CHANGE: Final = re.compile(
    r"""["'](?:[wax]b?t?\+?b?|r[bt]?\+[bt]?)["']|(?<!stdout\.)(?<!stderr\.)write|unlink|\bremove|rmtree|rmdir|\brm(?:Sync)?\(|rename|truncate"""
    r"""|os\.replace|shutil\.|copyFile|WriteStream|\bcpSync|symlink|chmod|\bdump\(|delete|put_contents|O_(?:WRONLY|RDWR|TRUNC)|["']\+?>>?""",
)
"""In the text of a program, what files are changed by; also what looks like it."""
MOST_MENTIONED: Final = 50
HERE: Final = Field(".", ".")


class Effect(msgspec.Struct):
    """What was found out about one command."""

    edits: bool = False
    """Whether all that it changes is named in `accesses`."""
    why: str = ""
    accesses: list[Access] = []
    network: bool = False
    exact: bool = False
    opaque: bool = False
    given: bool = False
    """Whether its program is what it gets as its input."""
    scripts: list[Field] = []
    """Texts that it gives to a shell."""
    inner: list[list[Field]] = []
    """Commands that it runs."""

    def run(self, why: str) -> None:
        """Note that it does more than change the files that it names."""
        self.edits = False
        self.why = self.why or why

    def hide(self, why: str) -> None:
        """Note that anything may run."""
        self.run(why)
        self.opaque = True

    def touch(
        self, kind: AccessKind, field: Field, site: Site, *, rewrites: Rewrites = "", redirect: bool = False
    ) -> None:
        """Note that it touches the file that a word names, in each folder that it may run in.

        What a relative name removes is not known when the folder is not.
        """
        value = field.value
        if value == "" and not redirect:
            return
        paths = site.paths(value) if value is not None else ("",)
        if kind == "remove" and len(paths) > 1:
            paths = ("",)
        elif kind == "read" and "" in paths and value:  # its name may say enough
            paths = (*paths, *Site(site.call_site, (site.call_site.cwd,)).paths(value))
        self.accesses += [
            Access(kind=kind, path=path, written=field.text, glob=field.glob, redirect=redirect, rewrites=rewrites)
            for path in paths
        ]

    def deepen(self) -> None:
        """Note that it reads everything below what it reads."""
        self.accesses = [
            msgspec.structs.replace(access, deep=True) if access.kind == "read" else access for access in self.accesses
        ]


class Asked(msgspec.Struct, frozen=True):
    """A command whose program has a row, taken apart."""

    name: str
    words: Sequence[Field]
    """What stands behind its name."""
    line: Line
    row: Row
    site: Site
    given: Sequence[Field] = ()
    """The lines of here-documents that it reads as its input."""

    def goes_deep(self) -> bool:
        """Return whether it goes through folders."""
        return self.row.deep == "always" or self.line.has(*self.row.deep.split())


def guess(fields: Iterable[Field], effect: Effect, site: Site) -> None:
    """Take in every word that looks like a path or may name a file, so that rules for files still hold."""
    for field in fields:
        if field.value is None:
            continue
        glued = field.value[2:] if re.match(r"-[A-Za-z]", field.value) else field.value
        parts = list(filter(_PATH.search, _SEPARATOR.split(glued))) if not _SCHEME.match(glued) else []
        for part in dict.fromkeys((glued, glued.partition("=")[2], *parts[:MOST_PARTS])):
            name = part.removeprefix("@").removeprefix("file://")
            if name.startswith("-") or _SCHEME.match(name):
                continue
            if _PATH.search(name):
                effect.touch("read", Field(name, field.text, field.glob), site)
            elif field.glob or _NAME.fullmatch(name):  # it is looked up, and counts when there is such a file
                effect.touch("read", Field(name, field.text, glob=True), site)


def read_operands(asked: Asked, effect: Effect) -> None:
    """Take in operands as what the row says that they are."""
    kinds = asked.row.operands.split()
    for at, field in enumerate(asked.line.operands):
        kind = KINDS.get(kinds[min(at, len(kinds) - 1)])
        if kind and field.value != "-":
            effect.touch(kind, field, asked.site)
            if kind == "write" and asked.goes_deep():
                effect.touch("read", field, asked.site)
            if (field.value or "").startswith("@"):  # a file with more arguments
                effect.touch("read", Field((field.value or "")[1:], field.text), asked.site)
    if asked.goes_deep():
        effect.deepen()


def mention(code: str, effect: Effect, site: Site) -> None:
    """Take in the paths that a program's text names in quotes, so that rules for files still hold."""
    rewrites: Rewrites = "file" if _MAY_CHANGE.search(code) else ""
    for single, double in _STRING.findall(code)[:MOST_MENTIONED]:
        name = (single or double).lstrip("+<> ")  # perl and awk have the mode in front of the name
        if _LIKE_PATH.fullmatch(name) and not _SCHEME.match(name):
            effect.touch("read", Field(name, name), site, rewrites=rewrites)
        elif rewrites and _NAME.fullmatch(name):  # it is looked up, and counts when there is such a file
            effect.touch("read", Field(name, name, glob=True), site, rewrites=rewrites)


def is_stream(path: str | None) -> bool:
    """Return whether a path names the program's own input, or another descriptor."""
    return path is not None and path.startswith(("/dev/stdin", "/dev/fd/", "/proc/"))


_REMOTE: Final = re.compile(r"[^/:]+:|rsync://|[a-z]+://")
_OLD_STYLE: Final = re.compile(r"[A-Za-z]+")
_TAKES: Final = "fCTXIbgNKLVHF"
"""Letters of `tar` that take a value."""


def read_copy(asked: Asked, effect: Effect) -> None:
    """Say what `cp` and its kin do: read all but the last operand, write the last; `mv` takes the others away."""
    line, site = asked.line, asked.site
    targets = [value for _, kind, value in line.given if kind == "target"]
    lone = len(line.operands) == 1 and not targets
    sources = line.operands if targets or lone else line.operands[:-1]
    target = targets[-1] if targets else (line.operands[-1] if line.operands and not lone else HERE)
    moves = asked.name == "mv" or any(name.startswith("--remove-s") for name in line.names)
    for source in sources:
        if effect.network and _REMOTE.match(source.value or ""):
            continue
        effect.touch("read", source, site)
        if moves:
            effect.touch("remove", source, site)
    if not (effect.network and _REMOTE.match(target.value or "")):
        effect.touch("write", target, site)
        if any(name.startswith("--del") for name in line.names):
            effect.touch("remove", target, site)
        for source in sources if not line.has("-T", "--no-target-directory") else ():
            _land(target, source, effect, site)
    if asked.goes_deep():
        effect.deepen()
        if _merges(sources) or line.has("-T", "--no-target-directory"):
            effect.touch("read", target, site, rewrites="tree")
            if any(_holds_workspace(path, site) for path in site.paths(target.value or "")):
                effect.touch("write", Field(join(target.value or "", ".??*"), target.text, glob=True), site)


def _merges(sources: Sequence[Field]) -> bool:
    """Return whether the content of a folder is put over that of another one."""
    names = [source.value or "/" for source in sources]
    return any(name.endswith("/") or posixpath.basename(name) in (".", "..") for name in names)


def _holds_workspace(folder: str, site: Site) -> bool:
    """Return whether a folder is one that has the workspace or the home below it, or is one of them."""
    dear = (site.call_site.cwd, site.call_site.home, *site.call_site.roots)
    return any(f"{each.rstrip('/')}/".startswith(f"{posixpath.normpath(folder).rstrip('/')}/") for each in dear)


def _land(target: Field, source: Field, effect: Effect, site: Site) -> None:
    """Take in what a source becomes when the target is a folder."""
    name = posixpath.basename((source.value or "").rstrip("/"))
    if name == ".":
        return
    known = target.value and not target.glob and name not in ("", "..")
    below = join(target.value or "", name) if known else None
    effect.touch("write", Field(below, target.text, source.glob), site)


def read_patch(asked: Asked, effect: Effect) -> None:
    """Say what `patch` does: without an operand, the patch names the files that it changes."""
    read_operands(asked, effect)
    if not asked.line.operands and not asked.line.has("--dry-run", "-C", "--check", "--version", "--help"):
        for folder in asked.line.values("-d", "--directory") or [HERE]:
            effect.touch("read", folder, asked.site, rewrites="tree")


def read_dd(asked: Asked, effect: Effect) -> None:
    """Say what `dd` does: read `if=`, write `of=`."""
    for field in asked.words:
        name, _, value = (field.value or "of=").partition("=")
        if name in ("if", "of"):
            held = Field(value if field.value is not None else None, field.text)
            effect.touch("read" if name == "if" else "write", held, asked.site)


def read_tar(asked: Asked, effect: Effect) -> None:
    """Say what `tar` does: pack what it names, or unpack into a folder."""
    line = take_apart(_add_dashes(asked.words), asked.row.options)
    for _, kind, value in line.given:
        if kind == "script":
            effect.exact = True
            effect.scripts.append(value)
    creates = line.has("-c", "-r", "-u", "--create", "--append", "--update")
    for field in line.values("-f", "--file"):
        if field.value != "-":
            effect.touch("write" if creates else "read", field, asked.site)
    for field in line.values("--checkpoint-action"):
        if (field.value or "exec=").startswith("exec="):
            effect.exact = True
            effect.scripts.append(Field((field.value or "")[5:], field.text))
    for _ in line.values("-T", "--files-from") if creates else ():
        effect.touch("read", Field(None, "files that are on a list"), asked.site)
    sites = [asked.site.below(folder) for folder in line.values("-C", "--directory")] or [asked.site]
    for site in sites:
        for field in line.operands:
            effect.touch("read", field, site)
            if line.has("--remove-files"):
                effect.touch("remove", field, site)
        if not creates and not line.has("-t", "--list"):
            effect.touch("write", HERE, site, rewrites="tree")
    effect.deepen()


def _add_dashes(fields: Sequence[Field]) -> list[Field]:
    """Write the old form `czf archive` with a dash for each letter, its values in order."""
    first = fields[0].value if fields else None
    if first is None or not _OLD_STYLE.fullmatch(first):
        return list(fields)
    rest, done = list(fields[1:]), list[Field]()
    for letter in first:
        done.append(Field("-" + letter, fields[0].text))
        if letter in _TAKES and rest:
            done.append(rest.pop(0))
    return done + rest


def read_unzip(asked: Asked, effect: Effect) -> None:
    """Say what `unzip` does: write into a folder, or only list."""
    for field in asked.line.operands[:1]:
        effect.touch("read", field, asked.site)
    packs = asked.name == "cpio" and asked.line.has("-o", "-p", "--create", "--pass-through")
    if packs:
        effect.touch("read", Field(None, "files that are on a list"), asked.site)
    looks = ("-t", "--list") if asked.name == "cpio" else ("-l", "-v", "-t", "-Z")
    for folder in asked.line.values("-d", "-D", "--directory") or ([] if packs else [HERE]):
        if not asked.line.has(*looks):
            effect.touch("write", folder, asked.site, rewrites="tree")
