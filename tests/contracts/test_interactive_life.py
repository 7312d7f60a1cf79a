"""How an interactive session lives: kept by itself, opened again with its memories, named, given to a transport, shut down."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from backstay import Session, TurnInterrupted, UserError, open_session, tool
from backstay.headless.lines_transport import AlreadyStarted, LinesTransport, NotAttached, Transport
from backstay.hooks.decorator import hook
from backstay.logic.stored_content import to_stored_text
from backstay.ports import ToolContext, ToolOutput
from backstay.vocab.errors import IllegalTransition
from backstay.vocab.events import Closed, FaultCaught, Interrupted
from backstay.vocab.events.files import FileKept
from backstay.vocab.events.instructions import MemoryNoted
from tests.contracts.kit import call, kinds, scripted, talk


@tool
async def remember(context: ToolContext) -> ToolOutput:
    """Use and save memories."""
    for act, memory in (("used", "mem_1"), ("saved", "mem_2"), ("used", "mem_1")):
        await context.emit(MemoryNoted(act=act, memory=memory, text="likes tea"))  # type: ignore[arg-type]  # one of the acts
    return ToolOutput(text="remembered")


@pytest.mark.contract("RB-73")
async def test_a_session_opened_again_has_its_messages_and_memories_before_anything_is_written(tmp_path: Path) -> None:
    options: dict[str, Any] = {"store": f"sqlite:///{tmp_path}/s.db", "tools": [remember]}
    async with talk(call("remember"), "one", "two", permission_mode="bypassPermissions", **options) as session:
        await session.run("a")
        await session.rewind(before=session.turns[0].turn)
        await session.run("b")
        events, kept = session.memory_events, session.history
        assert [noted.act for noted in events] == ["used", "saved", "used"]  # no rewind takes them back
        assert session.used_memory == ("mem_1",)
    async with talk("unused", resume=session.id, **options) as looked_at:
        assert (looked_at.memory_events, looked_at.used_memory) == (events, ("mem_1",))
        assert looked_at.history == kept
        seq = looked_at.seq
    async with talk(call("remember"), "one", "two", "three", resume=session.id, **options) as again:
        assert again.seq == seq  # looking left nothing behind
        assert await again.run("c") == "three"
        assert again.memory_events == events


@pytest.mark.contract("RB-73", "RB-74")
async def test_each_input_is_kept_by_itself_and_a_fork_has_its_own_id(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    async with talk("one", "two", "three", store=url) as session:
        await session.run("a")
        before = await session.events()
        fork = await session.fork()
        assert fork.id != session.id
        async with talk("one", "four", resume=fork.id, store=url) as copy:
            assert await copy.run("b") == "four"
        assert await session.events() == before
        assert kinds(before)[-1] == "turn_completed"


@pytest.mark.contract("RB-75")
async def test_a_name_is_kept_and_a_transport_gets_the_session(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"

    class Noting:
        """A transport that notes what it gets."""

        name = "noting"
        got: Session | None = None

        def attach(self, session: Session) -> None:
            """Note it."""
            self.got = session

    transport = Noting()
    async with talk("one", store=url, name="first") as session:
        assert session.name == "first"
        await session.rename("second")
        session.attach_transport(transport)
        assert transport.got is session
    async with talk("one", store=url, resume=session.id) as again:
        assert again.name == "second"


# --- the end ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RB-76")
async def test_a_shutdown_refuses_prompts_stops_the_turn_lets_go_and_is_written_down() -> None:
    order: list[str] = []
    refused: list[str] = []

    @hook("SessionEnd")
    def goodbye(told: dict[str, Any]) -> None:
        order.append(f"hook:{told['reason']}")

    async with talk({"text": "half", "hang": True}, "never", hooks=[goodbye]) as session:

        async def release() -> None:
            order.append("released")
            with pytest.raises(IllegalTransition) as late:
                await session.run("late")
            refused.append(str(late.value))

        async def talk_on(text: str) -> None:
            with pytest.raises(TurnInterrupted):
                await session.run(text)
            order.append(f"told:{text}")

        session.on_close(release)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk_on, "one")
            while session.streaming_text != "half":
                await anyio.sleep(0.002)
            tasks.start_soon(talk_on, "two")
            while not session.pending_inputs:
                await anyio.sleep(0.002)
            await session.shutdown("logout", "the person left")
        await session.shutdown()
        log = [record.event for record in await session.events()]
        with pytest.raises(IllegalTransition, match="is closed"):
            await session.run("later")
    assert sorted(order) == ["hook:logout", "released", "told:one", "told:two"]
    assert order.index("released") < order.index("hook:logout")
    assert refused == [f"Session {session.id!r} is being shut down and takes no more prompts."]
    assert [event.reason for event in log if isinstance(event, Interrupted)] == ["the person left"]
    assert log[-1] == Closed(reason="the person left")


async def test_what_fails_at_the_end_is_written_down_and_ends_nothing_else() -> None:
    done: list[str] = []

    async def broken() -> None:
        raise OSError("no")

    async def works() -> None:
        done.append("works")

    async with talk("one") as session:
        await session.run("a")
        session.on_close(works)
        session.on_close(broken)
        with pytest.raises(UserError, match="no reason to end"):
            await session.shutdown("boredom")  # type: ignore[arg-type]  # a wrong word on purpose
        await session.shutdown()
        faults = [record.event for record in await session.events() if isinstance(record.event, FaultCaught)]
    assert done == ["works"]
    assert [fault.kind for fault in faults] == ["OSError"]


# --- transports ------------------------------------------------------------------------------------------------------------------


class Wire:
    """Both ends of a pair of byte streams."""

    def __init__(self) -> None:
        self.to, self._source = anyio.create_memory_object_stream[bytes](100)
        self._sink, self._back = anyio.create_memory_object_stream[bytes](10_000)
        self.transport = LinesTransport(_Receiving(self._source), _Sending(self._sink))

    async def say(self, **line: object) -> None:
        """Send a line, in two pieces."""
        text = msgspec.json.encode(line) + b"\n"
        await self.to.send(text[:7])
        await self.to.send(text[7:])

    def lines(self) -> list[dict[str, Any]]:
        """What has come back."""
        found = []
        while True:
            try:
                found.append(msgspec.json.decode(self._back.receive_nowait(), type=dict[str, Any]))
            except (anyio.WouldBlock, anyio.EndOfStream):
                return found

    def hang_up(self) -> None:
        """The other side reads no more."""
        self._back.close()

    def close(self) -> None:
        """Let go of all ends."""
        for each in (self.to, self._source, self._sink, self._back):
            each.close()


class _Receiving(anyio.abc.ByteReceiveStream):
    def __init__(self, source: MemoryObjectReceiveStream[bytes]) -> None:
        self._stream = source

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Sending(anyio.abc.ByteSendStream):
    def __init__(self, sink: MemoryObjectSendStream[bytes]) -> None:
        self._stream = sink

    async def send(self, item: bytes) -> None:
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()


@pytest.mark.contract("RB-89")
async def test_a_transport_is_attached_started_and_stopped_in_that_order() -> None:
    wire = Wire()
    transport: Transport = wire.transport
    assert transport.name == "lines"
    with pytest.raises(NotAttached) as unattached:
        await transport.start()
    assert unattached.value.code == "not-attached"
    await transport.stop()
    async with talk("one") as session, anyio.create_task_group() as tasks:
        session.attach_transport(transport)
        tasks.start_soon(transport.start)
        await wire.say(type="get-executing")
        while not (lines := wire.lines()):
            await anyio.sleep(0.002)
        assert lines == [{"type": "executing", "executing": False}]
        with pytest.raises(AlreadyStarted) as twice:
            await transport.start()
        assert twice.value.code == "already-started"
        with pytest.raises(AlreadyStarted):
            session.attach_transport(transport)
        await transport.stop()
        await transport.stop()
        assert await session.run("a") == "one"  # the session does not need it
    wire.close()


@pytest.mark.contract("RB-89")
async def test_a_session_can_be_held_through_lines_alone() -> None:
    wire = Wire()
    async with talk("first", {"text": "second", "chunk": 3}) as session:
        session.attach_transport(wire.transport)
        await wire.say(type="submit", prompt="one", input_id="a", display="/one")
        await wire.say(type="submit", prompt="two", input_id="b")
        await wire.say(type="submit", prompt=3)
        await wire.say(type="dance")
        await wire.to.send(b"not json\n" + b"x" * 1_100_000 + b"\n")
        await wire.say(type="get-messages")
        await wire.say(type="get-context")
        await wire.say(type="get-pending")
        await wire.say(type="cancel-queue")
        wire.to.close()
        with anyio.fail_after(10):
            await wire.transport.start()  # until the lines end and what they asked for is done
    lines = wire.lines()
    answers = [line for line in lines if not line["type"].startswith("session:")]
    assert [answer["type"] for answer in answers] == [
        *("accepted", "accepted", "protocol_error", "protocol_error", "protocol_error", "protocol_error"),
        *("messages", "context", "pending"),
    ]
    assert [answer["input_id"] for answer in answers[:2]] == ["a", "b"]
    assert "1048576 bytes" in answers[5]["message"]
    seqs = [line["seq"] for line in lines if "seq" in line]
    assert seqs == list(range(seqs[0], seqs[-1] + 1))
    assert lines[-1]["type"] == "session:lifecycle"
    assert session.turns[0].text == "first"
    wire.close()


async def test_a_transport_whose_other_side_goes_away_stops_nothing() -> None:
    wire = Wire()
    async with talk("one", "two") as session, anyio.create_task_group() as tasks:
        session.attach_transport(wire.transport)
        tasks.start_soon(wire.transport.start)
        await wire.say(type="get-context")
        while not wire.lines():
            await anyio.sleep(0.002)
        wire.hang_up()
        assert await session.run("a") == "one"
        assert await session.run("b") == "two"
    wire.close()


async def test_a_transport_ends_with_its_session() -> None:
    wire = Wire()
    async with anyio.create_task_group() as tasks, talk("one") as session:
        session.attach_transport(wire.transport)
        tasks.start_soon(wire.transport.start)
        await wire.say(type="submit", prompt="hello")
        while not session.turns or not session.turns[0].outcome:
            await anyio.sleep(0.002)
    assert [line["type"] for line in wire.lines()][-2:] == ["session:closed", "session:lifecycle"]
    wire.close()


async def test_what_a_file_held_is_fetched_from_its_blob_and_a_lost_one_only_costs_its_lines() -> None:
    long = "x\n" * 20_000
    kept = next(iter(to_stored_text(long)[1]))

    @tool(name="Write")
    async def write(context: ToolContext, file_path: str, content: str) -> ToolOutput:
        """Write, with what was there kept before."""
        sha256 = "0" * 64 if file_path == "lost" else kept
        await context.emit(FileKept(path=f"/{file_path}", kind="file", sha256=sha256, call=context.call))
        return ToolOutput(text=f"Replaced '/{file_path}': 4 bytes.")

    script = (
        call("Write", file_path="there", content=long + "y\n"),
        call("Write", file_path="lost", content="y\n"),
        "done",
    )
    async with open_session(
        model=scripted(*script), store=None, tools=[write], only_tools=True, permission_mode="bypassPermissions"
    ) as session:
        await session.run(long)  # its text is the blob
        ends = [entry.data for entry in await session.full_history() if entry.type == "tool-end"]
    lines = [end["diffLines"] for end in ends if isinstance(end, dict)]
    assert lines[0] == [
        {"type": "hunk", "text": "@@ -19998,3 +19998,4 @@"},
        *({"type": "context", "text": "x", "line": number} for number in (19_998, 19_999, 20_000)),
        {"type": "add", "text": "y", "line": 20_001},
    ]
    assert lines[1] == []
