"""Which session is meant: by id or name, never by nothing, and never by guessing where something is lost."""

import sqlite3
from contextlib import closing

import pytest

from tests.e2e.door import Door, finish, read_until

ONE = {"text": "one"}
TWO = {"text": "two"}
HANGS = {"text": "hm", "hang": True}


def say(door: Door, session: str, *flags: str) -> None:
    assert door.run("-p", "hi", "--model", door.script(ONE, TWO), "--session-id", session, *flags).code == 0


@pytest.mark.parametrize("nothing", ["", " "])
@pytest.mark.parametrize(
    "command",
    ["sessions delete", "sessions show", "sessions verify", "log show", "log tail", "log repair", "export -o x.json"],
)
def test_an_empty_text_is_no_session(door: Door, command: str, nothing: str) -> None:
    say(door, "s1")

    ran = door.run(*command.split(), nothing)
    resumed = door.run("-r", nothing, "-p", "more")

    assert (ran.code, ran.out) == (resumed.code, resumed.out) == (2, "")
    assert "An empty text names no session" in ran.err
    assert "-r is empty" in resumed.err
    assert [one["turns"] for one in door.run("sessions", "list", "--json").json] == [1]


def test_a_name_that_two_sessions_have_is_refused_where_something_would_be_lost(door: Door) -> None:
    say(door, "s1", "--name", "twin")
    say(door, "s2", "--name", "twin")
    target = f"sqlite://{door.folder / 'lines'}"

    for command in (("delete", "twin"), ("rename", "twin", "other"), ("move", "twin", target)):
        refused = door.run("sessions", *command)
        assert (refused.code, refused.out) == (2, "")
        assert "2 sessions are called 'twin': s2, s1. Say which one by its id." in refused.err
    shown = door.run("sessions", "show", "twin", "--json")
    resumed = door.run("-r", "twin", "-p", "more", "--output-format", "json")

    for ran in (shown, resumed):
        assert "2 sessions are called 'twin'; the newest is meant: s2." in ran.err
    assert (shown.json["id"], resumed.json["session_id"]) == ("s2", "s2")
    assert door.run("sessions", "delete", "s1").code == 0
    assert door.run("sessions", "delete", "twin").out == "s2 is deleted.\n"


@pytest.mark.parametrize(
    "name", ["", "  ", "a\x1b[31mb", "two\nlines", "a\x9bb", "turned\u202eround", "a/b", "a\\b", "x" * 201]
)
def test_a_name_that_cannot_be_shown_or_typed_is_refused(door: Door, name: str) -> None:
    say(door, "s1")

    renamed = door.run("sessions", "rename", "s1", name)
    named = door.run("-p", "hi", "--model", door.script(ONE), "--name", name)

    assert (renamed.code, named.code) == (2, 2)
    assert "/" not in name or door.run("-r", "s1", "-p", f"/rename {name}").code != 0
    assert "name" in renamed.err
    assert [one["name"] for one in door.run("sessions", "list", "--json").json] == [""]
    assert door.run("sessions", "rename", "s1", "Grüße 👩\u200d💻").code == 0


def test_nothing_that_a_terminal_obeys_is_shown_to_a_person(door: Door) -> None:
    evil = "a\x1b]0;owned\x07\rb\u202ec"
    assert door.run("-p", evil, "--model", door.script({"text": evil}), "--session-id", "s1").code == 0

    for command in (
        ("sessions", "list"),
        ("sessions", "show", "s1"),
        ("sessions", "search", "owned"),
        ("log", "show", "s1"),
    ):
        ran = door.run(*command)
        assert "owned" in ran.out
        assert not set(ran.out) & set("\x1b\x07\r\u202e")


def test_a_copy_says_what_it_leaves_behind_and_finishes_nothing(door: Door) -> None:
    holder = door.start(
        "-p", "go", "--session-id", "s1", "--model", door.script(HANGS, ONE), "--output-format", "events"
    )
    list(read_until(holder, "text_delta"))
    holder.kill()
    finish(holder)

    finished = door.run("-r", "s1", "--fork-session", "--finish")
    copied = door.run("-r", "s1", "--fork-session", "--session-id", "s2", "-p", "x", "--model", door.script(ONE, ONE))
    forked = door.run("sessions", "fork", "s1", "--session-id", "s3")

    assert (finished.code, finished.out) == (2, "")
    assert "No copy was made" in finished.err
    assert (copied.code, forked.out) == (0, "s3\n")
    for ran in (copied, forked):
        assert "A turn of s1 is open. The copy has it up to its last finished step" in ran.err
    assert {one["id"] for one in door.run("sessions", "list", "--json").json} == {"s1", "s2", "s3"}


def test_a_session_that_cannot_be_opened_says_what_to_type(door: Door) -> None:
    holder = door.start(
        "-p", "go", "--session-id", "s1", "--model", door.script(HANGS, ONE), "--output-format", "events"
    )
    list(read_until(holder, "text_delta"))

    busy = door.run("-r", "s1", "-p", "more")
    holder.kill()
    finish(holder)
    with closing(sqlite3.connect(door.folder / "data" / "sessions.db")) as db, db:
        db.execute("UPDATE events SET line = X'00112233' WHERE seq = 4")
    damaged = door.run("-r", "s1", "-p", "more")
    say(door, "s2")
    with closing(sqlite3.connect(door.folder / "data" / "sessions.db")) as db, db:
        db.execute("UPDATE store SET value = 'sqlite-another' WHERE key = 'identity'")
    foreign = door.run("-r", "s2", "-p", "more")

    assert (busy.code, damaged.code, foreign.code) == (1, 1, 1)
    assert "`backstay log tail s1`" in busy.err
    assert "`backstay log repair s1`" in damaged.err
    assert "`backstay sessions move s2 STORE_URL --store sqlite://" in foreign.err
    advice = (
        foreign.err.partition("`backstay ")[2].partition("`")[0].replace("STORE_URL", f"sqlite://{door.folder}/new.db")
    )
    assert door.run(*advice.split()).code == 0
    assert door.run("--store", f"sqlite://{door.folder}/new.db", "-r", "s2", "-p", "more").out == "two\n"


def test_the_end_of_a_log_and_the_ending_of_a_file_are_checked(door: Door) -> None:
    say(door, "s1")
    last = door.run("sessions", "show", "s1", "--json").json["seq"]

    past = door.run("log", "replay", "s1", "--at", "999")
    unknown = door.run("export", "s1", "-o", str(door.folder / "x.txt"))
    told = door.run("export", "s1", "-o", str(door.folder / "x.txt"), "--format", "json")

    assert (past.code, past.out) == (unknown.code, unknown.out) == (2, "")
    assert f"the last event of s1 is {last}" in past.err
    assert door.run("log", "replay", "s1", "--at", str(last)).code == 0
    assert ".yaml (workflow), .yml (workflow), .json (json)" in unknown.err
    assert told.code == 0
