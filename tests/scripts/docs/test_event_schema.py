"""The published JSON Schema: it is what the code says, takes every line that is really written, and refuses others."""

import json

import pytest
from jsonschema import Draft202012Validator

from backstay.testing.builders import example, example_events, recorded
from backstay.vocab.deltas import DELTAS, CommandResult, Lagged, Notice
from backstay.vocab.event import Event
from backstay.vocab.events import Renamed
from backstay.wire.codec import NAME_OF, encode
from backstay.wire.stream import Item, line
from scripts.docs.event_schema import PUBLISHED, event_schema, render

SCHEMA = event_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
COMMAND = CommandResult(after=3, command="help", success=True, message="m", data={"a": [1]})


def part(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def test_the_published_schema_is_not_stale() -> None:
    assert PUBLISHED.read_text(encoding="utf-8") == render(), (
        "Run: python -m scripts.docs.event_schema > src/backstay/wire/events.schema.json"
    )


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("event", example_events(), ids=lambda event: NAME_OF[type(event)])
def test_the_schema_takes_every_event_stored_and_streamed(event: Event) -> None:
    record = recorded(event, seq=3, cause="n.2")
    stored, streamed = json.loads(encode(record)), json.loads(line("s1", record))

    for form in (stored, streamed):
        VALIDATOR.validate(form)
    part("stored_event").validate(stored)
    part("stream_event").validate(streamed)
    assert not part("stored_event").is_valid(streamed)
    assert not part("stream_event").is_valid(stored)


@pytest.mark.parametrize("item", [*(example(cls) for cls in DELTAS), example(Notice), example(Lagged), COMMAND])
def test_the_schema_takes_every_other_item_of_the_stream(item: Item) -> None:
    VALIDATOR.validate(json.loads(line("s1", item)))


STORED = json.loads(encode(recorded(Renamed(name="x"))))
STREAMED = json.loads(line("s1", recorded(Renamed(name="x"))))


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {**STORED, "seq": 0},
        {**STORED, "v": 2},
        {**STORED, "by": "nobody"},
        {**STORED, "type": "teleported"},
        {**STORED, "data": {}},
        {**STORED, "data": {"name": 3}},
        {key: value for key, value in STORED.items() if key != "id"},
        {**STREAMED, "at": 5},
        {key: value for key, value in STREAMED.items() if key != "cause"},
        {**STREAMED, "type": "session:mode_changed"},
        {"type": "session:text_delta", "session": "s1", "after": 1, "data": {"text": "x"}},
        {"type": "session:text_delta", "session": "s1", "after": 1, "n": 1, "data": {}},
        {"type": "session:lifecycle", "session": "s1", "after": 1, "data": {"notice": "SessionLost", "state": "Idle"}},
    ],
)
def test_the_schema_refuses_what_is_never_written(bad: dict[str, object]) -> None:
    assert not VALIDATOR.is_valid(bad)


def test_a_reader_may_meet_properties_that_it_does_not_know() -> None:
    VALIDATOR.validate({**STREAMED, "later": 1, "data": {"name": "x", "later": 1}})


def test_the_notes_under_the_fields_are_descriptions() -> None:
    definitions = SCHEMA["$defs"]
    assert isinstance(definitions, dict)

    assert definitions["ToolStarted"]["properties"]["key"]["description"].startswith("Idempotency key")
    assert definitions["TextRef"]["properties"]["head"]["description"].startswith("The first characters")
