"""The generated documents are what the code says."""

from pathlib import Path

import pytest

from backstay.testing.reference import REFERENCES, Reference, events_document, main, stale, write
from backstay.vocab.deltas import DELTAS
from backstay.vocab.events import EVENTS, INTENTS
from backstay.wire.json_text import NAME_OF

DOCS = Path(__file__).parents[2] / "docs"


def test_no_document_is_stale() -> None:
    assert stale(DOCS) == (), "Run: python -m backstay.testing.reference docs/"


def test_every_event_fragment_and_notice_is_described() -> None:
    text = events_document()

    for cls in (*EVENTS, *DELTAS):
        assert f"### {cls.__name__}\n\n`session:{NAME_OF[cls]}`" in text
        assert (cls.__doc__ or "?").partition("\n")[0] in text
    assert text.count(", an intent\n") == len(INTENTS)
    assert "`session:lifecycle`" in text


def test_a_field_has_its_type_its_default_and_the_note_under_it() -> None:
    text = events_document()

    assert "| `key` | `str` |  | Idempotency key: the same for every run of this call. |" in text
    assert "| `delivery` | `Delivery` | `'queue'` |  |" in text
    assert "| `parts` | `tuple[StoredPart, ...]` |  |  |" in text
    assert "| `TurnOutcome` | `completed`, `interrupted`, `failed`, `abandoned` |" in text


def test_writing_makes_what_is_missing_and_leaves_what_is_right(tmp_path: Path) -> None:
    references = (Reference(file="a.md", render=lambda: "a\n"), Reference(file="b.md", render=lambda: "b\n"))
    (tmp_path / "a.md").write_text("old\n")

    assert write(tmp_path, references) == ("a.md", "b.md")
    assert write(tmp_path, references) == ()
    assert [(tmp_path / name).read_text() for name in ("a.md", "b.md")] == ["a\n", "b\n"]


def test_the_command_checks_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--check"]) == 1
    assert "is stale" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--check"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(each.file for each in REFERENCES)
