"""What a recorded model says of a request that is not the recorded one."""

from typing import Any

import pytest

from backstay import tool
from backstay.ports import ModelReply
from backstay.providers.recorded import RecordedModel
from backstay.session.subagents import child_tool
from backstay.testing import builders
from backstay.vocab.events import ModelNoted, ModelReplied
from tests.providers.recorded_kit import SCRIPT, items, look, memory, no_blob, of, pay, recording, request, rerun


async def drifted(**more: Any) -> list[str]:
    store = await memory()
    await recording(store, SCRIPT, "Do it.", "Thanks.", system_prompt="Be brief.", parameters={"temperature": 0.5})
    known = {"system_prompt": "Be brief.", "parameters": {"temperature": 0.5}, "prompts": ("Do it.", "Thanks."), **more}
    now = await rerun(store, *known.pop("prompts"), **known)
    assert len(of(now, ModelReplied)) == len(SCRIPT)
    return [note.note for note in of(now, ModelNoted)]


async def test_the_same_question_has_no_drift() -> None:
    assert await drifted() == []


async def test_another_prompt_is_reported_with_the_first_message_that_differs() -> None:
    assert await drifted(prompts=("Do it.", "Thanks a lot.")) == [
        "not what was asked when this was recorded: messages[10] is 'user: Thanks a lot.' and was 'user: Thanks.' "
        "(11 messages, and 11 then)"
    ]


async def test_another_result_of_a_tool_is_reported_from_there_on() -> None:
    @tool(name="look", effect="pure")
    async def look_elsewhere(n: int) -> str:
        """Look."""
        return f"saw {n + (n == 2)}"

    notes = await drifted(tools=(look_elsewhere, pay, child_tool()))

    assert len(notes) == 4
    assert "messages[3] is ...'call 2: saw 3]' and was ...'call 2: saw 2]'" in notes[0]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"system_prompt": "Be brief and kind."}, "were others"),
        ({"tools": (look, pay)}, "gone: delegate"),
        ({"parameters": {"temperature": 1}}, "the parameter 'temperature' is 1 and was 0.5"),
        ({"parameters": {}}, "the parameter 'temperature' is None and was 0.5"),
    ],
)
async def test_another_frame_is_reported_with_every_reply(changed: dict[str, object], words: str) -> None:
    notes = await drifted(**changed)

    assert sum(words in note for note in notes) == len(SCRIPT)


async def test_a_message_more_and_a_message_less_are_reported() -> None:
    log = builders.conversation(("Hello", "Hi."))
    model = RecordedModel(log, no_blob, name="recorded:x")

    more = (await items(model, request("Hello", "you")))[-1]
    less = (await items(model, request()))[-1]

    assert isinstance(more, ModelReply)
    assert isinstance(less, ModelReply)
    assert "messages[1] is new: 'user: you' (2 messages, and 1 then)" in more.notes[0]
    assert "messages[0] is missing, and was 'user: Hello'" in less.notes[0]


async def test_a_model_of_another_name_is_reported_when_it_stands_for_one() -> None:
    model = RecordedModel(builders.conversation(("Hello", "Hi.")), no_blob, name="anthropic:claude")

    reply = (await items(model, request("Hello", model="anthropic:claude")))[-1]

    assert isinstance(reply, ModelReply)
    assert [note.partition(": ")[2] for note in reply.notes] == [
        "the model is 'anthropic:claude' and was 'scripted:test'"
    ]
