"""Read notes in Markdown: code and prose, headings and sections, and the keys before the text."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

LONGEST_LINE: Final = 4_000
"""Characters of a line that are looked at."""
_FENCE: Final = re.compile(r"\s{0,3}(?:[-*+>]\s+)?(`{3,}|~{3,})(.*)")
_TICKS: Final = re.compile(r"`+")
_COMMENT: Final = re.compile(r"<!--.*?-->")
_KEY: Final = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*)|$)")
_ITEM: Final = re.compile(r"[ \t]*-[ \t]+(.*)")


def lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield each line with its number, from 1, and whether it is code between fences."""
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        found = _FENCE.match(line[:200])
        if fence:
            yield number, line, True
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found and "`" not in found[2]:
            fence = found[1]
            yield number, line, True
        else:
            yield number, line, False


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not code, with code spans and comments blanked out."""
    for number, line, code in lines(text):
        if not code:
            yield number, _COMMENT.sub(" ", _without_spans(line[:LONGEST_LINE]))


def heading(line: str) -> tuple[int, str] | None:
    """Return the level and the words of a heading."""
    words = line[:LONGEST_LINE].strip()
    rest = words.lstrip("#")
    level = len(words) - len(rest)
    if not 0 < level <= 6 or rest[:1] not in ("", " ", "\t") or line.startswith(("    ", "\t")):
        return None
    return level, rest.strip().rstrip("#").strip()


def sections(text: str, wanted: Sequence[str]) -> Iterator[str]:
    """Yield the text under each heading of any level whose words are among `wanted`, up to the next heading of its level or above."""
    names = {name.casefold() for name in wanted}
    kept: list[str] = []
    level = 0
    for _, line, code in lines(text):
        found = None if code else heading(line)
        if found and (not level or found[0] <= level):
            if level:
                yield "\n".join(kept).strip()
            kept, level = [], found[0] if found[1].rstrip(":").strip().casefold() in names else 0
        elif level:
            kept.append(line)
    if level:
        yield "\n".join(kept).strip()


def front_matter(text: str) -> tuple[dict[str, tuple[str, ...]], str, bool]:
    """Split a text from the keys before it (`---`): return the keys with their values, the text, and whether the keys were closed.

    As lenient as people are: patterns like `**/*.py` need no quotes, and a list may stand in a line, with commas, or below.
    """
    first, _, rest = text.partition("\n")
    if first.rstrip() != "---":
        return {}, text, True
    found: dict[str, tuple[str, ...]] = {}
    key = ""
    for count, line in enumerate(rest.split("\n")):
        if line.rstrip() in ("---", "..."):
            return found, "\n".join(rest.split("\n")[count + 1 :]), True
        if named := _KEY.fullmatch(line.rstrip()):
            key = named[1]
            found[key] = _values(named[2] or "")
        elif key and (item := _ITEM.fullmatch(line.rstrip())):
            found[key] = (*found[key], *filter(None, (_strip_quotes(item[1]),)))
    return {}, text, False


def _without_spans(line: str) -> str:
    """Replace each code span of a line by a blank. Backticks without a partner stay."""
    if "`" not in line:
        return line
    runs = [found.span() for found in _TICKS.finditer(line)]
    kept, position, lonely = [], 0, set()
    for index, (start, end) in enumerate(runs):
        length = end - start
        if start < position or length in lonely:
            continue
        close = next((run for run in runs[index + 1 :] if run[1] - run[0] == length), None)
        if close is None:
            lonely.add(length)
            continue
        kept += [line[position:start], " "]
        position = close[1]
    return "".join((*kept, line[position:]))


def _values(text: str) -> tuple[str, ...]:
    text = text[:LONGEST_LINE].strip()
    if text.startswith("[") and "]" in text:
        return tuple(filter(None, map(_strip_quotes, _split(text[1 : text.rindex("]")]))))
    return tuple(filter(None, (_strip_quotes(text),)))


def _split(text: str) -> list[str]:
    """Split at commas outside of quotes and braces."""
    return [piece[0] for piece in re.finditer(r"(?:\"[^\"]*\"|'[^']*'|\{[^}]*\}|[^,])+", text)]


def _strip_quotes(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text.partition(" #")[0].strip()
