"""Sessions that can be read only in part: what is said of them, and what is refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from backstay import open_session, open_store
from backstay.catalog import sessions
from backstay.ports import EventStore, SessionQuery
from backstay.system.machine import SystemClock
from backstay.vocab.errors import LogDamaged, NeedsUpgrade
from tests.contracts.kit import scripted

CLOCK = SystemClock()


DAMAGE = "UPDATE events SET line = X'00112233' WHERE seq = {}"
NEWER = """UPDATE events SET line = replace(CAST(line AS TEXT), '"model_asked"', '"model_consulted"') WHERE seq > 8"""


async def changed(folder: Path, change: str) -> EventStore:
    """A store with a session `s` of which something cannot be read any more."""
    url = f"sqlite:///{folder}/s.db"
    async with open_session(model=scripted("one", "two", "three"), store=url, session_id="s") as session:
        for prompt in ("a", "b", "c"):
            await session.run(prompt)
    with closing(sqlite3.connect(folder / "s.db")) as db, db:
        db.execute(change)
    return await open_store(url, clock=CLOCK)


@pytest.mark.parametrize("seq", [1, 2, 8])
async def test_a_log_that_can_be_read_in_part_is_not_forked_renamed_or_moved(tmp_path: Path, seq: int) -> None:
    store = await changed(tmp_path, DAMAGE.format(seq))
    with pytest.raises(LogDamaged, match=r"Session 's' can only be read: .*`backstay log repair s`"):
        await sessions.fork(store, "s", clock=CLOCK)
    with pytest.raises(LogDamaged, match="backstay log repair s"):
        async with open_session(model=scripted("x"), store=store, resume="s", fork=True):
            pytest.fail("must not open")
    with pytest.raises(LogDamaged, match="backstay log repair s"):
        await sessions.rename(store, "s", "other", clock=CLOCK)
    with pytest.raises(LogDamaged, match="backstay log repair s"):
        await sessions.move(store, await open_store("memory:", clock=CLOCK), "s", clock=CLOCK)
    assert [meta.id for meta in await store.list(SessionQuery(include_children=True))] == ["s"]
    await store.close()


async def test_a_log_of_a_newer_version_is_not_forked_either(tmp_path: Path) -> None:
    store = await changed(tmp_path, NEWER)
    with pytest.raises(NeedsUpgrade, match=r"can only be read.*upgrade"):
        await sessions.fork(store, "s", clock=CLOCK)
    await store.close()
