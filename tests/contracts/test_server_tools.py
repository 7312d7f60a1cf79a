"""Tools that the provider runs itself, and tools that nobody has."""

from collections.abc import AsyncIterator

import pytest

from backstay.ports import ModelReply, ModelRequest
from backstay.runtime.callbacks import ToolEnd
from backstay.vocab.deltas import Delta
from backstay.vocab.messages import ServerBlock, Text
from backstay.vocab.specs import Ability, ModelFacts
from tests.contracts.kit import call, look, talk


class Searcher:
    """A model of some provider that can search the web by itself, or cannot."""

    name, format = "somebody:new", "anthropic"

    def __init__(self, *abilities: Ability) -> None:
        self.facts = ModelFacts(abilities=frozenset(abilities))
        self.asked: list[ModelRequest] = []

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Search, if that is allowed, and answer."""
        self.asked.append(request)
        searched = ServerBlock(kind="server_tool_use", name="web_search", content='{"query": "news"}')
        found = (searched,) if request.parameters.get("web_search") else ()
        yield ModelReply(parts=(*found, Text(text="done")))


@pytest.mark.contract("RB-32", "RB-59")
async def test_native_search_is_on_for_whoever_can_by_ability_and_its_use_is_called_back() -> None:
    model, used = Searcher("tools", "web_search"), list[object]()
    async with talk(model=model) as session:
        session.on("server_tool", used.append)
        assert await session.run("what is new?") == "done"
        logged = [part for message in session.history for part in message.content if isinstance(part, ServerBlock)]

    assert model.asked[0].parameters == {"web_search": True}
    assert [block.name for block in logged] == ["web_search"]
    assert used == logged
    assert "web search" not in model.asked[0].instructions.lower()


@pytest.mark.contract("RB-59")
async def test_native_search_is_off_for_whoever_cannot_and_when_somebody_says_so() -> None:
    unable, unwanted = Searcher("tools"), Searcher("tools", "web_search")
    async with talk(model=unable) as session:
        await session.run("what is new?")
    async with talk(model=unwanted, web_search=False) as session:
        await session.run("what is new?")

    assert "web_search" not in unable.asked[0].parameters
    assert "web_search" not in unwanted.asked[0].parameters


@pytest.mark.contract("RB-41")
async def test_a_call_of_an_unknown_tool_reaches_the_same_callback_once_with_its_reason() -> None:
    ended = list[object]()
    async with talk(call("teleport", to="moon"), call("look", at="sky"), "ok", tools=[look]) as session:
        session.on("tool_end", ended.append)
        assert await session.run("go") == "ok"

    unknown, known = ended
    assert isinstance(unknown, ToolEnd)
    assert (unknown.outcome, unknown.code) == ("invalid", "unknown_tool")
    assert "teleport" in unknown.result
    assert isinstance(known, ToolEnd)
    assert known.outcome == "ok"
