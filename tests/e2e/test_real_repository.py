"""A repository that people keep for another agent: `backstay -p` uses all of it as it is once it is trusted, and nothing of it before."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.door import Door, Line, Ran
from tests.plugins.shop import marketplace, repository, write

SERVER = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("harbour")


@server.tool()
def depth(place: str) -> str:
    """Say how deep the water is."""
    open("server-ran", "w").close()
    return f"{place}: 7 fathoms"


server.run("stdio")
'''
GUARD = """#!/bin/sh
touch "$CLAUDE_PROJECT_DIR/guard-ran"
grep -q 'logbook' && { echo 'The logbook is written by people.' >&2; exit 2; }
exit 0
"""
FILES: dict[str, object] = {
    ".git/HEAD": "ref: refs/heads/main\n",
    "AGENTS.md": "Run `make test` before you say that you are done.\n",
    "CLAUDE.md": "@AGENTS.md\n@docs/style.md\n\nThe boat is called Hilda.\n\n## Compact Instructions\n\nKeep depths.\n",
    "docs/style.md": "Short sentences.\n",
    ".claude/settings.json": {
        "permissions": {
            "allow": ["Bash(echo $HARBOUR)", "Write", "mcp__harbour__depth"],
            "deny": ["Read(./charts/secret.txt)"],
        },
        "hooks": {
            "SessionStart": [{"hooks": [{"type": "command", "command": "touch start-ran; echo The tide is out."}]}],
            "PreToolUse": [
                {
                    "matcher": "Write|Edit",
                    "hooks": [{"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/tools/guard.sh'}],
                }
            ],
        },
        "env": {"HARBOUR": "Falmouth"},
    },
    ".claude/skills/tidy/SKILL.md": "---\nname: tidy\ndescription: Tidies a deck.\n---\nSweep $ARGUMENTS.\n",
    ".claude/skills/inspect/SKILL.md": (
        "---\nname: inspect\ndescription: Looks into the hold.\ncontext: fork\nallowed-tools:\n  - Read\n---\nLook into $0.\n"
    ),
    ".claude/agents/scout.md": "---\nname: scout\ndescription: Looks ahead.\ntools: Read, Grep\n---\nYou look ahead.\n",
    ".claude/commands/review.md": "---\ndescription: Review a file.\nargument-hint: FILE\n---\nReview $0 for rust.\n",
    ".claude/commands/tide.md": (
        "---\ndescription: The tide.\nallowed-tools: Bash(touch:*)\n---\n"
        "The tide is !`echo high && touch tide-ran`. Sail?\n"
    ),
    "tools/guard.sh": GUARD,
    "tools/server.py": SERVER,
    "charts/secret.txt": "X marks the spot.\n",
    "charts/open.txt": "Here be dragons.\n",
}
PLUGIN: dict[str, object] = {
    ".claude-plugin/plugin.json": {
        "name": "reviewer",
        "version": "1.0.0",
        "description": "Reviews.",
        "systemPrompt": "Look at the keel first.",
    },
    "skills/style/SKILL.md": "---\nname: style\ndescription: Looks at style.\n---\nLook at the style of $0.\n",
    "hooks/hooks.json": {
        "hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch plugin-ran"}]}]}
    },
}
MARKS = ("start-ran", "guard-ran", "server-ran", "tide-ran", "plugin-ran", "echo-ran")


class Harbour:
    """The repository, and the door that a person stands at."""

    def __init__(self, door: Door) -> None:
        self.door, self.root = door, door.work
        write(self.root, FILES)
        (self.root / "tools/guard.sh").chmod(0o755)
        servers = {"harbour": {"command": sys.executable, "args": ["tools/server.py"]}}
        write(self.root, {".mcp.json": {"mcpServers": servers}})
        market = door.folder / "market"
        write(market / "plugins/reviewer", PLUGIN)
        repository(marketplace(market, {"name": "reviewer", "source": "./plugins/reviewer"}))
        assert door.run("plugins", "marketplace", "add", f"file://{market}").code == 0
        assert door.run("plugins", "install", "reviewer@acme", "--scope", "project", "--yes").code == 0

    def say(self, prompt: str, *replies: dict[str, object], trust: bool = True, session: str = "") -> Ran:
        """Ask for events of one prompt."""
        more = ("--trust",) * trust + (("--session-id", session) if session else ())
        model = self.door.script(*replies)
        return self.door.run("-p", prompt, "--model", model, "--output-format", "events", *more)

    @property
    def ran(self) -> set[str]:
        """What of the repository has run."""
        return {mark for mark in MARKS if (self.root / mark).exists()}


@pytest.fixture
def harbour(door: Door) -> Harbour:
    """The repository."""
    return Harbour(door)


def of_type(ran: Ran, name: str) -> list[Line]:
    return [line["data"] for line in ran.lines if line["type"] == f"session:{name}"]


def call(name: str, **args: object) -> dict[str, object]:
    return {"name": name, "args": args}


def told(ran: Ran) -> list[tuple[str, str]]:
    """What became of each call, and what the model was told."""
    return [(each["outcome"], json.dumps(each["content"])) for each in of_type(ran, "tool_finished")]


CALLS: list[dict[str, object]] = [
    call("Bash", command="echo $HARBOUR; touch echo-ran"),
    call("Write", file_path="logbook.txt", content="All is well."),
    call("Read", file_path="charts/secret.txt"),
    call("Read", file_path="charts/open.txt"),
    call("mcp__harbour__depth", place="Falmouth"),
    call("Skill", skill="tidy", args="the deck"),
]


def test_all_of_it_is_used_unchanged_once_it_is_trusted(harbour: Harbour) -> None:
    allowed = [call("Bash", command="echo $HARBOUR"), *CALLS[1:]]
    ran = harbour.say("Go.", {"calls": allowed}, {"text": "Done."})
    assert (ran.code, ran.complaints) == (0, "")
    (instructions,) = of_type(ran, "instructions_read")
    sources = {part["name"]: part.get("sources", []) for part in instructions["parts"]}
    assert sources["agent-instructions"] == [str(harbour.root / "AGENTS.md")]
    assert sources["project-notes"] == [str(harbour.root / "CLAUDE.md"), str(harbour.root / "docs/style.md")]
    assert "skills" in sources

    results = told(ran)
    outcomes = sorted(outcome for outcome, _ in results)
    words = "\n".join(text for _, text in results)
    assert outcomes == ["denied", "denied", "ok", "ok", "ok", "ok"], ran.out
    for expected in (
        "Falmouth\\n",
        "The logbook is written by people.",
        "Here be dragons.",
        "Falmouth: 7 fathoms",
        "Sweep the deck.",
    ):
        assert expected in words
    assert "X marks the spot" not in words
    assert harbour.ran == {"start-ran", "guard-ran", "server-ran", "plugin-ran"}
    servers = harbour.door.run("-p", "/mcp", "--trust", "--model", harbour.door.script({"text": "x"})).out
    assert servers.split() == ["harbour", "connected,", "1", "tool"]


def test_its_commands_and_skills_are_typed_and_its_agent_and_plugin_are_there(harbour: Harbour) -> None:
    (harbour.root / ".mcp.json").unlink()  # it takes its time, and is of no use here
    review = harbour.say("/review hull.txt", {"text": "Rusty.", "expect": {"contains": "Review hull.txt for rust."}})
    assert (review.code, review.err) == (0, "")
    style = harbour.say("/reviewer:style a.py", {"text": "Fine.", "expect": {"contains": "Look at the style of a.py."}})
    assert (style.code, style.err) == (0, "")
    forked = harbour.door.run("-p", "/inspect hold", "--trust", "--model", harbour.door.script({"text": "It is dry."}))
    assert (forked.code, forked.out.strip()) == (0, "It is dry.")

    script = harbour.door.script({"text": "Sail!", "expect": {"contains": "The tide is high. Sail?"}})
    tide = harbour.door.run("-p", "/tide", "--trust", "--model", script)
    assert (tide.code, tide.out.strip(), "tide-ran" in harbour.ran) == (0, "Sail!", True)
    assert harbour.door.run("-p", "/agents", "--trust", "--model", script).out.count("scout") == 1
    assert "reviewer 1.0.0" in harbour.door.run("-p", "/plugins", "--trust", "--model", script).out


def test_nothing_of_it_runs_or_allows_without_trust_and_what_it_denies_holds(harbour: Harbour) -> None:
    ran = harbour.say("Go.", {"calls": CALLS}, {"text": "Done."}, trust=False)

    assert ran.code == 3, "something needed a yes and nobody was there"
    assert harbour.ran == set()
    results = told(ran)
    assert sorted(outcome for outcome, _ in results) == ["denied", "denied", "denied", "invalid", "invalid", "ok"]
    words = "\n".join(text for _, text in results)
    assert "Here be dragons." in words
    for hidden in ("The logbook is written by people", "X marks the spot", "7 fathoms", "Sweep the deck"):
        assert hidden not in words
    assert "trust" in ran.err
    refused = harbour.door.run("-p", "/tide", "--model", harbour.door.script({"text": "x"}))
    assert (refused.code != 0, "backstay trust" in refused.out + refused.err) == (True, True)
    assert harbour.ran == set()


def test_a_screen_of_the_doctor_explains_it_before_and_after_it_is_trusted(harbour: Harbour) -> None:
    before = harbour.door.run("doctor").out
    assert harbour.door.run("trust", "--yes").code == 0
    after = harbour.door.run("doctor").out

    for words in ("untrusted; 15 things", "'reviewer@acme' of this workspace waits for trust", "'harbour' of"):
        assert words in before, words
    for words in (
        "from AGENTS.md, CLAUDE.md, docs/style.md",
        "3 skills: inspect, reviewer:style, tidy",
        "2 commands: review, tide",
        "1 agent: scout",
        "rules: 1 deny, 0 ask, 3 allow; hooks: 2",
        "reviewer 1.0.0",
    ):
        assert words in after, words
    assert len(after.splitlines()) < 60
    assert harbour.ran == set(), "looking runs nothing"


BROKEN: dict[str, object] = {
    "AGENTS.md": "Read @loop/a.md and @gone.md\n",
    "loop/a.md": "@b.md\n",
    "loop/b.md": "@a.md\n",
    "CLAUDE.md": "# Notes\n" + "All hands on deck. " * 20_000,
    ".claude/settings.json": '{\n  "permissions": {\n    "deny": ["Bash(rm *)"],,\n  }\n}\n',
    ".backstay/settings.json": {"chta": {}, "permissions": {"deny": ["Bash(curl *)"]}},
    ".mcp.json": '{"mcpServers": {\n  "a": }\n}',
    ".claude/skills/mute/SKILL.md": "---\nname: mute\n---\nNo description.\n",
    ".claude/skills/odd/SKILL.md": '---\nname: odd\ndescription: "open\n  - [\n---\nBroken YAML.\n',
    ".claude/skills/huge/SKILL.md": "---\nname: huge\ndescription: Huge.\n---\n" + "x" * 3_000_000,
    ".claude/skills/good/SKILL.md": "---\nname: good\ndescription: A good one.\n---\nDo good.\n",
    ".claude/agents/odd.md": "---\nname: [\n---\nYou are odd.\n",
    ".claude/commands/odd name!.md": "Odd.\n",
}


def test_whatever_is_wrong_with_its_files_the_session_opens_and_each_is_named_with_its_line(door: Door) -> None:
    good = {"permissions": {"deny": ["Bash(rm *)"]}}
    write(door.work, {".git/HEAD": "ref: refs/heads/main\n", ".claude/settings.json": good})
    assert door.run("-p", "Hi.", "--trust", "--model", door.script({"text": "Hello."})).code == 0
    write(door.work, BROKEN)
    script = door.script({"text": "Good.", "expect": {"contains": "Do good."}})

    ran = door.run("-p", "/good", "--trust", "--model", script)
    said = door.run("-p", "/doctor", "--trust", "--model", script)

    assert (ran.code, ran.out.strip()) == (0, "Good."), ran.err
    words = ran.err + said.out + said.err
    for place in (
        "loop/b.md:1",
        "AGENTS.md:1",
        ".claude/settings.json:3",
        ".backstay/settings.json:2",
        ".mcp.json:2",
        "mute/SKILL.md:1",
        "odd/SKILL.md:",
        "huge/SKILL.md:",
        "agents/odd.md:",
        "odd name!.md:1",
        "project-notes",
    ):
        assert place in words, place
    denied = door.script({"calls": [call("Bash", command=each) for each in ("curl x", "rm x")]}, {"text": "No."})
    run = door.run("-p", "Go.", "--trust", "--model", denied, "--output-format", "events")
    assert [outcome for outcome, _ in told(run)] == ["denied"] * 2, (
        "what was denied stays denied, also by a broken file"
    )


@pytest.mark.parametrize("how", ["silent", "garbage", "dies"])
def test_a_server_that_never_answers_or_speaks_nonsense_is_named_and_the_session_opens(door: Door, how: str) -> None:
    fake = Path(__file__).parents[1] / "mcp/fake_server.py"
    write(door.work, {".git/HEAD": "ref: refs/heads/main\n", "script.json": {"greeting": how}})
    entry: dict[str, Any] = {"command": sys.executable, "args": [str(fake), "script.json"], "timeout": 2_000}
    write(door.work, {".mcp.json": {"mcpServers": {"mute": entry}}})

    ran = door.run("-p", "Hi.", "--trust", "--model", door.script({"text": "Hello."}))

    assert (ran.code, ran.out.strip()) == (0, "Hello.")
    assert "The MCP server 'mute' does not answer" in ran.err
