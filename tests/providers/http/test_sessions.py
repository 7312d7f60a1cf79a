"""Whole sessions over HTTP: against the server in the box, and against a mock of the providers that grades its clients."""

import anyio
import pytest
from llmock.cli import app as llmock_commands
from llmock.pytest_plugin import LLMock
from typer.testing import CliRunner

from backstay import open_session, tool
from backstay.logic.state.retries import Retries
from backstay.session.session import Session
from backstay.vocab.errors import TurnFailed, TurnInterrupted
from tests.providers.http.server import FakeProvider, answers_whole, fails, says, shows_page
from tests.providers.http.test_http_model import every_format
from tests.providers.http.wires import FormatName

QUICK = Retries(first_wait_s=0.02)


@tool
async def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} means something"


@every_format
async def test_a_session_with_a_tool_runs_over_http(format: FormatName) -> None:
    script = [says("I look it up.", ("look_up", {"word": "Ähre"})), says("It means something.")]
    async with FakeProvider(format, script) as server:
        model = server.model()
        async with open_session(
            model=model, store="memory:", tools=[look_up], permission_mode="bypassPermissions"
        ) as session:
            assert await session.run("What is an Ähre?") == "It means something."
        await model.aclose()

    assert len(server.requests) == 2
    assert "Ähre means something" in server.requests[1].body.decode()


@every_format
async def test_a_session_survives_what_passes(format: FormatName) -> None:
    script = [
        fails(429, retry_after="0.01"),
        shows_page(502),
        says("Lost.").cut(20),
        says("", ("look_up", {"word": "x"})),
        fails(529),
        answers_whole("Done."),
    ]
    async with FakeProvider(format, script) as server:
        model = server.model()
        async with open_session(
            model=model, store="memory:", tools=[look_up], permission_mode="bypassPermissions", retries=QUICK
        ) as session:
            assert await session.run("Try.") == "Done."
        await model.aclose()

    assert server.script == []


@pytest.mark.parametrize("format", ["anthropic", "google"], ids=["ping events", "comments"])
async def test_a_silent_provider_is_given_up_and_one_that_pings_is_not(format: FormatName) -> None:
    patient = says("At last.").pinging(25, pause_s=0.1)
    async with FakeProvider(format, [patient, says("Never.").stalled(0)]) as server:
        model = server.model()
        async with open_session(
            model=model, store="memory:", idle_timeout_s=2.0, retries=Retries(attempts=1)
        ) as session:
            assert await session.run("Hello?") == "At last."  # after 2.5 seconds, never silent for 2
            with pytest.raises(TurnFailed, match="was silent"):
                await session.run("Hello again?")
            await server.left.wait()
        await model.aclose()


@pytest.mark.contract("RB-43")
@every_format
async def test_an_abort_reaches_the_provider_and_keeps_what_was_said(format: FormatName) -> None:
    async with FakeProvider(format, [says("Half of it, and the rest.").stalled(-60).trickled(64)]) as server:
        model = server.model()
        async with open_session(model=model, store="memory:") as session:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_abort_in_the_middle, session)
                with pytest.raises(TurnInterrupted) as caught:
                    await session.run("Tell me.")
            assert caught.value.text.startswith("Half of it")
            await server.left.wait()
        await model.aclose()


@pytest.mark.contract("RB-39")
async def test_sessions_that_share_a_model_hear_only_their_own_text() -> None:
    heard: dict[str, list[object]] = {"one": [], "two": []}

    async def run(name: str) -> None:
        async with open_session(model=model, store="memory:") as session:
            session.on("text_delta", heard[name].append)
            await session.run(name)

    async with FakeProvider("anthropic", [says(word * 20, pieces=20).trickled(60, 0.002) for word in "AB"]) as server:
        model = server.model()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "one")
            tasks.start_soon(run, "two")
        await model.aclose()

    assert sorted("".join(map(str, pieces)) for pieces in heard.values()) == ["A" * 20, "B" * 20]


async def _abort_in_the_middle(session: Session) -> None:
    while not session.streaming_text.startswith("Half of it"):
        await anyio.sleep(0.005)
    await session.abort()


GRADED = ["anthropic:claude-sonnet-4-6", "openai:gpt-5.4-mini", "openai-chat:gpt-4o"]


@pytest.mark.parametrize("model", [*GRADED, "google:gemini-2.5-flash"])
async def test_a_model_is_found_by_its_name_and_the_environment(model: str, llmock: LLMock) -> None:
    async with open_session(
        model=model, store="memory:", tools=[look_up], permission_mode="bypassPermissions"
    ) as session:
        llmock.call_tool("look_up", {"word": "x"}).reply("It is done.")
        assert await session.run("Look x up.") == "It is done."

    assert [(record.status, record.stream) for record in llmock.requests] == [(200, True), (200, True)]
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("model", GRADED)
async def test_the_grader_finds_nothing_wrong_with_us(model: str, llmock: LLMock) -> None:
    async with open_session(model=model, store="memory:", only_tools=True, retries=QUICK) as session:
        llmock.rate_limit(times=2, retry_after=0.1).reply("One.")
        assert await session.run("First.") == "One."
        llmock.fail(500).fail(503).fail(529).reply("Two.")
        assert await session.run("Second.") == "Two."
        llmock.pace(30)  # else a short answer is over before anybody can turn away from it
        for number, hurt in enumerate((llmock.truncate, llmock.disconnect, llmock.corrupt)):
            hurt(after_chunks=1).reply("Three.", times=2)
            assert await session.run(f"Third, {number}.") == "Three."
        llmock.fail(400, message="Nobody understands this.")
        with pytest.raises(TurnFailed):
            await session.run("Fourth.")

    report = CliRunner().invoke(llmock_commands, ["report", "--url", llmock.url, "--strict"])
    assert (report.exit_code, "PASS" in report.output) == (0, True), report.output
