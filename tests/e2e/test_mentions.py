"""`@file` and `@server:uri` in prompts of the command line."""

import json
import sys
from pathlib import Path

from tests.e2e.door import Door
from tests.mcp.kit import HERE, tool

SETTINGS = ".claude/settings.json"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def servers(door: Door) -> str:
    """A file of `--mcp-config` with a server that has one note."""
    answers = {"resources/read": {"contents": [{"uri": "note://1", "mimeType": "text/plain", "text": "Buy string."}]}}
    script = {"tools": [tool("echo")], "resources": [{"uri": "note://1", "name": "one"}], "answers": answers}
    path = write(door.folder / "server.json", json.dumps(script))
    entry = {"command": sys.executable, "args": ["-I", str(HERE / "fake_server.py"), str(path)]}
    return str(write(door.folder / "mcp.json", json.dumps({"mcpServers": {"notes": entry}})))


def test_a_mentioned_file_goes_to_the_model_and_the_history_shows_what_was_typed(door: Door) -> None:
    write(door.work / "docs/plan.md", "PLAN-B\n")
    model = door.script({"expect": {"contains": '<file path="docs/plan.md" bytes="7">\nPLAN-B'}, "text": "Read."})

    ran = door.run("-p", "What is in @docs/plan.md?", "--model", model, "--session-id", "one")
    shown = door.run("sessions", "show", "one")

    assert (ran.code, ran.out, ran.err) == (0, "Read.\n", "")
    assert "[user] What is in @docs/plan.md?" in shown.out
    assert "PLAN-B" not in shown.out


def test_a_denied_file_is_noted_and_not_sent(door: Door) -> None:
    write(door.work / "secret.txt", "SECRET-1")
    write(door.work / SETTINGS, json.dumps({"permissions": {"deny": ["Read(./secret.txt)"]}}))
    model = door.script({"text": "I cannot see it."})

    ran = door.run("-p", "What is in @secret.txt?", "--model", model, "--output-format", "events")

    assert ran.code == 0
    assert "@secret.txt is sent as it is written" in ran.err
    assert "SECRET-1" not in ran.out


def test_a_file_that_a_hook_refuses_is_not_sent(door: Door) -> None:
    write(door.work / "a.md", "GUARDED")
    hook = {"matcher": "Read", "hooks": [{"type": "command", "command": "echo Mine. >&2; exit 2"}]}
    write(door.folder / "config/settings.json", json.dumps({"hooks": {"PreToolUse": [hook]}}))

    ran = door.run("-p", "See @a.md", "--model", door.script({"text": "No."}), "--output-format", "events")

    assert "@a.md is sent as it is written" in ran.err
    assert "Mine." in ran.err
    assert "GUARDED" not in ran.out


def test_rb_w53_a_decorator_never_stops_a_turn(door: Door) -> None:
    write(door.work / "app.py", "@app.route('/')\ndef home(): ...\n")
    model = door.script({"expect": {"contains": "@app.route('/')"}, "text": "Fine."})

    ran = door.run("-p", "Why does @app.route in @app.py fail with flask@2.0.1?", "--model", model)

    assert (ran.code, ran.out, ran.err) == (0, "Fine.\n", "")


def test_an_input_that_is_sent_again_is_taken_once_although_its_file_has_changed(door: Door) -> None:
    file = write(door.work / "a.md", "ONE")
    given = ("-p", "See @a.md", "--session-id", "one", "--input-id", "k", "--output-format", "json")
    model = door.script({"text": "Seen."})
    first = door.run(*given, "--model", model)
    file.write_text("TWO", encoding="utf-8")

    again = door.run(*given, "--model", model)
    other = door.run("-p", "See @b.md", *given[2:], "--model", model)

    assert (first.code, again.code, other.code) == (0, 0, 2)
    assert again.json == first.json


def test_lines_of_a_program_mention_files_too(door: Door) -> None:
    write(door.work / "a.md", "ALPHA")
    line = json.dumps({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "See @a.md"}]}})
    model = door.script({"expect": {"contains": "ALPHA"}, "text": "Seen."})

    ran = door.spawn("--input-format", "stream-json", "--model", model, text=line + "\n")

    assert (ran.code, ran.out) == (0, "Seen.\n")


def test_what_a_skill_is_given_may_mention_files(door: Door) -> None:
    write(door.work / "a.md", "ALPHA")
    write(door.work / ".claude/skills/sum/SKILL.md", "---\nname: sum\ndescription: Sum.\n---\nSum $ARGUMENTS up.\n")
    model = door.script({"expect": {"contains": "ALPHA"}, "text": "Summed."})

    ran = door.run("-p", "/sum @a.md", "--model", model)

    assert (ran.code, ran.out) == (0, "Summed.\n")


def test_a_resource_of_a_server_is_brought_and_the_server_is_listed(door: Door) -> None:
    model = door.script({"expect": {"contains": "Buy string."}, "text": "Bought."})
    given = ("--mcp-config", servers(door), "--model", model, "--output-format", "stream-json")

    ran = door.run("-p", "Do what @notes:note://1 says.", *given)

    assert ran.code == 0, ran.err
    init = ran.lines[0]
    assert init["mcp_servers"] == [{"name": "notes", "status": "connected", "source": "flag"}]
    assert "mcp__notes__echo" in init["tools"]
    state = door.run("log", "replay", init["session_id"]).json
    assert state["progress"]["grants"]["taint"] == ["untrusted"]


def test_servers_may_be_given_as_json_and_a_broken_one_hides_nothing(door: Door) -> None:
    broken = json.dumps({"mcpServers": {"broken": {"command": 5}}})

    ran = door.run(
        "-p", "Hi.", "--mcp-config", broken, "--mcp-config", servers(door), "--model", door.script({"text": "Hi."})
    )

    assert (ran.code, ran.out) == (0, "Hi.\n")
    assert "broken" in ran.err
