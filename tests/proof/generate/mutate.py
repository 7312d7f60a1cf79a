"""Small changes to a text around what means something to a shell."""

import random
import re
from typing import Final

from tests.proof.generate.texts import pick, texts
from tests.proof.generate.words import a_hit

_MARKS: Final = texts("marks")
_EDGE: Final = re.compile(r"['\"\\\n$#~{}<>|&;()`*?\[\]= ]")


def mutated(rng: random.Random, text: str) -> str:
    """Change a text in one to three places."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(_CHANGES)(rng, text)
    return text


def _place(rng: random.Random, text: str) -> int:
    """Choose a place, mostly beside a character that means something."""
    edges = [found.start() for found in _EDGE.finditer(text)]
    if edges and rng.random() < 0.7:
        return min(len(text), rng.choice(edges) + rng.randrange(2))
    return rng.randrange(len(text) + 1)


def _insert(rng: random.Random, text: str) -> str:
    at = _place(rng, text)
    return text[:at] + rng.choice(_MARKS) + text[at:]


def _delete(rng: random.Random, text: str) -> str:
    at = _place(rng, text)
    return text[:at] + text[at + 1 :]


def _replace(rng: random.Random, text: str) -> str:
    at = _place(rng, text)
    return text[:at] + rng.choice(_MARKS) + text[at + 1 :]


def _double(rng: random.Random, text: str) -> str:
    at = _place(rng, text)
    end = min(len(text), at + rng.randrange(1, 6))
    return text[:end] + text[at:]


def _swap(rng: random.Random, text: str) -> str:
    words = text.split(" ")
    first, second = rng.randrange(len(words)), rng.randrange(len(words))
    words[first], words[second] = words[second], words[first]
    return " ".join(words)


def _hide(rng: random.Random, text: str) -> str:
    """Put something in that runs a program, if the place is one where a shell runs it."""
    at, hit = _place(rng, text), a_hit(rng)
    return text[:at] + pick(rng, "hide", hit=hit) + text[at:]


def _line_ends(rng: random.Random, text: str) -> str:
    return text.replace("\n", rng.choice(("\r\n", "\r", "\n\n", "\\\n", "\n\r", " \n"))) + rng.choice(
        ("", "\r\n", "\n")
    )


_CHANGES: Final = (_insert,) * 3 + (_delete,) * 2 + (_replace,) * 2 + (_double, _swap, _hide, _hide, _line_ends)
