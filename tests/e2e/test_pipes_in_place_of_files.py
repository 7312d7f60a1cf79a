"""A pipe in the place of a file that is read at the start or for a list: every command answers, none waits for somebody to write."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.door import Door

PLACES = {
    "settings": (".backstay/settings.json", ".backstay/settings.local.json", ".claude/settings.json", ".mcp.json"),
    "instructions": ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "TASKS.md", ".claude/rules/x.md", ".gitignore"),
    "extensions": (
        *(f".{who}/skills/x/SKILL.md" for who in ("backstay", "claude", "agents")),
        *(f".{who}/{kind}/x.md" for who in ("backstay", "claude") for kind in ("agents", "commands")),
        ".backstay/memory/MEMORY.md",
        ".backstay/memory/x.md",
    ),
    "git": (".git/config", ".git/HEAD", ".git/config.worktree", ".git/commondir"),
    "home": (
        *(f"../home/.claude/{name}" for name in ("settings.json", "CLAUDE.md", "skills/x/SKILL.md")),
        "../home/.gitconfig",
    ),
    "configuration": (
        *(f"../config/{name}" for name in ("settings.json", "AGENTS.md", "skills/x/SKILL.md", "agents/x.md")),
    ),
    "data": (
        *(
            f"../data/{name}"
            for name in ("sandbox.json", "grants.json", "trust.json", "plugins/installed_plugins.json")
        ),
    ),
    "database": ("../data/sessions.db",),
}
COMMANDS = ("-p go", "sessions list", "doctor", "config show", "memory list", "skills list", "trust show")


def put_pipe(path: Path) -> None:
    """Put a pipe in the place of whatever is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def answers(door: Door, *arguments: str) -> bool:
    """Whether a command comes to an end by itself, in a time that git's own deadline would not leave it."""
    process = door.start(*arguments)
    try:
        _, err = process.communicate("", timeout=45)
    except subprocess.TimeoutExpired:
        process.kill()
        return False
    assert "Traceback" not in err
    return True


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_sec_l6_every_command_answers_whatever_stands_in_the_place_of_its_files(
    door: Door, places: tuple[str, ...]
) -> None:
    subprocess.run(["git", "init", "-q", str(door.work)], check=True)
    for each in places:
        put_pipe(door.work / each)
    model = door.script({"text": "Done."})
    for command in COMMANDS:
        flags = ("--model", model) if command.startswith("-p") else ()
        assert answers(door, *command.split(), *flags), command
