"""Alternatives that texts are made of, from `texts.txt`.

A section begins with its name, as in `== name ==`, and ends with an empty line; each line between is one alternative, as often as it
stands there. `<U+A>` is the character with that hexadecimal number, `<U+>` is nothing, `@hit@` is filled in.
"""

import random
import re
from functools import cache
from pathlib import Path
from typing import Final

_SECTION: Final = re.compile(r"== ([a-z0-9-]+) ==\n(.*?)\n\n", re.DOTALL)
_CHARACTER: Final = re.compile(r"<U\+([0-9A-F]*)>")
_NAME: Final = re.compile(r"@([a-z]+)@")


@cache
def _sections() -> dict[str, tuple[str, ...]]:
    content = Path(__file__).with_name("texts.txt").read_text(encoding="utf-8")
    return {name: tuple(map(_plain, lines.split("\n"))) for name, lines in _SECTION.findall(content)}


def _plain(line: str) -> str:
    return _CHARACTER.sub(lambda found: chr(int(found[1], 16)) if found[1] else "", line)


def texts(section: str) -> tuple[str, ...]:
    """Give the alternatives of a section."""
    return _sections()[section]


def pick(rng: random.Random, section: str, **values: str) -> str:
    """Choose one of a section, with the values filled in."""
    return _NAME.sub(lambda found: values.get(found[1], found[0]), rng.choice(texts(section)))
