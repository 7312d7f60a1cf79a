"""Events to bytes and back: whatever was written can be read, and whatever cannot be read says why."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.testing.builders import example, example_events, recorded
from backstay.vocab.errors import LogDamaged, NeedsUpgrade
from backstay.vocab.event import Event, Recorded
from backstay.vocab.events import EVENTS, VERSIONS, ModelReplied, Renamed, TurnStarted
from backstay.vocab.messages import Text
from backstay.wire.codec import EVENT_NAMED, NAME_OF, decode, encode
from backstay.wire.upcast import UPCASTERS, Raw


@pytest.mark.parametrize("event", example_events(), ids=lambda event: NAME_OF[type(event)])
def test_every_event_comes_back_as_it_was_written(event: Event) -> None:
    record = recorded(event, seq=7, by="model", cause="n.6")

    assert decode(encode(record)) == record


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 2**53), st.integers(0, 2**53))
def test_any_text_and_any_place_come_back(text: str, seq: int, at: int) -> None:
    record = recorded(ModelReplied(parts=(Text(text=text),)), seq=seq, at=at)
    line = encode(record)

    assert decode(line) == record
    assert b"\n" not in line


def test_the_line_has_the_documented_shape() -> None:
    record = Recorded(seq=2, id="n.2", at=3, by="user", cause="n.1", event=Renamed(name="x"))

    assert json.loads(encode(record)) == {
        "seq": 2,
        "id": "n.2",
        "at": 3,
        "by": "user",
        "cause": "n.1",
        "type": "renamed",
        "v": 1,
        "data": {"name": "x"},
    }
    assert "cause" not in json.loads(encode(recorded(Renamed(name="x"))))


def test_an_example_fills_every_field_with_something_of_its_own() -> None:
    for cls in EVENTS:
        made = example(cls)
        empty = {name for name in cls.__struct_fields__ if getattr(made, name) in ("", (), None, 0)}
        assert (cls, empty) == (cls, set())


def test_the_wire_names_are_unique() -> None:
    assert len(EVENT_NAMED) == len(EVENTS)


def changed(**changes: object) -> bytes:
    return json.dumps({**json.loads(encode(recorded(Renamed(name="x")))), **changes}).encode()


@pytest.mark.parametrize("line", [changed(type="teleported"), changed(v=2), changed(type="teleported", data=[])])
def test_what_a_newer_version_wrote_asks_for_an_upgrade(line: bytes) -> None:
    with pytest.raises(NeedsUpgrade, match=r"[Uu]pgrade"):
        decode(line)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\x00\xff",
        b"[" * 100_000,
        encode(recorded(Renamed(name="x")))[:-1],
        changed(seq="one"),
        changed(by="nobody"),
        changed(data={}),
        changed(data={"name": 3}),
        changed(data=None),
        changed(v=0),
    ],
)
def test_what_nobody_wrote_is_damage(line: bytes) -> None:
    with pytest.raises(LogDamaged):
        decode(line)


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(line: bytes) -> None:
    with pytest.raises((LogDamaged, NeedsUpgrade)):
        decode(line)


@given(st.data())
def test_a_damaged_line_is_read_or_named(data: st.DataObject) -> None:
    line = bytearray(encode(recorded(example(ModelReplied))))
    line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(LogDamaged, NeedsUpgrade):
        decode(bytes(line))


def test_an_upcaster_brings_an_old_shape_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    def title_became_name(raw: Raw) -> Raw:
        return {"name": raw["title"]}

    monkeypatch.setitem(UPCASTERS, ("renamed", 0), title_became_name)

    assert decode(changed(v=0, data={"title": "old"})).event == Renamed(name="old")
    with pytest.raises(LogDamaged):
        decode(changed(v=0, data={"name": "old"}))


def test_upcasters_run_a_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UPCASTERS, ("turn_started", -1), lambda raw: {"count": raw["no"]})
    monkeypatch.setitem(UPCASTERS, ("turn_started", 0), lambda raw: {"number": raw["count"]})

    assert decode(changed(type="turn_started", v=-1, data={"no": 4})).event == TurnStarted(number=4)


def test_every_version_below_the_current_one_has_its_upcaster() -> None:
    needed = {(NAME_OF[cls], version) for cls, current in VERSIONS.items() for version in range(1, current)}

    assert set(UPCASTERS) == needed
