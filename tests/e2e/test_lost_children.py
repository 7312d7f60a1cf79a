"""Where SIGCHLD is ignored, the system forgets how children ended: that must never look like success."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.door import Door

DEAF = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
"""Become another program that inherits deafness."""
LIBRARY = """
import anyio, json, signal, sys
from backstay import open_session
from backstay.providers.scripted import ScriptedModel
from backstay.vocab.events import ToolFinished
from backstay.vocab.messages import text_of

signal.signal(signal.SIGCHLD, signal.SIG_IGN)

async def main():
    calls = [{"name": "Bash", "args": {"command": "echo here; exit 3"}}, {"name": "Write", "args": {"file_path": "x", "content": "y"}}]
    model = ScriptedModel.of([{"calls": calls}, {"text": "Done."}])
    async with open_session(store=None, model=model, cwd=sys.argv[1], trust=True, permission_mode="bypassPermissions") as session:
        await session.run("Go.")
        ends = [record.event for record in await session.events() if isinstance(record.event, ToolFinished)]
        told = [(each.outcome, each.code, text_of(each.content)) for each in ends]
    print(json.dumps(told))

anyio.run(main)
"""
GUARDED = {"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "exit 2"}]}]}}


def deaf(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python where SIGCHLD is ignored."""
    return subprocess.run(
        [sys.executable, "-c", DEAF, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=50
    )


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="the system has no waitid")
def test_in_a_program_that_ignores_it_a_guard_refuses_and_a_command_does_not_look_well(door: Door) -> None:
    (door.work / ".claude").mkdir()
    (door.work / ".claude/settings.json").write_text(json.dumps(GUARDED))
    ran = deaf("-c", LIBRARY, str(door.work), cwd=door.work)
    assert ran.returncode == 0, ran.stderr
    written, command = sorted(json.loads(ran.stdout))
    assert command[:2] == ["failed", "exit:unknown"]
    assert "here" in command[2]
    assert written[0] == "denied"
    assert "exit code was lost" in written[2]
    assert not (door.work / "x").exists()


def test_the_command_line_hears_of_its_children_whoever_started_it(door: Door) -> None:
    (door.work / ".claude").mkdir()
    (door.work / ".claude/settings.json").write_text(json.dumps(GUARDED))
    calls = [
        {"name": "Bash", "args": {"command": "exit 3"}},
        {"name": "Write", "args": {"file_path": "x", "content": "y"}},
    ]
    model = door.script({"calls": calls}, {"text": "Done."})
    given = ("--trust", "--permission-mode", "bypassPermissions", "--model", model, "--output-format", "events")
    ran = deaf("-m", "backstay", "-p", "Go.", *given, cwd=door.work)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    told = [
        (line["data"]["outcome"], line["data"]["code"]) for line in lines if line["type"] == "session:tool_finished"
    ]
    assert sorted(told) == [("denied", "denied"), ("failed", "exit:3")]
    assert not (door.work / "x").exists()
