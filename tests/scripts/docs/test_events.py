"""The document about events says what they are made of."""

from backstay.vocab.deltas import DELTAS
from backstay.vocab.events import EVENTS, INTENTS
from backstay.wire.codec import NAME_OF
from scripts.docs.events import events_document


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
