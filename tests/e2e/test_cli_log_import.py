"""`backstay log export --format events` and `backstay log import`: a session as text, and the same session from it."""

import json
import stat
from pathlib import Path

import anyio
import pytest

from backstay import open_session, open_store
from backstay.session.subagents import child_tool
from tests.contracts.kit import call, scripted
from tests.e2e.door import WAIT, Door, finish, read_until
from tests.stores.sqlite_kit import damage

RUNS = {"text": "one", "calls": [{"name": "Bash", "args": {"command": "echo said > a.txt; cat a.txt"}}]}
DONE = {"text": "two"}
OLD = Path(__file__).parents[1] / "fixtures" / "lines_folder"
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def said(door: Door) -> Door:
    """A session `s1` in which a program ran."""
    ran = door.run(
        "-p", f"Say ü {TOKEN}", "--model", door.script(RUNS, DONE, DONE), "--allow", "Bash", "--session-id", "s1"
    )
    assert ran.code == 0, ran.err
    return door


def lines_of(door: Door, session: str, **other: str) -> list[object]:
    """The events of a session as the stream has them, with other words in the place of some."""
    text = door.run("log", "show", session, "--json").out
    for before, after in other.items():
        text = text.replace(before, after)
    return [json.loads(line) for line in text.splitlines()]


def replayed(door: Door, session: str) -> object:
    return json.loads(door.run("log", "replay", session).out.replace(session, "s1"))


def test_what_was_exported_is_imported_as_the_same_log_under_a_new_id(said: Door) -> None:
    path = said.folder / "s1.lines"
    exported = said.run("log", "export", "s1", "--format", "events", "-o", str(path))
    made = said.run("log", "import", str(path), "--json")

    assert (exported.code, made.code, made.err) == (0, 0, "")
    new = made.json["session"]
    before, after = lines_of(said, "s1"), lines_of(said, new, **{new: "s1"})
    assert made.json == {"session": new, "events": len(before)}
    assert after == before
    assert replayed(said, new) == replayed(said, "s1")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert {name: lines[0][name] for name in ("format", "version", "session")} == {
        "format": "backstay-log",
        "version": 1,
        "session": "s1",
    }
    assert [line["seq"] for line in lines[1:] if "blob" not in line] == list(range(1, len(before) + 1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for check in (("sessions", "verify", new), ("log", "validate", new), ("-r", new, "-p", "Go on.")):
        assert said.run(*check).code == 0


def test_the_file_of_a_session_is_validated_as_the_log_that_it_is(said: Door) -> None:
    path = said.folder / "s1.jsonl"
    assert said.run("log", "export", "s1", "--format", "events", "-o", str(path)).code == 0
    events = len(lines_of(said, "s1"))
    whole = said.run("log", "validate", str(path))
    assert (whole.code, whole.out) == (0, f"{path}: {events} events, valid.\n")
    assert said.run("log", "validate", str(path), "--json").json == {
        "file": str(path),
        "events": events,
        "valid": True,
        "problems": [],
        "notes": [],
    }

    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[3].replace(b'"seq"', b'"sEq"'), *lines[4:]]))
    altered = said.run("log", "validate", str(path))
    assert altered.code == 1
    assert altered.out.startswith("Line 4 is wrong: it was altered: its checksum is wrong.")
    path.write_bytes(b"".join(lines[:-1]))
    assert f"with {events - 1} of {events} events" in said.run("log", "validate", str(path)).out


def test_a_session_comes_in_by_standard_input_and_under_a_name(said: Door) -> None:
    text = said.run("log", "export", "s1", "--format", "events").out
    made = said.spawn("log", "import", "-", "--name", "from elsewhere", "--json", text=text)

    assert made.code == 0
    shown = said.run("sessions", "show", "from elsewhere", "--json").json
    assert (shown["id"], shown["seq"]) == (made.json["session"], made.json["events"] + 1)
    assert said.run("log", "export", "s1", "--format", "events", "-o", "-").out == text


def test_what_is_torn_altered_or_foreign_is_refused_with_its_line_and_nothing_is_made(said: Door) -> None:
    lines = said.run("log", "export", "s1", "--format", "events").out.splitlines(keepends=True)
    altered = f"{lines[3][:30]}#{lines[3][31:]}"
    cases = {
        len(lines): "".join(lines)[:-9],
        len(lines) - 1: "".join(lines[:-2]),
        4: "".join((*lines[:3], altered, *lines[4:])),
        1: "hello\n",
        2: "".join((lines[0], "hello\n", *lines[1:])),
    }
    for number, text in cases.items():
        (said.work / "bad").write_text(text, encoding="utf-8")
        ran = said.run("log", "import", "bad")
        assert (ran.code, ran.out) == (1, "")
        assert f"Line {number} cannot be imported, so nothing was" in ran.err
        assert "`backstay log export ID --format events`" in ran.err
    assert [one["id"] for one in said.run("sessions", "list", "--all", "--json").json] == ["s1"]
    assert said.run("log", "import", "nowhere").code == 2
    assert said.run("log", "import", "bad", "--name", " ").code == 2


def test_mode_scope_and_an_open_turn_end_with_the_import(door: Door) -> None:
    flags = ("--session-id", "s1", "--permission-mode", "bypassPermissions", "--output-format", "events")
    waits = {"calls": [{"name": "Bash", "args": {"command": WAIT}}]}
    process = door.start("-p", "go", "--model", door.script(waits, DONE), *flags)
    list(read_until(process, "process_started"))
    path = door.folder / "s1.lines"
    assert door.run("log", "export", "s1", "--format", "events", "-o", str(path)).code == 0

    made = door.run("log", "import", str(path), "--json")
    new = made.json["session"]
    opened = door.run(
        "-r", new, "-p", "Go on.", "--model", door.script(DONE, DONE, DONE, name="other"), "--output-format", "json"
    )
    (door.work / "go").touch()

    assert "does not count here" in made.err
    state = door.run("log", "replay", new, "--at", str(made.json["events"] + 6)).json["progress"]
    assert (state["mode"], state["scope"]) == ("default", "sandboxed")
    assert (opened.code, opened.json["result"]) == (0, "two")
    assert finish(process).code == 0  # opening the copy did not stop what the first one runs


def test_nothing_is_masked_in_the_session_itself_and_everything_in_the_diagnostic_log(said: Door) -> None:
    assert TOKEN in said.run("log", "export", "s1", "--format", "events").out
    assert TOKEN not in said.run("log", "export", "s1").out
    assert "nothing in it is masked" in said.run("log", "export", "s1", "--format", "events", "-o", "x").out


def test_a_damaged_session_is_not_exported_as_if_it_were_whole(said: Door) -> None:
    damage(said.folder / "data" / "sessions.db", 6)
    ran = said.run("log", "export", "s1", "--format", "events", "-o", "x")
    assert (ran.code, (said.work / "x").exists()) == (1, False)
    assert "`backstay log repair s1`" in ran.err


async def test_the_sessions_that_it_started_are_named_and_not_in_the_file(door: Door) -> None:
    model = scripted(call("delegate", prompt="Look."), "Seen.", "Done.")
    store = await open_store(f"sqlite://{door.folder / 'family.db'}")
    async with open_session(
        model=model,
        store=store,
        session_id="p",
        cwd=door.work,
        tools=[child_tool()],
        permission_mode="bypassPermissions",
    ) as session:
        await session.run("Go.")
    await store.close()
    given = ("--store", f"sqlite://{door.folder / 'family.db'}")
    listed = await anyio.to_thread.run_sync(lambda: door.run("sessions", "list", "--all", "--json", *given).json)
    (child,) = (one["id"] for one in listed if one["parent"])

    def both() -> None:
        exported = door.run("log", "export", "p", "--format", "events", "-o", "x", *given)
        made = door.run("log", "import", "x", *given)
        assert (exported.code, made.code) == (0, 0)
        assert child in exported.err
        assert child in made.err

    await anyio.to_thread.run_sync(both)


def test_a_session_of_an_old_store_of_lines_is_imported_from_its_folder(door: Door) -> None:
    made = door.run("log", "import", str(OLD / "sessions" / "s1"), "--json")
    assert (made.code, made.json["events"]) == (0, 25)
    shown = door.run("sessions", "show", made.json["session"], "--json").json
    assert [message["role"] for message in shown["messages"]][:2] == ["user", "assistant"]
    refused = door.run("log", "import", str(OLD))
    assert (refused.code, "STORE/sessions/ID" in refused.err) == (1, True)


def test_a_folder_of_lines_is_no_store_and_the_message_says_what_to_do(said: Door) -> None:
    url = f"jsonl://{said.folder}/lines"
    commands = (
        ("sessions", "list"),
        ("-p", "hi", "--model", said.script(DONE)),
        ("log", "import", "x"),
        ("secrets", "scan"),
    )
    (said.work / "x").write_text("")
    for command in (*(("--store", url, *each) for each in commands), ("sessions", "move", "s1", url)):
        ran = said.run(*command)
        assert (ran.code, ran.out) == (1, "")
        assert "JSON lines are a format now, and no store. Use one of sqlite:///folder/file.db" in ran.err
        assert "`backstay log import FOLDER/sessions/ID`" in ran.err
    assert "JSON lines are a format now" in said.run("doctor", "--store", url).out
    assert not (said.folder / "lines").exists()
