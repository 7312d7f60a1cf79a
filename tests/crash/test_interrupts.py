"""What a person sees of an interrupt, at whatever moment it comes; and that parallel calls keep their order."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from backstay.ports import Tool
from backstay.providers.scripted import ScriptedModel
from backstay.session.assemble import open_with
from backstay.session.options import Options
from backstay.session.session import Session
from backstay.stores.trace import NoTrace
from backstay.testing.checked_model import CheckedModel
from backstay.testing.event_loop import run_virtually
from backstay.tools.define import tool
from backstay.vocab.errors import TurnInterrupted
from backstay.vocab.event import Recorded
from backstay.vocab.events import ToolFinished, ToolStarted
from backstay.vocab.messages import Text, ToolResult, text_of
from tests.simulation.stores import Universe

SENTENCE = "One word after another."


def open_it(model: CheckedModel, folder: Path, *tools: Tool) -> Options:
    return Options(
        model=model, cwd=folder, tools=tools, only_tools=True, store=None, trace=NoTrace(), clock=Universe(0)
    )


async def talk_until(session: Session, moment: float) -> tuple[str, str]:
    """Interrupt a turn after `moment` seconds; return what was streamed until then and what `run` raised."""
    streamed: list[str] = []
    session.on("text_delta", lambda text: streamed.append(str(text)))

    async def stop() -> None:
        await anyio.sleep(moment)
        await session.abort("enough")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        with pytest.raises(TurnInterrupted) as raised:
            await session.run("Talk.")
    return "".join(streamed), raised.value.text


@pytest.mark.parametrize("moment", [0.5 + second for second in range(len(SENTENCE) - 1)])
@pytest.mark.contract("RB-43", "RV-9")
def test_the_partial_text_is_kept_whenever_the_interrupt_comes(moment: float, tmp_path: Path) -> None:
    model = CheckedModel(ScriptedModel.of([{"text": SENTENCE, "chunk": 1, "delay_ms": 1000}, {"text": "Yes."}]))

    async def play() -> None:
        async with open_with(open_it(model, tmp_path)) as session:
            streamed, raised = await talk_until(session, moment)
            kept = session.history[-1]
            assert 0 < len(streamed) < len(SENTENCE)
            assert (text_of(kept.content), kept.state, raised) == (streamed, "interrupted", streamed)
            assert not session.is_running
            assert await session.run("Go on.") == "Yes."

    run_virtually(play)
    assert model.broken == []
    assert [message.role for message in model.requests[-1].messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.contract("RV-B12", "RV-B1")
def test_parallel_calls_start_together_and_their_results_go_back_in_call_order(seed: int, tmp_path: Path) -> None:
    @tool(effect="pure")
    async def look(n: int) -> str:
        """Look; the first takes longest."""
        await anyio.sleep(10 - n)
        return f"saw {n}"

    calls = [{"name": "look", "args": {"n": n}} for n in range(5)]
    model = CheckedModel(ScriptedModel.of([{"calls": calls}, {"text": "Seen."}, {"text": "Still seen."}]))
    events: list[type[object]] = []

    async def play() -> None:
        async with open_with(open_it(model, tmp_path, look)) as session:
            session.on("*", noted(events))
            await session.run("Look.")
            await session.run("Again.")

    run_virtually(play, seed=seed)

    assert events == [ToolStarted] * 5 + [ToolFinished] * 5
    for request in model.requests[1:]:
        results = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
        assert [result.content for result in results] == [(Text(text=f"saw {n}"),) for n in range(5)]


def noted(events: list[type[object]]) -> Callable[[object], None]:
    def note(item: object) -> None:
        if isinstance(item, Recorded) and isinstance(item.event, ToolStarted | ToolFinished):
            events.append(type(item.event))

    return note


@pytest.mark.contract("RB-43")
def test_text_that_had_not_begun_leaves_no_message(tmp_path: Path) -> None:
    model = CheckedModel(ScriptedModel.of([{"hang": True}, {"text": "Yes."}]))

    async def play() -> None:
        async with open_with(open_it(model, tmp_path)) as session:
            assert await talk_until(session, 1.0) == ("", "")
            assert [message.role for message in session.history] == ["user"]
            assert await session.run("Go on.") == "Yes."

    run_virtually(play)
    assert model.broken == []
