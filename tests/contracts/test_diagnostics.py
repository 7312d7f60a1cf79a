"""The diagnostic log: what was sent and what came back, without secrets, readable while it happens, checked and read back."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay import Session, TurnFailed, open_session, tool
from backstay.catalog.paged_log import with_log
from backstay.export.diagnostic.check import Report, check
from backstay.export.diagnostic.export import json_lines, load_source, write_diagnostic
from backstay.export.diagnostic.external_payloads import Resolver
from backstay.export.diagnostic.lines import DiagnosticSource
from backstay.export.diagnostic.read_back import parse_diagnostic, read_diagnostic, replay
from backstay.ports import EventStore, Model, ModelReply, ModelRequest
from backstay.stores.open import open_store
from backstay.stores.stored_trace import TraceSlice
from backstay.stores.trace import trace_folder, trace_path
from backstay.system.machine import SystemClock
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.errors import NoSession
from backstay.vocab.messages import ServerBlock, Text
from backstay.vocab.specs import ModelFacts
from tests.contracts.kit import call, calls, look, scripted
from tests.e2e.door import Door

Line = dict[str, Any]  # Any: JSON
KEY = "sk-" + "ant-api03-" + "a1B2c3D4e5" * 4
VOCABULARY = {
    *("session_init", "server_tool", "pre_run", "provider_request", "provider_native_raw_payload"),
    *("provider_stream_raw_delta", "provider_response_raw", "provider_response_normalized", "tool_batch_started"),
    *("tool_execution_request", "tool_execution_result", "tool_message_committed", "history_mutation", "text_delta"),
    *("assistant", "session_shutdown", "context_compact", "error"),
}


@tool(effect="pure")
async def fetch(size: int) -> str:
    """Give back something long."""
    return "y" * size


async def lines_in(store: EventStore, session: str) -> list[Line]:
    """The diagnostic log of a session, without a file."""
    return await with_log(
        store, session, lambda log: [json.loads(line) for line in json_lines(load_source(log, store.url))]
    )


class Home:
    """A folder with a store, sessions that are run in it, and their diagnostic logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite://{folder / 's.db'}"

    async def run(self, model: Model, *prompts: str, **options: Any) -> Session:
        given = {"tools": [look, fetch], "only_tools": True, "session_id": "s1", "tool_output_chars": None, **options}
        async with open_session(store=self.url, model=model, cwd=self.folder, **given) as session:
            for prompt in prompts:
                await session.run(prompt)
        return session

    async def store(self) -> EventStore:
        return await open_store(self.url, clock=SystemClock())

    async def export(self, name: str = "log.jsonl") -> list[Line]:
        store = await self.store()
        await with_log(store, "s1", lambda log: write_diagnostic(load_source(log, store.url), self.folder / name))
        await store.close()
        found = read_diagnostic(self.folder / name)
        assert found.problems == ()
        return [dict(line) for line in found.lines]

    async def peek(self) -> list[Line]:
        """The lines as they are now, whoever runs the session."""
        store = await self.store()
        try:
            return await lines_in(store, "s1")
        except NoSession:
            return []
        finally:
            await store.close()

    def check(self, lines: Sequence[Line]) -> Report:
        return check(lines, Resolver(self.folder))

    @property
    def trace(self) -> Path:
        folder = trace_folder(self.url)
        assert folder is not None
        return trace_path(folder, "s1")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def of(lines: Sequence[Line], *events: str) -> list[Line]:
    return [line for line in lines if line["event"] in events]


def codes(report: Report) -> list[str]:
    return sorted(issue.code for issue in report.issues)


class Searching:
    """A model that searches the web by itself when it may."""

    name = "searching:one"
    format = "anthropic"
    facts = ModelFacts()

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        yield TextDelta(text="found")
        parts = (ServerBlock(kind="server_tool_use", name="web_search", content='{"query":"x"}'), Text(text="found"))
        yield ModelReply(parts=parts if request.parameters.get("web_search") else parts[1:])


@pytest.mark.contract("RB-28")
async def test_the_log_has_the_vocabulary(home: Home) -> None:
    await home.run(scripted({"text": "I look.", **call("look", at="a")}, "Done."), "hi")

    lines = await home.export()

    assert all(list(line)[:3] == ["timestamp", "sessionId", "event"] and line["sessionId"] == "s1" for line in lines)
    missing = {"server_tool", "context_compact", "error"}
    assert {line["event"] for line in lines} == VOCABULARY - missing
    order = [line["event"] for line in lines if line["event"] not in ("provider_stream_raw_delta", "text_delta")]
    round_1 = [
        "provider_request",
        *["provider_native_raw_payload"] * 2,
        "provider_response_raw",
        "provider_response_normalized",
    ]
    assert order == [
        *("session_init", "pre_run", "history_mutation"),
        *round_1,
        *("tool_batch_started", "tool_execution_request", "history_mutation"),
        *("tool_execution_result", "history_mutation", "tool_message_committed"),
        *round_1,
        *("history_mutation", "assistant", "session_shutdown"),
    ]


@pytest.mark.contract("RB-28")
async def test_compaction_and_failures_are_in_the_log(home: Home) -> None:
    refused = {"error": {"kind": "bad_request"}}
    model = scripted("One. " + "word " * 4_000, "Two. " + "word " * 4_000, refused)
    async with open_session(store=home.url, model=model, cwd=home.folder, session_id="s1", only_tools=True) as session:
        await session.run("first " + "word " * 4_000)
        await session.run("second " + "word " * 4_000)
        await session.compact()
        with pytest.raises(TurnFailed):
            await session.run("third")

    lines = await home.export()

    (compacted,) = of(lines, "context_compact")
    assert compacted["trigger"] == "manual"
    assert {"usedTokens", "maxTokens"} == set(compacted["before"]) == set(compacted["after"])
    assert {line["code"] for line in of(lines, "error")} == {"bad_request"}
    assert home.check(lines).issues == ()
    resolver = Resolver(home.folder)
    added = [line["message"] for line in of(lines, "history_mutation")[-1:]]
    assert replay(lines, resolver).messages == resolver.resolve(of(lines, "pre_run")[-1]["history"] + added)


@pytest.mark.contract("RB-29")
async def test_lines_have_the_fields_that_diagnosis_needs(home: Home) -> None:
    model = scripted({"text": "I look.", **call("look", at="a")}, "Done.", "Again.")
    await home.run(model, "hi", "more", system_prompt="Be brief.")

    lines = await home.export()

    init = of(lines, "session_init")[0]
    assert (init["systemPrompt"], init["systemPromptLength"]) == ("Be brief.", 9)
    assert (init["provider"], init["model"], init["cwd"]) == ("scripted", "scripted:inline", str(home.folder))
    assert [schema["name"] for schema in init["toolSchemas"]] == ["look", "fetch"]
    first, second = of(lines, "pre_run")
    assert (first["provider"], first["nativeWebSearchEnabled"], first["input"], first["history"]) == (
        "scripted",
        False,
        "hi",
        [],
    )
    assert [message["role"] for message in second["history"]] == ["user", "assistant", "tool", "assistant"]
    done, again = of(lines, "assistant")
    assert (done["content"], again["content"]) == ("Done.", "Again.")
    assert done["history"] == second["history"]
    assert [{key: one[key] for key in one if key != "metadata"} for one in done["historyStructure"]] == [
        {"role": "user", "contentLength": 2, "hasToolCalls": False, "toolCallNames": []},
        {"role": "assistant", "contentLength": 7, "hasToolCalls": True, "toolCallNames": ["look"]},
        {"role": "tool", "contentLength": 5, "hasToolCalls": False, "toolCallNames": []},
        {"role": "assistant", "contentLength": 5, "hasToolCalls": False, "toolCallNames": []},
    ]
    assert all(set(one["metadata"]) == {"id", "state", "model"} for one in done["historyStructure"])
    request = of(lines, "provider_request")[-1]
    assert [message["content"] for message in request["messages"]] == ["hi", "I look.", "saw a", "Done.", "more"]
    assert [schema["name"] for schema in request["tools"]] == ["look", "fetch"]


@pytest.mark.contract("RB-30")
async def test_lines_about_models_and_tools_say_where_they_belong(home: Home) -> None:
    two = calls(("look", {"at": "a"}), ("look", {"at": "b"}))
    await home.run(scripted(two, "Done."), "hi")

    lines = await home.export()

    turn = of(lines, "pre_run")[0]["executionId"]
    about = [line for line in lines if line["event"].startswith(("provider_", "tool_"))]
    assert {(line["executionId"], line["conversationId"]) for line in about} == {(turn, "s1")}
    assert [line["round"] for line in of(lines, "provider_request")] == [1, 2]
    (batch,) = of(lines, "tool_batch_started")
    assert (batch["requestCount"], batch["toolNames"], batch["round"]) == (2, ["look", "look"], 1)
    asked = of(lines, "tool_execution_request")
    assert [line["parameters"] for line in asked] == [{"at": "a"}, {"at": "b"}]
    for event in ("tool_execution_request", "tool_execution_result", "tool_message_committed"):
        found = sorted(of(lines, event), key=lambda line: int(line["batchIndex"]))
        assert [(line["batchId"], line["batchIndex"], line["round"]) for line in found] == [
            (batch["batchId"], 0, 1),
            (batch["batchId"], 1, 1),
        ]
        assert [line["toolCallId"] for line in found] == [line["toolCallId"] for line in asked]
        assert all(line["ownerPath"][-1] == {"type": "execution", "id": turn} for line in found)
    assert [line["result"] for line in of(lines, "tool_execution_result")] == ["saw a", "saw b"]


@pytest.mark.contract("RB-31")
async def test_text_can_be_read_while_the_run_goes_on(home: Home) -> None:
    waiting = {"text": "one two three four", "chunk": 4, "hang": True}
    async with (
        open_session(store=home.url, model=scripted(waiting), cwd=home.folder, session_id="s1") as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_until_stopped, session)
        while not (said := of(await home.peek(), "text_delta")):
            await anyio.sleep(0.02)
        assert session.is_running
        assert "one two three four".startswith("".join(line["delta"] for line in said))
        while session.streaming_text != "one two three four":
            await anyio.sleep(0.01)
        await session.abort()

    assert "".join(line["delta"] for line in of(await home.export(), "text_delta")) == "one two three four"


@pytest.mark.contract("RB-32")
@pytest.mark.parametrize("is_on", [True, False])
async def test_a_search_by_the_provider_is_logged(home: Home, is_on: bool) -> None:
    await home.run(Searching(), "hi", parameters={"web_search": True} if is_on else {})

    lines = await home.export()

    assert [(line["tool"], line["query"]) for line in of(lines, "server_tool")] == [
        ("web_search", '{"query":"x"}')
    ] * is_on
    assert of(lines, "pre_run")[0]["nativeWebSearchEnabled"] is is_on


@pytest.mark.contract("RB-33", "RV-33", "RV-47")
async def test_no_secret_is_in_the_log_the_trace_or_the_payloads(home: Home) -> None:
    spoken = {"text": f"It is {KEY} then.", "chunk": 5}
    asked = {**spoken, **call("look", at=f"x {KEY}")}
    await home.run(scripted(asked, spoken), f"use {KEY} " + "z" * 40_000, system_prompt=f"The key: {KEY}")

    lines = await home.export()

    files = [path for path in home.folder.rglob("*") if path.is_file() and ".db" not in path.name]
    assert len(files) > 2
    for path in (*files, home.trace):
        assert KEY[7:] not in path.read_text(), path
    assert of(lines, "session_init")[0]["systemPrompt"] == "The key: [REDACTED]"
    assert "".join(line["delta"] for line in of(lines, "text_delta")) == "It is [REDACTED] then." * 2


@pytest.mark.contract("RB-34", "RB-35")
async def test_large_fields_are_payloads_and_come_back_whole(home: Home) -> None:
    session = await home.run(scripted(call("fetch", size=50_000), "Done."), "hi")

    lines = await home.export()

    (result,) = of(lines, "tool_execution_result")
    assert set(result["result"]) == {"kind", "encoding", "sha256", "byteLength", "relativePath"}
    assert result["result"]["relativePath"] == f"s1.payloads/{result['result']['sha256']}.json"
    resolver = Resolver(home.folder)
    assert resolver.resolve(result["result"]) == "y" * 50_000
    read = replay(lines, resolver)
    assert read.problems == ()
    assert [message["content"] for message in read.messages] == ["hi", "", "y" * 50_000, "Done."]
    assert resolver.resolve(of(lines, "assistant")[0]["history"]) == read.messages
    assert [(entry["category"], entry["type"], entry["id"]) for entry in read.history] == [
        ("chat", message.role, message.id) for message in session.history
    ]
    assert max(len(line) for line in (home.folder / "log.jsonl").read_bytes().splitlines()) < 40_000


@pytest.mark.contract("RB-35")
async def test_the_conversation_is_read_back_over_rewinds_and_a_restart(home: Home) -> None:
    async with open_session(
        store=home.url, model=scripted("One.", "Two.", "Three."), cwd=home.folder, session_id="s1", only_tools=True
    ) as session:
        await session.run("first")
        await session.run("second")
        await session.rewind(to=session.turns[0].turn)
        await session.run("third")
    await home.run(scripted("x", "x", "x", "Four."), "fourth", session_id=None, resume="s1")

    lines = await home.export()

    read = replay(lines)
    assert [message["content"] for message in read.messages] == ["first", "One.", "third", "Three.", "fourth", "Four."]
    assert len(of(lines, "session_init")) == 2
    assert home.check(lines) == Report(ok=True, issues=())


@pytest.mark.contract("RB-35")
@given(cut=st.integers(0, 400), bad=st.integers(0, 5))
def test_a_torn_or_bad_line_is_reported_and_costs_nothing_else(cut: int, bad: int) -> None:
    lines = [
        {"timestamp": "t", "sessionId": "s1", "event": "history_mutation", "mutation": "append", "length": number}
        | {"message": {"id": f"m{number}", "role": "user", "content": str(number)}}
        for number in range(1, 6)
    ]
    pieces = [json.dumps(line).encode() + b"\n" for line in lines]
    if bad < 5:
        pieces[bad] = b'{"timestamp": 1, \xff\n'
    content = b"".join(pieces)
    content = content[: len(content) - cut]

    log = parse_diagnostic(content)
    read = replay(log.lines)

    whole = content.split(b"\n")
    kept = [number for number, line in enumerate(lines, start=1) if json.dumps(line).encode() in whole]
    assert [message["content"] for message in read.messages] == [str(number) for number in kept]
    assert len(log.problems) == len([line for line in whole if line]) - len(kept)


# --- the check -------------------------------------------------------------------------------------------------------------------


async def whole(home: Home) -> list[Line]:
    """A diagnostic log with a tool call and a payload."""
    await home.run(scripted(call("fetch", size=50_000), "Done."), "hi")
    return await home.export()


@pytest.mark.contract("RB-36")
@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("provider_native_raw_payload", ["PROVIDER_NATIVE_RAW_PAYLOAD_MISSING"] * 2),
        ("provider_response_raw", ["PROVIDER_RESPONSE_RAW_MISSING"] * 2),
        ("provider_response_normalized", ["PROVIDER_RESPONSE_NORMALIZED_MISSING"] * 2),
        ("tool_execution_result", ["TOOL_RESULT_MISSING"]),
        ("tool_execution_request", ["TOOL_REQUEST_MISSING"]),
    ],
)
async def test_what_is_missing_is_named(home: Home, event: str, expected: list[str]) -> None:
    lines = await whole(home)
    assert home.check(lines) == Report(ok=True, issues=())

    report = home.check([line for line in lines if line["event"] != event])

    assert (codes(report), report.ok) == (expected, False)
    assert all(issue.execution_id for issue in report.issues)
    assert all((issue.tool_call_id is not None) == event.startswith("tool") for issue in report.issues)


@pytest.mark.contract("RB-36")
async def test_only_an_answer_counts_as_a_native_payload_of_its_own_round(home: Home) -> None:
    lines = await whole(home)
    requests_only = [line for line in lines if line.get("payloadKind") != "response"]
    moved = [line | {"round": 1} if line["event"].startswith("provider_response") else line for line in lines]

    assert codes(home.check(requests_only)) == ["PROVIDER_NATIVE_RAW_PAYLOAD_MISSING"] * 2
    assert set(codes(home.check(moved))) == {"PROVIDER_RESPONSE_RAW_MISSING", "PROVIDER_RESPONSE_NORMALIZED_MISSING"}


@pytest.mark.contract("RB-36")
async def test_a_payload_that_is_gone_or_altered_is_an_issue(home: Home) -> None:
    lines = await whole(home)
    for path in (home.folder / "s1.payloads").iterdir():
        path.write_bytes(path.read_bytes().replace(b"y", b"n"))

    report = home.check(lines)

    assert Counter(codes(report)) == {"PAYLOAD_REFERENCE_INVALID": 3, "UNRESOLVED_REPLAY_PAYLOAD": 1}
    assert all("SHA256_MISMATCH" in issue.message for issue in report.issues)


@pytest.mark.contract("RB-36")
async def test_a_failed_or_interrupted_call_does_not_fail_the_check(home: Home) -> None:
    refused = {"error": {"kind": "auth"}}
    async with open_session(
        store=home.url, model=scripted(refused, {"hang": True}), cwd=home.folder, session_id="s1", only_tools=True
    ) as session:
        with pytest.raises(TurnFailed):
            await session.run("hi")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_stopped, session)
            while not session.is_running:
                await anyio.sleep(0.01)
            await session.abort()

    lines = await home.export()

    assert len(of(lines, "provider_request")) == 2
    assert home.check(lines) == Report(ok=True, issues=())


async def _until_stopped(session: Session) -> None:
    async for _ in session.send("more"):
        pass


@pytest.mark.contract("RB-36")
async def test_a_lost_end_of_the_trace_is_lost_and_a_hole_in_it_is_not(home: Home) -> None:
    model = scripted(call("look", at="a"), "Done.", "Again.")
    async with open_session(
        store=home.url, model=model, cwd=home.folder, session_id="s1", tools=[look], only_tools=True
    ) as session:
        await session.run("hi")
        await session.run("more")
    store = await home.store()
    live = await with_log(store, "s1", lambda log: (tuple(log), load_source(log, store.url).trace))
    await store.close()
    records, traced = live
    open_end = records[:-1]  # as a crash leaves it: nothing says that the session was closed
    asked = [record.seq for record in records if type(record.event).__name__ == "ModelAsked"]

    def without(*seqs: int) -> Report:
        assert traced is not None
        trace = TraceSlice(lines=tuple(line for line in traced.lines if line.after not in seqs))
        source = DiagnosticSource(session="s1", records=open_end, trace=trace, text=lambda _: None)
        return check([json.loads(line) for line in json_lines(source)])

    tail, hole, nothing = without(asked[-1]), without(asked[0]), without(*asked)

    assert (tail.ok, len(tail.notes)) == (True, 1)
    assert "end of the trace is lost" in tail.notes[0]
    assert codes(hole) == ["PROVIDER_NATIVE_RAW_PAYLOAD_MISSING", "PROVIDER_RESPONSE_RAW_MISSING"]
    assert (nothing.ok, "holds no payloads" in nothing.notes[0]) == (True, True)


@pytest.mark.contract("RB-36")
async def test_a_fork_is_not_blamed_for_what_was_traced_elsewhere(home: Home) -> None:
    async with open_session(
        store=home.url, model=scripted("One.", "Two."), cwd=home.folder, session_id="s0", only_tools=True
    ) as session:
        await session.run("hi")
        fork = await session.fork()
    async with open_session(store=home.url, model=scripted("x", "Three."), cwd=home.folder, resume=fork.id) as session:
        await session.run("more")
    store = await home.store()
    lines = await lines_in(store, fork.id)
    await store.close()

    report = check(lines)

    assert report.ok
    assert report.notes == (
        "Lost: the payloads of 1 model call. They were traced elsewhere: the session is a copy, or was moved.",
    )


# --- the command line ------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RB-28", "RB-34", "RB-36")
def test_the_command_line_exports_and_validates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path / "data"))
    door = Door(tmp_path)
    (door.work / "a.txt").write_text("line\n" * 20_000)
    reads = {"text": "I read.", "calls": [{"name": "Read", "args": {"file_path": "a.txt"}}]}
    door.run("-p", "hi " + "z" * 40_000, "--model", door.script(reads, {"text": "Done."}), "--session-id", "s1")
    out = tmp_path / "out" / "log.jsonl"
    out.parent.mkdir()

    shown = door.run("log", "export", "s1", "--format", "jsonl")
    written = door.run("log", "export", "s1", "-o", str(out))

    assert (shown.code, written.code, written.err) == (0, 0, "")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["event"] for line in shown.lines] == [line["event"] for line in lines]
    assert (out.parent / "s1.payloads").is_dir()
    assert replay(shown.lines).messages == replay(lines, Resolver(out.parent)).messages

    good = door.run("log", "validate", str(out), "--json")
    assert (good.code, good.json["valid"], good.json["issues"]) == (0, True, [])
    assert door.run("log", "validate", "s1").code == 0
    out.write_text(
        "".join(json.dumps(line) + "\n" for line in lines if line["event"] != "tool_execution_result") + '{"tor'
    )
    bad = door.run("log", "validate", str(out), "--json")
    assert (bad.code, [issue["code"] for issue in bad.json["issues"]]) == (1, ["TOOL_RESULT_MISSING"])
    assert "torn off" in bad.json["notes"][0]
    assert door.run("log", "export", "s1", "-o", str(tmp_path / "none" / "log.jsonl")).code == 1


async def test_a_long_session_is_exported_in_parts_that_lines_share(home: Home) -> None:
    turns = 50
    said = "word " * 300
    replies = [{"text": said, "chunk": 2_000}] * turns
    await home.run(scripted(*replies), *[f"{number} {said}" for number in range(turns)], max_session_turns=turns)

    lines = await home.export()

    sizes = [len(json.dumps(line)) for line in of(lines, "pre_run", "provider_request", "assistant")]
    assert max(sizes[-30:]) <= max(sizes[:75])
    stored = sum(path.stat().st_size for path in (home.folder / "s1.payloads").iterdir())
    assert stored < 4 * sum(len(json.dumps(line["message"])) for line in of(lines, "history_mutation"))
    resolver = Resolver(home.folder, max_total_bytes=1 << 40)
    messages = replay(lines, resolver).messages
    assert len(messages) == 2 * turns
    for number, line in enumerate(of(lines, "provider_request")):
        assert resolver.resolve(line["messages"]) == messages[: 2 * number + 1]
    assert home.check(lines) == Report(ok=True, issues=())
