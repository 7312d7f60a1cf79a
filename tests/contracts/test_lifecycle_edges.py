"""The edges of the lifecycle of contract ST: starts that are refused, ends in order, recoveries, and what a resume keeps."""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from backstay import Session, open_session, open_store
from backstay.logic.stored_content import find_cited_blobs
from backstay.ports import EventStore, Model, Slot
from backstay.session.extensions import ExtensionContext
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from backstay.testing.crash.process import WrappedStore
from backstay.testing.store_contract import owner
from backstay.vocab.errors import NoSession, StoreError, StoreMismatch, StoreUnavailable
from backstay.vocab.event import Event, Recorded
from backstay.vocab.events import Closed, Started, ToolStarted
from backstay.vocab.messages import ToolResult, text_of
from tests.contracts.kit import call, kinds, look, scripted, talk
from tests.stores.sqlite_kit import put_over

T = TypeVar("T")


class Watched(WrappedStore):
    """A store that notes its calls, and refuses those of some names."""

    def __init__(self, inner: EventStore, *, refuses: tuple[str, ...] = ()) -> None:
        super().__init__(inner)
        self.refuses = refuses
        self.steps: list[str] = []

    async def through(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Note it, and do it or refuse."""
        if name in self.refuses:
            raise StoreUnavailable(f"no {name} today")
        done = await call()
        self.steps.append(name)
        return done


class Lamp:
    """An extension that says when it is lit and put out."""

    version = "1"

    def __init__(self, name: str, steps: list[str], needs: tuple[str, ...] = (), *, broken: bool = False) -> None:
        self.name, self.steps, self.needs, self.broken = name, steps, needs, broken
        self.at_the_end: Callable[[], Awaitable[None]] | None = None

    def restore(self, slot: Slot) -> None:
        """Take nothing back."""

    async def activate(self, context: ExtensionContext) -> None:
        """Light it."""
        if self.broken:
            raise RuntimeError("no light today")
        self.steps.append(f"lit {self.name}")

    def state(self) -> str | None:
        """Nothing."""
        return None

    async def deactivate(self) -> None:
        """Put it out."""
        self.steps.append(f"out {self.name}")
        if self.at_the_end is not None:
            await self.at_the_end()


async def memory() -> EventStore:
    return await open_store("memory:", clock=SystemClock())


async def cut_off(model: Model, last: type[Event], **options: Any) -> EventStore:
    """A store with the session `s`, whose process died after the first event of that kind."""
    whole, cut = await memory(), await memory()
    async with open_session(model=model, store=whole, session_id="s", **options) as session:
        await session.run("go")
    log = [r if r.seq > 1 else replace(r, event=replace(r.event, store=cut.identity)) for r in await session.events()]
    end = next(place for place, record in enumerate(log, start=1) if isinstance(record.event, last))
    lease = await cut.lease("s", owner())
    blobs = {sha: await whole.blob(sha) for record in log[:end] for sha in find_cited_blobs(record.event)}
    await cut.append(lease, 0, log[:end], blobs)
    await cut.release(lease)
    await whole.close()
    return cut


def write_script(path: Path) -> Path:
    path.write_text('[{"text": "one"}, {"text": "two"}]')
    return path


# --- the start -------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("ST-19")
async def test_a_store_that_does_not_take_the_start_means_no_session_and_no_lease() -> None:
    store = await memory()
    refusing = Watched(store, refuses=("append",))
    with pytest.raises(StoreUnavailable, match="no append today"):
        async with open_session(model=scripted("x"), store=refusing, session_id="s"):
            pytest.fail("must not open")
    assert await store.holder("s") is None
    with pytest.raises(NoSession):
        await store.read("s")
    async with open_session(model=scripted("x"), store=store, session_id="s", owner=owner("another")) as session:
        assert await session.run("a") == "x"
    await store.close()


@pytest.mark.contract("ST-18", "ST-21", "ST-29")
async def test_root_folder_scope_and_mode_are_recorded_and_hold_after_a_resume_from_elsewhere(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    deep = root / "deep"
    for folder in (root / ".git", deep, elsewhere):
        folder.mkdir(parents=True)
    (root / "top.txt").write_text("from the top\n")
    store = await memory()
    model = scripted("one", call("Read", file_path="../top.txt"), call("Write", file_path="n", content="x"), "two")
    begun: dict[str, Any] = {"cwd": deep, "permission_mode": "plan", "fs_scope": "project"}
    async with open_session(model=model, store=store, **begun) as session:
        await session.run("a")
        started = session.opened[0]
    assert isinstance(started, Recorded)
    assert isinstance(started.event, Started)
    manifest = started.event
    assert (manifest.project, manifest.mode, manifest.model) == (str(root), "plan", "scripted:inline")
    assert (manifest.context.working_dir, manifest.context.fs_scope) == (str(deep), "project")
    async with open_session(model=model, store=store, resume=session.id, cwd=elsewhere) as again:
        assert again.history == session.history
        assert again.permission_mode == "plan"
        meta = await store.meta(session.id)
        assert (meta.cwd, meta.project) == (str(deep), str(root))
        assert await again.run("b") == "two"
        results = [text_of(part.content) for m in again.history for part in m.content if isinstance(part, ToolResult)]
    assert "from the top" in results[0]  # from the recorded folder, within the recorded scope
    assert not (deep / "n").exists()
    assert not (elsewhere / "n").exists()
    assert "plan" in results[1]
    await store.close()


# --- the end ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("ST-12", "ST-30")
async def test_extensions_are_let_go_of_in_reverse_after_the_last_commit_and_before_the_store_is_given_back() -> None:
    store = Watched(await memory())
    steps = store.steps
    lamps = [Lamp("upper", steps, needs=("lower",)), Lamp("lower", steps)]
    async with open_session(model=scripted("x"), store=store, extensions=lamps) as session:
        await session.run("a")
        steps.append("leaving")
    log = (await store.inner.read(session.id)).records
    assert isinstance(log[-1].event, Closed)
    assert [step for step in steps if step.startswith("lit")] == ["lit lower", "lit upper"]
    ending = [step for step in steps[steps.index("leaving") + 1 :] if step in ("append", "release") or "out" in step]
    assert ending == ["append", "out upper", "out lower", "release"]
    await store.close()


@pytest.mark.contract("ST-30")
async def test_a_store_of_the_session_is_closed_last(tmp_path: Path) -> None:
    steps: list[str] = []
    opened: list[Session] = []
    lamp = Lamp("lamp", steps)

    async def read_on() -> None:
        last = (await opened[0].store.read(opened[0].id)).records[-1]
        steps.append(type(last.event).__name__)

    lamp.at_the_end = read_on
    async with talk("x", store=f"sqlite:///{tmp_path}/s.db", extensions=[lamp]) as session:
        opened.append(session)
        await session.run("a")
    assert steps == ["lit lamp", "out lamp", "Closed"]  # it could still be read when the extension went
    with pytest.raises(StoreError):
        await session.store.read(session.id)


@pytest.mark.contract("ST-38")
async def test_a_session_in_which_nothing_was_said_is_closed_from_idle_and_from_resumed() -> None:
    store = await memory()
    async with open_session(model=scripted("x"), store=store) as session:
        subscription = session.subscribe()
        assert session.state == "Idle"
        await session.close("done")
        assert session.state == "Closed"
        assert kinds([item async for item in subscription]) == ["SessionClosed"]
    async with open_session(model=scripted("x"), store=store, resume=session.id) as again:
        subscription = again.subscribe()
        assert again.state == "Resumed"
        await again.close("done")
        assert again.state == "Closed"
        assert kinds([item async for item in subscription]) == ["SessionClosed"]
    await store.close()


# --- opening it again ------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("ST-37")
async def test_a_turn_that_a_crash_cut_off_is_resumed_before_it_goes_on() -> None:
    model = scripted(call("look", at="sky"), "blue")
    store = await cut_off(model, ToolStarted, tools=[look])
    async with open_session(model=model, store=store, resume="s", tools=[look]) as again:
        assert kinds(list(again.opened)) == ["SessionResumeStarted"]
        assert again.state == "Resumed"
        subscription = again.subscribe()
        result = await again.finish()
        await again.close()
        names = kinds([item async for item in subscription])
    assert result is not None
    assert result.text == "blue"
    assert names[:3] == ["opened", "SessionResumed", "SessionTurnStart"]
    assert [name for name in names if name.startswith("Session")] == [
        "SessionResumed",
        "SessionTurnStart",
        "SessionTurnEnd",
        "SessionPersisted",
        "SessionClosed",
    ]
    await store.close()


@pytest.mark.contract("ST-20")
async def test_whose_store_it_is_is_asked_before_anything_of_the_session_is_touched(tmp_path: Path) -> None:
    clock = SystemClock()
    first = await SqliteStore.open(tmp_path / "one", clock=clock)
    async with open_session(model=scripted("one"), store=first, session_id="mine") as session:
        await session.write_slot("machine", "1", "{}")
        await session.run("a")
    await first.close()
    second = Watched(await SqliteStore.open(tmp_path / "two", clock=clock))
    await put_over(tmp_path / "one", tmp_path / "two", "mine")

    class Witness:
        """A machine that notes that it was given something."""

        id, version = "machine", "1"
        attached = False

        def attach(self, slot: Slot | None) -> None:
            """Note it."""
            self.attached = True

    witness, steps = Witness(), list[str]()
    given: dict[str, Any] = {"machine": witness, "extensions": [Lamp("lamp", steps)]}
    with pytest.raises(StoreMismatch):
        async with open_session(model=scripted("one"), store=second, resume="mine", **given):
            pytest.fail("must not open")
    assert (witness.attached, steps) == (False, [])
    assert "lease" not in second.steps
    await second.close()


@pytest.mark.contract("ST-26", "ST-27")
@pytest.mark.parametrize("missing", ["folder", "model", "extension"])
async def test_a_resume_names_what_is_missing_and_goes_on_without_it(missing: str, tmp_path: Path) -> None:
    folder, script = tmp_path / "work", write_script(tmp_path / "script.json")
    folder.mkdir()
    store = await memory()
    async with open_session(model=f"scripted:{script}", store=store, cwd=folder) as session:
        await session.run("a")
    options: dict[str, Any] = {"store": store, "resume": session.id, "cwd": tmp_path}
    if missing == "folder":
        shutil.rmtree(folder)
    elif missing == "model":
        script.unlink()
    else:
        options["extensions"] = [Lamp("lamp", [], broken=True)]
    async with open_session(**options) as again:
        assert again.state == "Resumed"
        assert again.history == session.history
        assert again.report is not None
        named = {"folder": str(folder), "model": "script.json", "extension": "'lamp' failed and is stopped"}[missing]
        assert named in again.report.words()
        if missing == "model":
            await again.set_model(f"scripted:{write_script(tmp_path / 'other.json')}")
        assert await again.run("b") == "two"
    await store.close()


@pytest.mark.contract("ST-27")
@pytest.mark.parametrize("url", ["sqlite:////proc/nope/x.db"])
async def test_a_store_that_cannot_be_reached_is_unavailable_and_no_missing_session(url: str) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        async with open_session(model=scripted("x"), store=url, resume="s"):
            pytest.fail("must not open")
    assert refused.value.code == "Session.StoreUnavailable"
