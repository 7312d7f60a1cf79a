"""Arguments in the text of a skill: replaced in one pass, so that nothing that an argument contains is ever replaced in its turn."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

LONGEST_QUOTED: Final = 32 * 1024
"""Characters of arguments in which quotes are looked for; longer ones are cut at blanks."""
_PLACEHOLDER: Final = re.compile(
    r"(?P<escape>\\?)\$(?:"
    r"\{(?P<variable>[A-Z][A-Z_]*)\}"
    r"|ARGUMENTS\[(?P<index>[0-9]{1,4})\]"
    r"|(?P<all>ARGUMENTS)(?!\w)"
    r"|(?P<number>[0-9]{1,3})(?!\w)"
    r"|(?P<name>[^\W\d]\w*)(?!\[)"
    r")"
)
_PLAIN: Final = re.compile(r"(?:[\w@%+=:,./][\w@%+=:,./-]*)?")
"""A word in which a shell reads no sign, and no program an option."""


class Arguments(Struct, frozen=True, kw_only=True):
    """What a skill was invoked with."""

    text: str
    names: Sequence[str] = ()
    """What the skill calls its arguments, in order."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What `${NAME}` stands for."""

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments one by one, as a shell would cut them; at blanks when the quotes do not match."""
        return split_words(self.text)


class Substitution:
    """Replaces placeholders with arguments, and remembers whether one of them was there."""

    def __init__(self, arguments: Arguments) -> None:
        self.used = False
        """Whether any of the arguments was asked for."""
        self._arguments = arguments
        self._words = arguments.words
        self._places = {name: place for place, name in reversed(tuple(enumerate(arguments.names)))}

    def apply(self, text: str) -> str:
        """`text` with its placeholders replaced."""
        return _PLACEHOLDER.sub(self._replace, text)

    def is_twisted(self, text: str) -> bool:
        """Whether an argument puts more into `text` than plain words: it could make another command of it."""
        found = (each for each in _PLACEHOLDER.finditer(text) if not each["variable"] and not each["escape"])
        given = (self._value(each) or "" for each in found)
        return not all(_PLAIN.fullmatch(word) for value in given for word in value.split(" "))

    def _replace(self, found: re.Match[str]) -> str:
        value = self._value(found)
        if value is None:
            return found[0]
        if found["escape"]:
            return found[0][1:]
        self.used |= found["variable"] is None
        return value

    def _value(self, found: re.Match[str]) -> str | None:
        """What stands for a placeholder; None when it is none."""
        if found["variable"]:
            return self._arguments.variables.get(found["variable"])
        if found["all"]:
            return self._arguments.text
        place = self._places.get(found["name"]) if found["name"] else int(found["index"] or found["number"])
        if place is None:
            return None
        return self._words[place] if place < len(self._words) else ""


def split_words(text: str) -> tuple[str, ...]:
    """Cut arguments as a shell would; at blanks when their quotes do not match."""
    if len(text) > LONGEST_QUOTED:
        return tuple(text.split())
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())
