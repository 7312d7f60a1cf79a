"""A session that 0.2.0 kept in a folder of JSON lines is imported, or refused by file and line.

`tests/fixtures/lines_folder` was written by 0.2.0: four segments, of which the first has bytes of a stopped writer behind what counts and
the last was claimed only.
"""

import io
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from backstay.export.log_file import folder_lines, import_log
from backstay.logic.stored_content import digest
from backstay.stores.memory import MemoryStore
from backstay.system.machine import SystemClock
from backstay.testing.builders import golden_logs
from backstay.vocab.errors import LogDamaged

KEPT = Path(__file__).parents[1] / "fixtures" / "lines_folder"
BLOB = b"a long text" * 9


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """The folder of the session in a copy of the store."""
    shutil.copytree(KEPT, tmp_path / "store")
    return tmp_path / "store" / "sessions" / "s1"


async def events(session: Path) -> int:
    store = await MemoryStore.open(clock=SystemClock())
    done = await import_log(store, io.BytesIO(b"".join(folder_lines(session))), clock=SystemClock())
    records = (await store.read(done.session)).records
    expected = [
        replace(record, event=replace(record.event, instructions=digest(BLOB)))
        if hasattr(record.event, "instructions")
        else record
        for record in golden_logs()["tools"]
    ]
    assert list(records[1 : done.events]) == expected[1 : done.events]
    assert await store.blob(digest(BLOB)) == BLOB
    return done.events


async def test_what_counts_of_every_segment_is_imported(session: Path) -> None:
    assert await events(session) == len(golden_logs()["tools"])


@pytest.mark.parametrize("place", ["blobs", "sessions/s1/00000003.blobs"])
async def test_a_blob_is_found_in_either_place(session: Path, place: str) -> None:
    shutil.rmtree(session.parents[1] / place)
    assert await events(session) == len(golden_logs()["tools"])


async def test_half_a_batch_at_the_end_does_not_count(session: Path) -> None:
    (session / "00000004.jsonl").unlink()
    newest = session / "00000003.jsonl"
    newest.write_bytes(newest.read_bytes()[:-5])
    assert await events(session) == 9


@pytest.mark.parametrize("name", ["00000001.jsonl", "00000002.jsonl", "00000003.jsonl"])
def test_damage_is_refused_with_its_file_and_line(session: Path, name: str) -> None:
    content = (session / name).read_bytes()
    lines = content.splitlines(keepends=True)
    for place in range(2 if name == "00000001.jsonl" else 0, 3):
        altered = lines[place].replace(b'"', b"'", 1)
        (session / name).write_bytes(b"".join((*lines[:place], altered, *lines[place + 1 :])))
        with pytest.raises(LogDamaged, match=rf"{name}', line {place + 1}: it was altered.* `backstay log repair`"):
            list(folder_lines(session))
    (session / name).unlink()
    if name != "00000003.jsonl":
        with pytest.raises(LogDamaged, match=f"{name}': it is missing"):
            list(folder_lines(session))


def test_a_folder_without_a_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogDamaged, match="STORE/sessions/ID"):
        list(folder_lines(tmp_path))
