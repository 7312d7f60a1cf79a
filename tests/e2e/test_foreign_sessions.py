"""Sessions that another store wrote: they stand in nobody's way, and are not gone on with in another guise."""

import contextlib
import json
import sqlite3

import anyio
import pytest

from tests.e2e.door import Door
from tests.stores.sqlite_kit import put_over


@pytest.mark.contract("ST-20", "ST-27")
def test_continue_passes_over_a_newer_session_of_another_store(door: Door) -> None:
    one, two = (f"sqlite://{door.folder / name}.db" for name in ("one", "two"))
    model = door.script({"text": "mine"}, {"text": "mine again"})
    door.run("--store", one, "-p", "hi", "--model", model, "--session-id", "mine")
    door.run("--store", two, "-p", "hi", "--model", model, "--session-id", "foreign")
    anyio.run(put_over, door.folder / "two.db", door.folder / "one.db", "foreign")

    assert door.run("--store", one, "-c", "-p", "more").out == "mine again\n"
    for refused in (
        door.run("--store", one, "-r", "foreign", "--fork-session", "-p", "more"),
        door.run("--store", one, "sessions", "fork", "foreign"),
        door.run("--store", one, "sessions", "rename", "foreign", "another"),
    ):
        assert refused.code == 1
        assert "was written by the store" in refused.err


@pytest.mark.parametrize("time", [2**62, -(2**62), 10**40])
def test_a_session_of_a_time_that_no_calendar_has_hides_no_other(door: Door, time: int) -> None:
    model = door.script({"text": "Hi."})
    for name in ("odd", "other"):
        door.run("-p", "hi", "--model", model, "--session-id", name)
    with contextlib.closing(sqlite3.connect(door.folder / "data" / "sessions.db")) as file, file:
        [(meta,)] = file.execute("SELECT meta FROM sessions WHERE id = 'odd'").fetchall()
        said = {**json.loads(meta), "created": time, "updated": time}
        file.execute("UPDATE sessions SET meta = ? WHERE id = 'odd'", (json.dumps(said).encode(),))

    assert {row["id"] for row in door.run("sessions", "list", "--json").json} == {"odd", "other"}
    assert door.run("sessions", "list").code == door.run("sessions", "show", "odd").code == 0
