"""Which files of a project a command names: a hook that runs `scripts/check.sh` is only as trusted as that file."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROJECT_VARIABLE: Final = re.compile(
    r"\$(?:(?P<braced>\{)?(?:CLAUDE_PROJECT_DIR|HOLDFAST_PROJECT_DIR|PWD)(?(braced)\}|\b))"
)
_HOME: Final = re.compile(r"^(?:~|\$HOME|\$\{HOME\})(?=/)")
_BETWEEN: Final = re.compile(r"[\s;|&()<>=`'\",\[\]{}]+")
_DEEPEST: Final = 4
_LONGEST: Final = 4096


def mentioned(command: str, bases: tuple[Path, ...], home: Path) -> Iterator[Path]:
    """The files of the project, the first of `bases`, that stand in `command`, looked for from each of them.

    Those that are in the project as written count, wherever a link leads, and those that a link leads into it.
    """
    root = os.path.realpath(bases[0])
    for written in sorted(_words(PROJECT_VARIABLE.sub(".", command), _DEEPEST)):
        if not written or len(written) > _LONGEST or "\0" in written:
            continue
        word = _HOME.sub(lambda _: str(home), written)
        for base in bases:
            path = os.path.normpath(base / word)
            if os.path.isdir(path) or not os.path.lexists(path):
                continue
            if any(_is_below(each, root) for each in (path, _unlinked(path), os.path.realpath(path))):
                yield Path(path)


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _unlinked(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _words(text: str, depth: int) -> set[str]:
    """Everything in `text` that a shell could see as a word, also in quotes within quotes."""
    found = {text, *_BETWEEN.split(text)}
    try:
        split = shlex.split(text)
    except ValueError:
        return found
    found.update(split)
    for word in split if depth else ():
        if word != text and _BETWEEN.search(word):
            found |= _words(word, depth - 1)
    return found
