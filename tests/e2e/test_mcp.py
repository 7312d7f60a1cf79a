"""The official servers of the npm registry, started by an `.mcp.json` as people have it in their repositories."""

import shutil
import socket
from pathlib import Path

import pytest

from backstay.mcp.config.files import ServerInputs, read_servers
from backstay.mcp.config.start import session_servers
from tests.config.world import World
from tests.mcp.kit import by_name
from tests.tools.context import RecordingContext


def _registry_is_reached() -> bool:
    try:
        socket.create_connection(("registry.npmjs.org", 443), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(shutil.which("npx") is None, reason="npx is not here")
async def test_the_official_servers_work_as_people_write_them_down(tmp_path: Path) -> None:
    if not _registry_is_reached():
        pytest.skip("the npm registry cannot be reached")
    world = World(tmp_path)
    (world.project / "note.txt").write_text("Buy string.", encoding="utf-8")
    package = "@modelcontextprotocol/server"
    entries = {
        "everything": {"command": "npx", "args": ["-y", f"{package}-everything"]},
        "filesystem": {"command": "npx", "args": ["-y", f"{package}-filesystem", "${PROJECT:-.}"]},
    }
    world.write(".mcp.json", {"mcpServers": entries})
    found = read_servers(ServerInputs(layered=world.read(trust=True), environment={"MCP_TIMEOUT": "120000"}))
    assert (found.problems, found.warnings, len(found.specs)) == ((), (), 2)

    context = RecordingContext(world.project)
    async with session_servers(found.specs, cwd=str(world.project), data=world.data) as servers:
        assert {name: status.why for name, status in servers.status.items()} == {"everything": "", "filesystem": ""}
        tools = by_name(servers)
        echo = await tools["mcp__everything__echo"].run({"message": "hello"}, context)
        long = await tools["mcp__everything__trigger-long-running-operation"].run({"duration": 1, "steps": 2}, context)
        image = await tools["mcp__everything__get-tiny-image"].run({}, context)
        note = await tools["mcp__filesystem__read_text_file"].run({"path": "note.txt"}, context)
        outside = await tools["mcp__filesystem__read_text_file"].run({"path": "/etc/passwd"}, context)
        prompt = await servers.prompt("/mcp__everything__args-prompt", ["Paris"])
        resource = await servers.read("everything", servers.resources[0].uri)

    assert echo.text == "Echo: hello"
    assert "completed" in long.text
    assert context.shown[-1].startswith("[2/2]")
    assert len(image.media) == 1
    assert note.text == "Buy string."
    assert outside.failed
    assert "Paris" in prompt.text
    assert resource.text
