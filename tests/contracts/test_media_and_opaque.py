"""Media by handle and a provider's own words in a blob: RV-24, RV-25, RV-B9 and decision 5."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from backstay import TurnFailed, open_session, open_store, tool
from backstay.logic.state.session_state import restore
from backstay.logic.stored_content import digest
from backstay.ports import ModelReply, ModelRequest, ToolOutput
from backstay.providers import anthropic, openai_responses
from backstay.stores.memory import MemoryStore
from backstay.testing.clock import ObedientClock
from backstay.vocab.events import InputReceived, ModelReplied, ToolFinished
from backstay.vocab.messages import (
    InlineMedia,
    MediaLink,
    MediaRef,
    Reasoning,
    SignedReasoning,
    Text,
    ToolCall,
    ToolResult,
)
from backstay.vocab.specs import ModelFacts
from backstay.wire.codec import encode
from tests.contracts.kit import look
from tests.contracts.limits_kit import Broken, Fake, calling, log_of, memory

PICTURE = InlineMedia(media_type="image/png", content=b"\x89PNG not really" * 40, name="cat.png")
SHA = digest(PICTURE.content)
HANDLE = MediaRef(sha256=SHA, media_type="image/png", size=len(PICTURE.content), name="cat.png")
SEES = ModelFacts(known=True, abilities=frozenset(("tools", "images", "reasoning")))

NATIVE = b'[{"type":"thinking","thinking":"hmm","signature":"c2lnbmVk"},{"type":"text","text":"said"}]'
THOUGHTFUL = ModelReply(
    parts=(SignedReasoning(text="hmm", signature="c2lnbmVk", provider="anthropic"), Text(text="said")), opaque=NATIVE
)


def shown(model: Fake, **options: Any) -> Any:  # Any: options of every type, and the block of a session
    """A session without tools of its own."""
    return open_session(**{"model": model, "only_tools": True, **options})


@pytest.mark.contract("RV-24", "RV-25")
async def test_a_picture_in_a_prompt_is_a_handle_in_the_log_and_bytes_in_every_request(tmp_path: Path) -> None:
    clock = ObedientClock()
    store = await open_store(f"sqlite:///{tmp_path}/s.db", clock=clock)
    model = Fake(facts=SEES)
    link = MediaLink(url="https://example.org/dog.png", media_type="image/png")
    async with shown(model, store=store, clock=clock, session_id="s") as session:
        await session.run((Text(text="what is this?"), PICTURE, link))
        (received,) = await log_of(session, InputReceived)
        assert received.parts == (Text(text="what is this?"), HANDLE, link)
        assert session.history[0].content == received.parts
        assert await store.blob(SHA) == PICTURE.content
        written = b"".join(encode(record) for record in await session.events())
        assert b"PNG" not in written
        assert SHA.encode() in written
    async with shown(model, store=store, clock=clock, resume="s") as session:
        await session.run("and now?")
    for request in model.asked:
        assert request.messages[0].parts == (Text(text="what is this?"), PICTURE, link)
    await store.close()


@pytest.mark.contract("RV-24", "RV-25")
async def test_a_picture_that_a_tool_gave_is_a_handle_in_the_log_and_bytes_in_the_request() -> None:
    @tool(effect="pure")
    async def paint() -> ToolOutput:
        """Paint something."""
        return ToolOutput(text="painted", media=(PICTURE,))

    model = Fake(calling("paint"), "nice", facts=SEES)
    async with shown(model, store=None, tools=[paint]) as session:
        await session.run("paint")
        (finished,) = await log_of(session, ToolFinished)
        assert finished.content == (Text(text="painted"), HANDLE)
        result = model.asked[1].messages[-1].parts[0]
        assert isinstance(result, ToolResult)
        assert result.content == (Text(text="painted"), PICTURE)
        assert model.refused == []


@pytest.mark.contract("RV-24")
async def test_a_picture_that_the_model_made_is_a_handle_too() -> None:
    model = Fake(ModelReply(parts=(Text(text="here"), PICTURE)), facts=SEES)
    async with shown(model, store=None) as session:
        await session.run("draw")
        (reply,) = await log_of(session, ModelReplied)
        assert reply.parts == (Text(text="here"), HANDLE)
        assert await session.store.blob(SHA) == PICTURE.content


@pytest.mark.contract("RV-24")
async def test_a_long_text_is_a_handle_in_the_log_and_whole_in_the_request() -> None:
    text = "".join(f"line {n}\n" for n in range(8_000))
    model = Fake(text)
    async with shown(model, store=None) as session:
        assert await session.run(text) == text
        assert len(encode((await session.events())[1])) < 4_000
        await session.run("again")
        assert model.asked[1].messages[0].parts == (Text(text=text),)
        assert model.asked[1].messages[1].parts == (Text(text=text),)


@pytest.mark.contract("RV-24")
async def test_what_only_the_provider_can_read_is_in_no_part_of_a_message_and_in_no_stream() -> None:
    model = Fake(THOUGHTFUL, name="anthropic:fake", facts=SEES)
    async with shown(model, store=None) as session:
        items = [item async for item in session.send("think")]
        (reply,) = await log_of(session, ModelReplied)
        assert reply.parts == (Reasoning(text="hmm"), Text(text="said"))
        assert reply.opaque is not None
        assert (reply.opaque.provider, reply.opaque.sha256) == ("anthropic", digest(NATIVE))
        assert await session.store.blob(reply.opaque.sha256) == NATIVE
        assert b"c2lnbmVk" not in b"".join(encode(record) for record in await session.events())
        assert "c2lnbmVk" not in repr(items) + repr(session.history) + repr(await session.full_history())


def bodies(request: ModelRequest) -> tuple[bytes, bytes]:
    """The request as the provider that wrote the opaque state gets it, and as another does."""
    own = anthropic.FORMAT.encoder("anthropic", SEES).encode(request).body
    other = openai_responses.FORMAT.encoder("openai", SEES).encode(request).body
    return own, other


@pytest.mark.contract("RV-25", "RV-B9")
async def test_it_goes_back_to_its_provider_after_a_restart_and_to_no_other() -> None:
    clock = ObedientClock(hurries=True)
    store = await memory(clock)
    model = Fake(THOUGHTFUL, name="anthropic:fake", facts=SEES)
    async with shown(model, store=store, clock=clock, session_id="s") as session:
        await session.run("think")
        fork = await session.fork()
    other = Fake(name="openai:fake", format="openai-responses", facts=SEES)
    async with shown(model, store=store, clock=clock, resume="s", fallback_models=[other]) as session:
        await session.run("go on")
        await session.set_model("openai:fake")
        await session.run("and you?")
    sent = model.asked[1].messages[1]
    assert (sent.opaque, sent.provider) == (NATIVE, "anthropic")
    own, foreign = bodies(model.asked[1])
    assert b'"signature":"c2lnbmVk"' in own
    own, foreign = bodies(other.asked[0])
    assert b"c2lnbmVk" not in foreign
    assert b"said" in foreign
    async with shown(model, store=store, clock=clock, resume=fork.id) as session:
        await session.run("in the fork")
        assert model.asked[-1].messages[1].opaque == NATIVE
    assert model.refused == other.refused == []


@pytest.mark.contract("RV-B9")
async def test_a_fallback_of_another_provider_does_not_get_it() -> None:
    model = Fake(THOUGHTFUL, *[Broken(kind="overloaded")] * 4, name="anthropic:fake", facts=SEES)
    other = Fake("from the other", name="openai:fake", format="openai-responses", facts=SEES)
    clock = ObedientClock(hurries=True)
    async with shown(model, store=None, clock=clock, fallback_models=[other]) as session:
        await session.run("think")
        assert await session.run("go on") == "from the other"
        _, foreign = bodies(other.asked[0])
        assert b"c2lnbmVk" not in foreign
        assert other.refused == []


@pytest.mark.contract("RV-25")
async def test_a_compaction_lets_go_of_it_with_its_message_and_a_snapshot_keeps_it() -> None:
    native = b'[{"type":"text","text":"said"}]'
    said = ModelReply(parts=(Text(text="word " * 60),), opaque=native)
    model = Fake(*[said] * 60, name="anthropic:fake", facts=ModelFacts(window=4_000, known=True))
    async with shown(model, store=None, system_prompt="x") as session:
        for number in range(40):
            await session.run(f"question {number}")
        transcript = session._services.state.transcript
        assert transcript.compacted is not None
        assert set(transcript.opaques) == {m.id for m in session.history if m.role == "assistant"}
        assert restore(session._services.state.snapshot()).transcript.opaques == transcript.opaques
        sent = model.asked[-1].messages
        assert [m.opaque for m in sent if m.role == "assistant"] == [native] * sum(m.role == "assistant" for m in sent)


@pytest.mark.contract("RV-25")
async def test_calls_of_a_reply_with_opaque_state_meet_their_results() -> None:
    native = b'[{"type":"tool_use","id":"toolu_1","name":"look","input":{"at":"sky"}}]'
    call = ToolCall(id="", name="look", args='{"at": "sky"}', provider_id="toolu_1")
    model = Fake(ModelReply(parts=(call,), stop="tool_calls", opaque=native), "blue", name="anthropic:fake", facts=SEES)
    async with shown(model, store=None, tools=[look]) as session:
        assert await session.run("colour?") == "blue"
        own, foreign = bodies(model.asked[1])
        body = msgspec.json.decode(own)
        assert body["messages"][1]["content"][0]["id"] == "toolu_1"
        assert body["messages"][2]["content"][0]["tool_use_id"] == "toolu_1"
        items = msgspec.json.decode(foreign)["input"]
        calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
        assert calls == [item["call_id"] for item in items if item.get("type") == "function_call_output"] != []


async def test_a_blob_that_is_gone_is_a_named_failure_of_the_turn_and_not_of_the_session() -> None:
    clock = ObedientClock(hurries=True)
    store: MemoryStore = await memory(clock)
    model = Fake(facts=SEES)
    async with shown(model, store=store, clock=clock, session_id="s") as session:
        await session.run((Text(text="what?"), PICTURE))
        turn = session.turns[0].turn
    store._contents.blobs.clear()
    async with shown(model, store=store, clock=clock, resume="s") as session:
        with pytest.raises(TurnFailed, match=SHA):
            await session.run("and now?")
        await session.rewind(before=turn)
        assert await session.run("start over") == "ok"
