"""Fold snapshots: a cache that changes nothing but time."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from backstay import open_session, open_store
from backstay.catalog import load as replaying
from backstay.catalog.load import code_digest, digest_of, load, replay
from backstay.ports import EventStore, FoldSnapshot, LogSlice
from backstay.stores.memory import MemoryStore
from backstay.system.machine import SystemClock
from backstay.vocab.errors import StoreFull
from backstay.vocab.event import Recorded
from backstay.vocab.events import ModelAsked
from tests.contracts.kit import Till, call, scripted

SCRIPT = (call("charge", amount=1), "paid", "two", "three", "four", "five")


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]  # a fixture
    monkeypatch.setattr(replaying, "WORTH_A_SNAPSHOT", 1)
    opened = await open_store(f"sqlite:///{tmp_path}/s.db", clock=SystemClock())
    async with open_session(model=scripted(*SCRIPT), tools=[Till().tool], store=opened, session_id="s") as session:
        for prompt in ("pay", "b", "c"):
            await session.run(prompt)
    yield opened
    await opened.close()


async def test_a_session_opened_from_a_snapshot_is_the_same(store: EventStore) -> None:
    kept = await store.snapshot("s", code_digest())
    assert kept is not None
    quick, whole = await load(store, "s"), await load(store, "s", whole=True)
    assert quick.folded == 0
    assert whole.folded == kept.seq
    assert quick.state.plain() == whole.state.plain()


async def test_a_session_goes_on_from_a_snapshot_and_still_equals_its_replay(store: EventStore) -> None:
    async with open_session(model=scripted(*SCRIPT), tools=[Till().tool], store=store, resume="s") as session:
        assert await session.run("d") == "four"
        await session.rewind(to=session.turns[0].turn)  # needs a path that the snapshot does not hold
        assert [message.role for message in session.history] == ["user", "assistant", "tool", "assistant"]
        assert len(await session.full_history()) == 7
        live, seq = session.plain_state(), session.seq
    assert await replay(store, "s", seq) == live
    async with open_session(model=scripted(*SCRIPT), tools=[Till().tool], store=store, resume="s") as session:
        assert await session.run("e") == "five"


@pytest.mark.parametrize("spoil", ["digest", "tip", "content", "seq"])
async def test_a_snapshot_that_does_not_fit_is_ignored(store: EventStore, spoil: str) -> None:
    kept = await store.snapshot("s", code_digest())
    assert kept is not None
    wrong: dict[str, FoldSnapshot] = {
        "digest": replace(kept, digest="other"),
        "tip": replace(kept, tip="other"),
        "content": replace(kept, content=b"garbage"),
        "seq": replace(kept, seq=kept.seq + 5),
    }
    await store.keep_snapshot("s", wrong[spoil])
    loaded = await load(store, "s")
    assert loaded.folded == kept.seq
    assert loaded.state.plain() == await replay(store, "s")


async def test_no_snapshot_is_kept_of_a_small_or_unfinished_session(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "WORTH_A_SNAPSHOT", 10_000)
    async with open_session(model=scripted("x"), store=store, session_id="small") as session:
        await session.run("a")
    assert await store.snapshot("small", code_digest()) is None


async def test_a_long_session_that_dies_has_a_snapshot_of_its_last_rest(store: EventStore) -> None:
    """Whoever opens it again folds only what came since."""
    async with open_session(model=scripted("x", {"hang": True}), store=store, session_id="killed") as session:
        await session.run("a")
        while await store.snapshot("killed", code_digest()) is None:
            await anyio.sleep(0.001)
        at_rest = session.seq
        async for item in session.send("b"):
            if isinstance(item, Recorded) and isinstance(item.event, ModelAsked):
                break
        loaded = await load(store, "killed")
        assert (loaded.folded, loaded.state.plain()) == (session.seq - at_rest, session.plain_state())


class _Narrow(MemoryStore):
    """Has no room for a cache."""

    async def keep_snapshot(self, session: str, snapshot: FoldSnapshot) -> None:
        raise StoreFull(f"No room for the snapshot of {session!r}.")


async def test_a_snapshot_that_cannot_be_kept_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "WORTH_A_SNAPSHOT", 1)
    store = await _Narrow.open(clock=SystemClock())
    async with open_session(model=scripted("x", "y"), store=store, session_id="s") as session:
        assert await session.run("a") == "x"
        assert await session.run("b") == "y"
    assert (await load(store, "s")).state.progress.closed


@pytest.mark.parametrize(
    "changed",
    [
        "vocab/events/tools.py",
        "logic/state/progress.py",
        "permissions/verdict.py",
        "hooks/gates.py",
        "checkpoints/tree.py",
    ],
)
def test_whatever_changes_the_meaning_of_a_log_makes_other_snapshots(tmp_path: Path, changed: str) -> None:
    for name in (
        "vocab/events/tools.py",
        "logic/state/progress.py",
        "permissions/verdict.py",
        "hooks/gates.py",
        "checkpoints/tree.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1")
    before = digest_of(tmp_path)
    assert digest_of(tmp_path) == before
    (tmp_path / changed).write_text("x = 2")
    after = digest_of(tmp_path)
    (tmp_path / changed).rename(tmp_path / "logic" / "other.py")
    assert len({before, after, digest_of(tmp_path)}) == 3


class _Watched(tuple[Recorded, ...]):
    """Events that know which threads went through them."""

    def __iter__(self) -> Iterator[Recorded]:
        _THREADS.append(threading.get_ident())
        return super().__iter__()

    def __getitem__(self, at: Any) -> Any:  # Any: as a tuple has it
        found = super().__getitem__(at)
        return _Watched(found) if isinstance(at, slice) else found


_THREADS: list[int] = []


class _Watching(MemoryStore):
    """Says who folds its logs."""

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> LogSlice:
        part = await super().read(session, after, limit)
        return LogSlice(records=_Watched(part.records), trouble=part.trouble)


async def test_a_log_is_folded_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "WORTH_A_SNAPSHOT", 1)
    store = await _Watching.open(clock=SystemClock())
    async with open_session(model=scripted("x", "y"), store=store, session_id="s") as session:
        await session.run("a")
    _THREADS.clear()
    await replay(store, "s")
    await load(store, "s", whole=True)
    assert len(_THREADS) >= 2
    assert threading.get_ident() not in _THREADS
