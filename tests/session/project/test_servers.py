"""MCP servers through the command `/mcp`."""

import json
from pathlib import Path

import pytest

from tests.contracts.kit import call
from tests.mcp.kit import fake, said, tool
from tests.session.project.repository import Repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    return Repository(tmp_path, monkeypatch)


def config(folder: Path, *tools: object) -> str:
    spec = fake(folder, "notes", tools=list(tools), calls={"find": said("found")})
    return json.dumps({"mcpServers": {"notes": {"command": spec.argv[0], "args": list(spec.argv[1:])}}})


async def test_a_tool_that_changed_is_named_and_can_be_approved_by_the_person_alone(
    repository: Repository, tmp_path: Path
) -> None:
    first = config(tmp_path, tool("find"))
    uses = (call("mcp__notes__find"), "Done.")
    async with repository.open(*uses, mcp_config=[first], permission_mode="bypassPermissions") as session:
        await session.run("Find it.")  # from here on its list is fixed
    changed = config(tmp_path, tool("find", description="Something else."))
    async with repository.open("Hi.", mcp_config=[changed]) as session:
        listed = await session.command("mcp")
        by_model = await session.command("mcp", "approve notes", by="model")
        approved = await session.command("mcp", "approve notes")
        tools = session.tools
    async with repository.open("Hi.", mcp_config=[changed]) as session:
        again = session.tools

    assert listed is not None
    assert "held back until `/mcp approve`: mcp__notes__find" in listed.message
    assert by_model is None
    assert approved is not None
    assert approved.data == {"approved": ["mcp__notes__find"]}
    assert "mcp__notes__find" not in tools
    assert "mcp__notes__find" in again
