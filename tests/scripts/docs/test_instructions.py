"""The document about instructions names every part."""

from backstay.instructions import KINDS
from scripts.docs.instructions import instructions_document


def test_every_part_is_in_the_document() -> None:
    text = instructions_document()

    for kind in KINDS:
        assert f"| `{kind.name}` | {kind.title} |" in text
