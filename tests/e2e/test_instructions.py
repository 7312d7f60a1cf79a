"""`backstay config instructions`: what a session here would be told, for people and for programs."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.door import Door, write


@pytest.fixture
def repository(door: Door) -> Path:
    """A repository shaped for another agent."""
    (door.work / ".git").mkdir()
    write(door.work / ".git/HEAD", "ref: refs/heads/feat/sails\n")
    write(door.work / "AGENTS.md", "Run make test.")
    write(
        door.work / "CLAUDE.md", "@AGENTS.md\n@docs/style.md\n@docs/gone.md\n\n## Compact Instructions\n\nKeep ids.\n"
    )
    write(door.work / "docs/style.md", "Short sentences.")
    write(door.work / ".claude/rules/py.md", "---\npaths: '**/*.py'\n---\nTypes.")
    write(door.work / ".agents/tasks/sails.md", "---\nstatus: todo\nbranch: feat/sails\n---\n# Sails\n")
    write(door.work / "package.json", '{"name": "boat"}')
    write(door.folder / "home/.claude/CLAUDE.md", "Call me captain.")
    return door.work


PARTS = [
    "base",
    "agent-instructions",
    "project-notes",
    "person",
    "tasks",
    "working-directory",
    "project",
    "permission-mode",
]


def test_programs_get_every_part_with_its_sources_and_the_whole_text(door: Door, repository: Path) -> None:
    ran = door.run("config", "instructions", "--json")
    found = ran.json

    assert ran.code == 0
    assert [part["name"] for part in found["parts"]] == PARTS
    notes = next(part for part in found["parts"] if part["name"] == "project-notes")
    assert notes["sources"] == [str(repository / "CLAUDE.md"), str(repository / "docs/style.md")]
    assert (notes["cut"], notes["limit"]) == (False, 40 * 1024)
    assert found["text"].count("Run make test.") == 1
    assert "- .claude/rules/py.md: **/*.py" in found["text"]
    assert found["compact_instructions"] == "Keep ids."
    assert found["problems"] == ["CLAUDE.md:3: '@docs/gone.md' is not there."]
    looked = {file["path"]: file["exists"] for file in found["files"]}
    assert looked[str(repository / "docs/style.md")]
    assert not looked[str(repository / "docs/gone.md")]
    assert door.run("config", "instructions", "--json").out == ran.out


def test_people_get_a_table_and_what_was_skipped(door: Door, repository: Path) -> None:
    ran = door.run("config", "instructions")

    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()[1 : len(PARTS) + 1]] == PARTS
    assert str(repository / "docs/style.md") in ran.out
    assert "Summaries are told: Keep ids." in ran.out
    assert "CLAUDE.md:3: '@docs/gone.md' is not there." in ran.err
    assert "Call me captain." not in ran.out


def test_a_workspace_that_is_not_trusted_is_told_as_strangers_words(door: Door, repository: Path) -> None:
    hook = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch owned"}]}]}}
    write(repository / ".claude/settings.json", json.dumps(hook))

    before = door.run("config", "instructions", "--json").json
    assert "written by strangers" in before["text"]
    assert before["compact_instructions"] == ""

    assert door.run("trust", "--yes").code == 0
    after = door.run("config", "instructions", "--json").json
    assert "written by strangers" not in after["text"]
    assert after["compact_instructions"] == "Keep ids."


def test_the_settings_say_the_language_and_where_tasks_are(door: Door, repository: Path) -> None:
    write(repository / "plan/t.md", "# From the plan")
    write(door.folder / "config/settings.json", '{"language": "German", "taskContext": {"dir": "plan"}}')

    parts = {part["name"]: part["text"] for part in door.run("config", "instructions", "--json").json["parts"]}

    assert parts["language"] == "Preferred language of responses: German"
    assert "From the plan" in parts["tasks"]
    assert "Sails" not in parts["tasks"]


def test_a_real_repository_is_known_by_its_branch(door: Door) -> None:
    subprocess.run(["git", "init", "-q", "-b", "harbour", str(door.work)], check=True)

    parts = {part["name"]: part["text"] for part in door.run("config", "instructions", "--json").json["parts"]}

    assert "branch harbour when this was written" in parts["working-directory"]


def test_notes_of_other_folders_come_with_the_first_file_from_there_and_what_is_left_out_is_told(
    door: Door, repository: Path
) -> None:
    write(repository / "sub/AGENTS.md", "Nested words. See @../secret/plan.md")
    write(repository / "secret/plan.md", "The launch is on Friday.")
    write(repository / "sub/a.txt", "a\n")
    reads = {"calls": [{"name": "Read", "args": {"file_path": "sub/a.txt"}}]}
    ran = door.run(
        *("-p", "go", "--model", door.script(reads, {"text": "ok"}), "--trust", "--deny", "Read(secret/**)"),
        *("--session-id", "s1"),
    )

    assert (ran.code, ran.out) == (0, "ok\n")
    assert "sub/AGENTS.md:1: 'secret/plan.md' is left out: a rule denies reading it." in ran.err
    log = door.run("log", "show", "s1", "--json").out
    assert "Nested words." in log
    assert "Friday" not in log
