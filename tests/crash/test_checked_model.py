"""The checked model."""

from backstay.ports import ModelReply, ModelRequest
from backstay.providers.scripted import ScriptedModel
from backstay.testing.checked_model import CheckedModel
from backstay.vocab.messages import Message, Text, ToolCall

SOUND = Message(role="user", parts=(Text(text="hello"),))
OPEN_CALL = Message(role="assistant", parts=(ToolCall(id="c", name="look", args="{}"),))


async def ask(*messages: Message) -> CheckedModel:
    model = CheckedModel(ScriptedModel.of([{"text": "hi"}]))
    items = [item async for item in model.ask(ModelRequest(model=model.name, messages=messages))]
    assert isinstance(items[-1], ModelReply)
    return model


async def test_a_sound_request_passes() -> None:
    model = await ask(SOUND)

    assert model.broken == []
    assert [request.messages for request in model.requests] == [(SOUND,)]


async def test_what_any_format_refuses_is_collected() -> None:
    model = await ask(SOUND, OPEN_CALL, SOUND)

    assert {broken.partition(":")[0] for broken in model.broken} == {
        "anthropic",
        "openai-responses",
        "openai-chat",
        "google",
    }
