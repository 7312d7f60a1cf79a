"""Settings that change while a session is open: guards go on guarding, in child sessions too; trust is not about what comes later."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from backstay import open_session, tool
from backstay.cli.root import run
from backstay.config.layers import read_layers
from backstay.config.trust.trust_store import TrustStore
from backstay.session.subagents import child_tool
from tests.contracts.kit import call, scripted

GUARD = {"PreToolUse": [{"matcher": "poke", "hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}]}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, with settings of a person's own beside it."""
    for name in ("data", "config", "home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("BACKSTAY_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "work"


def write(path: Path, hooks: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    return path


async def test_a_guard_stays_when_its_file_is_the_only_one_and_goes(work: Path) -> None:
    ran: list[str] = []

    @tool(effect="pure")
    async def poke(what: str) -> str:
        """Poke."""
        ran.append(what)
        return "poked"

    settings = write(work.parent / "config" / "settings.json", GUARD)
    model = scripted(call("poke", what="one"), "a", call("poke", what="two"), "b")
    given: dict[str, Any] = {"tools": [poke], "cwd": work, "store": None, "permission_mode": "bypassPermissions"}
    async with open_session(model=model, **given) as session:
        await session.run("one")
        settings.unlink()
        await session.run("two")
        assert session.project is not None
        assert "still hold" in session.project.notices[-1]

    assert ran == []


async def test_a_child_hears_the_hooks_that_came_while_its_parent_was_open(work: Path) -> None:
    ran: list[str] = []

    @tool(effect="pure")
    async def poke(what: str) -> str:
        """Poke."""
        ran.append(what)
        return "poked"

    script = work.parent / "script.json"
    replies = [
        *({"calls": [{"name": "poke", "args": {"what": "free"}}]}, {"text": "a"}),
        *({"calls": [{"name": "delegate", "args": {"prompt": "go"}}]}, {"text": "b"}),
    ]
    script.write_text(json.dumps(replies), encoding="utf-8")
    given: dict[str, Any] = {"cwd": work, "store": None, "permission_mode": "bypassPermissions", "fs_scope": "full"}
    async with open_session(model=f"scripted:{script}", tools=[poke, child_tool()], **given) as session:
        await session.run("one")
        write(work.parent / "config" / "settings.json", GUARD)
        await session.run("two")

    assert ran == ["free"]


async def test_a_child_does_not_run_a_hook_that_waits_for_trust_in_its_parent(work: Path) -> None:
    (work / ".git").mkdir()
    settings = work / ".claude" / "settings.json"

    def trust(command: str) -> None:
        write(settings, {"PreToolUse": [{"matcher": "poke", "hooks": [{"type": "command", "command": command}]}]})
        TrustStore(work.parent / "data").record(read_layers(work).trust.survey, 1)

    @tool(effect="pure")
    async def poke(what: str) -> str:
        """Poke."""
        return what

    trust("exit 0")
    script = work.parent / "script.json"
    poked = {"calls": [{"name": "poke", "args": {"what": "x"}}]}
    replies = [poked, {"text": "a"}, {"calls": [{"name": "delegate", "args": {"prompt": "go"}}]}, {"text": "b"}]
    script.write_text(json.dumps(replies), encoding="utf-8")
    given: dict[str, Any] = {"cwd": work, "store": None, "permission_mode": "bypassPermissions", "fs_scope": "full"}
    async with open_session(model=f"scripted:{script}", tools=[poke, child_tool()], **given) as session:
        await session.run("one")
        trust('touch "$PWD/ran"; eval "$(cat x)"')  # this cannot be followed, so it waits for --trust
        await session.run("two")

    assert not (work / "ran").exists()


async def test_trust_for_a_run_is_not_about_hooks_that_come_later(work: Path) -> None:
    (work / ".git").mkdir()
    settings = work / ".claude" / "settings.json"
    write(settings, {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch first"}]}]})
    given: dict[str, Any] = {
        "layers": lambda folder, seen: read_layers(folder, trust=True, vouched=seen),
        "trust": True,
    }
    async with open_session(model=scripted("a", "b"), cwd=work, store=None, **given) as session:
        await session.run("one")
        write(settings, {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch later"}]}]})
        await session.run("two")
        await anyio.sleep(0.1)

    assert sorted(each.name for each in work.iterdir() if each.is_file()) == ["first"]


def test_a_skill_that_runs_programs_without_a_sandbox_says_so(
    work: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", str(work / "nowhere"))  # no sandbox can be tried
    monkeypatch.chdir(work)
    skill = work.parent / "config" / "skills" / "look" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: look\ndescription: looks\ncontext: fork\nallowed-tools: Bash(echo *)\n---\nLook.\n")
    script = work.parent / "script.json"
    script.write_text(json.dumps([{"calls": [{"name": "Bash", "args": {"command": "echo hello"}}]}, {"text": "done"}]))

    with open(os.devnull, encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert run(["-p", "/look", "--model", f"scripted:{script}"]) == 0
    assert "without a sandbox" in capfd.readouterr().err
