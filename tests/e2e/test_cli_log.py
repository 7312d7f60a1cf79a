"""`holdfast log`: shown, followed from another process, replayed, checked and mended."""

import re
import sqlite3
from contextlib import closing

import pytest

from tests.e2e.door import Door, finish, kinds, read_until

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
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_running_session_is_followed_from_another_process(door: Door, kind: str) -> None:
    store = f"{kind}://{door.folder / 'followed'}"
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


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_log_that_cannot_be_read_is_not_followed_or_copied_in_silence(door: Door, kind: str) -> None:
    door.run("-p", "hi", "--model", door.script(ONE, TWO), "--session-id", "s1", "--store", damaged_store(door, kind))
    damage(door, kind, 1)
    given = ("--store", damaged_store(door, kind))

    tail = door.run("log", "tail", "s1", "--after", "0", *given)
    fork = door.run("sessions", "fork", "s1", *given)
    both = door.run("-r", "s1", "--fork-session", "-p", "more", *given)

    assert (tail.code, tail.out) == (1, "")
    assert "goes no further" in tail.err
    for refused in (fork, both):
        assert (refused.code, refused.out) == (1, "")
        assert "holdfast log repair s1" in refused.err


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_tail_of_a_damaged_log_shows_what_can_be_read(door: Door, kind: str) -> None:
    door.run("-p", "hi", "--model", door.script(ONE, TWO), "--session-id", "s1", "--store", damaged_store(door, kind))
    damage(door, kind, 12)

    tail = door.run("log", "tail", "s1", "--json", "--store", damaged_store(door, kind))
    shown = door.run("log", "show", "s1", "--json", "--store", damaged_store(door, kind))

    assert tail.code == 1
    assert "goes no further" in tail.err
    assert [line["seq"] for line in tail.lines if "seq" in line] == [line["seq"] for line in shown.lines][-10:]


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_repair_says_what_it_puts_aside_and_that_nothing_is_left(door: Door, kind: str) -> None:
    store = damaged_store(door, kind)
    for session, seq in (("part", 4), ("nothing", 1)):
        door.run("-p", "hi", "--model", door.script(ONE, TWO), "--session-id", session, "--store", store)
        damage(door, kind, seq, session)

    part = door.run("log", "repair", "part", "--store", store).out
    nothing = door.run("log", "repair", "nothing", "--store", store)

    assert re.search(r"[13] events? kept, \d+ events put aside\.", part)
    assert nothing.code == 0
    assert "Nothing of it can be read" in nothing.out
    assert "there is no session 'nothing' any more" in nothing.out
    listed = door.run("sessions", "list", "--json", "--store", store).json
    assert [one["id"] for one in listed] == ["part"]


def damaged_store(door: Door, kind: str) -> str:
    return f"{kind}://{door.folder / 'damaged'}"


def damage(door: Door, kind: str, seq: int, session: str = "s1") -> None:
    """Make one event of a session unreadable."""
    if kind == "sqlite":
        with closing(sqlite3.connect(door.folder / "damaged")) as db, db:
            num = "(SELECT num FROM sessions WHERE id = ?)"
            db.execute(f"UPDATE events SET line = X'00112233' WHERE seq = ? AND session = {num}", (seq, session))
        return
    segment = min((door.folder / "damaged" / "sessions" / session).glob("*.jsonl"))
    lines = segment.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if f'"seq":{seq},'.encode() in line)
    lines[at] = lines[at].replace(b'"at":', b'"ab":')
    segment.write_bytes(b"".join(lines))


def test_a_torn_tail_is_a_note_before_and_after_the_session_went_on(door: Door) -> None:
    store = ("--store", f"jsonl://{door.folder / 'lines'}")
    model = ("--model", door.script(TWO, TWO, TWO))
    door.run("-p", "hi", *model, "--session-id", "s1", *store)
    folder = door.folder / "lines/sessions/s1"
    for token in (1, 2):
        newest = folder / f"{token:08}.jsonl"
        newest.write_bytes(newest.read_bytes() + b'{"seq":99,"id":"half')
        valid = door.run("log", "validate", "s1", "--json", *store)
        assert (valid.code, valid.json["problems"]) == (0, [])
        assert [note[:8] for note in valid.json["notes"]] == [f"{n:08}" for n in range(1, token + 1)]
        verified = door.run("sessions", "verify", "s1", "--json", *store)
        assert (verified.code, verified.json) == (
            0,
            [{"id": "s1", "ok": True, "problems": [], "notes": valid.json["notes"]}],
        )
        assert "s1  ok\n  00000001.jsonl: the last 20 bytes" in door.run("sessions", "verify", *store).out
        assert door.run("-r", "s1", "-p", "more", *model, *store).code == 0
    assert "needs no repair" in door.run("log", "repair", "s1", *store).out


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
