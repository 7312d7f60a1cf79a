"""The edges of the conversation of contract RV: a context that comes back, arguments that are none, many calls at once."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from backstay import open_session, open_store, tool
from backstay.system.machine import SystemClock
from backstay.vocab.events import ToolFinished, ToolStarted
from backstay.vocab.messages import Text, ToolCall, ToolResult, text_of
from tests.contracts.kit import call, calls, look, talk
from tests.session.project.repository import Listener


@pytest.mark.contract("RV-10")
async def test_a_resume_from_another_folder_has_the_messages_the_variables_and_the_scope(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    deep = root / "deep"
    for folder in (root / ".git", deep, elsewhere):
        folder.mkdir(parents=True)
    (root / "top.txt").write_text("from the top\n")
    store = await open_store("memory:", clock=SystemClock())
    begun: dict[str, Any] = {"cwd": deep, "variables": {"who": "Ada"}, "fs_scope": "project"}
    async with open_session(model=Listener("Moin."), store=store, **begun) as session:
        await session.run("Greet {{ctx.who}}.")
    listener = Listener("Moin.", call("Read", file_path="../top.txt"), "done")
    async with open_session(model=listener, store=store, resume=session.id, cwd=elsewhere) as again:
        assert again.history == session.history
        assert await again.run("Now {{ctx.who}} reads.") == "done"
        results = [part for message in again.history for part in message.content if isinstance(part, ToolResult)]
    sent = [part.text for message in listener.heard[0].messages for part in message.parts if isinstance(part, Text)]
    assert sent == ["Greet Ada.", "Moin.", "Now Ada reads."]
    assert [result.is_error for result in results] == [False]
    assert "from the top" in text_of(results[0].content)
    await store.close()


@pytest.mark.contract("RV-B11")
@pytest.mark.parametrize("text", ['{"loudly": tr', "[]", '["loudly"]', "null", '"loudly"', "", "{}{}"])
async def test_arguments_that_are_no_object_never_run_a_tool_that_needs_none(text: str) -> None:
    ran: list[bool] = []

    @tool
    async def ring(loudly: bool = False) -> str:
        """Ring."""
        ran.append(loudly)
        return "rang"

    async with talk({"raw_args": {"name": "ring", "text": text}}, call("ring"), "done", tools=[ring]) as session:
        assert await session.run("ring") == "done"
        finished = [r.event for r in await session.events() if isinstance(r.event, ToolFinished)]
        written = [part.args for message in session.history for part in message.content if isinstance(part, ToolCall)]
        results = [part for message in session.history for part in message.content if isinstance(part, ToolResult)]
    assert [(event.outcome, event.code) for event in finished] == [("invalid", "bad_arguments"), ("ok", "")]
    assert ran == [False]  # by the call that was mended
    assert written == [text, "{}"]
    assert [result.is_error for result in results] == [True, False]


@pytest.mark.contract("RV-B12")
async def test_of_thirty_reading_calls_at_most_eight_run_at_once() -> None:
    running = most = 0
    full, go_on = anyio.Event(), anyio.Event()

    @tool(effect="pure")
    async def slow(n: int) -> int:
        """Wait until everybody who may start has started."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 8:
            full.set()
        await go_on.wait()
        running -= 1
        return n

    listener = Listener(calls(*(("slow", {"n": n}) for n in range(30))), "done")
    async with talk(model=listener, tools=[slow, look]) as session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.run, "go")
        with anyio.fail_after(30):
            await full.wait()
        await anyio.wait_all_tasks_blocked()
        started = [r for r in await session.events() if isinstance(r.event, ToolStarted)]
        assert (running, len(started), session.active_tools) == (8, 8, ("slow",) * 8)
        go_on.set()
    assert most == 8
    sent = [part for message in listener.heard[1].messages for part in message.parts if isinstance(part, ToolResult)]
    assert [text_of(part.content) for part in sent] == [str(n) for n in range(30)]
