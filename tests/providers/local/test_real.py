"""The real model. Runs where it was pulled before, or where BACKSTAY_TEST_LOCAL=1 insists; downloads nothing."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstay import open_session
from backstay.providers.local.engine import Engines
from backstay.providers.local.model import LocalModel
from backstay.providers.local.pins import LOCAL, list_pins
from backstay.system.folders import data_dir
from backstay.tools.files.read import read_file
from backstay.tools.files.write import write_file
from backstay.tools.shell.bash import run_command
from backstay.vocab.messages import ToolCall

BEST = list_pins()[0]
FILE = data_dir() / "models" / BEST.file
PRESENT = FILE.exists() and importlib.util.find_spec("xllamacpp") is not None

pytestmark = pytest.mark.skipif(
    not PRESENT and os.environ.get("BACKSTAY_TEST_LOCAL") != "1",
    reason="the local model is not on this machine (backstay models pull)",
)


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    engines = Engines()
    yield engines
    engines.close()


@pytest.mark.parametrize("format", ["openai-chat", "openai-responses", "anthropic"])
async def test_a_question_is_answered_with_a_tool_in_every_wire_format(
    engines: Engines, tmp_path: Path, format: str
) -> None:
    (tmp_path / "server.ini").write_text("[server]\nport = 8431\n", encoding="utf-8")
    model = LocalModel(BEST, FILE, format=format, engines=engines)
    async with open_session(
        model=model,
        cwd=tmp_path,
        store=None,
        tools=[run_command, read_file, write_file],
        only_tools=True,
        system_prompt=LOCAL.system_prompt,
        max_rounds=LOCAL.max_rounds,
        idle_timeout_s=LOCAL.idle_timeout_s,
        permission_mode="bypassPermissions",
    ) as session:
        answer = await session.run("Which port is set in server.ini?")
        calls = [part.name for message in session.history for part in message.content if isinstance(part, ToolCall)]
    await model.aclose()

    assert "8431" in answer
    assert calls[0] in LOCAL.tools
