"""`--agent`, `--no-checkpoints`, and what a run says about what it found."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.door import Door, write

REVIEWER = "---\nname: reviewer\ndescription: Reviews.\ntools: Read, Grep, Teleport\ndisallowedTools: Grep\n---\nYou review BOATS.\n"


def reviewer(door: Door, text: str = REVIEWER) -> Path:
    return write(door.folder / "home/.claude/agents/reviewer.md", text)


def init(door: Door, *arguments: str) -> Any:  # Any: JSON
    ran = door.run("-p", "Hi.", *arguments, "--output-format", "stream-json")
    assert ran.code == 0, ran.err
    return ran.lines[0]


def started(door: Door, session: str) -> Any:  # Any: JSON
    return door.run("log", "show", session, "--json").lines[0]["data"]


def test_an_agent_has_its_prompt_its_tools_and_its_name_in_the_log(door: Door) -> None:
    reviewer(door)
    model = door.script({"text": "One."}, {"text": "Two."})

    first = init(door, "--agent", "reviewer", "--model", model, "--session-id", "one")
    later = init(door, "-r", "one")

    assert (first["tools"], later["tools"]) == (["Read"], ["Read"])
    assert "reviewer" in first["agents"]
    assert started(door, "one")["agent"] == "reviewer"
    whole = door.run("log", "export", "one", "--format", "jsonl", "-o", str(door.folder / "x.jsonl"))
    assert whole.code == 0
    assert "You review BOATS." in (door.folder / "x.jsonl").read_text(encoding="utf-8")


def test_rb_w22_a_list_of_tools_narrows_however_it_is_written(door: Door) -> None:
    model = door.script({"text": "One."})
    for tools in ("Read, Grep", '["Read", "Grep"]', "\n  - Read\n  - 'Grep'", "[Read, Grep]"):
        reviewer(door, f"---\nname: reviewer\ndescription: R.\ntools: {tools}\n---\nR.\n")

        assert init(door, "--agent", "reviewer", "--model", model)["tools"] == ["Read", "Grep"], tools


def test_an_agents_model_is_used_unless_another_is_named(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
    mine = {"type": "openai-chat", "model": "m-1", "base_url": "http://127.0.0.1:9/v1"}
    write(door.folder / "config/settings.json", json.dumps({"providers": {"mine": mine}}))
    given = ("--agent", "reviewer", "--output-format", "stream-json", "-p", "/cost")  # which asks no model
    reviewer(door, "---\nname: reviewer\ndescription: Reviews.\nmodel: haiku\n---\nReview.\n")

    short = door.run(*given)
    named = door.run(*given, "--model", door.script({"text": "Other."}))
    reviewer(door, "---\nname: reviewer\ndescription: Reviews.\nmodel: mine\n---\nReview.\n")
    profile = door.run(*given)

    assert (short.code, named.code, profile.code) == (0, 0, 0), profile.err
    assert short.lines[0]["model"].startswith("anthropic:claude-haiku-")
    assert named.lines[0]["model"].startswith("scripted:")
    assert profile.lines[0]["model"] == "mine:m-1"


def test_an_agent_that_is_not_there_is_wrong_usage(door: Door) -> None:
    reviewer(door)

    ran = door.run("-p", "Hi.", "--agent", "nobody", "--model", door.script({"text": "Hi."}))

    assert ran.code == 2
    assert "There is no agent 'nobody'. The agents are" in ran.err
    assert "reviewer" in ran.err
    assert door.run("sessions", "list", "--json").json == []


def test_rb_w8_an_agent_of_a_workspace_waits_for_trust(door: Door) -> None:
    write(door.work / ".claude/agents/local.md", "---\nname: local\ndescription: Local.\ntools: Read\n---\nLocal.\n")
    given = ("-p", "Hi.", "--agent", "local", "--model", door.script({"text": "Hi."}))

    waits, trusted = door.run(*given), door.run(*given, "--trust")

    assert (waits.code, trusted.code) == (2, 0)
    assert "which is not trusted" in waits.err


def test_the_agent_of_a_session_is_fixed(door: Door) -> None:
    file = reviewer(door)
    model = door.script({"text": "One."}, {"text": "Two."}, {"text": "Three."})
    init(door, "--agent", "reviewer", "--model", model, "--session-id", "one")
    init(door, "--model", model, "--session-id", "two")

    other = door.run("-r", "one", "-p", "Hi.", "--agent", "Plan")
    late = door.run("-r", "two", "-p", "Hi.", "--agent", "reviewer")
    same = door.run("-r", "one", "-p", "Hi.", "--agent", "reviewer")
    file.unlink()
    gone = door.run("-r", "one", "-p", "Hi.")

    assert (other.code, late.code, same.code, gone.code) == (2, 2, 0, 1)
    assert "was begun as the agent 'reviewer'" in other.err
    assert "was begun without an agent" in late.err
    assert "is not here any more" in gone.err


def test_an_agent_is_never_freer_than_the_session_and_may_be_stricter(door: Door) -> None:
    model = door.script({"text": "One."})
    reviewer(door, "---\nname: reviewer\ndescription: R.\npermissionMode: bypassPermissions\n---\nR.\n")
    free = init(door, "--agent", "reviewer", "--model", model)
    reviewer(door, "---\nname: reviewer\ndescription: R.\npermissionMode: plan\n---\nR.\n")
    strict = init(door, "--agent", "reviewer", "--model", model)

    assert (free["permissionMode"], strict["permissionMode"]) == ("default", "plan")


def test_what_an_agent_never_has_is_denied_although_everything_else_is_there(door: Door) -> None:
    reviewer(door, "---\nname: reviewer\ndescription: R.\ndisallowedTools: Write\n---\nR.\n")
    write_it = {"calls": [{"name": "Write", "args": {"file_path": "x", "content": "y"}}]}
    given = ("--agent", "reviewer", "--allow", "Write", "--model", door.script(write_it, {"text": "No."}))

    ran = door.run("-p", "Hi.", *given)

    assert ran.code == 0
    assert not (door.work / "x").exists()


def test_a_run_without_checkpoints_keeps_nothing_of_files(door: Door) -> None:
    write(door.work / "a.md", "old\n")
    edit = {"calls": [{"name": "Write", "args": {"file_path": "b.md", "content": "new"}}]}
    given = ("-p", "Hi.", "--permission-mode", "acceptEdits", "--model", door.script(edit, {"text": "Done."}))

    kept = door.run(*given, "--output-format", "events")
    bare = door.run(*given, "--output-format", "events", "--no-checkpoints")

    assert (kept.code, bare.code) == (0, 0)
    assert "session:file_kept" in kept.out
    assert "session:file_kept" not in bare.out


def test_the_first_notes_are_told_and_the_rest_is_the_doctors(door: Door) -> None:
    for number in range(14):
        secret = "ghp_" + "A1b2C3d4E5f6" * 3 if number == 0 else "fine"
        write(door.folder / f"home/.claude/agents/a{number:02}.md", f"---\nname: 'no {secret} name'\n---\nX.\n")

    ran = door.run("-p", "Hi.", "--model", door.script({"text": "Hi."}))

    lines = ran.err.splitlines()
    assert (ran.code, ran.out) == (0, "Hi.\n")
    assert len(lines) == 11
    assert lines[-1] == "backstay: and 4 more: backstay doctor"
    assert "A1b2C3d4E5f6" not in ran.err


def test_the_first_line_of_the_stream_lists_what_was_found(door: Door) -> None:
    reviewer(door)
    write(door.folder / "home/.claude/skills/greet/SKILL.md", "---\nname: greet\ndescription: Greet.\n---\nHi.\n")
    write(door.folder / "home/.claude/commands/look.md", "---\ndescription: Look.\n---\nLook.\n")

    found = init(door, "--model", door.script({"text": "Hi."}))

    assert {"greet", "look", "compact"} <= set(found["slash_commands"])
    assert (found["skills"], found["plugins"], found["mcp_servers"]) == (["greet"], [], [])
    assert "reviewer" in found["agents"]
    assert json.dumps(found)


def test_skills_and_agents_of_plugins_are_listed_and_used(door: Door) -> None:
    plugin = door.folder / "rig"
    write(plugin / ".claude-plugin/plugin.json", json.dumps({"name": "rig", "version": "1.0.0", "description": "Rig."}))
    write(plugin / "skills/hoist/SKILL.md", "---\nname: hoist\ndescription: Hoist.\n---\nHoist $ARGUMENTS.\n")
    write(plugin / "agents/bosun.md", "---\nname: bosun\ndescription: Bosun.\ntools: Read\n---\nBosun.\n")
    assert door.run("plugins", "install", str(plugin), "--yes").code == 0
    model = door.script({"expect": {"contains": "Hoist jib."}, "text": "Hoisted."})

    skills = door.run("skills", "list", "--json").json["skills"]
    agents = door.run("agents", "list", "--json").json["agents"]
    ran = door.run("-p", "/hoist jib", "--agent", "rig:bosun", "--model", model, "--output-format", "stream-json")

    assert [each["name"] for each in skills] == ["rig:hoist"]
    assert "rig:bosun" in [each["name"] for each in agents]
    assert ran.code == 0, ran.err
    assert [each["name"] for each in ran.lines[0]["plugins"]] == ["rig"]
    assert (ran.lines[0]["tools"], ran.lines[-1]["result"]) == (["Read"], "Hoisted.")


def test_a_fork_of_an_agent_has_the_agents_tools_and_no_more(door: Door) -> None:
    reviewer(door, "---\nname: reviewer\ndescription: R.\ntools: Read, Skill\n---\nR.\n")
    skill = "---\nname: look\ndescription: Looks.\ncontext: fork\n---\nLook.\n"
    write(door.folder / "home/.claude/skills/look/SKILL.md", skill)
    write(door.work / "a.txt", "A\n")
    calls = [
        {"name": "Read", "args": {"file_path": "a.txt"}},
        {"name": "Write", "args": {"file_path": "b.txt", "content": "B"}},
    ]
    model = door.script({"calls": calls}, {"text": "Looked.", "expect": {"contains": "There is no tool 'Write'"}})

    ran = door.run("-p", "/look", "--agent", "reviewer", "--model", model, "--permission-mode", "bypassPermissions")

    assert (ran.code, ran.out) == (0, "Looked.\n"), ran.err
    assert not (door.work / "b.txt").exists()
