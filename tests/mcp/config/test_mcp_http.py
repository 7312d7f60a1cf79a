"""Servers that have an address: through the guard, honest about what broke, connected again."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from backstay.mcp.config.http import LARGEST_ANSWER, egress_for
from backstay.mcp.config.start import session_servers
from backstay.mcp.servers import Servers
from backstay.mcp.spec import Scope, ServerSpec
from backstay.ports import ToolOutput
from tests.mcp.kit import tool
from tests.mcp.web_kit import Answer, Asked, Website, as_json, say_done, speaking
from tests.tools.context import RecordingContext, until

GO = tool("go")


def at(site: Website, **rest: object) -> ServerSpec:
    spec = ServerSpec(name="web", kind="http", url=site.url, start_s=20)
    return replace(spec, **rest)  # type: ignore[arg-type]  # fields by name


def opened(spec: ServerSpec, cwd: Path) -> Servers:
    return session_servers([spec], cwd=str(cwd), data=None)


async def go(found: Servers) -> ToolOutput:
    [tool] = found.tools
    return await tool.run({}, RecordingContext())


@pytest.fixture
async def site() -> AsyncIterator[Website]:
    async with Website(speaking([GO], say_done)) as made:
        yield made


async def test_a_tool_is_called_with_the_headers_of_its_entry(site: Website, tmp_path: Path) -> None:
    async with opened(at(site, headers={"Authorization": "Bearer sesame"}), tmp_path) as found:
        output = await go(found)

    assert output.text == "done"
    assert {asked.headers.get("authorization") for asked in site.asked} == {"Bearer sesame"}


async def test_a_call_that_breaks_is_unknown_and_made_once(tmp_path: Path) -> None:
    calls: list[Asked] = []

    async def cut(asked: Asked) -> Answer:
        calls.append(asked)
        return Answer(cut=True)

    async with Website(speaking([GO], cut)) as site, opened(at(site), tmp_path) as found:
        output = await go(found)
        await until(lambda: found.status["web"].state == "connected")
        site.reply = speaking([GO], say_done)
        again = await go(found)

    assert (output.failed, output.code, len(calls)) == (True, "unknown", 1)
    assert again.text == "done"


async def test_a_server_that_went_away_is_reached_again_when_it_is_back(site: Website, tmp_path: Path) -> None:
    async def away(asked: Asked) -> Answer:
        return Answer(cut=True)

    async with opened(at(site), tmp_path) as found:
        site.reply = away
        lost, asked = await go(found), len(site.asked)
        await until(lambda: len(site.asked) >= asked + 2)
        gone = found.status["web"]
        site.reply = speaking([GO], say_done, session="two")
        back = await go(found)

    assert (lost.failed, lost.code, gone.state) == (True, "unknown", "starting")
    assert back.text == "done"


async def test_a_server_that_forgot_the_conversation_is_greeted_again(site: Website, tmp_path: Path) -> None:
    async with opened(at(site), tmp_path) as found:
        site.reply = speaking([GO], say_done, session="two")
        first, second = await go(found), await go(found)

    assert (first.code, first.text) == (
        "refused",
        "The server 'web' has forgotten this conversation and did nothing. Try again.",
    )
    assert second.text == "done"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=401), "it answered with the status 401 (it wants a login: put a token into its headers)"),
        (Answer(status=500, body=b"sesame"), "it answered with the status 500"),
        (Answer(body=b"<html>", headers={"content-type": "text/html"}), "Unexpected content type: text/html"),
        (as_json("hello"), "Failed to parse JSON response"),
        (Answer(status=302, headers={"location": "http://10.0.0.1/"}), "Redirect to http://10.0.0.1/ not followed"),
        (Answer(cut=True), "it could not be reached"),
    ],
    ids=["login", "broken", "page", "nonsense", "redirect", "cut"],
)
async def test_a_website_that_is_no_server_fails_with_a_reason(tmp_path: Path, answer: Answer, words: str) -> None:
    async def reply(asked: Asked) -> Answer:
        return answer

    async with Website(reply) as site, opened(at(site), tmp_path) as found:
        status = found.status["web"]

    assert status.state == "failed"
    assert words in status.why


async def test_an_answer_that_does_not_end_is_cut_off(tmp_path: Path) -> None:
    async def much(asked: Asked) -> Answer:
        return Answer(body=b" " * (LARGEST_ANSWER + 1), headers={"content-type": "application/json"})

    async with Website(speaking([GO], much)) as site, opened(at(site), tmp_path) as found:
        output = await go(found)

    assert output.failed


async def test_a_server_that_never_answers_fails_after_its_time(tmp_path: Path) -> None:
    async def sleep(asked: Asked) -> Answer:
        await anyio.sleep_forever()
        raise AssertionError

    async with Website(sleep) as site, opened(at(site, start_s=0.5), tmp_path) as found:
        assert found.status["web"].why == "it was not ready within 0.5 s"


@pytest.mark.contract("RV-31")
@pytest.mark.parametrize("scope", ["project", "local", "plugin"])
@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/mcp", "http://10.1.2.3/mcp", "http://metadata.google.internal/", "http://[fd00::1]/"],
)
async def test_a_workspace_cannot_send_requests_into_private_networks(tmp_path: Path, scope: Scope, url: str) -> None:
    spec = ServerSpec(name="web", kind="http", url=url, scope=scope, start_s=10)

    async with opened(spec, tmp_path) as found:
        status = found.status["web"]

    assert status.state == "failed"
    assert "is refused" in status.why


@pytest.mark.contract("RV-31")
async def test_a_server_is_reached_at_its_own_host_and_no_other(site: Website) -> None:
    guard = egress_for(at(site))

    assert guard.why_not(site.url) == ""
    assert "not among the hosts" in guard.why_not("https://example.com/")
    assert guard.why_not("http://127.0.0.1:1/") != ""


async def test_an_address_of_the_persons_own_network_is_reached_when_the_person_wrote_it() -> None:
    spec = ServerSpec(name="intern", kind="http", url="http://10.1.2.3:8080/mcp", scope="person")

    assert egress_for(spec).why_not(spec.url) == ""
    assert "10.1.2.3" in egress_for(replace(spec, scope="project")).why_not(spec.url)
