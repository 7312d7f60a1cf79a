"""Ways to write one word, and to write words into texts."""

import random

from tests.proof.generate.texts import pick
from tests.proof.generate.words import a_hit

_SPECIAL = frozenset(" \t\n'\"\\$`;&|<>()*?[]#~={}!%,")


def single(text: str) -> str:
    """Quote with '...'."""
    return "'" + text.replace("'", "'\\''") + "'"


def double(text: str) -> str:
    """Quote with "..."."""
    return '"' + "".join(f"\\{char}" if char in '"\\$`' else char for char in text) + '"'


def escaped(text: str) -> str:
    """Quote with backslashes."""
    return (
        "".join(f"\\{char}" if char in _SPECIAL and char != "\n" else "'\n'" if char == "\n" else char for char in text)
        or "''"
    )


def quoted(rng: random.Random, text: str) -> str:
    """Quote in any way that every shell reads as this text."""
    match rng.randrange(8):
        case 0 | 1:
            return single(text)
        case 2 | 3:
            return double(text)
        case 4:
            return escaped(text)
        case 5:
            cut = rng.randrange(len(text) + 1)
            return rng.choice((single, double, escaped))(text[:cut]) + rng.choice((single, double, escaped))(text[cut:])
        case 6:
            return in_cat(rng, text) if "\n" in text or rng.random() < 0.5 else single(text)
        case _:
            return text if text and not _SPECIAL & set(text) else single(text)


def in_cat(rng: random.Random, text: str) -> str:
    """Write a text as `"$(cat <<'EOF' ...)"`."""
    end = rng.choice(("EOF", "END", "MSG", "A"))
    return f"\"$(cat <<'{end}'\n{text}\n{end}\n)\""


def oddly(rng: random.Random, text: str) -> str:
    """Quote in a way that shells read by rules of their own, or not at all, with something that may run in it."""
    hit = a_hit(rng)
    return pick(rng, "oddly", hit=hit, text=text)
