"""The reference documents that are read off the code.

`python -m scripts.docs.references docs/` writes them; with `--check` it only says which are stale. A new document is
one more entry in `REFERENCES`: a file name and a function that returns its whole text.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.docs.commands import commands_document
from scripts.docs.events import events_document
from scripts.docs.hooks import hooks_document
from scripts.docs.instructions import instructions_document
from scripts.docs.settings import schema_document, settings_document
from scripts.docs.tools import tools_document


class Reference(Struct, frozen=True, kw_only=True):
    """One generated document."""

    file: str
    render: Callable[[], str]


REFERENCES: Final[tuple[Reference, ...]] = (
    Reference(file="events.md", render=events_document),
    Reference(file="tools.md", render=tools_document),
    Reference(file="settings.md", render=settings_document),
    Reference(file="settings.schema.json", render=schema_document),
    Reference(file="instructions.md", render=instructions_document),
    Reference(file="commands.md", render=commands_document),
    Reference(file="hooks.md", render=hooks_document),
)


def stale(folder: Path, references: Sequence[Reference] = REFERENCES) -> tuple[str, ...]:
    """The documents in `folder` that are missing or not what the code says."""
    return tuple(each.file for each in references if _text(folder / each.file) != each.render())


def write(folder: Path, references: Sequence[Reference] = REFERENCES) -> tuple[str, ...]:
    """Write the documents into `folder`; return those that changed."""
    changed = stale(folder, references)
    folder.mkdir(parents=True, exist_ok=True)
    for each in references:
        if each.file in changed:
            (folder / each.file).write_text(each.render(), encoding="utf-8", newline="\n")
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 means that `--check` found a stale document."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.docs.references",
        description="Write the reference documents that are read off the code.",
    )
    parser.add_argument("folder", type=Path, help="where the documents are, usually docs/")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a document is stale")
    options = parser.parse_args(arguments)
    if not options.check:
        for file in write(options.folder):
            print(f"wrote {options.folder / file}")
        return 0
    found = stale(options.folder)
    for file in found:
        path = options.folder / file
        print(f"{path} is stale. Run: python -m scripts.docs.references {options.folder}", file=sys.stderr)
    return 1 if found else 0


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
