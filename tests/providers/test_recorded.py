"""A model that answers from the log of an earlier session."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from backstay import tool
from backstay.catalog import sessions
from backstay.logic.state.retries import Retries
from backstay.logic.stored_content import find_cited_blobs
from backstay.ports import EventStore, ModelReply, ModelRequest, ToolContext
from backstay.providers.recorded import RecordedModel, parse_recorded
from backstay.providers.scripted import ScriptedModel
from backstay.stores.owners import this_process
from backstay.system.machine import SystemClock
from backstay.testing import builders
from backstay.vocab.deltas import ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import NoSession, ProviderError, TurnFailed, TurnInterrupted, UserError
from backstay.vocab.event import Recorded
from backstay.vocab.events import ModelAsked, ModelFailed, ModelNoted, ModelReplied, Opaque, Started, ToolStarted
from backstay.vocab.events.limits import Compacted, FallbackTaken, WaitStarted
from backstay.vocab.messages import InlineMedia, MediaRef, Reasoning, Text, ToolCall, text_of
from backstay.vocab.specs import ModelFacts, Prices, Usage
from tests.providers.recorded_kit import (
    ORIGINAL,
    SCRIPT,
    Reply,
    items,
    log,
    look,
    memory,
    no_blob,
    of,
    opened,
    pay,
    plain,
    recording,
    request,
    rerun,
)

# --- the same again --------------------------------------------------------------------------------------------------------------


async def test_a_session_with_tools_runs_again_offline_and_writes_the_same_events() -> None:
    store = await memory()
    then = await recording(store, SCRIPT, "Do it.", "Thanks.")

    now = await rerun(store, "Do it.", "Thanks.")

    assert plain(now) == plain(then)
    assert of(now, ModelNoted) == []
    assert [reply.cost for reply in of(now, ModelReplied)] == [reply.cost for reply in of(then, ModelReplied)]


async def test_the_recording_can_be_recorded_again() -> None:
    store = await memory()
    then = await recording(store, SCRIPT, "Do it.", "Thanks.")
    await rerun(store, "Do it.", "Thanks.")

    async with opened(store, "recorded:now", session_id="later", name="the first") as session:
        await session.run("Do it.")
        await session.run("Thanks.")

    later = [
        line.replace("recorded:now", "MODEL").replace('"later', '"ID') for line in plain(await log(store, "later"))
    ]
    assert [line.replace('"ID", "MODEL"', "") for line in later][1:] == plain(then)[1:]


async def test_a_recording_is_found_by_its_name_too() -> None:
    store = await memory()
    await recording(store, [{"text": "Hello."}], "Hi.")

    async with opened(store, "recorded:the first") as session:
        assert await session.run("Hi.") == "Hello."


async def test_a_recording_that_is_not_there_is_named() -> None:
    with pytest.raises(NoSession, match="'nowhere'"):
        async with opened(await memory(), "recorded:nowhere"):
            pass


async def test_the_children_of_a_session_are_answered_from_their_own_logs() -> None:
    class Family(ScriptedModel):
        """A child plays another script than its parent."""

        def ask(self, request: ModelRequest):  # type: ignore[no-untyped-def]  # a stream, as the port says
            return (child if "count" in text_of(request.messages[0].parts) else parent).ask(request)

    store = await memory()
    delegate = {"calls": [{"name": "delegate", "args": {"prompt": "count"}}]}
    parent = ScriptedModel.of([delegate, {"text": "It said three."}])
    child = ScriptedModel.of([{"calls": [{"name": "look", "args": {"n": 3}}]}, {"text": "three"}])
    async with opened(store, Family((), name=ORIGINAL), session_id="then", name="the first") as session:
        await session.run("How many?")

    now = await rerun(store, "How many?")

    assert plain(now) == plain(await log(store, "then"))


async def test_a_child_that_was_not_there_then_fails_and_says_so() -> None:
    store = await memory()
    asks: Reply = {"calls": [{"name": "delegate", "args": {"prompt": "count"}}]}
    await recording(store, [asks, {"text": "Not possible."}], "How many?", tools=(look, pay))

    now = await rerun(store, "How many?")

    assert any("(no such child)" in line for line in plain(now))


# --- failures, retries, interrupts -----------------------------------------------------------------------------------------------


async def test_failures_and_retries_come_again() -> None:
    store = await memory()
    replies: list[Reply] = [
        {"error": {"kind": "rate_limit", "retry_after_s": 0.001, "message": "Slowly."}},
        {"error": {"kind": "overloaded"}},
        {"text": "Now."},
        {"text": "I was about to", "error": {"kind": "transport", "message": "gone"}},
    ]
    then = await recording(store, replies, "Go.", "Again.")

    now = await rerun(store, "Go.", "Again.")

    assert plain(now) == plain(then)
    assert len(of(now, WaitStarted)) == 2
    failed = of(now, ModelFailed)
    assert [(each.kind, each.retry_after_s) for each in failed[:1]] == [("rate_limit", 0.001)]
    assert text_of(failed[2].parts) == "I was about to"


async def test_a_fallback_comes_again_when_the_recording_is_the_fallback_too() -> None:
    store = await memory()
    broken: Reply = {"error": {"kind": "overloaded", "message": "Full."}}
    once = Retries(attempts=2, first_wait_s=0.001)
    other = ScriptedModel.of([{"text": "From the other."}], name="scripted:other")
    await recording(store, [broken, broken], "Go.", retries=once, fallback_models=[other])

    async with opened(store, "recorded:then", retries=once, fallback_models=["recorded:then@1"]) as session:
        assert await session.run("Go.") == "From the other."
        assert len(of(await session.events(), FallbackTaken)) == 1
        assert of(await session.events(), ModelReplied)[0].model == "scripted:other"


async def test_what_was_interrupted_is_interrupted_again() -> None:
    store = await memory()
    hanging: list[Reply] = [{"text": "I was about to", "hang": True}, {"text": "Yes."}]
    async with opened(store, ScriptedModel.of(hanging), session_id="then", name="the first") as session:
        async for item in session.send("Talk."):
            if isinstance(item, TextDelta):
                await session.abort("enough")
        await session.run("Go on.")
        told = [(text_of(each.content), each.state) for each in session.history]

    async with opened(store, "recorded:then") as session:
        with pytest.raises(TurnInterrupted):
            await session.run("Talk.")
        assert await session.run("Go on.") == "Yes."
        assert [(text_of(each.content), each.state) for each in session.history] == told


async def test_a_run_past_the_end_fails_with_a_clear_error() -> None:
    store = await memory()
    await recording(store, [{"text": "Hello."}], "Hi.")

    async with opened(store, "recorded:then") as session:
        await session.run("Hi.")
        with pytest.raises(TurnFailed, match=r"'recorded:then' has 1 reply and reply 2 was asked for"):
            await session.run("And?")


# --- going on in the middle ------------------------------------------------------------------------------------------------------


async def test_after_a_crash_at_any_event_it_goes_on_at_the_right_reply() -> None:
    store = await memory()
    then = await recording(store, SCRIPT, "Do it.", "Thanks.")
    async with opened(store, "recorded:then", session_id="now") as session:
        await session.run("Do it.", input_id="a")
        await session.run("Thanks.", input_id="b")
        now = await session.events()
    said = [text_of(reply.parts) for reply in of(then, ModelReplied)]

    for length in range(1, len(now) + 1):
        session_id = await cut(store, now[:length])
        async with opened(store, "recorded:then", resume=session_id) as session:
            await session.finish()
            await session.run("Do it.", input_id="a")
            await session.run("Thanks.", input_id="b")
            assert [text_of(reply.parts) for reply in of(await session.events(), ModelReplied)] == said


async def cut(store: EventStore, log: Sequence[Recorded]) -> str:
    """A session whose process died after `log`."""
    session = f"cut-{len(log)}"
    first = replace(log[0], event=replace(of(log, Started)[0], session=session))
    cited = {sha for record in log for sha in find_cited_blobs(record.event)}
    lease = await store.lease(session, this_process())
    await store.append(lease, 0, (first, *log[1:]), {sha: await store.blob(sha) for sha in cited})
    await store.release(lease)
    return session


async def test_a_fork_of_an_older_prefix_goes_on_where_the_recording_did() -> None:
    store = await memory()
    await recording(store, [{"text": "One."}, {"text": "Two."}, {"text": "Three."}], "1", "2", "3")
    async with opened(store, "recorded:then", resume="then") as session:
        early = await session.fork(at=session.turns[0].turn)

    async with opened(store, "recorded:then", resume=early) as session:
        assert [await session.run("2"), await session.run("3")] == ["Two.", "Three."]
        assert of(await session.events(), ModelNoted) == []


async def test_a_fork_can_be_the_recording() -> None:
    store = await memory()
    await recording(store, [{"text": "One."}, {"text": "Two."}], "1", "2")
    fork = await sessions.fork(store, "then", clock=SystemClock())

    now = await rerun(store, "1", "2", model=f"recorded:{fork}")

    assert [text_of(reply.parts) for reply in of(now, ModelReplied)] == ["One.", "Two."]
    assert of(now, ModelNoted) == []


async def test_it_may_start_at_a_later_reply() -> None:
    store = await memory()
    await recording(store, [{"text": "One."}, {"text": "Two."}], "1", "2")

    async with opened(store, "recorded:then@2") as session:
        assert await session.run("2") == "Two."


def test_a_name_is_taken_apart() -> None:
    assert parse_recorded("recorded:abc") == ("abc", 0)
    assert parse_recorded("recorded:abc@3") == ("abc", 2)
    with pytest.raises(UserError, match="numbered from 1"):
        parse_recorded("recorded:abc@0")


# --- compaction ------------------------------------------------------------------------------------------------------------------


class Talkative(ScriptedModel):
    """A script that can be asked for a summary."""

    async def ask(self, request: ModelRequest):  # type: ignore[no-untyped-def]  # a stream, as the port says
        if not request.tools:
            yield ModelReply(parts=(Text(text="They greeted each other."),), usage=Usage(input=50, output=6))
            return
        async for item in super().ask(request):
            yield item


async def test_a_summary_comes_again() -> None:
    store = await memory()
    facts = ModelFacts(known=True, window=9_000, prices=Prices(input=100_000_000, output=100_000_000))
    model = Talkative.of([{"text": f"Answer {n}. " * 80} for n in range(9)], facts=facts)
    prompts = [f"Question {n}. {'words ' * 150}" for n in range(9)]
    async with opened(store, model, session_id="then", name="the first", auto_compact=0.2) as session:
        for prompt in prompts:
            await session.run(prompt)

    now = await rerun(store, *prompts, auto_compact=0.2)

    made = of(now, Compacted)
    assert made
    assert "They greeted each other." in text_of((made[0].summary,))
    then = await log(store, "then")
    assert [each.usage for each in made] == [each.usage for each in of(then, Compacted)]
    assert [line for line in plain(now) if "session:compact" in line] == [
        line for line in plain(then) if "session:compact" in line
    ]
    assert of(now, ModelNoted) == []


# --- the stream ------------------------------------------------------------------------------------------------------------------


async def test_parts_are_streamed_in_pieces_and_media_and_opaque_state_come_whole() -> None:
    blobs = {"1" * 64: b"png", "2" * 64: b"[1]"}
    prose = (Reasoning(text="thinking it over"), Text(text="seventeen letters"))
    picture = MediaRef(sha256="1" * 64, media_type="image/png", size=3, name="a.png")
    call = ToolCall(id="old", name="look", args='{"n": 1}', provider_id="toolu_1")
    said = ModelReplied(
        parts=(*prose, picture, call),
        stop="tool_calls",
        model="anthropic:claude",
        usage=Usage(input=7, output=3),
        cost=42,
        opaque=Opaque(provider="anthropic", sha256="2" * 64),
    )

    async def blob(sha256: str) -> bytes:
        return blobs[sha256]

    streamed = await items(RecordedModel(builders.log(said), blob, name="recorded:x"), request("Hi."))

    assert streamed[:-1] == [
        ReasoningDelta(text="thinking it over"),
        TextDelta(text="seventeen letter"),
        TextDelta(text="s"),
        ToolArgsDelta(index=0, name="look", text='{"n": 1}'),
    ]
    assert streamed[-1] == ModelReply(
        parts=(*prose, InlineMedia(media_type="image/png", content=b"png", name="a.png"), call),
        stop="tool_calls",
        usage=said.usage,
        cost=42,
        model="anthropic:claude",
        opaque=b"[1]",
    )


async def test_a_blob_that_is_gone_is_named() -> None:
    store = await memory()
    gone = ModelReplied(parts=(MediaRef(sha256="0" * 64, media_type="image/png", size=3),))
    model = RecordedModel(builders.log(gone), store.blob, name="recorded:x")

    with pytest.raises(ProviderError, match="'recorded:x' is not whole"):
        await items(model, request("Hi."))


def test_it_is_known_what_was_known_of_the_model_then() -> None:
    asked = ModelAsked(turn="t", round=1, model="anthropic:claude-sonnet-4-6")
    model = RecordedModel(builders.log(asked), no_blob, name="recorded:x")

    assert model.facts.prices is not None
    assert model.facts.summarises is False


async def test_tools_run_again_and_their_context_is_the_new_session() -> None:
    keys: list[str] = []

    @tool(name="pay")
    async def noted(n: int, context: ToolContext) -> str:
        """Pay."""
        keys.append(context.key)
        return f"paid {n}"

    store = await memory()
    replies: list[Reply] = [{"calls": [{"name": "pay", "args": {"n": 1}}]}, {"text": "Paid."}]
    await recording(store, replies, "Pay.", tools=(noted,))
    now = await rerun(store, "Pay.", tools=(noted,))

    assert [key.partition(":")[0] for key in keys] == ["then", "now"]
    assert len(of(now, ToolStarted)) == 1
