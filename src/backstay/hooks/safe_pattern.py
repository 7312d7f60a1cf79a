"""Compile the patterns of matchers, and refuse those that could take time without end on a text."""

import functools
import re
from typing import Final

from msgspec import Struct

LONGEST_TEXT: Final = 256
"""Characters of a text that a pattern is tried against."""
MOST_WAYS: Final = 4 * LONGEST_TEXT**3
"""Ways to try a pattern on such a text: those of a search for two wildcards between three words, and a little more."""
_LONGEST: Final = 1_000
_TOKEN: Final = re.compile(
    r"""(?P<open>\((?!\?)|\(\?(?::|<?[=!]|<(?P<name>[A-Za-z_]\w*)>))|(?P<close>\))|(?P<either>\|)|(?P<end>\$)
    |(?P<repeat>[*+?]|\{(?P<least>\d{1,3})(?P<comma>,(?P<most>\d{0,3}))?\})\??
    |(?P<atom>\\[dDwWsSbBfnrtv]|\\[^\w]|\[\^?(?:\\[dDwWsSfnrtv]|\\[^\w]|(?![-&|~]{2})[^]\\[])+\]|[^]\\[(){}*+?|$])""",
    re.VERBOSE | re.ASCII,
)


@functools.lru_cache(maxsize=512)
def compile_matcher(pattern: str) -> "re.Pattern[str]":
    """Return the pattern, ready to search a text of `LONGEST_TEXT` characters. Raise `ValueError` with the reason when it is refused."""
    if len(pattern) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    tokens = _tokens(pattern)
    while _is_wildcard(tokens[:2]):  # a search finds the same without it
        del tokens[:2]
    while _is_wildcard(tokens[-2:]):
        del tokens[-2:]
    if _ways(tokens) > MOST_WAYS:
        raise ValueError("it could be tried in too many ways. Use fewer wildcards, or list the names")
    try:
        return re.compile("".join(map(_in_python, tokens)), re.ASCII)
    except (re.error, OverflowError, RecursionError) as exc:
        raise ValueError(str(exc)) from None


def _tokens(pattern: str) -> "list[re.Match[str]]":
    tokens, at = [], 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None:
            raise ValueError(f"{pattern[at : at + 3]!r} at character {at + 1} is not supported here")
        tokens.append(found)
        at = found.end()
    return tokens


def _is_wildcard(tokens: "list[re.Match[str]]") -> bool:
    return [token[0] for token in tokens] == [".", "*"]


def _in_python(token: "re.Match[str]") -> str:
    return r"\Z" if token["end"] else f"(?P<{token['name']}>" if token["name"] else token[0]


class _Group(Struct):
    """The parsed part of a group, or of the whole pattern."""

    others: int = 0
    """Ways of the alternatives before this one."""
    before: int = 1
    """Ways of what stands before the newest piece of this alternative."""
    piece: int = 1
    """Ways of the newest piece."""
    repeats: bool = False
    """Whether something is repeated inside."""
    inner: bool = False
    """Whether something is repeated inside the newest piece."""
    repeatable: bool = False
    """Whether the newest piece may be repeated."""

    @property
    def ways(self) -> int:
        return self.others + self.before * self.piece

    def take(self, ways: int, *, inner: bool) -> None:
        """Add a piece."""
        self.before *= self.piece
        self.piece, self.inner, self.repeatable = ways, inner, True
        self.repeats |= inner


def _ways(tokens: "list[re.Match[str]]") -> int:
    """Return in how many ways a text can be tried at most. Raise `ValueError` for a repetition within a repetition."""
    groups = [_Group()]
    for token in tokens:
        group = groups[-1]
        if token["open"]:
            groups.append(_Group())
        elif token["close"] and len(groups) > 1:
            groups.pop()
            groups[-1].take(group.ways, inner=group.repeats)
        elif token["either"]:
            groups[-1] = _Group(others=group.ways, repeats=group.repeats)
        elif token["repeat"]:
            _repeat(group, token)
        else:
            group.take(1, inner=False)
    anchored = tokens and tokens[0][0] == "^" and not groups[0].others
    return groups[0].ways * (1 if anchored else LONGEST_TEXT)


def _repeat(group: _Group, token: "re.Match[str]") -> None:
    if not group.repeatable:
        raise ValueError("nothing to repeat")
    group.repeatable = False
    if token["repeat"] == "?":
        group.piece += 1
        return
    if group.piece > 1 or group.inner:
        raise ValueError(
            "it repeats what is repeated or has alternatives, which could take for ever. List the names instead"
        )
    least, most = int(token["least"] or 0), int(token["most"] or LONGEST_TEXT)
    exact = token["least"] and not token["comma"]
    group.piece = 1 if exact else min(max(1, most - least + 1), LONGEST_TEXT)
    group.inner = group.repeats = True
