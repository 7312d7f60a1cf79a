"""Tools of servers in a session: under the same policy as all others, and remembered like them."""

from pathlib import Path
from typing import Any

import pytest

from backstay import Answer, Question, Rule
from backstay.vocab.events import CallJudged, ToolFinished
from backstay.vocab.messages import MediaRef, text_of
from tests.contracts.kit import call, talk
from tests.mcp.kit import fake, lines, said, servers, tool
from tests.mcp.test_results import PNG, packed

LOOK = tool("look", annotations={"readOnlyHint": True})


async def refuse(question: Question) -> Answer:
    return Answer(allowed=False)


async def finished(session: Any) -> list[ToolFinished]:
    return [record.event for record in await session.events() if isinstance(record.event, ToolFinished)]


async def test_a_servers_tool_asks_whatever_its_hints_say(tmp_path: Path) -> None:
    calls, asked = tmp_path / "calls", list[Question]()

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=False)

    spec = fake(tmp_path, tools=[LOOK], calls={"look": {"count": str(calls), **said("seen")}})
    async with (
        servers([spec], tmp_path) as found,
        talk(call("mcp__fake__look"), "No.", tools=found.tools, asker=ask, cwd=tmp_path) as session,
    ):
        await session.run("Look.")

    assert [(question.tool, question.offers) for question in asked] == [("mcp__fake__look", ("mcp__fake__look",))]
    assert lines(calls) == []


async def test_a_rule_about_the_server_allows_its_tools_and_the_session_is_tainted(tmp_path: Path) -> None:
    spec = fake(tmp_path, tools=[LOOK], calls={"look": said("seen")})
    rules = (Rule(decision="allow", tool="mcp__fake", source="person"),)
    async with (
        servers([spec], tmp_path) as found,
        talk(call("mcp__fake__look"), "Yes.", tools=found.tools, rules=rules, asker=refuse, cwd=tmp_path) as session,
    ):
        await session.run("Look.")
        [done] = await finished(session)
        judged = [each.event for each in await session.events() if isinstance(each.event, CallJudged)]

    assert (done.outcome, text_of(done.content)) == ("ok", "seen")
    assert set(judged[0].taints) == {"untrusted", "outside"}


async def test_a_picture_of_a_server_is_a_blob_of_the_log(tmp_path: Path) -> None:
    picture = {"result": {"content": [{"type": "image", "data": packed(PNG), "mimeType": "image/png"}]}}
    spec = fake(tmp_path, tools=[LOOK], calls={"look": picture})
    async with (
        servers([spec], tmp_path) as found,
        talk(
            call("mcp__fake__look"),
            "Nice.",
            tools=found.tools,
            permission_mode="bypassPermissions",
            cwd=tmp_path,
        ) as session,
    ):
        await session.run("Look.")
        [done] = await finished(session)

    assert [part.media_type for part in done.content if isinstance(part, MediaRef)] == ["image/png"]


@pytest.mark.parametrize(("what", "outcome", "code"), [({"die": "x"}, "failed", "unknown"), ({}, "failed", "timeout")])
async def test_a_call_without_an_answer_is_a_recorded_failure_and_the_session_goes_on(
    tmp_path: Path, what: dict[str, object], outcome: str, code: str
) -> None:
    spec = fake(tmp_path, tools=[LOOK], calls={"look": what}, spec={"call_s": 5 if what else 0.2})
    async with (
        servers([spec], tmp_path) as found,
        talk(
            call("mcp__fake__look"),
            "I see.",
            "Still here.",
            tools=found.tools,
            permission_mode="bypassPermissions",
            cwd=tmp_path,
        ) as session,
    ):
        assert await session.run("Look.") == "I see."
        [done] = await finished(session)
        assert await session.run("And now?") == "Still here."

    assert (done.outcome, done.code) == (outcome, code)
