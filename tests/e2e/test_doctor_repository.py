"""`backstay doctor` in a repository that was shaped for another agent."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.door import Door, write
from tests.mcp.kit import HERE, tool

SCREENFUL = 60
"""Lines that a person looks at."""


@pytest.fixture
def repository(door: Door) -> Path:
    """Everything that people keep for an agent."""
    work = door.work
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": f"touch {door.folder}/ran"}]}
    rules = {"allow": ["Bash(make *)"], "deny": ["Read(./.env)"]}
    write(work / ".claude/settings.json", json.dumps({"permissions": rules, "hooks": {"PreToolUse": [hook]}}))
    write(work / "AGENTS.md", "Run make test.")
    write(work / "CLAUDE.md", "@docs/style.md\n")
    write(work / "docs/style.md", "Short sentences.")
    write(work / ".claude/skills/greet/SKILL.md", "---\nname: greet\ndescription: Greet.\n---\nHi.\n")
    write(work / ".claude/skills/broken/SKILL.md", "---\nname: [\n---\nHi.\n")
    write(work / ".claude/commands/look.md", "---\ndescription: Look.\n---\nLook.\n")
    write(work / ".claude/agents/reviewer.md", "---\nname: reviewer\ndescription: Reviews.\n---\nReview.\n")
    script = write(
        door.folder / "server.json", json.dumps({"tools": [tool("echo")], "starts": str(door.folder / "starts")})
    )
    entry = {"command": sys.executable, "args": ["-I", str(HERE / "fake_server.py"), str(script)]}
    entry["env"] = {"TOKEN": "sesame-open-123"}  # type: ignore[assignment]  # JSON
    write(work / ".mcp.json", json.dumps({"mcpServers": {"notes": entry, "gone": {"command": "/no/such/program"}}}))
    return work


def looked(door: Door, *arguments: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    ran = door.run("doctor", "--json", *arguments)
    return ran.code, {section["name"]: section["findings"] for section in ran.json["sections"]}


def texts(findings: list[dict[str, Any]], level: str = "") -> str:
    return "\n".join(each["text"] for each in findings if not level or each["level"] == level)


def trust(door: Door) -> None:
    write(door.folder / "config/settings.json", json.dumps({"enableAllProjectMcpServers": True}))
    assert door.run("trust", "--yes").code == 0


def test_before_trust_everything_is_listed_and_nothing_is_started(door: Door, repository: Path) -> None:
    code, found = looked(door, "--servers")

    assert code == 1  # one skill is broken
    assert "only what it denies, until the workspace is trusted" in texts(found["settings"])
    assert "rules: 1 deny, 0 ask, 0 allow; hooks: 0" in texts(found["settings"])
    assert "untrusted" in texts(found["workspace"], "note")
    assert found["workspace"][0]["detail"]["claims"]["hook"] == 1
    assert "'notes'" in texts(found["servers"], "note")
    assert not (door.folder / "starts").exists()
    assert not (door.folder / "ran").exists()


def test_after_trust_what_counts_is_said(door: Door, repository: Path) -> None:
    trust(door)

    _, found = looked(door)

    assert "rules: 1 deny, 0 ask, 1 allow; hooks: 1 (PreToolUse 1)" in texts(found["settings"])
    assert "agent-instructions" in texts(found["instructions"])
    assert "AGENTS.md, CLAUDE.md, docs/style.md" in texts(found["instructions"])
    assert {each["name"] for each in found["instructions"][0]["detail"]["parts"]} >= {"base", "skills"}
    assert "1 skill: greet" in texts(found["extensions"])
    assert "1 command: look" in texts(found["extensions"])
    assert "1 agent: reviewer" in texts(found["extensions"])
    assert "'notes' (stdio" in texts(found["servers"])
    assert "none was started" in texts(found["servers"])
    assert not (door.folder / "starts").exists()
    assert "memory: 0 entries, 0 waiting" in texts(found["kept"])
    assert "checkpoints: on" in texts(found["kept"])


def test_what_is_wrong_with_a_file_is_said_with_its_line(door: Door, repository: Path) -> None:
    code, found = looked(door)

    assert code == 1
    assert f"{repository}/.claude/skills/broken/SKILL.md:" in texts(found["extensions"], "attention")


def test_servers_are_tried_when_that_is_wanted_and_their_secrets_are_not_shown(door: Door, repository: Path) -> None:
    trust(door)

    ran = door.run("doctor", "--servers", "--json")
    found = {section["name"]: section["findings"] for section in ran.json["sections"]}

    assert "'notes' answers: " in texts(found["servers"], "ok")
    assert "'gone' does not answer" in texts(found["servers"], "attention")
    assert "sesame-open-123" not in ran.out + ran.err


def test_a_person_gets_one_screenful_however_much_is_wrong(door: Door, repository: Path) -> None:
    for number in range(50):
        write(repository / f".claude/skills/bad{number}/SKILL.md", "---\nname: [\n---\n")
        write(repository / f".claude/skills/good{number}/SKILL.md", "---\ndescription: \x1b[31mGood.\n---\nX.\n")

    ran = door.run("doctor")

    assert ran.code == 1
    assert len(ran.out.splitlines()) <= SCREENFUL
    assert "more: backstay doctor --json" in ran.out
    assert "\x1b" not in ran.out


def test_broken_settings_are_said_once(door: Door) -> None:
    write(door.folder / "config/settings.json", '{"chat": ')

    ran = door.run("doctor")

    assert ran.code == 1
    assert ran.out.count("This is not JSON") == 1


def test_the_instructions_that_are_shown_are_those_of_a_session(door: Door, repository: Path) -> None:
    trust(door)
    write(door.folder / "config/settings.json", json.dumps({"chat": {"default_model": door.script({"text": "Hi."})}}))
    door.run("memory", "add", "The harbour is north.")

    shown = door.run("config", "instructions", "--json").json
    whole = door.run("config", "instructions", "--whole")
    told = next(
        line["data"]["parts"]
        for line in door.run("-p", "Hi.", "--output-format", "events").lines
        if line["type"] == "session:instructions_read"
    )

    assert [(each["name"], each["size"]) for each in shown["parts"]] == [(each["name"], each["size"]) for each in told]
    assert {"memory", "skills"} <= {each["name"] for each in shown["parts"]}
    assert "harbour is north" in whole.out
