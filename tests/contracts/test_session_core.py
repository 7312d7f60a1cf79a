"""The session core of contract RB, through `open_session`."""

from pathlib import Path

import anyio
import pytest

from backstay import (
    Answer,
    Question,
    Session,
    TurnFailed,
    TurnInterrupted,
    UserError,
    open_session,
    open_store,
    query,
    tool,
)
from backstay.catalog.sessions import record
from backstay.logic.state.entries import entry_of, is_chat, message_of, messages_for_api
from backstay.logic.state.retries import Retries
from backstay.logic.state.session_state import backfill, record_of, state_of
from backstay.system.machine import SystemClock
from backstay.testing.event_loop import run_virtually
from backstay.vocab.deltas import Notice, TextDelta
from backstay.vocab.errors import IllegalTransition
from backstay.vocab.event import Recorded
from backstay.vocab.events import ModelAsked, ToolFinished
from backstay.vocab.messages import ToolResult, text_of
from backstay.vocab.specs import ModelFacts
from tests.contracts.kit import Till, call, calls, kinds, look, scripted, stream, talk

ONE_TRY = Retries(attempts=1)


async def abort_when_streaming(session: Session) -> None:
    """Stop the turn once its model has begun to speak."""
    while not session.streaming_text:
        await anyio.sleep(0.005)
    await session.abort()


@pytest.mark.contract("RB-1", "RB-2")
async def test_one_call_answers_with_an_injected_model_tools_and_prompt() -> None:
    seen: list[str] = []

    class Spy:
        name, format, facts = "spy:1", "anthropic", ModelFacts()

        def ask(self, request):  # type: ignore[no-untyped-def]  # a model of one line
            seen.extend((request.instructions, *(spec.name for spec in request.tools)))
            return scripted("forty-two").ask(request)

    async with open_session(
        model=Spy(), store=None, tools=[look], only_tools=True, system_prompt="Be brief."
    ) as session:
        assert await session.run("What is it?") == "forty-two"
    assert seen == ["Be brief.", "look"]


@pytest.mark.contract("RB-5", "RB-47")
async def test_denied_raising_and_unknown_tools_are_results_and_every_call_is_paired() -> None:
    @tool
    async def broken() -> str:
        """Break."""
        raise RuntimeError("snapped")

    batch = calls(("broken", {}), ("nowhere", {}), ("Bash", {"command": "touch x"}))
    async with talk(batch, "sorry", tools=[broken]) as session:
        items = await stream(session, "try")
        finished = [i.event for i in items if isinstance(i, Recorded) and isinstance(i.event, ToolFinished)]
        assert sorted((f.outcome, f.code) for f in finished) == [
            ("denied", "denied"),
            ("failed", "raised"),
            ("invalid", "unknown_tool"),
        ]
        results = [p for m in session.history for p in m.content if isinstance(p, ToolResult)]
        assert len(results) == 3
        assert all(result.is_error for result in results)
        assert session.turns[-1].text == "sorry"


@pytest.mark.contract("RB-6")
async def test_approval_goes_to_the_handler_then_to_the_prompt_then_to_no(tmp_path: Path) -> None:
    asked: list[str] = []

    async def handler(question: Question) -> Answer:
        asked.append(f"handler {question.tool}")
        return Answer(allowed=True)

    async def prompt(question: Question) -> Answer:
        asked.append("prompt")
        return Answer(allowed=True)

    write = call("Write", file_path="a.txt", content="x")
    for options in ({"asker": handler, "prompt": prompt}, {"prompt": prompt}, {}):
        async with talk(write, "done", cwd=tmp_path, **options) as session:
            await session.run("write")
            outcome = session.turns[-1].denials
    assert asked == ["handler Write", "prompt"]
    assert [(denial.tool, denial.halted) for denial in outcome] == [("Write", True)]


@pytest.mark.contract("RB-7")
async def test_without_a_store_nothing_is_written_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path / "data"))
    async with talk("hello") as session:
        assert await session.run("hi") == "hello"
    assert list(tmp_path.iterdir()) == []
    assert await query("hi", model=scripted("again")) == "again"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.contract("RB-8")
async def test_a_given_id_is_used_and_a_missing_one_is_fresh() -> None:
    async with talk("a", session_id="mine") as session:
        assert session.id == "mine"
    ids = set()
    for _ in range(3):
        async with talk("a") as session:
            ids.add(session.id)
    assert len(ids) == 3


@pytest.mark.contract("RB-9")
def test_a_silent_model_times_out_and_a_slow_one_that_still_streams_does_not() -> None:
    slow = {"text": "abcdef", "chunk": 1, "delay_ms": 60_000}

    async def play() -> None:
        async with talk(slow, {"hang": True}, "fine", idle_timeout_s=250, retries=ONE_TRY) as session:
            assert await session.run("slowly") == "abcdef"  # 360 seconds in all, never silent for 250
            with pytest.raises(TurnFailed) as failed:
                await session.run("silently")
            assert failed.value.reason == "timeout"
            assert await session.run("still there?") == "fine"

    run_virtually(play)


@pytest.mark.contract("RB-14")
async def test_a_new_permission_mode_holds_for_later_calls_only(tmp_path: Path) -> None:
    write = call("Write", file_path="a.txt", content="x")
    async with talk(write, "one", write, "two", cwd=tmp_path, permission_mode="plan") as session:
        await session.run("write")
        assert session.permission_mode == "plan"
        assert not (tmp_path / "a.txt").exists()
        await session.set_permission_mode("acceptEdits")
        assert not (tmp_path / "a.txt").exists()
        await session.run("write")
        assert (tmp_path / "a.txt").read_text() == "x"
        with pytest.raises(UserError, match="not a permission mode"):
            await session.set_permission_mode("yolo")  # type: ignore[arg-type]  # the point of the test


@pytest.mark.contract("RB-15")
async def test_the_message_count_counts_completed_runs() -> None:
    async with talk("one", {"error": {"kind": "auth"}}, "two", {"text": "half", "hang": True}, "three") as session:
        await session.run("a")
        with pytest.raises(TurnFailed):
            await session.run("b")
        await session.run("c")
        assert session.message_count == 2
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(abort_when_streaming, session)
            with pytest.raises(TurnInterrupted):
                await session.run("d")
        assert session.message_count == 2
        await session.run("e")
        assert session.message_count == 3


@pytest.mark.contract("RB-16")
async def test_clearing_the_history_also_clears_the_token_count() -> None:
    async with talk({"text": "one", "usage": {"input": 500, "output": 20}}, "two") as session:
        await session.run("a")
        assert session.context_state.used == 520
        await session.clear_history()
        assert list(session.history) == []
        assert session.context_state.used == 0
        await session.run("b")
        assert [text_of(message.content) for message in session.history] == ["b", "two"]


@pytest.mark.contract("RB-17")
async def test_history_has_messages_and_the_full_history_has_events_too() -> None:
    async with talk(call("look", at="sky"), "blue", tools=[look]) as session:
        await session.run("what colour?")
        await session.add_entry("marker", {"note": "here"})
        assert [message.role for message in session.history] == ["user", "assistant", "tool", "assistant"]
        full = await session.full_history()
        assert [(entry.category, entry.type) for entry in full] == [
            ("chat", "user"),
            ("chat", "assistant"),
            ("event", "tool-start"),
            ("chat", "tool"),
            ("event", "tool-end"),
            ("chat", "assistant"),
            ("event", "tool-summary"),
            ("event", "marker"),
        ]
        assert full[-1].data == {"note": "here"}


@pytest.mark.contract("RB-18")
async def test_the_context_state_gives_used_max_and_percentage() -> None:
    async with talk({"text": "x", "usage": {"input": 19_000, "output": 1_000}}) as session:
        assert session.context_state.used == 0
        await session.run("a")
        state = session.context_state
        assert (state.used, state.max, state.percentage, state.exact) == (20_000, 200_000, 10.0, True)


@pytest.mark.contract("RB-19", "RB-43", "RV-9")
async def test_abort_keeps_the_partial_text_and_the_session_goes_on() -> None:
    async with talk({"text": "partly said", "hang": True}, "whole") as session:
        await session.abort()  # idle: nothing happens
        assert not session.is_running
        async with anyio.create_task_group() as tasks:

            async def stop_when_streaming() -> None:
                while session.streaming_text != "partly said":
                    await anyio.sleep(0.005)
                assert session.is_running
                await session.abort("enough")

            tasks.start_soon(stop_when_streaming)
            with pytest.raises(TurnInterrupted) as stopped:
                await session.run("talk")
        assert stopped.value.text == "partly said"
        assert [(m.role, text_of(m.content), m.state) for m in session.history] == [
            ("user", "talk", "complete"),
            ("assistant", "partly said", "interrupted"),
        ]
        assert session.turns[-1].outcome == "interrupted"
        assert await session.run("go on") == "whole"


@pytest.mark.contract("RB-20")
async def test_closing_interrupts_writes_and_announces_exactly_once(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db", clock=SystemClock())
    async with open_session(model=scripted({"hang": True}), store=store) as session:
        subscription = session.subscribe()
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                with pytest.raises(TurnInterrupted):
                    await session.run("forever")

            tasks.start_soon(run)
            while not session.is_running:
                await anyio.sleep(0.005)
            await session.close("bye")
            await session.close("again")
        items = [item async for item in subscription]
    assert kinds(items)[-4:] == ["SessionTurnEnd", "SessionPersisted", "closed", "SessionClosed"]
    assert kinds(items).count("SessionClosed") == 1
    log = (await store.read(session.id)).records
    assert [type(record.event).__name__ for record in log[-2:]] == ["TurnCompleted", "Closed"]
    with pytest.raises(IllegalTransition, match="is closed"):
        await session.run("too late")
    await store.close()


@pytest.mark.contract("RB-21")
async def test_session_approvals_are_bound_to_the_call_listed_and_cleared(tmp_path: Path) -> None:
    asked: list[dict[str, object]] = []

    async def always(question: Question) -> Answer:
        asked.append(question.args)
        return Answer(allowed=True, grant="session")

    write, other = (call("Write", file_path="a.txt", content=text) for text in ("x", "y"))
    async with talk(write, "1", write, "2", other, "3", write, "4", cwd=tmp_path, asker=always) as session:
        for _ in range(2):
            await session.run("write x")
        assert len(asked) == 1  # the second one is the same call
        assert session.approved_tools == ("Write",)
        await session.run("write y")
        assert len(asked) == 2  # a grant covers what was shown, not the tool
        await session.clear_approvals()
        assert session.approved_tools == ()
        await session.run("write x")
        assert len(asked) == 3


@pytest.mark.contract("RB-22")
async def test_an_injected_message_enters_the_history_without_a_model_call() -> None:
    async with talk({"expect": {"contains": "hi"}, "text": "yes"}) as session:
        await session.inject("user", "My name is Ada.")
        await session.inject("assistant", "Noted.")
        assert [message.role for message in session.history] == ["user", "assistant"]
        assert not any(isinstance(r.event, ModelAsked) for r in await session.events())
        assert await session.run("hi") == "yes"
        with pytest.raises(UserError, match="cannot be injected"):
            await session.inject("tool", "x")  # type: ignore[arg-type]  # the point of the test


@pytest.mark.contract("RB-23", "RB-24", "RB-25")
async def test_the_record_has_its_fields_and_is_only_a_projection(tmp_path: Path) -> None:
    store = await open_store("memory:", clock=SystemClock())
    async with open_session(
        model=scripted(call("look", at="sky"), "blue"),
        tools=[look],
        store=store,
        cwd=tmp_path,
        name="sky",
        system_prompt="P",
    ) as session:
        await session.run("look")
    document = await record(store, session.id)
    assert (document.id, document.cwd, document.name, document.system_prompt) == (session.id, str(tmp_path), "sky", "P")
    assert "look" in [spec.name for spec in document.tool_schemas]
    assert document.messages == session.history
    assert len(document.history) > len(document.messages)
    assert document.created_at < document.updated_at
    log = (await store.read(session.id)).records
    assert record_of(state_of(session.id, log)).messages == document.messages  # the log alone makes it again
    await store.close()


@pytest.mark.contract("RB-26", "RB-78")
async def test_a_record_without_history_gets_it_from_its_messages_once() -> None:
    async with talk("one", "two") as session:
        await session.run("a")
        await session.add_entry("marker", {})
        entries = await session.full_history()
        messages = session.history
        log = await session.events()
    old = record_of(state_of(session.id, log))
    old = type(old)(**{f: getattr(old, f) for f in old.__struct_fields__ if f != "history"})
    filled = backfill(old)
    assert filled.history == tuple(map(entry_of, messages))
    assert backfill(filled) is filled
    assert [is_chat(entry) for entry in entries] == [True, True, False]
    assert message_of(entries[0]) == messages[0]
    assert message_of(entries[2]) is None
    assert messages_for_api(entries) == messages


@pytest.mark.contract("RB-39")
async def test_streams_of_two_sessions_with_one_model_do_not_mix() -> None:
    shared = scripted({"text": "a-reply", "chunk": 1, "delay_ms": 1}, {"text": "b-reply", "chunk": 1, "delay_ms": 1})
    heard: dict[str, str] = {}

    async def talk_alone(name: str) -> None:
        async with open_session(model=shared, store=None, session_id=name) as session:
            pieces = [item.text async for item in session.send("go") if isinstance(item, TextDelta)]
            heard[name] = "".join(pieces)

    async with anyio.create_task_group() as tasks:
        for name in ("one", "two", "three"):
            tasks.start_soon(talk_alone, name)
    assert heard == {"one": "a-reply", "two": "a-reply", "three": "a-reply"}


@pytest.mark.contract("RB-48")
async def test_a_failed_run_keeps_the_history_and_the_session() -> None:
    async with talk({"error": {"kind": "bad_request", "message": "no"}}, "recovered") as session:
        with pytest.raises(TurnFailed) as failed:
            await session.run("first")
        assert failed.value.reason == "bad_request"
        assert [text_of(message.content) for message in session.history] == ["first"]
        events = [type(record.event).__name__ for record in await session.events()]
        assert events[-2:] == ["ModelFailed", "TurnCompleted"]
        assert await session.run("second") == "recovered"


async def test_a_notice_follows_the_event_that_led_to_it() -> None:
    till = Till()
    async with talk(call("charge", amount=3), "done", tools=[till.tool]) as session:
        items = await stream(session, "pay")
    assert till.charged == [3]
    assert kinds(items)[-3:] == ["turn_completed", "SessionTurnEnd", "SessionPersisted"]
    assert isinstance(items[-1], Notice)
