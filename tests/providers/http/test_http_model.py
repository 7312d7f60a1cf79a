"""One question over HTTP: what is asked, what is streamed, what is left behind."""

import gc
import subprocess
import sys
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import anyio
import msgspec
import pytest

from backstay.ports import ModelReply, ModelRequest
from backstay.providers.http.model import ALIVE, HttpModel
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import Message, Text, ToolCall, text_of
from backstay.vocab.specs import Usage
from tests.providers.http import wires
from tests.providers.http.server import KEY, FakeProvider, Step, answers_whole, collect, fails, raw, says
from tests.providers.http.wires import FORMAT_NAMES, MODEL, FormatName

HELLO = "Grüße, 世界! 👋🏽"
REQUEST = ModelRequest(model="", messages=(Message(role="user", parts=(Text(text="Hello?"),)),))
every_format = pytest.mark.parametrize("format", FORMAT_NAMES)
Lines = list[tuple[str, Mapping[str, object]]]


def gist(reply: ModelReply) -> tuple[object, ...]:
    """What every format can say of a reply."""
    calls = [(part.name, msgspec.json.decode(part.args)) for part in reply.parts if isinstance(part, ToolCall)]
    return text_of(reply.parts), calls, reply.stop, reply.usage, reply.model


def streamed(items: list[Any]) -> str:
    """The text that was shown on the way."""
    return "".join(item.text for item in items if isinstance(item, TextDelta))


async def ask(server: FakeProvider, request: ModelRequest = REQUEST) -> list[Any]:
    """Everything that the model of a server yields for one request."""
    model = server.model()
    try:
        return await collect(model, request)
    finally:
        await model.aclose()


@every_format
@pytest.mark.parametrize(
    "step",
    [
        says(HELLO, ("Read", {"file_path": "ä.txt"})),
        says(HELLO, ("Read", {"file_path": "ä.txt"})).trickled(),
        says(HELLO, ("Read", {"file_path": "ä.txt"})).trickled(7),
        says(HELLO, ("Read", {"file_path": "ä.txt"})).without_framing(),
        says(HELLO, ("Read", {"file_path": "ä.txt"})).pinging(5),
    ],
    ids=["events", "bytes", "sevens", "no framing", "pings first"],
)
async def test_a_streamed_answer_is_shown_as_it_comes_and_ends_with_one_reply(format: FormatName, step: Step) -> None:
    async with FakeProvider(format, [step]) as server:
        *deltas, reply = await ask(server)

    assert all(isinstance(delta, Delta) for delta in deltas)
    assert streamed(deltas) == HELLO
    calls = [("Read", {"file_path": "ä.txt"})]
    assert gist(reply) == (HELLO, calls, "tool_calls", Usage(input=12, output=7), MODEL)


@every_format
async def test_an_answer_that_is_not_streamed_is_read_too(format: FormatName) -> None:
    async with FakeProvider(format, [answers_whole(HELLO)]) as server:
        *deltas, reply = await ask(server)

    assert streamed(deltas) == HELLO
    assert gist(reply) == (HELLO, [], "end", Usage(input=12, output=7), MODEL)


@every_format
@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json", "text/event-stream; charset=utf-8"])
async def test_a_stream_under_a_wrong_label_is_still_a_stream(format: FormatName, content_type: str) -> None:
    events = wires.stream(format, wires.Said(text=HELLO))
    async with FakeProvider(format, [raw(*events, content_type=content_type)]) as server:
        assert text_of((await ask(server))[-1].parts) == HELLO


@every_format
async def test_a_document_under_a_wrong_label_is_still_a_document(format: FormatName) -> None:
    body = wires.document(format, wires.Said(text=HELLO))
    async with FakeProvider(format, [raw(b"\n", body, content_type="text/event-stream")]) as server:
        assert text_of((await ask(server))[-1].parts) == HELLO


@every_format
async def test_the_request_is_posted_with_the_key_and_asks_for_a_stream(format: FormatName) -> None:
    async with FakeProvider(format, [says("Yes.")]) as server:
        await ask(server)

    (asked,) = server.requests
    assert KEY in "".join(asked.headers.values())
    assert asked.headers["accept-encoding"] == "identity"
    assert "Hello?" in asked.body.decode()
    assert KEY not in asked.body.decode() + asked.path
    assert format == "google" or (asked.json["stream"] is True and asked.json["model"] == MODEL)


async def test_a_model_whose_name_has_a_colon_keeps_it() -> None:
    async with FakeProvider("openai-chat", [says("Yes.")]) as server:
        model = server.model(model="llama3:8b")
        await collect(model, REQUEST)
        await model.aclose()

    assert server.requests[0].json["model"] == "llama3:8b"


async def test_bytes_that_show_nothing_are_signs_of_life() -> None:
    async with FakeProvider("anthropic", [says("Yes.", pieces=1).pinging(3, pause_s=0.001)]) as server:
        items = await ask(server)

    assert items[:4].count(ALIVE) >= 3
    assert [item for item in items if item != ALIVE] == [TextDelta(text="Yes."), items[-1]]


async def test_a_connection_is_used_again() -> None:
    async with FakeProvider("anthropic", [says("One."), fails(429), says("Two.")]) as server:
        model = server.model()
        await collect(model, REQUEST)
        with pytest.raises(ProviderError):
            await collect(model, REQUEST)
        await collect(model, REQUEST)
        await model.aclose()

    assert [asked.connection for asked in server.requests] == [1, 1, 1]


async def test_a_closed_model_can_be_asked_again() -> None:
    async with FakeProvider("anthropic", [says("One."), says("Two.")]) as server:
        await ask(server)
        model = server.model()
        await model.aclose()
        assert text_of((await collect(model, REQUEST))[-1].parts) == "Two."
        await model.aclose()
        await model.aclose()


async def test_questions_at_the_same_time_have_connections_of_their_own() -> None:
    answers: list[str] = []

    async def one() -> None:
        answers.append(text_of((await collect(model, REQUEST))[-1].parts))

    async with FakeProvider("anthropic", [says("Yes.").trickled(9, 0.001)] * 5) as server:
        model = server.model()
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(one)
        await model.aclose()

    assert answers == ["Yes."] * 5


@every_format
async def test_cancelling_closes_the_connection_at_once(format: FormatName) -> None:
    async with FakeProvider(format, [says(HELLO).stalled(-40)]) as server:
        model = server.model()
        with anyio.CancelScope() as scope:
            async for item in model.ask(REQUEST):
                if isinstance(item, TextDelta):
                    await server.stalling.wait()
                    scope.cancel()
        assert scope.cancelled_caught
        await server.left.wait()
        await model.aclose()


async def test_leaving_a_stream_closes_the_connection() -> None:
    async with FakeProvider("anthropic", [says(HELLO).stalled(-40)]) as server:
        model = server.model()
        async with aclosing(model.ask(REQUEST)) as stream:  # type: ignore[type-var]  # the port promises only an iterator
            async for item in stream:
                if isinstance(item, TextDelta):
                    break
        await server.left.wait()
        await model.aclose()


async def test_a_server_that_never_ends_a_finished_answer_does_not_hold_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("backstay.providers.http.model.LAST_WORDS_S", 0.01)
    async with FakeProvider("anthropic", [says(HELLO).kept_open()]) as server:
        assert text_of((await ask(server))[-1].parts) == HELLO
        await server.left.wait()


@pytest.mark.parametrize("in_a_cycle", [False, True])
@pytest.mark.parametrize("outlives_the_loop", [False, True])
def test_a_model_that_nobody_closes_leaves_nothing_behind(in_a_cycle: bool, outlives_the_loop: bool) -> None:
    kept: list[object] = []

    async def main() -> None:
        async with FakeProvider("anthropic", [says("Yes.")]) as server:
            model = server.model()
            await collect(model, REQUEST)
            kept.append(model)
            if in_a_cycle:
                model.itself = model  # type: ignore[attr-defined]  # as a session does that knows what knows it
            del model
            if not outlives_the_loop:
                kept.clear()
                gc.collect()
                await server.left.wait()

    anyio.run(main)
    kept.clear()
    gc.collect()  # an open connection would warn, and a warning is an error


def test_a_model_serves_one_event_loop_after_another() -> None:
    models: list[HttpModel] = []
    ports = [0]

    async def main() -> str:
        async with FakeProvider("anthropic", [says("Yes.")], port=ports[-1]) as server:
            ports.append(server.port)
            models.append(models[-1] if models else server.model())
            return text_of((await collect(models[-1], REQUEST))[-1].parts)

    assert [anyio.run(main), anyio.run(main)] == ["Yes.", "Yes."]
    models.clear()
    gc.collect()


async def test_the_history_is_encoded_once_for_each_conversation() -> None:
    async with FakeProvider("anthropic", [says("Yes.")] * 4) as server:
        model = server.model()
        other = ModelRequest(model="", messages=(Message(role="user", parts=(Text(text="Another?"),)),))
        for request in (REQUEST, other, REQUEST, other):
            await collect(model, request)
        await model.aclose()

    bodies = [asked.body for asked in server.requests]
    assert (bodies[0], bodies[1]) == (bodies[2], bodies[3])
    assert len(model._encoders) == 2


# --- what is traced --------------------------------------------------------------------------------------------------------------


@every_format
async def test_what_travels_is_told_to_the_tap_without_the_key(format: FormatName) -> None:
    lines: Lines = []
    tapped = msgspec.structs.replace(REQUEST, tap=lambda kind, content: lines.append((kind, content)))
    step = says("Yes.", pieces=1)
    async with FakeProvider(format, [step]) as server:
        await ask(server, tapped)

    (sent, request), *payloads, (last, response) = lines
    assert (sent, last) == ("provider_request", "provider_response_raw")
    assert {kind for kind, _ in payloads} == {"provider_native_raw_payload"}
    assert len(payloads) == len(step.write(format))
    assert {content["kind"] for _, content in payloads} == {"stream_event"}
    assert (request["method"], request["body"]) == ("POST", server.requests[0].body)
    assert str(request["url"]).endswith(wires.paths(format))
    assert "[REDACTED]" in str(request["headers"])
    assert (response["status"], response["headers"]) == (200, {"content-type": "text/event-stream"})
    assert response["parts"] == (Text(text="Yes."),)
    assert KEY not in str(lines)


async def test_a_document_and_a_failure_are_told_too() -> None:
    lines: Lines = []
    tapped = msgspec.structs.replace(REQUEST, tap=lambda kind, content: lines.append((kind, content)))
    async with FakeProvider("anthropic", [answers_whole("Yes."), fails(529, f"busy with {KEY}")]) as server:
        await ask(server, tapped)
        with pytest.raises(ProviderError):
            await ask(server, tapped)

    told = [(kind, content.get("kind"), content.get("status")) for kind, content in lines]
    assert told == [
        ("provider_request", None, None),
        ("provider_native_raw_payload", "response", None),
        ("provider_response_raw", None, 200),
        ("provider_request", None, None),
        ("provider_response_raw", None, 529),
    ]
    assert "busy with [REDACTED]" in str(lines[-1][1]["body"])
    assert KEY not in str(lines)


async def test_a_cut_stream_is_told_as_one() -> None:
    lines: Lines = []
    tapped = msgspec.structs.replace(REQUEST, tap=lambda kind, content: lines.append((kind, content)))
    async with FakeProvider("anthropic", [says("Yes.").cut(-10)]) as server:
        with pytest.raises(ProviderError):
            await ask(server, tapped)

    kind, content = lines[-1]
    assert (kind, content["status"]) == ("provider_response_raw", 200)
    assert "'kind': 'transport'" in str(content["error"])


# --- the key ---------------------------------------------------------------------------------------------------------------------


@every_format
async def test_the_key_is_in_no_error_and_in_no_description(format: FormatName) -> None:
    async with FakeProvider(format, [fails(401, f"Incorrect API key provided: {KEY}.")]) as server:
        assert KEY not in repr(server.model())
        with pytest.raises(ProviderError) as caught:
            await ask(server)

    assert caught.value.kind == "auth"
    assert KEY not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


async def test_the_key_is_read_at_each_question() -> None:
    keys = ["first", " second \n"]
    async with FakeProvider("anthropic", [says("One."), says("Two.")]) as server:
        model = server.model(key=lambda: keys.pop(0))
        await collect(model, REQUEST)
        await collect(model, REQUEST)
        await model.aclose()

    assert [asked.headers["x-api-key"] for asked in server.requests] == ["first", "second"]


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
async def test_a_key_that_cannot_be_one_is_not_sent_and_not_shown(key: str) -> None:
    async with FakeProvider("anthropic", [says("One.")]) as server:
        with pytest.raises(ProviderError, match="characters that no key has") as caught:
            await collect(server.model(key=key), REQUEST)

    assert caught.value.kind == "auth"
    assert key not in str(caught.value)
    assert server.requests == []


def test_the_http_client_is_loaded_only_when_a_model_needs_it() -> None:
    code = "import sys, backstay, backstay.providers.registry; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
