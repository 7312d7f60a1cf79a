"""A conversation as a reader sees it: what was said in each turn, what was called, and what came of it. Pages are made from this."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from backstay.export.seen_text import Excerpt

Who = Literal["person", "model", "other"]


class Passage(Struct, frozen=True, kw_only=True):
    """Something that was said."""

    text: str


class Folded(Struct, frozen=True, kw_only=True):
    """Something that a reader opens when they want to: reasoning, a summary."""

    title: str
    text: str


class Given(Struct, frozen=True, kw_only=True):
    """An argument of a call that has lines of its own, or all the others together as JSON."""

    name: str
    """Empty for the others."""
    value: Excerpt


class Call(Struct, frozen=True, kw_only=True):
    """A tool that the model called."""

    name: str
    given: tuple[Given, ...]
    ending: str
    """How it ended, in words."""
    went_well: bool
    changed: tuple[Given, ...] = ()
    """What the model had wanted to give it, when a hook or the person changed that."""
    result: tuple["Excerpt | Media", ...] = ()
    child: str = ""
    """The session that answered it."""


class Media(Struct, frozen=True, kw_only=True):
    """An image, a sound or a document: named, not shown."""

    name: str


class Note(Struct, frozen=True, kw_only=True):
    """Something that happened, in our words, and what others said of it."""

    text: str
    detail: str = ""
    title: str = ""
    """What the detail is, when it is to be opened; empty when it stands there."""


Block = Passage | Folded | Call | Media | Note


class Speech(Struct, frozen=True, kw_only=True):
    """What one of them said and did, until another took over."""

    who: Who
    label: str
    """Who it was. Of a model its name, where there are several."""
    blocks: tuple[Block, ...]


class Turn(Struct, frozen=True, kw_only=True):
    """What was said from one input to the end of its answer. What came before the first input has the number 0."""

    number: int
    at: str
    parts: tuple[Speech | Note, ...]


class Fact(Struct, frozen=True, kw_only=True):
    """A line of the header."""

    label: str
    value: str
    literal: bool = False
    """Whether it is a name or a path, to be copied letter for letter."""


class Dialogue(Struct, frozen=True, kw_only=True):
    """A whole conversation."""

    title: str
    facts: tuple[Fact, ...]
    turns: Iterable[Turn]
    ending: str = ""
    """Why it goes no further, when the log does not."""
