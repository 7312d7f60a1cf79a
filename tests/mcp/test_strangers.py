"""Servers that mean no good: what they send has an end, and closing waits for none of them."""

import re
import sys
from pathlib import Path
from typing import Final

import anyio

from backstay.mcp.config.start import ServerPrograms
from backstay.mcp.connection import CLOSE_S
from backstay.mcp.dependencies import Noise
from backstay.mcp.spec import ServerSpec
from backstay.mcp.stdio import MOST_ASKED, open_pipes
from tests.mcp.kit import fake, servers, tool

ASKS: Final = """
import sys
number = 0
while True:
    number += 1
    sys.stdout.write('{"jsonrpc": "2.0", "id": %d, "method": "ping"}\\n' % number)
"""
POLITE: Final = """
import json, sys
waiting = []
for first in range(0, 3 * int(sys.argv[1]), 250):
    for number in range(first, first + 250):
        sys.stdout.write('{"jsonrpc": "2.0", "id": %d, "method": "ping"}\\n' % number)
    sys.stdout.flush()
    answers = 0
    while answers < 250:
        message = json.loads(sys.stdin.readline())
        if "method" in message:
            waiting.append(message)
        else:
            answers += 1
while True:
    message = waiting.pop(0) if waiting else json.loads(sys.stdin.readline() or "{}")
    if not message:
        break
    if "id" not in message:
        continue
    answer = {"tools": []}
    if message["method"] == "initialize":
        info = {"name": "polite", "version": "1"}
        answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"""
DEAF: Final = """
import json, sys
lists = 0
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "tools/list":
        lists += 1
        if lists > 1:
            open(sys.argv[1], "w").close()
            continue
        answer = {"tools": []}
    else:
        info = {"name": "deaf", "version": "1"}
        answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
    if lists:
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
"""


async def test_a_server_that_asks_without_end_and_does_not_listen_is_given_up(tmp_path: Path) -> None:
    programs, noise, came = ServerPrograms(), Noise(), 0
    process = programs.start((sys.executable, "-I", "-c", ASKS), cwd=str(tmp_path), env={})
    async with open_pipes(process, programs, noise) as (incoming, _):
        async for _ in incoming:
            came += 1

    assert MOST_ASKED < came < 10 * MOST_ASKED
    assert "requests without end" in noise.words


async def test_a_server_whose_questions_are_answered_may_ask_as_many_as_it_likes(tmp_path: Path) -> None:
    argv = (sys.executable, "-I", "-c", POLITE, str(MOST_ASKED))
    async with servers([ServerSpec(name="polite", kind="stdio", argv=argv, start_s=40)], tmp_path) as found:
        assert (found.status["polite"].state, found.status["polite"].why) == ("connected", "")


async def test_a_list_is_bounded_by_its_bytes_and_not_by_its_pages_alone(tmp_path: Path) -> None:
    page = [tool("large", description="x" * 12_000_000)]
    spec = fake(
        tmp_path, pages={"tools": [page] * 3}, prompts=[{"name": "hello"}], capabilities={"tools": {}, "prompts": {}}
    )
    async with servers([spec], tmp_path) as found:
        status = found.status["fake"]
        assert (status.state, status.tools) == ("connected", 0)
        assert status.problems == ("Its tools cannot be listed: they are more than 32 MiB.",)


async def test_closing_does_not_wait_for_a_list_that_never_comes(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    spec = ServerSpec(name="deaf", kind="stdio", argv=(sys.executable, "-I", "-c", DEAF, str(asked)), start_s=600)
    with anyio.move_on_after(CLOSE_S * 30) as patience:
        async with servers([spec], tmp_path) as found:
            connection = found._servers["deaf"].connection
            assert connection is not None
            while not asked.exists():
                await anyio.sleep(0.01)
            connection.close()
            while connection.status.state != "closed":
                await connection.wait_for_change()
    assert not patience.cancelled_caught


async def test_a_server_of_a_cancelled_session_is_closed_and_not_waited_for(tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with servers([fake(tmp_path, tools=[], calls={})], tmp_path) as found:
            scope.cancel()
            await anyio.sleep_forever()
    assert found.status["fake"].state == "closed"


def test_a_server_of_a_workspace_does_not_take_the_name_that_rules_know_the_persons_own_by(tmp_path: Path) -> None:
    mine = fake(tmp_path, "my.files", spec={"scope": "person"})
    theirs = fake(tmp_path, "my_files", spec={"scope": "project"})
    parts = {name: each.part for name, each in servers([theirs, mine], tmp_path)._servers.items()}

    assert parts["my.files"] == "my_files"
    assert re.fullmatch(r"my_files_[0-9a-f]{8}", parts["my_files"])
