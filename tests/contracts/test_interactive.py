"""The interactive session: one way in for a session and for a question, what is shown and heard of an input, the queue, what is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from backstay import Session, TurnFailed, TurnInterrupted, UserError, open_session, query, tool
from backstay.hooks.decorator import Hook, hook
from backstay.logic.state.results import TurnResult
from backstay.ports import Answer, Question
from backstay.runtime.callbacks import NAMES, ToolEnd, ToolStart
from backstay.vocab.events import InputReceived, InputTaken, ModelAsked, Started, ToolStarted, TurnCompleted
from backstay.vocab.events.tools import HookStarted
from backstay.vocab.messages import text_of
from tests.contracts.kit import Reply, call, calls, look, scripted, talk


class Gate:
    """A tool that is at work until it is let go."""

    def __init__(self) -> None:
        self.reached, self.open = anyio.Event(), anyio.Event()

        @tool(name="wait")
        async def wait() -> str:
            """Wait."""
            self.reached.set()
            await self.open.wait()
            return "waited"

        self.tool = wait


@asynccontextmanager
async def busy(*replies: Reply | str, **options: Any) -> AsyncIterator[tuple[Session, Gate]]:
    """A session whose first turn runs until its gate is opened."""
    gate = Gate()
    async with talk(call("wait"), "first", *replies, tools=[gate.tool], **options) as session:
        await session.submit("one")
        await gate.reached.wait()
        yield session, gate


def said(session: Session) -> list[str]:
    return [text_of(message.content) for message in session.history if message.role == "user"]


# --- ways in ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RB-49")
async def test_one_way_in_opens_a_session_and_another_asks_a_question_with_its_own_options(tmp_path: Path) -> None:
    async with open_session(cwd=tmp_path, model=scripted("hello"), store=None) as session:
        assert await session.run("hi") == "hello"
        started = (await session.events())[0].event
    assert isinstance(started, Started)
    assert started.context.working_dir == str(tmp_path)
    answer = await query("look", model=scripted(call("look", at="sea"), "seen"), tools=[look], cwd=tmp_path)
    assert answer == "seen"
    with pytest.raises(TurnFailed) as failed:  # the options of one call are no other's
        await query("look", model=scripted(call("look", at="sea"), "seen"), tools=[look], max_rounds=1)
    assert failed.value.reason == "turn_limit"


@pytest.mark.contract("RB-49")
async def test_rb_w21_a_question_runs_in_the_careful_mode_and_asks_the_person_who_was_named(tmp_path: Path) -> None:
    script = (call("Bash", command="touch made"), "Done.")
    assert await query("Go.", model=scripted(*script), cwd=tmp_path) == "Done."
    assert not (tmp_path / "made").exists()
    asked: list[Question] = []

    async def nod(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True)

    await query("Go.", model=scripted(*script), cwd=tmp_path, asker=nod)
    assert [question.tool for question in asked] == ["Bash"]
    assert (tmp_path / "made").exists()
    async with open_session(model=scripted("x"), store=None) as session:
        assert session.permission_mode == "default"


@pytest.mark.contract("RB-49")
async def test_rb_w52_questions_that_are_asked_at_once_get_their_own_answers() -> None:
    answers: dict[int, str] = {}

    async def ask(number: int) -> None:
        reply = {"text": f"answer {number}", "chunk": 2, "delay_ms": 5 - number}
        answers[number] = await query(f"question {number}", model=scripted(reply))

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(ask, number)
    assert answers == {number: f"answer {number}" for number in range(5)}


@pytest.mark.contract("RB-54")
async def test_hooks_stand_before_anything_is_heard_and_the_log_has_them_in_their_places() -> None:
    names = ("Stop", "PreToolUse", "UserPromptSubmit", "SessionStart")  # the order of wiring, not of registration
    async with talk(call("look", at="x"), "Seen.", hooks=[_notes(name) for name in names], tools=[look]) as session:
        await session.run("Look.")
        log = [record.event for record in await session.events()]
    marks = (HookStarted, InputTaken, ModelAsked, ToolStarted, TurnCompleted)
    assert [e.event if isinstance(e, HookStarted) else type(e).__name__ for e in log if isinstance(e, marks)] == [
        *("SessionStart", "UserPromptSubmit", "InputTaken", "ModelAsked"),
        *("PreToolUse", "ToolStarted", "ModelAsked", "Stop", "TurnCompleted"),
    ]


def _notes(event: str, heard: list[dict[str, Any]] | None = None) -> Hook:
    @hook(event)
    def noting(told: dict[str, Any]) -> None:
        if heard is not None:
            heard.append(told)

    return noting


# --- what is shown and heard -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("RB-63")
async def test_people_see_one_text_hooks_another_and_the_model_a_third() -> None:
    heard: list[dict[str, Any]] = []
    sent: list[str] = []

    class Watching:
        """The scripted model, with an eye on what it is sent."""

        def __init__(self) -> None:
            self._model = scripted("reviewed", "plain")
            self.name, self.format, self.facts = self._model.name, self._model.format, self._model.facts

        def ask(self, request: Any) -> Any:  # Any: whatever the scripted model takes and gives
            sent.append(text_of(request.messages[-1].parts))
            return self._model.ask(request)

    async with open_session(model=Watching(), store=None, hooks=[_notes("UserPromptSubmit", heard)]) as session:
        await session.run("Review the code. Be strict.", display="/review", raw="/review --strict")
        await session.run("Thanks.")
        shown = [(entry.display, entry.type) for entry in await session.full_history() if entry.type == "user"]
        received = [r.event for r in await session.events() if isinstance(r.event, InputReceived)]
    assert sent == ["Review the code. Be strict.", "Thanks."]
    assert [told["prompt"] for told in heard] == ["/review --strict", "Thanks."]
    assert shown == [("/review", "user"), ("", "user")]
    assert (received[0].display, received[0].raw) == ("/review", "/review --strict")
    assert said(session)[0] == "Review the code. Be strict."  # the messages are what a model gets


async def test_a_raw_text_is_never_cut_and_a_display_text_is() -> None:
    async with talk("x") as session:
        with pytest.raises(UserError, match="raw text"):
            await session.run("hi", raw="r" * 40_000)
        await session.run("hi", display="d" * 40_000)
        assert len((await session.full_history())[0].display) == 2_001


# --- the queue -------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RB-64")
async def test_inputs_wait_in_the_order_in_which_they_came_and_run_by_themselves() -> None:
    async with busy("second", "third") as (session, gate):
        await session.submit("two", display="shown two")
        await session.submit("three")
        assert session.pending_prompts == ("shown two", "three")
        assert session.pending_prompt == "shown two"
        gate.open.set()
        await session.until_idle()
        assert said(session) == ["one", "two", "three"]
        assert [turn.text for turn in session.turns] == ["first", "second", "third"]
        assert session.pending_prompt is None


@pytest.mark.contract("RB-64")
async def test_one_input_too_many_is_refused_and_the_others_stay() -> None:
    async with busy() as (session, gate):
        for number in range(32):
            await session.submit(f"waiting {number}")
        with pytest.raises(UserError, match=r"32 inputs wait .* drop_queued"):
            await session.submit("one too many")
        with pytest.raises(UserError, match="32 inputs wait"):
            await session.steer("and one aside")
        assert session.pending_prompts == tuple(f"waiting {number}" for number in range(32))
        await session.drop_queued()
        gate.open.set()
        await session.until_idle()


async def test_inputs_that_come_at_once_are_counted_before_they_are_written() -> None:
    refused: list[str] = []
    async with busy() as (session, gate):
        session.queue_limit = 3

        async def submit(text: str) -> None:
            try:
                await session.submit(text)
            except UserError:
                refused.append(text)

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(submit, str(number))
        assert (len(session.pending_inputs), len(refused)) == (3, 7)
        await session.drop_queued()
        gate.open.set()
        await session.until_idle()


@pytest.mark.contract("RB-64")
async def test_what_is_queued_can_be_dropped_alone_and_whoever_sent_it_is_told() -> None:
    told: list[str] = []
    async with busy() as (session, gate):

        async def send() -> None:
            with pytest.raises(TurnInterrupted) as dropped:
                await session.run("two")
            told.append(str(dropped.value))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            while not session.pending_inputs:
                await anyio.sleep(0.002)
            await session.drop_queued()
        gate.open.set()
        await session.until_idle()
        assert said(session) == ["one"]
        assert session.turns[-1].outcome == "completed"
    assert told == ["The input was dropped before its turn began."]


@pytest.mark.contract("RB-64")
async def test_an_abort_drops_what_is_queued_and_stops_the_turn_and_says_so() -> None:
    ended: list[TurnResult] = []
    async with busy("never said") as (session, _):
        session.on("interrupted", ended.append)  # type: ignore[arg-type]  # it is told a TurnResult
        await session.submit("two")
        await session.abort("enough")
        await session.until_idle()
        assert said(session) == ["one"]
        assert session.turns[-1].outcome == "interrupted"
    assert [turn.outcome for turn in ended] == ["interrupted"]


async def test_an_input_takes_the_place_of_the_last_one_only_when_it_says_so() -> None:
    async with busy("a", "b") as (session, gate):
        await session.submit("two")
        await session.submit("three")
        await session.submit("four", replaces=True)
        assert session.pending_prompts == ("two", "four")
        session.queue_limit = 2
        await session.submit("five", replaces=True)  # a full queue has room for who makes it
        assert session.pending_prompts == ("two", "five")
        gate.open.set()
        await session.until_idle()
        assert said(session) == ["one", "two", "five"]


async def test_an_input_that_is_sent_again_under_its_id_takes_no_place() -> None:
    async with busy("second") as (session, gate):
        session.queue_limit = 1
        assert await session.submit("two", input_id="in") == "in"
        assert await session.submit("two", input_id="in") == "in"
        assert session.pending_prompts == ("two",)
        gate.open.set()
        await session.until_idle()
        result = session.input_result("in")
        assert result is not None
        assert result.text == "second"


# --- what is told ----------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RB-62")
async def test_everything_that_happens_is_told_under_its_name() -> None:
    names = (
        *("text_delta", "tool_start", "tool_end", "thinking", "complete", "error", "context_update", "interrupted"),
        *("background_task_event", "background_job_group_event"),
    )
    assert names == tuple(name for name in names if name in NAMES)
    told: dict[str, list[Any]] = {name: [] for name in names}
    replies = (call("look", at="x"), "seen", {"error": {"kind": "auth"}}, {"text": "half", "hang": True})
    async with talk(*replies, tools=[look]) as session:
        for name in names:
            session.on(name, told[name].append)
        await session.run("a")
        with pytest.raises(TurnFailed):
            await session.run("b")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_interrupted, session)
            while session.streaming_text != "half":
                await anyio.sleep(0.002)
            await session.abort()
    assert "".join(told["text_delta"]) == "seenhalf"
    started, ended = told["tool_start"][0], told["tool_end"][0]
    assert started == ToolStart(call=started.call, tool="look", args={"at": "x"})
    assert ended == ToolEnd(call=started.call, tool="look", args={"at": "x"}, success=True, result="saw x")
    assert told["thinking"][:4] == [True, False, True, False]
    assert [told[name][0].outcome for name in ("complete", "error", "interrupted")] == [
        "completed",
        "failed",
        "interrupted",
    ]
    assert told["complete"][0].text == "seen"
    assert {update.max for update in told["context_update"]} == {session.context_state.max}
    assert told["background_task_event"] == told["background_job_group_event"] == []
    with pytest.raises(UserError, match="not something to listen to"):
        session.on("sunset", print)


async def _interrupted(session: Session) -> None:
    with pytest.raises(TurnInterrupted):
        await session.run("c")


async def test_rb_w45_ends_that_come_in_another_order_belong_to_their_own_starts() -> None:
    first_ended = anyio.Event()
    ends: list[ToolEnd] = []

    @tool(effect="pure")
    async def fetch(name: str) -> str:
        """Fetch."""
        if name == "slow":
            await first_ended.wait()
        return f"got {name}"

    def note(end: object) -> None:
        assert isinstance(end, ToolEnd)
        ends.append(end)
        first_ended.set()

    async with talk(calls(("fetch", {"name": "slow"}), ("fetch", {"name": "quick"})), "done", tools=[fetch]) as session:
        session.on("tool_end", note)
        await session.run("both")
    assert [(end.args["name"], end.result) for end in ends] == [("quick", "got quick"), ("slow", "got slow")]


@pytest.mark.contract("RB-77")
async def test_the_state_can_be_read_at_any_time_under_the_names_that_people_know() -> None:
    async with busy("second") as (session, gate):
        await session.submit("two")
        assert (session.is_executing, session.pending_prompt, session.active_tools) == (True, "two", ("wait",))
        assert session.messages == session.history
        assert [entry.type for entry in await session.full_history()] == ["user", "assistant", "tool-start"]
        assert session.context_state.used > 0
        gate.open.set()
        await session.until_idle()
        assert (session.is_executing, session.pending_prompt, session.streaming_text) == (False, None, "")
