"""What breaks around a session is recorded and breaks nothing else."""

from pathlib import Path

import anyio
import pytest

from backstay import TurnFailed, open_session, tool
from backstay.ports import ToolOutput
from backstay.vocab.deltas import ToolOutputDelta
from backstay.vocab.events import FaultCaught, ToolFinished
from backstay.vocab.events.tools import OutputKept
from backstay.vocab.messages import ToolResult, text_of
from backstay.vocab.specs import ModelFacts
from tests.contracts.kit import call, scripted, stream, talk


async def test_a_broken_callback_is_recorded_and_the_others_go_on() -> None:
    heard: list[object] = []

    def broken(_: object) -> None:
        raise ValueError("deaf")

    async with talk("hello", "again") as session:
        session.on("text_delta", broken)
        end = session.on("text_delta", heard.append)
        assert await session.run("a") == "hello"
        faults = [r.event for r in await session.events() if isinstance(r.event, FaultCaught)]
        assert [(fault.kind, "deaf" in fault.message) for fault in faults] == [("ValueError", True)]
        end()
        await session.run("b")
        assert heard == ["hello"]


async def test_a_slow_callback_does_not_hold_up_the_loop() -> None:
    async def sleepy(_: object) -> None:
        await anyio.sleep(30)

    async with talk("one", "two") as session:
        session.on("turn_started", sleepy)
        assert await session.run("a") == "one"
        assert await session.run("b") == "two"


async def test_a_tool_that_never_returns_is_stopped_and_said_so() -> None:
    @tool
    async def forever() -> str:
        """Never return."""
        await anyio.sleep_forever()
        return ""

    async with talk(call("forever"), "went on", tools=[forever], tool_timeout_s=0.05) as session:
        assert await session.run("go") == "went on"
        finished = next(r.event for r in await session.events() if isinstance(r.event, ToolFinished))
        assert (finished.outcome, finished.code) == ("failed", "timeout")
        assert "may have partly happened" in text_of(finished.content)


async def test_a_tool_that_returns_no_json_is_a_failed_call() -> None:
    @tool
    async def odd() -> object:
        """Return something odd."""
        return object()

    async with talk(call("odd"), "went on", tools=[odd]) as session:
        assert await session.run("go") == "went on"
        finished = next(r.event for r in await session.events() if isinstance(r.event, ToolFinished))
        assert (finished.outcome, finished.code) == ("failed", "not_json")


async def test_a_model_that_breaks_fails_the_turn_and_the_session_goes_on() -> None:
    class Broken:
        name, format, facts = "broken:1", "anthropic", ModelFacts()

        async def ask(self, request):  # type: ignore[no-untyped-def]  # a model that breaks
            raise ZeroDivisionError("oops")
            yield

    async with talk("x", model=Broken()) as session:
        with pytest.raises(TurnFailed, match="ZeroDivisionError: oops"):
            await session.run("a")
        assert session.state == "Idle"


async def test_a_stream_without_its_final_event_is_cut_never_finished() -> None:
    class Cut:
        name, format, facts = "cut:1", "anthropic", ModelFacts()

        async def ask(self, request):  # type: ignore[no-untyped-def]  # a stream that stops short
            async for item in scripted("all of it").ask(request):
                if hasattr(item, "text"):
                    yield item

    async with talk("x", model=Cut()) as session:
        with pytest.raises(TurnFailed, match="cut") as failed:
            await session.run("a")
        assert failed.value.reason == "transport"


async def test_long_output_becomes_a_blob_and_reaches_the_model_whole() -> None:
    @tool(effect="pure")
    async def long() -> ToolOutput:
        """Say a lot."""
        return ToolOutput(text="0123456789" * 10_000 + "END")

    async with talk(
        call("long"), {"expect": {"contains": "9END"}, "text": "read"}, tools=[long], tool_output_chars=None
    ) as session:
        assert await session.run("go") == "read"
        finished = next(r.event for r in await session.events() if isinstance(r.event, ToolFinished))
        assert type(finished.content[0]).__name__ == "TextRef"


@pytest.mark.contract("RB-5")
async def test_a_long_result_is_shown_in_part_and_can_be_read_whole(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 10_001))

    @tool(effect="pure")
    async def long() -> str:
        """Say a lot."""
        return text

    replies = (call("long"), {"expect": {"contains": "line 10000"}, "text": "read"})
    async with open_session(model=scripted(*replies), tools=[long], store=None, cwd=tmp_path) as session:
        assert await session.run("go") == "read"
        (result,) = [part for message in session.history for part in message.content if isinstance(part, ToolResult)]
        shown = text_of(result.content)
        assert len(shown) < 30_200
        assert "characters are left out here" in shown
        assert "ReadOutput" in shown
        (kept,) = [r.event for r in await session.events() if isinstance(r.event, OutputKept)]
        assert (await session.store.blob(kept.sha256)).decode() == text


async def test_a_very_long_answer_is_returned_whole() -> None:
    answer = "0123456789" * 10_000
    async with talk(answer, "short") as session:
        assert await session.run("go") == answer
        assert await session.run("again") == "short"


async def test_lone_surrogates_do_not_break_the_log() -> None:
    @tool(effect="pure")
    async def torn() -> str:
        """Return half a character."""
        return "half \ud83d"

    async with talk({"text": "reply \udc00", **call("torn")}, "fine", tools=[torn]) as session:
        assert await session.run("prompt \ud800") == "fine"
        assert text_of(session.history[0].content) == "prompt ?"


async def test_output_of_a_running_tool_is_streamed() -> None:
    async with talk(call("Bash", command="echo one; echo two"), "done", permission_mode="bypassPermissions") as session:
        items = await stream(session, "go")
        shown = "".join(item.text for item in items if isinstance(item, ToolOutputDelta))
        assert shown == "one\ntwo\n"


async def test_a_long_result_is_kept_whole_although_no_tool_could_read_it() -> None:
    @tool(effect="pure")
    async def long() -> str:
        """Say a lot."""
        return "x" * 80_000

    async with talk(call("long"), "read", tools=[long], only_tools=True) as session:
        await session.run("go")
        (kept,) = [r.event for r in await session.events() if isinstance(r.event, OutputKept)]
        assert len(await session.store.blob(kept.sha256)) == 80_000
