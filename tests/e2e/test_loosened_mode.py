"""A looser mode than the settings say ends with the opening that asked for it."""

import json
import signal
from pathlib import Path

import pytest

from backstay import open_session
from backstay.vocab.events import Started
from backstay.vocab.events.tools import ScopeChanged
from tests.contracts.kit import scripted
from tests.e2e.door import WAIT, Door, Line, finish, read_until, write

DONE = {"text": "Done."}


def runs(command: str) -> Line:
    return {"text": "I run.", "calls": [{"name": "Bash", "args": {"command": command}}]}


def settings(door: Door, mode: str) -> None:
    path = write(door.folder / "config" / "settings.json", json.dumps({"permissions": {"defaultMode": mode}}))
    path.chmod(0o600)


def files(door: Door) -> list[str]:
    return sorted(path.name for path in door.work.iterdir() if path.is_file() and path.suffix == ".txt")


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions"])
def test_a_resume_without_the_flag_begins_in_the_settings_mode_and_says_so(door: Door, mode: str) -> None:
    model = door.script(runs("touch b.txt"), DONE, runs("touch c.txt"), DONE, runs("touch d.txt"), DONE)
    first = door.spawn("-p", "go", "--model", model, "--session-id", "s1", "--permission-mode", mode)
    again = door.spawn("-r", "s1", "-p", "go")
    third = door.spawn("-r", "s1", "-p", "go")

    assert (first.code, again.code, third.code) == (0, 3, 3)
    assert files(door) == ["b.txt"]
    assert mode not in first.complaints
    assert f"The mode '{mode}' ended when the session was left." in again.complaints
    assert "in 'default'" in again.complaints
    assert mode not in third.complaints


def test_the_flag_on_the_resume_loosens_again(door: Door) -> None:
    model = door.script(DONE, runs("touch c.txt"), DONE, runs("touch d.txt"), DONE)
    door.spawn("-p", "go", "--model", model, "--session-id", "s1", "--permission-mode", "acceptEdits")
    again = door.spawn("-r", "s1", "-p", "go", "--permission-mode", "acceptEdits")

    assert (again.code, again.complaints, files(door)) == (0, "", ["c.txt"])


@pytest.mark.parametrize(
    ("wanted", "mode", "then"),
    [
        ("acceptEdits", "acceptEdits", "acceptEdits"),
        ("acceptEdits", "bypassPermissions", "acceptEdits"),
        ("default", "plan", "plan"),
        ("acceptEdits", "dontAsk", "dontAsk"),
    ],
)
def test_what_the_settings_say_stays_and_a_stricter_mode_too(door: Door, wanted: str, mode: str, then: str) -> None:
    settings(door, wanted)
    model = door.script(DONE, DONE)
    door.spawn("-p", "go", "--model", model, "--session-id", "s1", "--permission-mode", mode)
    again = door.spawn("-r", "s1", "-p", "go", "--output-format", "stream-json")

    assert again.lines[0]["permissionMode"] == then
    assert ("ended when the session was left" in again.complaints) == (mode != then)


def test_a_mode_that_was_set_by_a_line_ends_too(door: Door) -> None:
    lines = [
        {
            "type": "control_request",
            "request_id": "r1",
            "request": {"subtype": "set_permission_mode", "mode": "acceptEdits"},
        },
        {"type": "user", "message": {"role": "user", "content": "go"}},
    ]
    model = door.script(runs("touch b.txt"), DONE, runs("touch c.txt"), DONE)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    first = door.spawn("--model", model, "--session-id", "s1", "--input-format", "stream-json", text=text)
    again = door.spawn("-r", "s1", "-p", "go")

    assert (first.code, again.code, files(door)) == (0, 3, ["b.txt"])


def crashed(door: Door) -> None:
    """A session whose process was killed while a command of its turn ran, in a mode that a flag loosened."""
    model = door.script(runs(WAIT), runs("touch b.txt"), DONE, runs("touch c.txt"), DONE)
    flags = ("--session-id", "s1", "--permission-mode", "bypassPermissions", "--output-format", "events")
    process = door.start("-p", "go", "--model", model, *flags)
    list(read_until(process, "tool_started"))
    finish(process, signal.SIGKILL)


def test_a_turn_that_a_crash_cut_keeps_its_mode_and_the_next_one_does_not(door: Door) -> None:
    crashed(door)
    finished = door.spawn("-r", "s1", "--finish")
    after = door.spawn("-r", "s1", "-p", "go")

    assert (finished.code, after.code) == (0, 3)
    assert "The open turn keeps the mode 'bypassPermissions', in which it began. After it" in finished.complaints
    assert "bypassPermissions" not in after.complaints
    assert files(door) == ["b.txt"]


def test_a_prompt_behind_a_turn_that_a_crash_cut_is_judged_in_the_settings_mode(door: Door) -> None:
    crashed(door)
    ran = door.spawn("-r", "s1", "-p", "more", "--output-format", "events")

    changes = [line["data"]["mode"] for line in ran.lines if line["type"] == "session:mode_changed"]
    assert (ran.code, files(door), changes) == (3, ["b.txt"], ["default"])


def test_a_turn_that_is_given_up_keeps_nothing(door: Door) -> None:
    crashed(door)
    ran = door.spawn("-r", "s1", "--on-crash", "abandon", "-p", "more", "--output-format", "events")

    changes = [line["data"]["mode"] for line in ran.lines if line["type"] == "session:mode_changed"]
    assert (ran.code, files(door), changes) == (3, [], ["default"])


async def test_python_says_it_in_the_warnings(tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path / 'sessions.db'}"
    model = scripted("one", "two", "three")
    async with open_session(
        model=model, store=store, session_id="s1", cwd=tmp_path, permission_mode="bypassPermissions"
    ) as session:
        await session.run("Go.")
    async with open_session(model=model, store=store, resume="s1", cwd=tmp_path) as session:
        assert session.permission_mode == "default"
        assert "'bypassPermissions' ended when the session was left" in session.warnings[0]
        await session.run("Go.")
        await session.set_permission_mode("acceptEdits")
    async with open_session(model=model, store=store, resume="s1", cwd=tmp_path, permission_mode="plan") as session:
        assert (session.permission_mode, session.warnings) == ("plan", ())
        await session.run("Go.")
    async with open_session(model=model, store=store, resume="s1", cwd=tmp_path) as session:
        assert (session.permission_mode, session.warnings) == ("plan", ())


@pytest.mark.parametrize(
    "again", [("--permission-mode", "acceptEdits"), ("--permission-mode", "bypassPermissions"), ()]
)
def test_a_copy_of_a_session_without_a_sandbox_says_so(door: Door, again: tuple[str, ...]) -> None:
    model = door.script(DONE, DONE, DONE)
    loose = ("--permission-mode", "bypassPermissions", "--scope", "full")
    door.spawn("-p", "go", "--model", model, "--session-id", "s1", *loose)
    copied = door.spawn("-r", "s1", "--fork-session", "-p", "go", *again)
    needs_sandbox = door.spawn("-r", "s1", "--fork-session", "-p", "go", "--scope", "sandboxed", *again)

    assert copied.complaints.count("Commands still run without a sandbox, as before; --scope sandboxed") == 1
    assert "Commands still run" not in needs_sandbox.complaints


def judged(door: Door, *scope: str) -> tuple[list[str], list[str]]:
    """What `cat /etc/hostname` comes to in three openings, the first one with permissions bypassed, and the scope of each."""
    model = door.script(*(reply for _ in range(3) for reply in (runs("cat /etc/hostname"), DONE)))
    said, scopes = [], ["full"]
    bypass = ("--model", model, "--session-id", "s1", "--permission-mode", "bypassPermissions", *scope)
    for flags in (bypass, ("-r", "s1"), ("-r", "s1")):
        ran = door.spawn(*flags, "-p", "go", "--output-format", "events")
        scopes += [line["data"]["scope"] for line in ran.lines if line["type"] == "session:scope_changed"]
        said.append(f"{ran.code} {'came with it and ended too' in ran.complaints}")
    return said, scopes


def test_a_scope_that_only_the_mode_implied_ends_with_it(door: Door) -> None:
    assert judged(door) == (["0 False", "3 True", "3 False"], ["full", "sandboxed"])


def test_a_scope_that_was_named_stays(door: Door) -> None:
    assert judged(door, "--scope", "full") == (["0 False", "0 False", "0 False"], ["full"])


async def test_an_implied_scope_follows_each_opening_and_a_named_one_does_not(tmp_path: Path) -> None:
    store, model = f"sqlite://{tmp_path / 'sessions.db'}", scripted(*"abcdefg")
    scopes = list[str]()
    bypass = {"permission_mode": "bypassPermissions"}
    for each in ({}, bypass, {}, bypass, {"fork": True}, {"fs_scope": "full", **bypass}, {}):
        begun = {"session_id": "s1"} if not scopes else {"resume": "s1"}
        async with open_session(model=model, store=store, cwd=tmp_path, **begun, **each) as session:  # type: ignore[arg-type]  # of each kind
            await session.run("Go.")
            log = [record.event for record in await session.events()]
        named = [
            event.scope if isinstance(event, ScopeChanged) else event.context.fs_scope
            for event in log
            if isinstance(event, ScopeChanged | Started)
        ]
        scopes.append(named[-1])
    assert scopes == ["sandboxed", "full", "sandboxed", "full", "sandboxed", "full", "full"]
