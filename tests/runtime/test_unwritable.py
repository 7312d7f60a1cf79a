"""Nothing is written that could not be read back: whoever brings it is told, and the session stays usable."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from backstay import Answer, ProviderError, Question, Session, TurnFailed, UserError, open_session, tool
from backstay.ports import ModelReply, ModelRequest, ToolOutput
from backstay.vocab.deltas import Delta
from backstay.vocab.events import FaultCaught, ToolFinished
from backstay.vocab.messages import Text
from backstay.vocab.specs import ModelFacts, Usage
from tests.contracts.kit import call, scripted

Act = Callable[[Any], Awaitable[object]]  # Any: the point is to give what the types forbid


async def _opens(url: str) -> None:
    async with open_session(model=scripted(*("x" * 9)), store=url, resume="s") as session:
        assert await session.run("more") == "x"


@pytest.mark.contract("RV-5")
@pytest.mark.parametrize(
    "act",
    [
        lambda s: s.rename(7),
        lambda s: s.write_slot("me", 1, "{}"),
        lambda s: s.submit("hello", delivery="now"),
        lambda s: s.set_budget(1.5),
        lambda s: s.set_budget(100, "stop"),
        lambda s: s.add_entry(5, {}),
        lambda s: s.inject("robot", "hello"),
    ],
    ids=["name", "slot", "delivery", "budget", "on_exceed", "entry", "role"],
)
async def test_a_value_of_the_wrong_kind_is_refused(tmp_path: Path, act: Act) -> None:
    url = f"sqlite://{tmp_path}/s.db"
    async with open_session(model=scripted("one", "two"), store=url, session_id="s") as session:
        await session.run("a")
        with pytest.raises(UserError):
            await act(session)
        assert await session.run("b") == "two"
    await _opens(url)


@pytest.mark.contract("RV-5")
@pytest.mark.parametrize("given", [{"agent": 5}, {"name": 5}])
async def test_a_session_that_could_not_be_read_back_is_not_begun(tmp_path: Path, given: dict[str, Any]) -> None:
    url = f"sqlite://{tmp_path}/s.db"
    with pytest.raises(UserError):
        async with open_session(model=scripted("one"), store=url, session_id="s", **given):
            pass
    async with open_session(model=scripted("one"), store=url, session_id="s") as session:
        assert await session.run("a") == "one"


def _said(**fields: Any) -> Callable[[], ModelReply]:
    return lambda: ModelReply(parts=(Text(text="hi"),), **fields)


def _fails() -> ModelReply:
    raise ProviderError("server_error", "boom")  # type: ignore[arg-type]  # no such kind


@pytest.mark.parametrize(
    "reply",
    [_said(stop="stop"), _said(usage=Usage(input=12.5)), _said(cost=0.5), _said(model=5), _fails],  # type: ignore[arg-type]
)
async def test_a_reply_of_the_wrong_kind_fails_its_turn_and_no_more(
    tmp_path: Path, reply: Callable[[], ModelReply]
) -> None:
    class Sloppy:
        name, format, facts = "m:1", "anthropic", ModelFacts()

        async def ask(self, _: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
            yield reply()

    url = f"sqlite://{tmp_path}/s.db"
    async with open_session(model=Sloppy(), store=url, session_id="s") as session:
        with pytest.raises(TurnFailed, match="cannot be written down"):
            await session.run("a")
    await _opens(url)


async def test_a_tool_and_an_asker_of_the_wrong_kind_fail_their_call_and_no_more(tmp_path: Path) -> None:
    @tool(effect="pure")
    async def sloppy() -> ToolOutput:
        """Answer in numbers."""
        return ToolOutput(text="did", code=1)  # type: ignore[arg-type]  # the point

    @tool(asks=True)
    async def act() -> str:
        """Act."""
        return "acted"

    async def always(_: Question) -> Answer:
        return Answer(allowed=True, grant="forever")  # type: ignore[arg-type]  # the point

    async def run(session: Session) -> list[ToolFinished]:
        await session.run("a")
        assert any(isinstance(r.event, FaultCaught) for r in await session.events())
        return [r.event for r in await session.events() if isinstance(r.event, ToolFinished)]

    url = f"sqlite://{tmp_path}/s.db"
    replies = (call("sloppy"), call("act"), "done")
    async with open_session(
        model=scripted(*replies), store=url, session_id="s", tools=[sloppy, act], asker=always
    ) as session:
        assert [(each.outcome, each.code) for each in await run(session)] == [
            ("failed", "raised"),
            ("denied", "denied"),
        ]
    await _opens(url)
