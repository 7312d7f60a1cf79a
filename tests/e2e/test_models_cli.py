"""`holdfast models`: recorded answers are read through the adapters, in random pieces; the catalog is shown."""

import json
from typing import Any

import msgspec
import pytest

from holdfast.providers.registry import PROVIDERS
from tests.e2e.door import Door, Line
from tests.providers.http import wires
from tests.providers.http.wires import FORMAT_NAMES, FormatName, Said

every_format = pytest.mark.parametrize("format", FORMAT_NAMES)
SAID = Said(text="Grüße, 世界! 👋🏽", calls=[("Read", {"path": "ä"})])


def recorded(format: FormatName, **rest: object) -> Line:
    body = b"".join(wires.stream(format, SAID)).decode()
    return {"id": "r1", "status": 200, "content_type": "text/event-stream", "body": body, **rest}


def decode(door: Door, format: str, *lines: Any, seed: int = 0) -> list[Line]:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    ran = door.spawn("models", "decode", "--format", format, "--seed", str(seed), "-", text=text)
    assert (ran.code, ran.err) == (0, "")
    return ran.lines


@every_format
def test_an_answer_is_read_the_same_in_whatever_pieces_it_comes(door: Door, format: FormatName) -> None:
    whole = {**recorded(format), "content_type": "application/json", "body": wires.document(format, SAID).decode()}
    lines = decode(door, format, *[recorded(format)] * 60, whole, seed=7)

    first = lines[0]
    assert {key: first[key] for key in ("id", "stop", "model")} == {
        "id": "r1",
        "stop": "tool_calls",
        "model": "test-model",
    }
    assert first["usage"] == {"input": 12, "output": 7}
    assert first["message"]["role"] == "assistant"
    text, call = first["message"]["content"]
    assert text == {"type": "text", "text": SAID.text}
    assert (call["type"], call["name"], json.loads(call["args"])) == ("tool_call", "Read", {"path": "ä"})
    assert lines[:60] == [first] * 60
    assert lines[60]["message"]["content"][0] == text


@every_format
def test_chunks_are_framed_as_a_stream(door: Door, format: FormatName) -> None:
    frames = [part.partition(b"data: ")[2].strip() for part in wires.stream(format, SAID)]
    chunks = [json.loads(frame) for frame in frames if frame != b"[DONE]"]

    assert (
        decode(door, format, {"id": 1, "chunks": chunks}, recorded(format, id=1))
        == [*decode(door, format, recorded(format, id=1))] * 2
    )


@every_format
def test_an_answer_that_was_cut_is_an_error(door: Door, format: FormatName) -> None:
    body = recorded(format)["body"]
    (line,) = decode(door, format, recorded(format, body=body[: len(body) // 2]))

    assert line["id"] == "r1"
    assert line["error"]["kind"] == "transport"


@every_format
def test_a_refusal_is_an_error_by_kind(door: Door, format: FormatName) -> None:
    body = wires.refusal(format, 429, "Slow down.").decode()
    line = {"id": [1], "status": 429, "content_type": "application/json", "body": body, "retry_after": "3"}
    (answer,) = decode(door, format, line)

    assert (answer["id"], answer["error"]["kind"], answer["error"]["retry_after_s"]) == ([1], "rate_limit", 3.0)
    assert "Slow down." in answer["error"]["message"]


def test_a_bad_line_is_answered_and_the_others_go_on(door: Door) -> None:
    good = recorded("anthropic")
    bad = ["{", "[1]", "3", '{"id":5}', '{"id":6,"body":7}', '{"id":7,"chunks":[3]}', '{"id":8,"status":"x","body":""}']
    lines = decode(door, "anthropic", good, *bad, "", good)

    assert [line["id"] for line in lines] == ["r1", None, None, None, 5, 6, 7, 8, "r1"]
    assert {line["error"]["kind"] for line in lines[1:-1]} == {"bad_request"}
    assert lines[0] == lines[-1]


def test_long_text_and_signatures_are_durable_parts(door: Door) -> None:
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2VjcmV0LXByb29m"},
        {"type": "text", "text": "long " * 20_000},
    ]
    document = {**json.loads(wires.document("anthropic", SAID)), "content": content, "stop_reason": "end_turn"}
    body = json.dumps(document)
    (line,) = decode(door, "anthropic", {"id": 0, "status": 200, "content_type": "application/json", "body": body})

    assert [part["type"] for part in line["message"]["content"]] == ["reasoning", "text_ref"]
    assert line["message"]["content"][1]["chars"] == 100_000
    assert "c2VjcmV0LXByb29m" not in json.dumps(line)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("decode", "--format", "xml", "-"), "'xml' is not one of"),
        (("decode", "-"), "Missing option '--format'"),
        (("decode", "--format", "google"), "Missing argument"),
        (("decode", "--format", "google", "file"), "'file' is not"),
        (("decode", "--format", "google", "--seed", "x", "-"), "'x' is not a valid integer"),
    ],
)
def test_what_is_typed_wrong_is_exit_2(door: Door, arguments: tuple[str, ...], words: str) -> None:
    ran = door.run("models", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_nothing_in_nothing_out(door: Door) -> None:
    ran = door.run("models", "decode", "--format", "google", "-")

    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_the_catalog_is_listed(door: Door) -> None:
    rows = door.run("models", "list").out.splitlines()
    objects = door.run("models", "list", "--json").json

    assert len(rows) == len(objects) + 1
    assert {each["name"].partition(":")[0] for each in objects} <= set(PROVIDERS)
    assert all(each["known"] and each["window"] > 0 for each in objects)
    assert any(row.startswith("anthropic:claude-sonnet-4-6 ") for row in rows)


def test_a_model_is_shown(door: Door) -> None:
    words = door.run("models", "show", "anthropic:claude-sonnet-4-6").out
    facts = door.run("models", "show", "anthropic:claude-sonnet-4-6", "--json").json

    assert "ANTHROPIC_API_KEY" in words
    assert f"{facts['window']:,}" in words
    assert (facts["format"], facts["known"], facts["usd_per_million"]["input"]) == ("anthropic", True, 3.0)


def test_a_model_that_nobody_knows_is_shown_as_such(door: Door) -> None:
    name = "openai-chat:mine@http://localhost:1/v1"

    assert "Nothing is known" in door.run("models", "show", name).out
    assert msgspec.json.decode(door.run("models", "show", name, "--json").out)["known"] is False


@pytest.mark.parametrize("name", ["claude", "nobody:x"])
def test_a_name_that_names_nobody_is_refused(door: Door, name: str) -> None:
    ran = door.run("models", "show", name)

    assert (ran.code, ran.out) == (1, "")
    assert "names no model" in ran.err
