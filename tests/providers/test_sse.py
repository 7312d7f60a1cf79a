"""Server-sent events come out the same however their bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.providers.http.sse import MAX_LINE, SseEvent, SseParser

FIELDS = (
    b": a comment",
    b"event: first",
    b"id: 7",
    b"retry: 10",
    'data: {"text": "\u00e9\u4e16\U0001f600 \u2028 \u2029 \x85 end"}'.encode(),
    b"",
    b":",
    b"data",
    b"",
    b"event:second",
    b"data:no space",
    b"data:  two spaces",
    b"unknown: field",
    b"",
    b"event: without data",
    b"",
    b"",
    b"data: last: colon",
    b"",
)
EXPECTED = [
    SseEvent(name="first", data='{"text": "\u00e9\u4e16\U0001f600 \u2028 \u2029 \x85 end"}'.encode()),
    SseEvent(data=b""),
    SseEvent(name="second", data=b"no space\n two spaces"),
    SseEvent(data=b"last: colon"),
]
ENDS = {"LF": b"\n", "CRLF": b"\r\n", "CR": b"\r"}
BOM = b"\xef\xbb\xbf"


def stream(end: bytes) -> bytes:
    return b"".join(line + end for line in FIELDS)


def parse(*chunks: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("bom", [b"", BOM], ids=["plain", "BOM"])
def test_every_split_in_two_gives_the_same_events(bom: bytes, end: bytes) -> None:
    content = bom + stream(end)

    for cut in range(len(content) + 1):
        assert parse(content[:cut], content[cut:]) == EXPECTED, cut


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pieces_of_any_size_give_the_same_events(size: int, end: bytes) -> None:
    content = BOM + stream(end)

    assert parse(*(content[at : at + size] for at in range(0, len(content), size))) == EXPECTED


@given(st.lists(st.sampled_from((b"\n", b"\r\n", b"\r")), min_size=len(FIELDS), max_size=len(FIELDS)), st.data())
def test_mixed_line_ends_and_random_splits_change_nothing(ends: list[bytes], data: st.DataObject) -> None:
    # A line that ends in CR before an empty one that ends in LF would read as one CRLF.
    for at in range(len(ends) - 1):
        if ends[at] == b"\r" and FIELDS[at + 1] == b"" and ends[at + 1] == b"\n":
            ends[at] = b"\n"
    # Where lines end in CRLF, the last CR waits for its LF.
    if ends[-1] == b"\r" and any(end == b"\r\n" for end in ends):
        ends[-1] = b"\r\n"
    content = b"".join(line + end for line, end in zip(FIELDS, ends, strict=True))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=12)))
    edges = [0, *cuts, len(content)]

    assert parse(*(content[a:b] for a, b in pairwise(edges))) == EXPECTED


def test_an_event_counts_only_once_the_empty_line_has_come() -> None:
    content = b"event: x\ndata: 1\n\n"

    for cut in range(len(content)):
        assert parse(content[:cut]) == []
    assert parse(content) == [SseEvent(name="x", data=b"1")]


def test_with_crlf_an_event_counts_only_with_its_last_byte() -> None:
    content = b"data: 1\r\n\r\n"

    for cut in range(len(content)):
        assert parse(content[:cut]) == []
        assert parse(content, content[:cut]) == [SseEvent(data=b"1")]
    assert parse(content) == [SseEvent(data=b"1")]


def test_a_byte_order_mark_is_only_taken_from_the_beginning() -> None:
    assert parse(BOM + b"data: 1\n\n" + BOM + b"data: 2\n\ndata: " + BOM + b"3\n\n") == [
        SseEvent(data=b"1"),
        SseEvent(data=BOM + b"3"),
    ]


def test_doubled_events_come_out_twice() -> None:
    frame = b"event: x\ndata: 1\n\n"

    assert parse(frame + frame) == [SseEvent(name="x", data=b"1")] * 2


def test_the_name_of_an_event_without_data_is_forgotten() -> None:
    assert parse(b"event: lost\n\ndata: 1\n\n") == [SseEvent(data=b"1")]


def test_the_last_name_and_every_data_line_of_an_event_hold() -> None:
    assert parse(b"event: a\ndata: 1\nevent: b\ndata: 2\n\n") == [SseEvent(name="b", data=b"1\n2")]


def test_comments_alone_give_nothing() -> None:
    assert parse(b": keep-alive\n\n:\n\n: again\n\n") == []


def test_a_line_of_ten_million_bytes_arrives_in_small_pieces() -> None:
    line = b"data: " + b"x" * 10_000_000 + b"\n\n"
    size = 4096

    events = parse(*(line[at : at + size] for at in range(0, len(line), size)))

    assert [len(event.data) for event in events] == [10_000_000]


def test_a_line_without_end_is_refused() -> None:
    parser = SseParser()
    block = b"x" * (MAX_LINE // 4)
    for _ in range(4):
        assert parser.feed(block) == []

    with pytest.raises(ValueError, match="an event of more than"):
        parser.feed(b"x")
