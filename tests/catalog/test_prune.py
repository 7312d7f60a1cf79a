"""Pruning: only what is old or empty goes, as it is in the moment that it goes."""

from pathlib import Path

import pytest

from backstay import open_session, open_store
from backstay.catalog import sessions
from backstay.ports import EventStore, SessionQuery
from backstay.stores.memory import MemoryStore
from backstay.stores.owners import this_process
from backstay.system.machine import SystemClock
from backstay.vocab.specs import SessionMeta
from tests.contracts.kit import scripted
from tests.stores.sqlite_kit import damage

CLOCK = SystemClock()
DAYS_AGO = 40


class Earlier(SystemClock):
    """Forty days ago."""

    def now(self) -> int:
        return super().now() - DAYS_AGO * 24 * 3600 * 1_000_000


class Meddled(MemoryStore):
    """A store in which somebody does something between a look at the list and what follows from it."""

    opens = ""
    uses = ""

    async def list(self, query: SessionQuery = SessionQuery()) -> tuple[SessionMeta, ...]:  # noqa: B008  # frozen
        found = await super().list(query)
        if self.opens:
            await super().lease(self.opens, this_process("somebody"))
        if self.uses:
            async with open_session(model=scripted("x", "today"), store=self, resume=self.uses) as session:
                assert await session.run("important") == "today"
            self.uses = ""
        return found


async def old(store: EventStore, *names: str) -> None:
    for name in names:
        async with open_session(model=scripted("x"), store=store, session_id=name, clock=Earlier()) as session:
            await session.run("hello")


async def test_a_session_that_is_used_or_opened_after_the_look_stays_and_the_others_go() -> None:
    store = await Meddled.open(clock=CLOCK)
    assert isinstance(store, Meddled)
    await old(store, "a", "opened", "used", "z")
    store.opens, store.uses = "opened", "used"
    told: list[str] = []
    gone = await sessions.prune(store, clock=CLOCK, older_than_days=30, report=told.append)
    store.opens = ""
    assert {meta.id for meta in gone} == {"a", "z"}
    assert {meta.id for meta in await store.list()} == {"opened", "used"}
    assert sorted(told) == ["opened stays: somebody has it open.", "used stays: it was used meanwhile."]


@pytest.mark.parametrize("seq", [1, 5])
async def test_a_damaged_session_never_counts_as_empty(tmp_path: Path, seq: int) -> None:
    store = await open_store(f"sqlite://{tmp_path / 'store'}", clock=CLOCK)
    async with open_session(model=scripted("x"), store=store, session_id="said") as session:
        await session.run("hello")
    async with open_session(model=scripted("x", "y"), store=store, resume="said") as session:
        await session.run("more")
    async with open_session(model=scripted("x"), store=store, session_id="void"):
        pass
    await store.close()
    damage(tmp_path / "store", seq, "said")
    store = await open_store(f"sqlite://{tmp_path / 'store'}", clock=CLOCK)
    told: list[str] = []
    for dry in (True, False):
        gone = await sessions.prune(store, clock=CLOCK, empty=True, dry_run=dry, report=told.append)
        assert [meta.id for meta in gone] == ["void"]
    await sessions.prune(
        store, clock=CLOCK, older_than_days=0, report=told.append
    )  # how old it is cannot be read either
    assert [meta.id for meta in await store.list()] == ["said"]
    assert told
    assert all("backstay log repair said" in words for words in told)
    await store.close()
