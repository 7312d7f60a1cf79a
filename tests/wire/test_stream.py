"""The native stream: what surfaces promise, byte for byte, and back again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.testing.builders import example, example_events, recorded
from backstay.vocab.deltas import DELTAS, CommandResult, Lagged, Notice, TextDelta
from backstay.vocab.errors import NeedsUpgrade, UserError
from backstay.vocab.event import Recorded
from backstay.vocab.events import ToolStarted
from backstay.vocab.messages import iso
from backstay.wire.stream import Item, delta_line, event_line, line, micros, notice_line, parse_line

ITEMS: tuple[Item, ...] = (
    *(recorded(event, seq=seq, cause="n.1", by="rule") for seq, event in enumerate(example_events(), 2)),
    *(example(cls) for cls in DELTAS),
    example(Notice),
    Notice(notice="SessionClosed", state="Closed"),
    example(Lagged),
    CommandResult(after=3, command="help", success=True, message="m", data={"a": [1]}),
)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: type(getattr(item, "event", item)).__name__)
def test_every_item_comes_back_as_it_was_sent(item: Item) -> None:
    assert parse_line(line("s1", item)) == ("s1", item)


def test_an_event_has_the_promised_shape() -> None:
    event = ToolStarted(call="n.3-0", name="Read", effect="pure", key="k")
    sent = event_line("s1", Recorded(seq=12, id="n.c", at=1_767_225_600_000_001, by="model", cause="n.b", event=event))

    assert sent == (
        b'{"seq":12,"id":"n.c","type":"session:tool_started","session":"s1","at":"2026-01-01T00:00:00.000001Z",'
        b'"by":"model","cause":"n.b","data":{"call":"n.3-0","name":"Read","effect":"pure","key":"k"}}'
    )


def test_an_event_without_a_cause_says_so() -> None:
    assert json.loads(event_line("s1", recorded(example(ToolStarted))))["cause"] == ""


def test_a_line_of_an_older_backstay_without_the_cause_is_read() -> None:
    record = recorded(example(ToolStarted))
    older = json.loads(event_line("s1", record))
    del older["cause"]

    assert parse_line(json.dumps(older)) == ("s1", record)


def test_a_delta_has_the_promised_shape_and_no_seq() -> None:
    sent = delta_line("s1", TextDelta(text="a\nb", after=12, n=3))

    assert sent == b'{"type":"session:text_delta","session":"s1","after":12,"n":3,"data":{"text":"a\\nb"}}'


def test_a_notice_has_the_promised_shape() -> None:
    persisted = notice_line("s1", Notice(notice="SessionPersisted", state="Persisted", after=4))
    ended = notice_line("s1", Notice(notice="SessionTurnEnd", state="Persisted", outcome="completed"))

    assert persisted == (
        b'{"type":"session:lifecycle","session":"s1","after":4,"data":{"notice":"SessionPersisted","state":"Persisted"}}'
    )
    assert json.loads(ended)["data"] == {"notice": "SessionTurnEnd", "state": "Persisted", "outcome": "completed"}


def test_a_line_is_one_line_of_json() -> None:
    for item in ITEMS:
        sent = line("s1", item)
        assert b"\n" not in sent
        assert isinstance(json.loads(sent), dict)


def test_the_place_of_a_delta_is_not_its_content() -> None:
    sent = b'{"type":"session:text_delta","session":"s1","after":5,"n":6,"data":{"text":"x","after":1,"n":2}}'

    assert parse_line(sent) == ("s1", TextDelta(text="x", after=5, n=6))


@pytest.mark.parametrize("type_", ["session:teleported", "teleported", ""])
def test_an_unknown_type_asks_for_an_upgrade(type_: str) -> None:
    with pytest.raises(NeedsUpgrade, match="upgrade"):
        parse_line(json.dumps({"type": type_, "session": "s1", "data": {}}))


GOOD = json.loads(event_line("s1", recorded(example(ToolStarted))))


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"type":"session:text_delta","session":"s1"}',
        b'{"type":"session:text_delta","session":"s1","data":' + b"[" * 50_000,
        b'{"type":"session:text_delta","session":"s1","data":{}}',
        b'{"type":"session:lifecycle","session":"s1","data":{"notice":"SessionLost","state":"Idle"}}',
        json.dumps({**GOOD, "seq": 0}),
        json.dumps({**GOOD, "at": "yesterday"}),
        json.dumps({**GOOD, "at": "2026-01-01T00:00:00"}),
        json.dumps({**GOOD, "by": "nobody"}),
        json.dumps({**GOOD, "data": {"call": 1}}),
    ],
)
def test_what_is_no_line_of_the_stream_is_refused(bad: bytes | str) -> None:
    with pytest.raises(UserError):
        parse_line(bad)


@given(st.integers(-(10**15), 10**17))
def test_a_time_survives_its_text(at: int) -> None:
    assert micros(iso(at)) == at


def test_a_time_always_has_its_microseconds_and_its_zone() -> None:
    assert [iso(0), iso(1_500_000), iso(-1)] == [
        "1970-01-01T00:00:00.000000Z",
        "1970-01-01T00:00:01.500000Z",
        "1969-12-31T23:59:59.999999Z",
    ]
    assert micros("2026-01-01T01:00:00+01:00") == micros("2026-01-01T00:00:00Z")
