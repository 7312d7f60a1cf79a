"""The agent session as a durable conversation: contract RV, with what Backstay does better (RV-B)."""

from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

import anyio
import msgspec
import pytest

from backstay import UserError, open_session, open_store, tool
from backstay.export.formats import export, note_export, write_pieces
from backstay.export.workflow import to_yaml
from backstay.logic.state.session_state import state_of
from backstay.logic.state.transcript import segment, transcript_of
from backstay.ports import ModelRequest, SessionQuery
from backstay.providers.scripted import ScriptedModel
from backstay.system.machine import SystemClock
from backstay.system.yaml import read_yaml
from backstay.testing.builders import example_events
from backstay.vocab.deltas import Lagged
from backstay.vocab.event import Recorded
from backstay.vocab.events import EVENTS, ModelReplied, ToolFinished, ToolStarted
from backstay.vocab.messages import Reasoning, SessionMessage, Text, ToolCall, ToolResult, text_of
from backstay.vocab.specs import ModelFacts, Selection, SessionContext
from backstay.wire.codec import NAME_OF
from backstay.wire.stream import line
from tests.contracts.kit import call, calls, kinds, look, scripted, stream, talk
from tests.hooks.test_moments import Slow
from tests.session.project.repository import Listener


@pytest.mark.contract("RV-1", "RV-26", "RV-49")
async def test_a_session_is_one_conversation_in_the_users_store_and_its_messages_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path))  # the one file of the user, whatever the project
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        async with open_session(model=scripted("x", "y"), session_id=name, cwd=tmp_path / name) as session:
            await session.run(f"first of {name}")
            await session.run(f"second of {name}")
            assert {message.session for message in session.history} == {name}
            assert [m.role for m in session.history] == ["user", "assistant"] * 2
    store = await open_store(f"sqlite:///{tmp_path}/sessions.db", clock=SystemClock())
    listed = await store.list(SessionQuery())
    assert [(meta.id, meta.turns) for meta in listed] == [("two", 2), ("one", 2)]
    of_one = [text_of(m.content) for m in state_of("one", (await store.read("one")).records).transcript.messages]
    assert of_one == ["first of one", "x", "second of one", "y"]
    await store.close()


@pytest.mark.contract("RV-4", "RV-5", "RV-18")
async def test_a_context_has_its_fields_and_a_wrong_one_fails_at_once(tmp_path: Path) -> None:
    context = SessionContext(
        working_dir=str(tmp_path),
        active_file="a.py",
        selection=Selection(file="a.py", start_line=1, end_line=2),
        git_ref="main",
        fs_scope="project",
        variables={"who": "Ada"},
    )
    async with talk("x", context=context) as session:
        started = (await session.events())[0].event
        assert started.context == context  # type: ignore[attr-defined]  # the first event is Started
    async with talk("x", cwd=tmp_path) as session:
        plain = (await session.events())[0].event
        assert plain.context == SessionContext(working_dir=str(tmp_path), fs_scope="sandboxed")  # type: ignore[attr-defined]  # likewise
    assert SessionContext(working_dir="/").fs_scope == "sandboxed"
    wrong = SessionContext(working_dir=str(tmp_path), fs_scope="everything")  # type: ignore[arg-type]  # the point
    uncountable = SessionContext(working_dir=str(tmp_path), variables={"n": 3})  # type: ignore[dict-item]  # the point
    for options, words in (
        ({"context": wrong}, "fs_scope"),
        ({"context": uncountable}, "variables"),
        ({"variables": {"n": 3}}, "variables"),
        ({"fs_scope": "everything"}, "fs_scope"),
        ({"permission_mode": "yolo"}, "not a permission mode"),
    ):
        with pytest.raises(UserError, match=words):
            async with talk("x", **options):
                pytest.fail("must not open")
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"working_dir": "/", "colour": "red"}, SessionContext)


@pytest.mark.contract("RV-7", "RV-8", "RV-B1")
async def test_a_turn_appends_everything_and_the_next_one_sees_what_the_tools_returned() -> None:
    listener = Listener({"text": "Let me look.", **call("look", at="sky")}, "blue", "still", "yes")
    store = await open_store("memory:", clock=SystemClock())
    async with talk(model=listener, tools=[look], store=store) as session:
        names = kinds(await stream(session, "colour?"))
        assert names.count("SessionTurnStart") == 1  # the round trip stays inside the turn
        assert names.count("SessionTurnEnd") == 1
        await session.run("again?")
        parts = [part for message in session.history for part in message.content]
        assert [type(part).__name__ for part in parts] == [
            "Text",
            "Text",
            "ToolCall",
            "ToolResult",
            "Text",
            "Text",
            "Text",
        ]
        result = next(part for part in parts if isinstance(part, ToolResult))
        assert result.content == (Text(text="saw sky"),)
    async with talk(model=listener, tools=[look], store=store, resume=session.id) as again:
        await again.run("and now?")
    await store.close()
    assert len(listener.heard) == 4
    for request in listener.heard[1:]:  # the rest of the turn, the next one, and one after a resume
        sent = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
        assert [part.content for part in sent] == [(Text(text="saw sky"),)]


def written(message: SessionMessage) -> dict[str, object]:
    """A message as a workflow has it."""
    content = msgspec.json.decode(msgspec.json.encode(message.content))
    head = {"id": message.id, "sessionId": message.session, "sequenceNumber": message.number, "role": message.role}
    by = {"modelId": message.model} if message.role == "assistant" else {}
    return {**head, "content": content, "timestamp": message.timestamp, **by}


@pytest.mark.contract("RV-11", "RV-6")
async def test_a_session_exports_to_a_workflow_that_reads_back_and_is_the_same_each_time(tmp_path: Path) -> None:
    clock = SystemClock()
    store = await open_store("memory:", clock=clock)
    replies = (call("look", at="sky"), "blue: it's {{x}}", {"error": {"kind": "auth"}}, "fine")
    async with open_session(model=scripted(*replies), tools=[look], store=store, name="Sky Colour!") as session:
        await session.run("what {{colour}}?")
        with pytest.raises(Exception, match="auth"):
            await session.run("this one fails")
        await session.run("yes: no")
    target = tmp_path / "flow.backstay.yaml"
    made, size = await export(store, session.id, "workflow", partial(write_pieces, target))
    text = target.read_text()
    assert size == len(text.encode())
    assert await note_export(store, session.id, made, clock=clock) == ""
    document = read_yaml(text)
    assert isinstance(document, dict)
    assert document["id"] == "sky-colour"
    agent = {"type": "agent", "agent_ref": "backstay"}
    assert document["nodes"] == [
        {"id": "input", "type": "input"},
        {"id": "turn-1", **agent, "prompt_template": "what {\u200b{colour}}?", "tools": ["look"]},
        {"id": "turn-2", **agent, "prompt_template": "this one fails\n\nyes: no"},  # one answer to both
        {"id": "output", "type": "output"},
    ]
    ids = [node["id"] for node in document["nodes"]]
    assert document["edges"] == [{"from": one, "to": other} for one, other in pairwise(ids)]
    origin = document["metadata"]["backstayExport"]
    assert (origin["source"], origin["sessionId"], origin["title"]) == ("session", session.id, "Sky Colour!")
    assert origin["messages"] == [written(message) for message in session.history]
    assert to_yaml(document) == text
    assert (await store.meta(session.id)).exported
    async with open_session(model=scripted(*replies, "more"), store=store, resume=session.id) as again:
        await again.run("go on")
    assert (await store.meta(session.id)).exported  # and it stays so
    await store.close()


@pytest.mark.contract("RV-13")
async def test_the_core_emits_in_flight_deltas_and_the_log_holds_the_durable_form() -> None:
    async with talk({"text": "said", "reasoning": "thought"}) as session:
        items = await stream(session, "go")
        live = [type(item).__name__ for item in items if not isinstance(item, Recorded)]
        assert "TextDelta" in live
        assert "ReasoningDelta" in live
        reply = next(i.event for i in items if isinstance(i, Recorded) and isinstance(i.event, ModelReplied))
        assert reply.parts == (Reasoning(text="thought"), Text(text="said"))
        assert "signature" not in msgspec.json.encode(reply).decode()


def moment(at: int) -> datetime:
    """Microseconds since 1970 as a time."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at)


@pytest.mark.contract("RV-22")
async def test_a_message_names_the_model_that_answered_and_not_the_one_that_was_asked_first() -> None:
    broken = ScriptedModel.of([{"error": {"kind": "auth"}}], name="scripted:first")
    second = ScriptedModel.of([{"text": "unused"}, {"text": "from the second"}], name="scripted:second")
    async with talk(model=broken, fallback_models=[second]) as session:
        await session.run("a")
        assert [(one.role, one.model) for one in session.history] == [("user", ""), ("assistant", "scripted:second")]


@pytest.mark.contract("RV-22", "RV-23")
async def test_a_message_has_its_fields_and_is_never_edited() -> None:
    async with talk("one", "two", "three") as session:
        await session.run("a")
        first = session.history
        await session.run("b")
        assert session.history[:2] == first
        message = session.history[1]
        assert isinstance(message, SessionMessage)
        assert (message.session, message.role, message.content) == (session.id, "assistant", (Text(text="one"),))
        assert message.model == "scripted:inline"
        at = {record.seq: record.at for record in await session.events()}
        for one in session.history:
            assert (one.at, datetime.fromisoformat(one.timestamp)) == (at[one.number], moment(at[one.number]))
            assert one.timestamp.endswith("Z")
        numbers = [one.number for one in session.history]
        assert numbers == sorted(set(numbers))
        assert len({one.id for one in session.history}) == 4
        with pytest.raises(AttributeError):
            message.role = "user"  # type: ignore[misc]  # the point of the test
        newest = session.history[-1].number
        await session.rewind(to=session.turns[0].turn)
        assert session.history == first
        await session.run("c")
        assert [one.number for one in session.history[:2]] == [one.number for one in first]
        assert newest < session.history[2].number < session.history[3].number  # what a rewind left keeps its numbers
        assert len(await session.events()) > len(first)  # the log keeps what the rewind left


@pytest.mark.contract("RV-34", "RV-B2")
async def test_numbers_have_no_gap_over_restarts_and_a_slow_listener_gets_everything(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    model = scripted(*(f"reply {n}" for n in range(4)))
    session_id, seen = "", list[int]()
    for n in range(4):
        async with open_session(model=model, store=url, session_id=session_id or None) as session:
            session_id = session.id
            seen += [i.seq for i in (*session.opened, *await stream(session, f"{n}")) if isinstance(i, Recorded)]
            await session.close()
            seen.append(session.seq)  # Closed
    assert seen == list(range(1, len(seen) + 1))
    async with open_session(model=scripted("y", {"text": "x" * 400, "chunk": 1}), store=url) as session:
        slow = session._runner.bus.subscribe(capacity=50)  # a ring far smaller than the turn that comes
        await session.run("short")
        taken = [item.seq for item in iter(slow.take, None) if isinstance(item, Recorded)]
        assert taken == [record.seq for record in await session.events(taken[0] - 1)]
        await session.run("long")
        first = slow.take()
        assert isinstance(first, Lagged)
        assert first.after == taken[-1]
        missed = [record.seq for record in await session.events(first.after)]
        assert missed == list(range(taken[-1] + 1, session.seq + 1))
        assert taken == sorted(set(taken) - set(missed))


@pytest.mark.contract("RV-35")
def test_reserved_steering_names_are_never_events() -> None:
    reserved = {"directive_injected", "context_compacted", "context_cleared"}
    assert not reserved & {NAME_OF[cls] for cls in EVENTS}
    for event in example_events():
        written = msgspec.json.decode(line("s", Recorded(seq=1, id="a", at=1, by="user", event=event)))
        assert written["type"].startswith("session:")


@pytest.mark.contract("RV-B3")
async def test_one_segmenter_says_what_a_turn_is() -> None:
    replies = (
        {"text": "preamble", **call("look", at="a")},
        "answer",
        {"text": "only a preamble", "hang": True},
        "late",
    )
    async with talk(*replies, tools=[look]) as session:
        await session.run("first")
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                while not session.streaming_text:
                    await anyio.sleep(0.005)
                await session.abort()

            tasks.start_soon(stop)
            [item async for item in session.send("second")]
        await session.run("third")
        turns = segment(transcript_of(await session.events()))
        assert [(turn.asked, turn.completed, turn.answer, turn.tools) for turn in turns] == [
            ("first", True, "answer", ("look",)),
            ("second", False, "", ()),
            ("third", True, "late", ()),
        ]


@pytest.mark.contract("RV-B3", "RV-11")
async def test_a_turn_is_what_was_sent_until_it_ended_whatever_is_said_in_between() -> None:
    """An interrupted call, no answer at all, a summary, a refused answer: none of them joins or parts turns."""
    slow = Slow()
    async with talk(call("slow", n=1), "two", "", *["word " * 200] * 8, tools=[slow.tool]) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream, session, "the stopped one")
            await slow.reached.wait()
            await session.abort()
        await session.run("the next one")
        await session.run("nothing")
        for number in range(8):
            await session.run(f"{number}: " + "long " * 200)
        assert await session.compact() is not None
        turns = segment(transcript_of(await session.events()))
        assert [(turn.asked[:12], turn.completed) for turn in turns][:3] == [
            ("the stopped ", False),
            ("the next one", True),
            ("nothing\n\n0: ", True),  # nothing was said between them: what comes then answers both
        ]
        assert [turn.asked[:2] for turn in turns][3:] == [f"{number}:" for number in range(1, 8)]
    async with talk("no JSON", '{"a": 1}', parameters={"schema": {"type": "object"}}) as session:
        await session.run("as JSON")
        (turn,) = segment(transcript_of(await session.events()))
        assert (turn.asked, turn.answer) == ("as JSON", '{"a": 1}')


@pytest.mark.contract("RV-B11")
async def test_malformed_arguments_become_a_failed_call_that_the_model_can_mend() -> None:
    broken = {"raw_args": {"name": "look", "text": '{"at": "sk'}}
    async with talk(broken, call("look", at="sky"), "blue", tools=[look]) as session:
        assert await session.run("colour?") == "blue"
        finished = [r.event for r in await session.events() if isinstance(r.event, ToolFinished)]
        assert [(event.outcome, event.code) for event in finished] == [("invalid", "bad_arguments"), ("ok", "")]
        sent = [p.args for m in session.history for p in m.content if isinstance(p, ToolCall)]
        assert sent[0] == '{"at": "sk'  # as the model wrote it, never {}


@pytest.mark.contract("RV-B12")
async def test_reading_calls_run_together_results_go_back_in_call_order_and_acting_calls_run_alone() -> None:
    running = 0
    over = [anyio.Event() for _ in range(4)]
    requests: list[ModelRequest] = []

    @tool(effect="pure")
    async def slow(n: int) -> int:
        """End after the next one has ended."""
        nonlocal running
        running += 1
        if n < 3:
            with anyio.fail_after(60):
                await over[n + 1].wait()
        running -= 1
        over[n].set()
        return n

    @tool
    async def act(n: int) -> int:
        """Act."""
        nonlocal running
        assert running == 0
        running += 1
        await anyio.sleep(0.01)
        running -= 1
        return n

    class Spy:
        name, format, facts = "spy:1", "anthropic", ModelFacts()
        inner = scripted(calls(*[("slow", {"n": n}) for n in range(4)], ("act", {"n": 4}), ("act", {"n": 5})), "done")

        def ask(self, request: ModelRequest):  # type: ignore[no-untyped-def]  # a stream, as the port says
            requests.append(request)
            return self.inner.ask(request)

    async with open_session(model=Spy(), store=None, tools=[slow, act]) as session:
        await session.run("go")
        log = [r.event for r in await session.events()]
    answered = [p.content[0].text for m in requests[-1].messages for p in m.parts if isinstance(p, ToolResult)]  # type: ignore[union-attr]  # all are Text
    assert answered == ["0", "1", "2", "3", "4", "5"]
    finished = [text_of(event.content) for event in log if isinstance(event, ToolFinished)]
    assert finished == ["3", "2", "1", "0", "4", "5"]
    assert sum(isinstance(event, ToolStarted) for event in log) == 6
