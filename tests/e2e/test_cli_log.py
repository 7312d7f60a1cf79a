"""`backstay log`: shown, followed from another process, replayed, checked and mended."""

import json
import re
import sqlite3
from contextlib import closing

import pytest

from tests.e2e.door import Door, finish, kinds, read_until
from tests.stores.sqlite_kit import damage

ONE = {"text": "one", "calls": [{"name": "Read", "args": {"file_path": "a.txt"}}]}
TWO = {"text": "two"}


def test_a_log_is_shown_replayed_and_valid(door: Door) -> None:
    live = door.run(
        "-p", "hi", "--model", door.script(ONE, TWO), "--session-id", "s1", "--output-format", "events"
    ).lines
    events = [line for line in live if "seq" in line]

    assert door.run("log", "show", "s1", "--after", "2", "--limit", "3", "--json").lines == events[2:5]
    words = door.run("log", "show", "s1").out.splitlines()
    assert len(words) == len(events)
    assert words[0].split()[:4:3] == ["1", "started"]
    state = door.run("log", "replay", "s1").json
    assert [message["role"] for message in state["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert (state["lifecycle"], state["progress"]["seq"]) == ("Closed", len(events))
    prefix = door.run("log", "replay", "s1", "--at", "5", "--json").json
    assert (prefix["lifecycle"], prefix["progress"]["seq"], len(prefix["messages"])) == ("Active", 5, 1)
    valid = door.run("log", "validate", "s1", "--json")
    assert valid.code == 0
    assert valid.json == {"session": "s1", "valid": True, "events": len(events), "problems": [], "notes": []}
    assert "needs no repair" in door.run("log", "repair", "s1").out


@pytest.mark.contract("RB-31", "RV-B2")
def test_a_running_session_is_followed_from_another_process(door: Door) -> None:
    store = f"sqlite://{door.folder / 'followed'}"
    slow = {"text": "slowly but surely", "chunk": 4, "delay_ms": 150}
    process = door.start(
        *("-p", "hi", "--session-id", "s1", "--store", store, "--model", door.script(ONE, slow)),
        *("--output-format", "events"),
    )
    live = list(read_until(process, "model_asked"))

    tail = door.start("--store", store, "log", "tail", "s1", "--json", "--after", "0")
    seen = list(read_until(tail, "text_delta"))
    live += finish(process).lines
    seen += finish(tail).lines

    events = [line for line in live if "seq" in line]
    assert [line for line in seen if "seq" in line] == events
    said = [line for line in seen if line["type"] == "session:text_delta"]
    asked = [line["seq"] for line in events if line["type"] == "session:model_asked"]
    assert said, "something was seen while it was being said"
    for place, whole in zip(
        asked, ("one", "slowly but surely"), strict=True
    ):  # of what is whole already, the rest is not shown
        assert whole.startswith("".join(line["data"]["text"] for line in said if line["after"] == place))
    assert [line["after"] for line in said] == sorted(line["after"] for line in said if line["after"] in asked)
    place = kinds(seen).index("text_delta")
    assert seen[place - 1]["seq"] == said[0]["after"]


def test_damage_is_named_the_rest_is_readable_and_repair_makes_it_whole(door: Door) -> None:
    model = door.script(ONE, TWO, TWO)
    door.run("-p", "hi", "--model", model, "--session-id", "s1")
    with closing(sqlite3.connect(door.folder / "data" / "sessions.db")) as db, db:
        db.execute("UPDATE events SET line = X'00112233' WHERE seq = 6")

    resumed = door.run("-r", "s1", "-p", "more")
    shown = door.run("log", "show", "s1", "--json")
    validated = door.run("log", "validate", "s1", "--json")
    verified = door.run("sessions", "verify", "--json")
    listed = door.run("sessions", "list", "--json")
    replayed = door.run("log", "replay", "s1")
    before = door.run("log", "replay", "s1", "--at", "5")
    exported = door.run("log", "export", "s1")

    assert (resumed.code, resumed.out) == (1, "")
    assert [(each.code, "goes no further" in each.err) for each in (replayed, exported, before)] == [
        (1, True),
        (1, True),
        (0, False),
    ]
    assert replayed.json == before.json
    assert "can only be read" in resumed.err
    assert (shown.code, [line["seq"] for line in shown.lines]) == (1, [1, 2, 3, 4, 5])
    assert "goes no further" in shown.err
    assert (validated.code, validated.json["valid"]) == (1, False)
    assert (verified.code, verified.json[0]["ok"]) == (1, False)
    assert [one["id"] for one in listed.json] == ["s1"]
    repaired = door.run("log", "repair", "s1", "--json")
    assert repaired.code == 0
    assert "now ends at event 5" in repaired.json["done"]
    assert door.run("-r", "s1", "--finish").out == "two\n"


def test_a_log_that_cannot_be_read_is_not_followed_or_copied_in_silence(door: Door) -> None:
    door.run("-p", "hi", "--model", door.script(ONE, TWO), "--session-id", "s1", "--store", damaged_store(door))
    damage(door.folder / "damaged", 1)
    given = ("--store", damaged_store(door))

    tail = door.run("log", "tail", "s1", "--after", "0", *given)
    fork = door.run("sessions", "fork", "s1", *given)
    both = door.run("-r", "s1", "--fork-session", "-p", "more", *given)

    assert (tail.code, tail.out) == (1, "")
    assert "goes no further" in tail.err
    for refused in (fork, both):
        assert (refused.code, refused.out) == (1, "")
        assert "backstay log repair s1" in refused.err


def test_a_tail_of_a_damaged_log_shows_what_can_be_read(door: Door) -> None:
    door.run("-p", "hi", "--model", door.script(ONE, TWO), "--session-id", "s1", "--store", damaged_store(door))
    damage(door.folder / "damaged", 12)

    tail = door.run("log", "tail", "s1", "--json", "--store", damaged_store(door))
    shown = door.run("log", "show", "s1", "--json", "--store", damaged_store(door))

    assert tail.code == 1
    assert "goes no further" in tail.err
    assert [line["seq"] for line in tail.lines if "seq" in line] == [line["seq"] for line in shown.lines][-10:]


def test_a_repair_says_what_it_puts_aside_and_that_nothing_is_left(door: Door) -> None:
    store = damaged_store(door)
    for session, seq in (("part", 4), ("nothing", 1)):
        door.run("-p", "hi", "--model", door.script(ONE, TWO), "--session-id", session, "--store", store)
        damage(door.folder / "damaged", seq, session)

    part = door.run("log", "repair", "part", "--store", store).out
    nothing = door.run("log", "repair", "nothing", "--store", store)

    assert re.search(r"[13] events? kept, \d+ events put aside\.", part)
    assert nothing.code == 0
    assert "Nothing of it can be read" in nothing.out
    assert "there is no session 'nothing' any more" in nothing.out
    listed = door.run("sessions", "list", "--json", "--store", store).json
    assert [one["id"] for one in listed] == ["part"]


def damaged_store(door: Door) -> str:
    return f"sqlite://{door.folder / 'damaged'}"


def test_an_unmatched_call_makes_a_log_invalid(door: Door) -> None:
    door.run("-p", "hi", "--model", door.script(ONE, TWO), "--session-id", "s1")
    with closing(sqlite3.connect(door.folder / "data" / "sessions.db")) as db, db:
        lines = db.execute("SELECT row, line FROM events").fetchall()
        row, line = next((row, bytes(line)) for row, line in lines if b"tool_finished" in bytes(line))
        db.execute("UPDATE events SET line = ? WHERE row = ?", (line.replace(b'-0"', b'-9"'), row))

    ran = door.run("log", "validate", "s1")

    assert ran.code == 1
    assert "which is not open" in ran.out
    assert "without a result" in ran.out


def test_an_end_of_a_skill_that_did_not_begin_makes_a_log_invalid(door: Door) -> None:
    skill = door.work / ".claude" / "skills" / "look" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: look\ndescription: Look.\ncontext: fork\n---\nLook at a.txt.\n", encoding="utf-8")
    door.run("-p", "/look", "--model", door.script(ONE, TWO), "--session-id", "s1", "--trust")
    with closing(sqlite3.connect(door.folder / "data" / "sessions.db")) as db, db:
        lines = db.execute("SELECT row, line FROM events").fetchall()
        row, line = next((row, json.loads(line)) for row, line in lines if b"child_started" in bytes(line))
        other = json.dumps({**line, "type": "mode_changed", "data": {"mode": "plan"}}).encode()
        db.execute("UPDATE events SET line = ? WHERE row = ?", (other, row))

    ran = door.run("log", "validate", "s1")

    assert ran.code == 1
    assert "of the skill 'look', which is not running" in ran.out
