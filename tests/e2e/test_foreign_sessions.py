"""Sessions that another store wrote: they stand in nobody's way, and are not gone on with in another guise."""

import shutil

import pytest

from tests.e2e.door import Door


@pytest.mark.contract("ST-20", "ST-27")
def test_continue_passes_over_a_newer_session_of_another_store(door: Door) -> None:
    one, two = (f"jsonl://{door.folder / name}" for name in ("one", "two"))
    model = door.script({"text": "mine"}, {"text": "mine again"})
    door.run("--store", one, "-p", "hi", "--model", model, "--session-id", "mine")
    door.run("--store", two, "-p", "hi", "--model", model, "--session-id", "foreign")
    shutil.copytree(door.folder / "two" / "sessions" / "foreign", door.folder / "one" / "sessions" / "foreign")

    assert door.run("--store", one, "-c", "-p", "more").out == "mine again\n"
    for refused in (
        door.run("--store", one, "-r", "foreign", "--fork-session", "-p", "more"),
        door.run("--store", one, "sessions", "fork", "foreign"),
        door.run("--store", one, "sessions", "rename", "foreign", "another"),
    ):
        assert refused.code == 1
        assert "was written by the store" in refused.err
