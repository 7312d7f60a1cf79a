"""The tree of a shell command: what `grammar` reads and `walk` walks.

A word keeps its parts, because what a word becomes depends on which of its characters were quoted.
"""

from typing import Literal as Choice
from typing import TypeAlias

import msgspec


class Literal(msgspec.Struct, frozen=True):
    """Characters that stand for themselves."""

    text: str
    quoted: bool
    """Whether braces, wildcards, tildes and blanks in it mean nothing."""


class Parameter(msgspec.Struct, frozen=True):
    """`$x`, `${x:-word}` and their kin."""

    name: str
    plain: bool
    """Whether it is the value as it is, without an operator."""
    quoted: bool
    parts: "tuple[Part, ...]" = ()
    """The expansions inside of its operator and subscript."""
    sets: bool = False
    """Whether it may assign (`${x:=word}`)."""
    number: bool = False
    """Whether the value is a number (`$?`, `${#x}`)."""
    counts: str = ""
    """Text that the shell evaluates as arithmetic: a subscript or an offset."""


class Substitution(msgspec.Struct, frozen=True):
    """`$(...)`, backticks, `<(...)`, `>(...)`."""

    script: "Sequence"
    quoted: bool
    process: bool = False
    """Whether it becomes the name of a pipe, not the output."""


class Arithmetic(msgspec.Struct, frozen=True):
    """`$((...))` and `$[...]`."""

    text: str
    parts: "tuple[Part, ...]"
    quoted: bool


class Array(msgspec.Struct, frozen=True):
    """The `(...)` of `x=(...)`."""

    words: "tuple[Word, ...]"


Part: TypeAlias = Literal | Parameter | Substitution | Arithmetic | Array


class Word(msgspec.Struct, frozen=True):
    """One word as written, before any expansion."""

    parts: tuple[Part, ...]
    text: str
    tame: bool = False
    """Whether the text as written is what a program sees; not said of every such word."""

    @property
    def literal(self) -> str | None:
        """Its value when nothing in it is expanded, braces and wildcards aside."""
        if len(self.parts) == 1:
            part = self.parts[0]
            return part.text if isinstance(part, Literal) else None
        if all(isinstance(part, Literal) for part in self.parts):
            return "".join(part.text for part in self.parts if isinstance(part, Literal))
        return None


class Assignment(msgspec.Struct, frozen=True):
    """`name=value` before a command, or alone."""

    name: str
    value: Word
    plain: bool
    """Whether the value is all that the variable then holds: no `+=`, no subscript, no array."""
    subscript: str = ""


class Redirect(msgspec.Struct):
    """`> file` and its kin, here-documents and here-strings included.

    Not frozen: the body of a here-document comes lines after it and is filled in then.
    """

    operator: str
    target: Word
    """The file, the descriptor, the text of a here-string, or the body of a here-document."""
    text: str = ""
    variable: bool = False
    """Whether the shell picks the descriptor and assigns it (`{fd}>`)."""


class Simple(msgspec.Struct, frozen=True):
    """A command with its arguments."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Pipeline(msgspec.Struct, frozen=True):
    """Commands joined by `|`, or one that is negated or timed."""

    elements: "tuple[Node, ...]"
    negated: bool = False
    timed: tuple[str, ...] = ()
    """The words of `time`, when it is there."""


class AndOr(msgspec.Struct, frozen=True):
    """Pipelines joined by `&&` and `||`."""

    first: "Node"
    rest: "tuple[tuple[str, Node], ...]"


class Sequence(msgspec.Struct, frozen=True):
    """Commands one after the other."""

    items: "tuple[tuple[Node, bool], ...]"
    """Each with whether it runs in the background."""


class Group(msgspec.Struct, frozen=True):
    """`{ ...; }` or `( ... )`."""

    body: Sequence
    own_shell: bool
    redirects: tuple[Redirect, ...] = ()


class Choose(msgspec.Struct, frozen=True):
    """`if` and `case`: conditions that run in order, and bodies of which at most one runs."""

    words: tuple[Word, ...]
    conditions: tuple[Sequence, ...]
    bodies: tuple[Sequence, ...]
    redirects: tuple[Redirect, ...] = ()


class Loop(msgspec.Struct, frozen=True):
    """`for`, `select`, `while`, `until`."""

    kind: Choice["for", "select", "while"]
    body: Sequence
    condition: Sequence | None = None
    variable: str = ""
    words: tuple[Word, ...] | None = None
    counts: Arithmetic | None = None
    redirects: tuple[Redirect, ...] = ()


class Test(msgspec.Struct, frozen=True):
    """`[[ ... ]]`: its words and operators in order."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()


class Count(msgspec.Struct, frozen=True):
    """`(( ... ))`."""

    value: Arithmetic
    redirects: tuple[Redirect, ...] = ()


class Function(msgspec.Struct, frozen=True):
    """A function's definition."""

    name: str
    body: "Node"


class Coprocess(msgspec.Struct, frozen=True):
    """`coproc`."""

    body: "Node"


Node: TypeAlias = Simple | Pipeline | AndOr | Sequence | Group | Choose | Loop | Test | Count | Function | Coprocess
