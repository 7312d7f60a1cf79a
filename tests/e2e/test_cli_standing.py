"""A list of sessions tells who is at work, who was left in a turn, and who is damaged."""

import signal

from tests.e2e.door import WAIT, Door, finish, read_until
from tests.stores.sqlite_kit import damage

WAITS = {"calls": [{"name": "Bash", "args": {"command": WAIT}}]}
DONE = {"text": "Done."}


def test_the_list_tells_how_it_stands_with_each_session(door: Door) -> None:
    store = ("--store", f"sqlite://{door.folder / 'sessions'}")
    flags = (*store, "--model", door.script(WAITS, DONE), "--allow", "Bash", "--output-format", "events")
    running, killed = (door.start("-p", "go", "--session-id", name, *flags) for name in ("running", "killed"))
    for process in (running, killed):
        list(read_until(process, "tool_started"))
    finish(killed, signal.SIGKILL)
    door.run("-p", "hi", "--session-id", "idle", *store, "--model", door.script(DONE, name="idle"))

    found = {each["id"]: each["status"] for each in door.run("sessions", "list", *store, "--json").json}
    lines = door.run("sessions", "list", *store).out.splitlines()[1:]
    (door.work / "go").touch()

    assert finish(running).code == 0
    assert found == {"idle": "idle", "killed": "unfinished", "running": "running"}
    assert {line.split()[0]: line.partition("  (")[2] for line in lines} == {
        "idle": "",
        "killed": "left in a turn)",
        "running": "running)",
    }


def test_a_damaged_session_is_marked_and_hides_no_other(door: Door) -> None:
    store = ("--store", f"sqlite://{door.folder / 'store.db'}")
    for name in ("sound", "broken"):
        door.run("-p", "hello", "--session-id", name, *store, "--model", door.script(DONE))
    damage(door.folder / "store.db", 3, "broken")

    found = {each["id"]: each["status"] for each in door.run("sessions", "list", *store, "--json").json}

    assert found == {"broken": "damaged", "sound": "idle"}
    assert "(damaged)" in door.run("sessions", "list", *store).out
