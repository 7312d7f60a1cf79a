"""What is to be known of a settings key."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(gt=0, le=1)]
Dollars = Annotated[float, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1)]
Tries = Annotated[int, Meta(ge=0, le=20)]
Milliseconds = Annotated[float, Meta(gt=0, le=86_400_000)]
TrustLevel = Literal["safe", "moderate", "full"]
Address = Annotated[str, Meta(pattern="^https?://")]
Object = dict[str, Any]  # Any: the form of a type that a JSON Schema can be made of
Objects = list[Any]  # Any: likewise

Gathered = Literal["highest", "list"]
"""Whether the highest file's word counts, or what all files say."""
Who = Literal["any", "trusted", "stricter", "machine"]
"""Whose files may set it. `any`: also an untrusted project's. `trusted`: a project's once it is trusted. `stricter`: likewise, and
before that where it only makes stricter. `machine`: what is managed alone."""
Elsewhere = Literal["no", "yes", "project"]
"""Whether it is read from `.claude` files too; `project`: only from a project's."""


class Key(Struct, frozen=True, kw_only=True):
    """One setting."""

    name: str
    """Dotted; `*` stands for a name that whoever writes the file chooses."""
    kind: object
    """A type that its value fits."""
    words: str
    """What it does, in one sentence."""
    default: str = ""
    """What holds when nobody says anything."""
    who: Who = "trusted"
    gathered: Gathered = "highest"
    elsewhere: Elsewhere = "no"
    also: str = ""
    """Another spelling of its last part."""
    unit: int = 0
    """How many parts of the name a higher file replaces as a whole; 0 for all of them, which is this value alone."""
    secret: bool = False
    needed: bool = False
    """Whether what it is in cannot do without it."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the name."""
        return tuple(self.name.split("."))


class Section(Struct, frozen=True, kw_only=True):
    """Keys that belong together."""

    title: str
    about: str
    """A paragraph for the reference, after the table."""
    keys: tuple[Key, ...]
