"""Calls are put together however a server sends their pieces."""

from typing import Any  # Any: native JSON

import pytest

from backstay.providers.openai_chat.decode import StreamedCalls
from backstay.vocab.messages import ToolCall
from tests.providers.openai_chat.streams import call, chunk, read

A = ToolCall(id="", name="A", args='{"x":1}', provider_id="c-1")
B = ToolCall(id="", name="B", args='{"y":2}', provider_id="c-2")
BROKEN = ToolCall(id="", name="A", args='{"x": ', provider_id="c-1")
SPELT = ToolCall(id="", name="get_it", args="{}", provider_id="c-1")
NAMELESS_A, NAMELESS_B = (ToolCall(id="", name=each.name, args=each.args) for each in (A, B))


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        pytest.param(
            [call(0, "c-1", "A", ""), call(0, args='{"x"'), call(0, args=":1}"), call(1, "c-2", "B", '{"y":2}')],
            [A, B],
            id="by index",
        ),
        pytest.param(
            [call(0, "c-1", "A", ""), call(1, "c-2", "B", ""), call(0, args='{"x":1}'), call(1, args='{"y":2}')],
            [A, B],
            id="interleaved",
        ),
        pytest.param([call(None, "c-1", "A", '{"x":1}'), call(None, "c-2", "B", '{"y":2}')], [A, B], id="no index"),
        pytest.param(
            [call(None, "c-1", "A", '{"x"'), call(None, args=":1}"), call(None, "c-2", "B", '{"y":2}')],
            [A, B],
            id="no index, in pieces",
        ),
        pytest.param(
            [call(None, "c-1", "A", '{"x"'), call(None, "c-1", args=":1}"), call(None, "c-2", "B", '{"y":2}')],
            [A, B],
            id="no index, id repeated",
        ),
        pytest.param([call(0, "c-1", "A", '{"x":1}'), call(0, "c-2", "B", '{"y":2}')], [A, B], id="one index for all"),
        pytest.param(
            [call(0, "c-1", "A", '{"x"'), call(0, "c-1", "A", ":1}"), call(0, "c-1", "A", "")], [A], id="all repeated"
        ),
        pytest.param([call(0, "c-1", "A", '{"x"'), call(0, "", "A", ":1}")], [A], id="name repeated, id empty"),
        pytest.param([call(0, "c-1", "A"), call(0, args='{"x":1}')], [A], id="arguments left out at first"),
        pytest.param([call(0, "c-1", "", ""), call(0, name="A", args='{"x":1}')], [A], id="name after the id"),
        pytest.param([call(0, "", "A", ""), call(0, "c-1", args='{"x":1}')], [A], id="id after the name"),
        pytest.param(
            [call(None, None, "A", '{"x":1}'), call(None, None, "B", '{"y":2}')],
            [NAMELESS_A, NAMELESS_B],
            id="neither index nor id",
        ),
        pytest.param(
            [call(None, None, "A", '{"x":1}'), call(None, None, "A", '{"x":1}')],
            [NAMELESS_A, NAMELESS_A],
            id="neither index nor id, twice the same",
        ),
        pytest.param(
            [call(0, None, "A", '{"x":1}'), call(0, None, "B", '{"y":2}')],
            [NAMELESS_A, NAMELESS_B],
            id="one index for all, no ids",
        ),
        pytest.param([call(0, "c-1", "A", {"x": 1})], [A], id="arguments as an object"),
        pytest.param([call(0, "c-1", "A", '{"x":'), call(0, args=" ")], [BROKEN], id="malformed"),
        pytest.param([call(3, "c-1", "A", '{"x":1}'), call(7, "c-2", "B", '{"y":2}')], [A, B], id="odd numbers"),
        pytest.param([call(0, "c-1", "get_", ""), call(0, name="it", args="{}")], [SPELT], id="name in pieces"),
        pytest.param([{"index": 0, "type": "function", "function": {}}], [], id="nothing"),
    ],
)
def test_pieces_become_calls(pieces: list[dict[str, Any]], calls: list[ToolCall]) -> None:
    apart = read(*(chunk(tool_calls=[piece]) for piece in pieces), chunk("stop"))
    at_once = read(chunk("stop", tool_calls=pieces))
    assert list(apart.parts) == calls
    assert list(at_once.parts) == calls


def test_calls_with_the_same_id_are_told_apart() -> None:
    reply = read(*(chunk(tool_calls=[call(n, "c", "A", "{}")]) for n in range(3)), chunk("stop"))
    assert [part.provider_id for part in reply.parts if isinstance(part, ToolCall)] == ["c", "c-2", "c-3"]
    assert reply.notes == (
        "two calls came with the id 'c'; one is called 'c-2'",
        "two calls came with the id 'c'; one is called 'c-3'",
        "the provider sent no usage",
    )


def test_the_older_form_has_one_call() -> None:
    reply = read(
        chunk(function_call={"name": "A", "arguments": ""}),
        chunk(function_call={"arguments": '{"x":1}'}),
        chunk("function_call"),
    )
    assert (reply.parts, reply.stop) == ((NAMELESS_A,), "tool_calls")


def test_what_only_the_server_can_read_goes_back_with_its_call() -> None:
    signed = {**call(0, "c-1", "A", '{"x":1}'), "extra_content": {"google": {"thought_signature": "s"}}}
    reply = read(chunk(content="a", tool_calls=[signed]), chunk("stop"))
    assert reply.opaque == (
        b'{"role":"assistant","content":"a","tool_calls":[{"extra_content":{"google":{"thought_signature":"s"}},'
        b'"type":"function","function":{"name":"A"}}]}'
    )


def test_plain_calls_bind_the_reply_to_nobody() -> None:
    calls = StreamedCalls()
    calls.take([call(0, "c-1", "A", "{}")])
    assert not calls.bound
