"""What a model wrote as the arguments of a call reaches every provider alike, and so does the news that an answer broke off."""

import json

import msgspec
import pytest

from backstay.ports import ModelRequest
from backstay.providers.http.sse import SseEvent
from backstay.providers.registry import FORMATS, load_format
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import Message, Text, ToolCall, ToolResult
from backstay.vocab.specs import ModelFacts


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("args", "sent"),
    [
        ('{"n": 218922995834555169026, "x": 1.50}', '{"n": 218922995834555169026, "x": 1.50}'),
        ("", "{}"),
        (" \n", "{}"),
        ("[1]", '{"malformed_arguments":"[1]"}'),
        ('{"a": 1', '{"malformed_arguments":"{\\"a\\": 1"}'),
    ],
)
def test_arguments_keep_their_spelling_and_are_always_an_object(format: str, args: str, sent: str) -> None:
    messages = (
        Message(role="user", parts=(Text(text="Hi."),)),
        Message(role="assistant", parts=(ToolCall(id="a", name="X", args=args),)),
        Message(role="tool", parts=(ToolResult(call="a", content=(Text(text="Done."),)),)),
    )

    body = load_format(format).encoder("p", ModelFacts()).encode(ModelRequest(model="m", messages=messages)).body

    assert (sent if format in ("anthropic", "google") else json.dumps(sent)).encode() in body


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("error", [{"type": "overloaded_error"}, {"code": "overloaded_error", "type": "error"}])
def test_an_answer_that_breaks_off_says_so_in_the_same_words(format: str, error: dict[str, str]) -> None:
    said = {"type": "error", "error": {"message": "Too many others ask.", **error}}

    with pytest.raises(ProviderError) as caught:
        load_format(format).decoder().event(SseEvent(name="error", data=msgspec.json.encode(said)))

    assert caught.value.kind == "overloaded"
    assert str(caught.value) == "The provider broke off with overloaded_error: Too many others ask."
