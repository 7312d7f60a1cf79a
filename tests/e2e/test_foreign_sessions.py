"""Sessions that another store wrote: they stand in nobody's way, and are not gone on with in another guise."""

import shutil
from pathlib import Path

import pytest

from holdfast import open_store, shelf
from holdfast.runtime.clock import SystemClock
from holdfast.vocab.errors import StoreMismatch
from tests.e2e.door import Door


@pytest.mark.contract("ST-20", "ST-27")
def test_continue_passes_over_a_newer_session_of_another_store(door: Door) -> None:
    one, two = (f"jsonl://{door.folder / name}" for name in ("one", "two"))
    model = door.script({"text": "mine"}, {"text": "mine again"})
    door.run("--store", one, "-p", "hi", "--model", model, "--session-id", "mine")
    door.run("--store", two, "-p", "hi", "--model", model, "--session-id", "foreign")
    shutil.copytree(door.folder / "two" / "sessions" / "foreign", door.folder / "one" / "sessions" / "foreign")

    assert door.run("--store", one, "-c", "-p", "more").out == "mine again\n"
    forked = door.run("--store", one, "-r", "foreign", "--fork-session", "-p", "more")
    assert forked.code == 1
    assert "was written by the store" in forked.err


@pytest.mark.contract("ST-20")
async def test_a_session_of_another_store_is_neither_copied_nor_renamed(tmp_path: Path, door: Door) -> None:
    url = f"jsonl://{door.folder / 'two'}"
    door.run("--store", url, "-p", "hi", "--model", door.script({"text": "x"}), "--session-id", "s")
    here = await open_store(f"jsonl://{tmp_path}/here")
    shutil.copytree(door.folder / "two" / "sessions" / "s", tmp_path / "here" / "sessions" / "s")
    with pytest.raises(StoreMismatch):
        await shelf.fork(here, "s", clock=SystemClock())
    with pytest.raises(StoreMismatch):
        await shelf.rename(here, "s", "x", clock=SystemClock())
    await here.close()
