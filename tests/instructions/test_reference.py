"""The document about instructions is what the code says."""

from pathlib import Path

from backstay.instructions import KINDS
from backstay.testing.instructions_reference import instructions_document

DOCS = Path(__file__).parents[2] / "docs"


def test_the_document_is_not_stale() -> None:
    assert (DOCS / "instructions.md").read_text(encoding="utf-8") == instructions_document(), "Run: make docs"


def test_every_part_is_in_the_document() -> None:
    text = instructions_document()

    for kind in KINDS:
        assert f"| `{kind.name}` | {kind.title} |" in text
