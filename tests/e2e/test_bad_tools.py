"""A tool that raises, returns what is not JSON, or never returns: a recorded event, and a session that goes on."""

import anyio
import pytest

from backstay import Tool, open_session, tool
from backstay.providers.scripted import ScriptedModel
from backstay.vocab.events import ToolFinished


@tool
async def explode() -> str:
    """Raise."""
    raise ZeroDivisionError("bad luck")


@tool
async def babble() -> object:
    """Return something that is not JSON."""
    return object()


@tool
async def sleep_for_ever() -> str:
    """Never return."""
    await anyio.sleep_forever()
    return ""


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("explode", "raised", "ZeroDivisionError: bad luck"),
        ("babble", "", "JSON"),
        ("sleep_for_ever", "timeout", "more than 0.05 seconds"),
        ("missing", "unknown_tool", "There is no tool 'missing'"),
    ],
)
async def test_a_bad_tool_is_a_recorded_result_and_the_session_goes_on(name: str, code: str, words: str) -> None:
    model = ScriptedModel.of([{"calls": [{"name": name}]}, {"text": "I see."}, {"text": "Still here."}])
    tools: list[Tool] = [explode, babble, sleep_for_ever]

    async with open_session(model=model, tools=tools, store=None, tool_timeout_s=0.05) as session:
        assert await session.run("go") == "I see."
        finished = next(r.event for r in await session.events() if isinstance(r.event, ToolFinished))
        assert await session.run("and now?") == "Still here."

    assert finished.outcome in ("failed", "invalid")
    assert code in finished.code
    assert words in str(finished.content)
