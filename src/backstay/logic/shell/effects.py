"""What is found out about one command: the files that it touches, what it runs, whether it talks to other machines.

Nothing here says that a command is harmless: that is proved elsewhere (`logic/unasked`). What is found denies, asks and explains.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from backstay.logic.acts import Access, AccessKind, Rewrites
from backstay.logic.shell.fields import Field, Site
from backstay.logic.shell.options import Line
from backstay.logic.shell.table import Row

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
            paths = (*paths, *Site(site.ground, (site.ground.cwd,)).paths(value))
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
        """Whether it goes through folders."""
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
            elif _NAME.fullmatch(name):  # it is looked up, and counts when there is such a file
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
    """Whether a path names the program's own input, or another descriptor."""
    return path is not None and path.startswith(("/dev/stdin", "/dev/fd/", "/proc/"))
