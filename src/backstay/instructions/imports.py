"""Read the files that a Markdown file names by `@path`, and those that these name, each once."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from backstay.instructions.markdown import prose
from backstay.instructions.safe_reader import FileReading, TextFile

DEEPEST: Final = 4
"""Files that may name one another in a row."""
MOST_MENTIONS: Final = 200
"""Mentions of one file that are looked up."""
LONGEST: Final = 500
"""Characters of a path."""
_MENTION: Final = re.compile(r"(?:(?<=[\s(])|^)@((?:\\ |[^\s`()<>\[\]\"'*|])+)")
_PUNCTUATION: Final = ".,;:!?"
_SURELY: Final = ("~/", "./", "../")
"""Beginnings of words that are certainly paths."""


class Mention(Struct, frozen=True):
    """A word in a text that may name a file."""

    word: str
    line: int


def mentions(text: str, skipped: int = 0) -> Iterator[Mention]:
    """Yield the words of a Markdown text that may name files, not those in code. `skipped` lines stand before it."""
    for line, words in prose(text):
        for found in _MENTION.finditer(words):
            yield Mention(found[1].replace("\\ ", " "), line + skipped)


def with_imports(reading: FileReading, file: TextFile, roots: Sequence[Path]) -> Iterator[TextFile]:
    """Yield `file`, then every file that it names, and what those name, in order; each once."""
    yield from _imports(reading, file, roots, (file,))


def _imports(
    reading: FileReading, file: TextFile, roots: Sequence[Path], chain: tuple[TextFile, ...]
) -> Iterator[TextFile]:
    yield file
    for count, mention in enumerate(mentions(file.text, file.skipped)):
        if count == MOST_MENTIONS:
            reading.add_problem(
                f"{file.shown}:{mention.line}: Only the first {MOST_MENTIONS} words with @ are looked up."
            )
            return
        path = _find_mentioned(reading, file, mention, roots)
        if path is None or _is_circle(reading, path, mention, chain) or reading.was_read(path):
            continue
        where = f"{file.shown}:{mention.line}"
        if len(chain) > DEEPEST:
            reading.add_problem(
                f"{where}: '@{mention.word}' is left out: files may name one another {DEEPEST} deep at most."
            )
            continue
        found = reading.read(path, roots, imported_by=where)
        if found is not None:
            yield from _imports(reading, found, roots, (*chain, found))


def _find_mentioned(reading: FileReading, file: TextFile, mention: Mention, roots: Sequence[Path]) -> Path | None:
    """Return the file that a mention means; None when it means none. Nothing outside of `roots` is even looked at."""
    for word in dict.fromkeys((mention.word, mention.word.rstrip(_PUNCTUATION))):
        if not word or len(word) > LONGEST or "\0" in word:
            continue
        path = _resolve(reading, file, word)
        if not _is_below(path, roots):
            _complain_outside(reading, file, mention)
            return None
        found = reading.stat(path)
        if found is not None and not stat.S_ISDIR(found.st_mode):
            return path
    if mention.word.rstrip(_PUNCTUATION).endswith(".md"):
        reading.add_problem(f"{file.shown}:{mention.line}: '@{mention.word[:LONGEST]}' is not there.")
    return None


def _resolve(reading: FileReading, file: TextFile, word: str) -> Path:
    """Resolve a word: from the home folder, from the root, or from the folder of the file it stands in."""
    if word.startswith("~/"):
        return Path(os.path.normpath(reading.inputs.paths.home / word[2:]))
    return Path(os.path.normpath(file.path.parent / word))


def _is_below(path: Path, roots: Sequence[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def _complain_outside(reading: FileReading, file: TextFile, mention: Mention) -> None:
    word = mention.word[:LONGEST]
    top = word.split("/")[1] if word.startswith("/") else ""  # `@/components/button` is a name that some bundlers know
    if word.startswith(_SURELY) or word.endswith(".md") or (top and os.path.lexists(f"/{top}")):
        reading.add_problem(f"{file.shown}:{mention.line}: '@{word}' is left out: it leads outside of the project.")


def _is_circle(reading: FileReading, path: Path, mention: Mention, chain: tuple[TextFile, ...]) -> bool:
    real = os.path.realpath(path)
    names = [os.path.realpath(each.path) for each in chain]
    if real not in names:
        return False
    circle = [each.shown for each in chain[names.index(real) :]]
    reading.add_problem(
        f"{chain[-1].shown}:{mention.line}: '@{mention.word}' goes round in a circle: {' -> '.join((*circle, circle[0]))}."
    )
    return True
