"""Words that generated commands are made of: names of the workspace, values, texts, and what would be seen if it ran."""

import random
from typing import Final

from tests.proof.generate.texts import texts

FILES: Final = texts("files")
ODD_FILES: Final = texts("odd-files")
FOLDERS: Final = (".", "src", "tests", "src/deep", "sub", "odd", "build", "./src", "link-dir")
ODD_FOLDERS: Final = texts("odd-folders")
GLOBS: Final = texts("globs")
TEXTS: Final = texts("texts")
VALUES: Final = texts("values")
HITS: Final = ("hit", "hit2", "touch made", "cat .env", "./hit", "cp README.md made", "rm README.md")
"""What a hidden command does: each is seen under the tracer."""
NAMES: Final = texts("names")


def a_file(rng: random.Random) -> str:
    """Give a file; one in eight is none that may be read freely."""
    return rng.choice(ODD_FILES if rng.random() < 0.12 else FILES)


def a_folder(rng: random.Random) -> str:
    """Give a folder."""
    return rng.choice(ODD_FOLDERS if rng.random() < 0.12 else FOLDERS)


def a_place(rng: random.Random) -> str:
    """Give a file, a folder or a pattern."""
    return rng.choice((a_file, a_file, a_folder, lambda rng: rng.choice(GLOBS)))(rng)


def a_text(rng: random.Random) -> str:
    """Give a text that is not quoted yet."""
    return rng.choice(TEXTS)


def a_value(rng: random.Random) -> str:
    """Give what may be the value of a flag."""
    return rng.choice(VALUES)


def a_hit(rng: random.Random) -> str:
    """Give a command that must not run."""
    return "hit" if rng.random() < 0.6 else rng.choice(HITS)
