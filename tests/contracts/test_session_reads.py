"""What can be read of a session of contract RB: its requests, its record, its place in a list, its state while it runs, its end."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from backstay import Answer, Question, TurnInterrupted, open_session, open_store, tool
from backstay.catalog.sessions import record
from backstay.hooks.decorator import hook
from backstay.ports import SessionQuery
from backstay.system.machine import SystemClock
from backstay.vocab.events import Closed, ToolFinished
from backstay.vocab.messages import Text, text_of
from tests.contracts.kit import call, calls, kinds, look, scripted, talk
from tests.session.project.repository import Listener, Repository

STORES = ("memory:", "sqlite:///{}/s.db")


def said(listener: Listener) -> list[tuple[str, str]]:
    """The role and the text of each message of the newest request."""
    return [
        (message.role, "".join(part.text for part in message.parts if isinstance(part, Text)))
        for message in listener.heard[-1].messages
    ]


@pytest.mark.contract("RB-20")
async def test_three_closings_at_once_are_one_end_with_the_first_reason_and_one_hearing() -> None:
    heard: list[str] = []

    @hook("SessionEnd")
    async def goodbye(told: dict[str, Any]) -> None:
        await anyio.sleep(0.01)  # long enough for the others to come in between
        heard.append(told["hook_event_name"])

    async with talk({"text": "half", "hang": True}, hooks=[goodbye]) as session:
        subscription = session.subscribe()
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                with pytest.raises(TurnInterrupted):
                    await session.run("forever")

            tasks.start_soon(run)
            while session.streaming_text != "half":
                await anyio.sleep(0.005)
            for reason in ("bye", "again", "and again"):
                tasks.start_soon(session.close, reason)
        items = [item async for item in subscription]
        closed = [r.event for r in await session.events() if isinstance(r.event, Closed)]
    assert [event.reason for event in closed] == ["bye"]
    assert kinds(items).count("SessionClosed") == 1
    assert heard == ["SessionEnd"]


@pytest.mark.contract("RB-20")
async def test_a_closing_that_was_cut_off_is_finished_later_without_a_second_hearing() -> None:
    heard: list[str] = []
    listening, go_on = anyio.Event(), anyio.Event()

    @hook("SessionEnd")
    async def goodbye(told: dict[str, Any]) -> None:
        heard.append(told["hook_event_name"])
        listening.set()
        await go_on.wait()

    store = await open_store("memory:", clock=SystemClock())
    async with talk("one", hooks=[goodbye], store=store) as session:
        await session.run("a")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.close, "bye")
            await listening.wait()
            tasks.cancel_scope.cancel()
        assert session.state != "Closed"
        go_on.set()
    log = (await store.read(session.id)).records
    assert sum(isinstance(record.event, Closed) for record in log) == 1
    assert heard == ["SessionEnd"]
    await store.close()


@pytest.mark.contract("RB-21")
async def test_rules_that_were_granted_for_the_session_are_cleared_with_the_rest(tmp_path: Path) -> None:
    asked: list[object] = []

    async def always(question: Question) -> Answer:
        asked.append(question.args["content"])
        return Answer(allowed=True, grant="session", rules=question.offers[:1])

    writes = [call("Write", file_path="a.txt", content=text) for text in ("x", "y", "z")]
    script = [reply for write in writes for reply in (write, "written")]
    async with talk(*script, cwd=tmp_path, asker=always) as session:
        await session.run("x")
        await session.run("y")
        assert asked == ["x"]  # what was granted is a rule about the file, not the call
        await session.clear_approvals()
        await session.run("z")
    assert asked == ["x", "z"]


@pytest.mark.contract("RB-22")
async def test_the_model_is_sent_what_was_injected_and_the_systems_words_with_the_instructions() -> None:
    listener = Listener("yes")
    async with talk(model=listener, system_prompt="Be brief.") as session:
        await session.inject("user", "My name is Ada.")
        await session.inject("assistant", "Noted.")
        await session.inject("system", "The build is red.")
        assert listener.heard == []
        await session.run("hi")
        assert [message.role for message in session.history] == ["user", "assistant", "system", "user", "assistant"]
    assert said(listener) == [("user", "My name is Ada."), ("assistant", "Noted."), ("user", "hi")]
    assert listener.heard[0].instructions.startswith("Be brief.")
    assert "The build is red." in listener.heard[0].instructions


@pytest.mark.contract("RB-24")
async def test_the_record_has_the_prompt_and_the_tools_that_were_sent_last() -> None:
    store = await open_store("memory:", clock=SystemClock())
    options: dict[str, Any] = {"model": scripted("one", "two"), "store": store, "only_tools": True}
    async with open_session(**options, system_prompt="First.", tools=[look]) as session:
        await session.run("a")
    before = await record(store, session.id)
    assert (before.system_prompt, [spec.name for spec in before.tool_schemas]) == ("First.", ["look"])
    async with open_session(**options, system_prompt="Second.", resume=session.id) as again:
        await again.run("b")
    after = await record(store, session.id)
    assert (after.system_prompt, after.tool_schemas) == ("Second.", ())
    await store.close()


@pytest.mark.contract("RB-23", "RB-25")
async def test_the_record_has_these_fields_and_no_others() -> None:
    store = await open_store("memory:", clock=SystemClock())
    async with open_session(model=scripted("one"), store=store, name="n", system_prompt="P", tools=[look]) as session:
        await session.run("a")
        await session.set_permission_mode("plan")
    document = await record(store, session.id)
    required = ("id", "cwd", "createdAt", "updatedAt", "messages", "history")
    fields = (*required, "name", "systemPrompt", "toolSchemas", "memoryEvents", "usedMemoryReferences")
    assert type(document).__struct_encode_fields__ == fields  # neither commands nor preferences
    assert tuple(msgspec.to_builtins(document)) == fields[:-2]  # what there is none of is left out
    await store.close()


@pytest.mark.contract("RB-27")
async def test_the_default_store_lists_newest_first_and_forgets_quietly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path / "deep" / "data"))
    for name in ("first", "second"):
        async with open_session(model=scripted("x"), session_id=name, cwd=tmp_path) as session:
            await session.run("hello")
    store = await open_store(f"sqlite:///{tmp_path}/deep/data/sessions.db", clock=SystemClock())
    assert [meta.id for meta in await store.list(SessionQuery())] == ["second", "first"]
    await store.delete("first")
    await store.delete("first")
    assert [meta.id for meta in await store.list(SessionQuery())] == ["second"]
    await store.close()
    assert (tmp_path / "deep" / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "deep" / "data" / "sessions.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.contract("RB-27")
@pytest.mark.parametrize("url", STORES)
async def test_a_session_that_is_gone_on_with_is_the_newest_of_the_list(url: str, tmp_path: Path) -> None:
    store = await open_store(url.format(tmp_path), clock=SystemClock())
    for name in ("a", "b", "a"):
        async with open_session(model=scripted("one", "two"), store=store, session_id=name) as session:
            await session.run("go on")
    listed = await store.list(SessionQuery())
    assert [meta.id for meta in listed] == ["a", "b"]
    assert listed[0].created < listed[1].created < listed[1].updated < listed[0].updated
    await store.close()


@pytest.mark.contract("RB-61")
async def test_a_session_finds_its_project_from_the_folder_and_needs_no_terminal(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
    (tmp_path / "deep").mkdir()
    async with talk("x", cwd=tmp_path / "deep") as session:
        started = (await session.events())[0].event
        assert started.project == str(tmp_path)  # type: ignore[attr-defined]  # the first event is Started
        assert started.context.git_ref == "topic"  # type: ignore[attr-defined]  # likewise


@pytest.mark.contract("RB-61")
async def test_settings_and_instructions_of_the_folder_hold_without_anybody_naming_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(tmp_path, monkeypatch)
    repository.write("AGENTS.md", "Say moin to everybody.\n")
    repository.write(".backstay/settings.json", {"permissions": {"deny": ["look(vault)"]}})
    deep = repository.root / "deep"
    deep.mkdir()
    listener = Listener(calls(("look", {"at": "sky"}), ("look", {"at": "vault"})), "moin")
    async with repository.open(model=listener, cwd=deep, tools=[look]) as session:
        assert await session.run("hello") == "moin"
        finished = [r.event for r in await session.events() if isinstance(r.event, ToolFinished)]
    assert sorted(event.outcome for event in finished) == ["denied", "ok"]
    request = listener.heard[0]
    assert "Say moin to everybody." in request.instructions + repr(request.messages)


@pytest.mark.contract("RB-73", "RB-74", "RV-10", "RV-12", "ST-29")
async def test_a_session_is_kept_without_saving_resumed_by_id_and_forked_untouched(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    model = scripted("one", "two", "three")
    async with open_session(model=model, store=url, permission_mode="plan") as session:
        await session.run("a")
        before = session.history
    async with open_session(resume=session.id, model=model, store=url) as again:
        assert again.id == session.id
        assert again.history == before
        assert again.permission_mode == "plan"
        assert await again.run("b") == "two"
        kept = again.history
    async with open_session(resume=session.id, model=model, store=url, fork=True) as fork:
        assert fork.id != session.id
        assert [text_of(m.content) for m in fork.history] == [text_of(m.content) for m in kept]
        assert await fork.run("c") == "three"
    async with open_session(resume=session.id, model=model, store=url) as original:
        assert original.history == kept


@pytest.mark.contract("RB-74")
@pytest.mark.parametrize("url", STORES)
async def test_a_copy_of_a_closed_session_leaves_every_event_of_the_original(url: str, tmp_path: Path) -> None:
    store = await open_store(url.format(tmp_path), clock=SystemClock())
    async with open_session(model=scripted("one"), store=store, session_id="original", name="n") as session:
        await session.run("a")
    before = (await store.read("original")).records
    assert isinstance(before[-1].event, Closed)
    model = scripted("one", "two")
    async with open_session(model=model, store=store, resume="original", fork=True, permission_mode="plan") as copy:
        assert copy.id != "original"
        assert await copy.run("b") == "two"
    assert (await store.read("original")).records == before
    assert [text_of(message.content) for message in copy.history] == ["a", "one", "b", "two"]
    await store.close()


@pytest.mark.contract("RB-77")
async def test_the_state_of_a_running_session_can_be_read() -> None:
    reached, go_on = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        reached.set()
        await go_on.wait()
        return "waited"

    async with talk(call("wait"), "done", "next", tools=[wait]) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "first")
            await reached.wait()
            tasks.start_soon(session.run, "second")
            while not session.pending_inputs:
                await anyio.sleep(0.005)
            assert session.is_running
            assert session.active_tools == ("wait",)
            assert session.streaming_text == ""
            assert len(session.pending_inputs) == 1
            assert [message.role for message in session.history] == ["user", "assistant"]
            go_on.set()
        assert not session.is_running
        assert session.active_tools == ()
        assert session.pending_inputs == ()
        assert session.turns[-1].text == "next"


@pytest.mark.contract("RB-77")
async def test_text_can_be_read_while_it_streams_and_only_tools_that_run_are_active() -> None:
    reached, go_on = anyio.Event(), anyio.Event()

    @tool
    async def first() -> str:
        """Wait."""
        reached.set()
        await go_on.wait()
        return "waited"

    @tool
    async def second() -> str:
        """Come after it."""
        return "came"

    usage = {"usage": {"input": 900, "output": 100}}
    replies = ({**calls(("first", {}), ("second", {})), **usage}, {"text": "half", "hang": True})
    async with talk(*replies, tools=[first, second]) as session, anyio.create_task_group() as tasks:

        async def run() -> None:
            with pytest.raises(TurnInterrupted):
                await session.run("go")

        tasks.start_soon(run)
        await reached.wait()
        assert session.active_tools == ("first",)  # the other waits for its end
        assert session.streaming_text == ""
        assert session.context_state.used >= 1000
        go_on.set()
        with anyio.fail_after(10):
            while session.streaming_text != "half":
                await anyio.sleep(0.005)
        assert session.is_running
        assert session.active_tools == ()
        await session.abort()
