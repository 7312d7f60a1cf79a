"""The trace under the diagnostic log: no secret reaches the disk, whole or in pieces, and a request is written once."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.logic.secrets.redact import REDACTED, Redactor
from backstay.stores.stored_trace import read_trace
from backstay.stores.trace import FileTrace, MemoryTrace, TraceLine
from backstay.stores.trace_lines import LONGEST_LINE, RequestPacker, RequestReader
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta, ToolOutputDelta

TOKEN = "sk-" + "ant-api03-" + "a1B2c3D4e5" * 4
TALK = f"The key is {TOKEN}, keep it."
CLEAN = f"The key is {REDACTED}, keep it."


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def delta(kind: type[Delta], text: str) -> Delta:
    if kind is ToolArgsDelta:
        return ToolArgsDelta(index=0, name="x", text=text)
    return ToolOutputDelta(call="c1", text=text) if kind is ToolOutputDelta else kind(text=text)  # type: ignore[call-arg]  # the others have a text


def data(line: TraceLine) -> Any:  # Any: JSON
    return line.data


def texts(lines: tuple[TraceLine, ...]) -> str:
    return "".join(data(line)["delta"]["text"] for line in lines if "delta" in line.data)


def raw(folder: Path) -> str:
    return (folder / "s1.jsonl").read_text()


@pytest.mark.contract("RB-33", "RV-B15")
@pytest.mark.parametrize("size", [1, 4, 9, 200])
@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta, ToolArgsDelta, ToolOutputDelta])
async def test_a_secret_split_over_deltas_never_reaches_the_file(tmp_path: Path, kind: type[Delta], size: int) -> None:
    trace = FileTrace(tmp_path)
    for piece in pieces(TALK, size):
        trace.write("s1", kind.__name__, {"delta": delta(kind, piece)})
    await trace.close()

    lines = read_trace(tmp_path, "s1").lines
    assert texts(lines) == CLEAN
    assert len(lines) == len(pieces(TALK, size))


@pytest.mark.contract("RB-33")
@pytest.mark.parametrize("cut", range(1, len(TALK), 3))
async def test_a_line_with_the_beginning_of_a_secret_waits_for_the_rest(tmp_path: Path, cut: int) -> None:
    trace = FileTrace(tmp_path)
    trace.write("s1", "TextDelta", {"delta": TextDelta(text=TALK[:cut])})
    trace._drain()  # what the flusher does after 50 ms
    held = read_trace(tmp_path, "s1").lines
    trace.write("s1", "TextDelta", {"delta": TextDelta(text=TALK[cut:])})
    await trace.close()

    assert "ant-api03-" not in texts(held)
    assert texts(read_trace(tmp_path, "s1").lines) == CLEAN


@pytest.mark.contract("RB-31")
async def test_what_waits_is_written_when_the_log_goes_on(tmp_path: Path) -> None:
    trace = FileTrace(tmp_path)
    trace.position("s1", 4, 1)
    trace.write("s1", "TextDelta", {"delta": TextDelta(text="a half-open s")})
    trace._drain()
    assert texts(read_trace(tmp_path, "s1").lines) == ""

    trace.position("s1", 6, 1)
    trace._drain()

    assert texts(read_trace(tmp_path, "s1").lines) == "a half-open s"
    await trace.close()


async def test_the_second_half_is_taken_out_when_the_first_could_not_wait(tmp_path: Path) -> None:
    trace = FileTrace(tmp_path)
    trace.write("s1", "TextDelta", {"delta": TextDelta(text=TALK[:24])})
    await trace.flush()
    trace.write("s1", "TextDelta", {"delta": TextDelta(text=TALK[24:])})
    await trace.close()

    assert texts(read_trace(tmp_path, "s1").lines) == TALK[:24] + ", keep it."


async def test_streams_that_run_side_by_side_do_not_disturb_each_other(tmp_path: Path) -> None:
    trace = FileTrace(tmp_path)
    for one, other in zip(pieces(TALK, 3), pieces(TALK[::-1], 3), strict=True):
        trace.write("s1", "ToolOutputDelta", {"delta": ToolOutputDelta(call="a", text=one)})
        trace.write("s1", "ToolOutputDelta", {"delta": ToolOutputDelta(call="b", text=other)})
    await trace.close()

    lines = read_trace(tmp_path, "s1").lines
    assert texts(tuple(line for line in lines if "a" in data(line)["delta"].values())) == CLEAN
    assert texts(tuple(line for line in lines if "b" in data(line)["delta"].values())) == TALK[::-1]
    assert [line.n for line in lines] == list(range(1, len(lines) + 1))


async def test_a_reply_does_not_go_on_in_the_next_one(tmp_path: Path) -> None:
    trace = FileTrace(tmp_path)
    for text in (TOKEN, "next"):
        trace.write("s1", "TextDelta", {"delta": TextDelta(text=text)})
        trace.write("s1", "provider_response_raw", {"status": 200})
    await trace.close()

    assert texts(read_trace(tmp_path, "s1").lines) == f"{REDACTED}next"


@pytest.mark.contract("RB-33", "RV-B15")
@pytest.mark.parametrize("size", [2, 11])
async def test_a_secret_split_over_the_raw_events_of_a_provider_is_taken_out(tmp_path: Path, size: int) -> None:
    trace = FileTrace(tmp_path)
    for number, piece in enumerate(pieces(TALK, size)):
        event = {"choices": [{"index": 0, "delta": {"content": piece}}], "id": f"event-{number}", "api_key": "x"}
        trace.write("s1", "provider_native_raw_payload", {"kind": "stream_event", "name": "", "payload": event})
    await trace.close()

    payloads = [data(line)["payload"] for line in read_trace(tmp_path, "s1").lines]
    assert "".join(one["choices"][0]["delta"]["content"] for one in payloads) == CLEAN
    assert {one["api_key"] for one in payloads} == {REDACTED}
    assert [one["id"] for one in payloads] == [f"event-{number}" for number in range(len(payloads))]


@pytest.mark.contract("RB-33", "RV-33")
async def test_keys_headers_and_injected_values_never_reach_the_file(tmp_path: Path) -> None:
    trace = FileTrace(tmp_path, redactor=Redactor(exact=["correct horse battery"]))
    trace.write("s1", "hook", {"env": {"GITHUB_TOKEN": "letmein"}, "out": "say correct horse battery", "n": 3})
    trace.write("s1", "provider_request", {"headers": {"x-api-key": "letmein"}, "body": b'{"messages":[]}'})
    await trace.close()

    stored = raw(tmp_path)
    assert "letmein" not in stored
    assert "horse" not in stored
    assert stored.count(REDACTED) == 3


async def test_a_memory_trace_is_redacted_too() -> None:
    trace = MemoryTrace(now=lambda: 5)
    trace.write("s1", "TextDelta", {"delta": TextDelta(text=TALK)})

    assert trace.lines("s1") == (
        TraceLine(after=0, token=0, n=1, at=5, kind="TextDelta", data={"delta": {"text": CLEAN}}),
    )


async def test_a_very_long_line_is_cut(tmp_path: Path) -> None:
    trace = FileTrace(tmp_path)
    trace.write("s1", "payload", {"small": "kept", "long": "x" * (3 * LONGEST_LINE)})
    await trace.close()

    (line,) = read_trace(tmp_path, "s1").lines
    assert line.data["small"] == "kept"
    assert str(line.data["long"]).endswith("[cut here: 3,145,728 characters]")
    assert (tmp_path / "s1.jsonl").stat().st_size < LONGEST_LINE


# --- requests --------------------------------------------------------------------------------------------------------------------


def request(rounds: int, **more: object) -> bytes:
    """A request whose history has grown for some rounds, as bytes that were sent."""
    messages = [{"role": "user", "content": f"message {number} " + "word " * 40} for number in range(rounds)]
    tools = [{"name": "Read", "description": "d" * 2000, "token": "hidden" * 200}]
    return json.dumps({"model": "m", "messages": messages, "tools": tools, **more}).encode()


async def test_a_conversation_is_not_written_again_each_round(tmp_path: Path) -> None:
    sizes = []
    for name, rounds in (("s1", 40), ("s2", 80)):
        trace = FileTrace(tmp_path)
        for count in range(1, rounds + 1):
            trace.write(name, "provider_request", {"ask": f"a{count}", "url": "https://x", "body": request(count)})
        await trace.close()
        sizes.append((tmp_path / f"{name}.jsonl").stat().st_size)

    assert sizes[1] < 2.2 * sizes[0]
    assert sizes[1] < 2 * len(request(80))
    bodies = [data(line)["body"] for line in read_trace(tmp_path, "s2").lines]
    expected = [json.loads(request(count)) for count in range(1, 81)]
    for one in expected:
        one["tools"][0]["token"] = REDACTED
    assert bodies == expected


async def test_requests_are_whole_after_a_restart_and_after_the_oldest_were_dropped(tmp_path: Path) -> None:
    for start in (1, 11):
        trace = FileTrace(tmp_path, max_bytes=60_000)
        for count in range(start, start + 10):
            trace.write("s1", "provider_request", {"body": request(count)})
            trace.write("s1", "filler", {"text": "x" * 4_000})
            await trace.flush()
        await trace.close()

    found = read_trace(tmp_path, "s1")
    requests = [data(line)["body"] for line in found.lines if line.kind == "provider_request"]
    assert found.cut
    assert len(requests) < 20
    assert requests[-1]["messages"] == json.loads(request(20))["messages"]


def test_what_a_request_leans_on_and_that_is_lost_is_named() -> None:
    packer = RequestPacker(lambda value: value)
    lost, kept = (packer.pack({"body": request(count)}) for count in (3, 4))
    del lost

    whole: Any = RequestReader().unpack(kept)["body"]  # Any: as above

    assert whole["messages"][0] == {"lost": "3 earlier items"}
    assert whole["messages"][1:] == json.loads(request(4))["messages"][3:]
    assert whole["tools"] == {"lost": "a field that was written before"}


items = st.lists(st.integers(0, 3).map(lambda number: {"role": "user", "content": "x" * 300 * number}), max_size=6)


@given(
    histories=st.lists(items, max_size=8),
    key=st.sampled_from(["messages", "input", "contents"]),
    forget=st.integers(0, 8),
)
def test_requests_read_back_as_they_were(histories: list[list[object]], key: str, forget: int) -> None:
    packer, reader = RequestPacker(lambda value: value), RequestReader()
    for number, history in enumerate(histories):
        if number == forget:
            packer.forget()
        content = {"ask": number, "body": {key: history, "system": "s" * 600 * (number % 2), "n": number}}
        packed = json.loads(json.dumps(packer.pack(content)))
        assert reader.unpack(packed) == content


def test_a_request_without_a_history_is_left_as_it_is() -> None:
    content = {"model": "scripted", "messages": 3, "body": "not json", "odd": {"$same": "mine"}}

    assert RequestPacker(lambda value: value).pack(content) == content
