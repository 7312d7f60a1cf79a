"""Lines of JSON that no reader breaks in two."""

import json

import msgspec
import pytest

from backstay.testing.builders import recorded
from backstay.vocab.deltas import TextDelta
from backstay.vocab.event import Recorded
from backstay.vocab.events import Renamed
from backstay.wire.stream import line
from backstay.wire.write_json import json_line, unbroken

BREAKS = "a\u2028b\u2029c\x85d\x0be\x1cf"


@pytest.mark.parametrize("item", [recorded(Renamed(name=BREAKS)), TextDelta(text=BREAKS)], ids=["event", "delta"])
def test_the_native_stream_is_one_line_for_each_item(item: Recorded | TextDelta) -> None:
    text = line("s1", item).decode()

    assert len(text.splitlines()) == 1
    assert BREAKS in json.loads(text)["data"].values()


def test_everything_else_stays_as_it_is() -> None:
    content = {"text": BREAKS + "é 漢字 \U0001f600 \u2027\u202a"}

    assert json.loads(json_line(content)) == content
    assert unbroken(msgspec.json.encode("é\u2027\u202a")) == msgspec.json.encode("é\u2027\u202a")
