"""Documents and docstrings name files and folders that are there."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.source_tree import SOURCE

ROOT: Final = SOURCE.parents[1]
DOCUMENTS: Final = (ROOT / "AGENTS.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md")))
SOURCES: Final = (*sorted(SOURCE.rglob("*.py")), *sorted((ROOT / "scripts").rglob("*.py")))

NAMED: Final = re.compile(r"`((?:[a-z0-9_]+/)+(?:[a-z0-9_]+\.(?:py|toml|json))?)`")
"""In backticks: a folder that ends in a slash, or a file of Python or a table in a folder."""
EXAMPLES: Final = frozenset(("src/", "build/", "docs/", "tests/", "dist/", "node_modules/"))
"""Folders of somebody's project, not of ours."""


@pytest.mark.parametrize("path", [*DOCUMENTS, *SOURCES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_is_named_is_there(path: Path) -> None:
    assert missing(path.read_text(encoding="utf-8"), beside=path.parent) == []


def test_what_is_gone_is_noticed() -> None:
    text = "`logic/decide/step.py`, `logic/purse.py`, `vocab/events/`, `kit/looking.py`, `sandbox/`, `docs/`, `walls/`"

    assert missing(text, beside=ROOT) == ["logic/purse.py", "kit/looking.py", "walls/"]


def missing(text: str, *, beside: Path) -> list[str]:
    """Give the paths in `text` that are neither in the package nor in the repository nor beside the text."""
    return [name for name in named(text) if not any((folder / name).exists() for folder in (SOURCE, ROOT, beside))]


def named(text: str) -> Iterator[str]:
    """Give the paths of this repository that a text names."""
    yield from (name for name in NAMED.findall(text) if name not in EXAMPLES)
