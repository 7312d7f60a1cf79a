"""A child whose parent died in the middle of a turn: what it did happens once, wherever the two go from there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from backstay import UserError, open_session, open_store, tool
from backstay.catalog import sessions
from backstay.ports import EventStore, ModelRequest, SessionQuery
from backstay.session.subagents import child_tool
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from backstay.vocab.errors import NoSession
from backstay.vocab.events import ToolFinished
from backstay.vocab.messages import text_of
from backstay.vocab.specs import ModelFacts
from tests.contracts.kit import Till, call, scripted
from tests.stores.sqlite_kit import copy_database

CLOCK = SystemClock()


class Family:
    """A model that answers parent and child each from its own script."""

    name, format, facts = "family:1", "anthropic", ModelFacts()

    def __init__(self) -> None:
        self.parent = scripted(call("delegate", prompt="CHILD pay"), "over")
        self.child = scripted(call("charge", amount=1), call("wait"), "the child is done")

    def ask(self, request: ModelRequest):  # type: ignore[no-untyped-def]  # a stream, as the port says
        first = request.messages[0].parts[0]
        return (self.child if "CHILD" in getattr(first, "text", "") else self.parent).ask(request)


class Scene:
    """A store as a process left it that died while a child of the session `parent` had paid and was waiting."""

    def __init__(self, store: EventStore, till: Till) -> None:
        self.store = store
        self.till = till

    async def child(self) -> str:
        """The id of the child."""
        return next(meta.id for meta in await self.store.list(SessionQuery(include_children=True)) if meta.parent)

    async def finish(self, store: EventStore) -> list[ToolFinished]:
        """Finish the parent's turn where it is now, and return the results of its calls that are no child's answers."""
        release = anyio.Event()
        release.set()
        tools = [child_tool(), self.till.tool, _waiting(anyio.Event(), release)]
        async with open_session(model=Family(), store=store, resume="parent", tools=tools) as session:
            result = await session.finish()
            assert result is not None
            assert result.outcome == "completed"
            return [record.event for record in await session.events() if isinstance(record.event, ToolFinished)]


@asynccontextmanager
async def crashed(folder: Path) -> AsyncIterator[Scene]:
    till, reached, release = Till(), anyio.Event(), anyio.Event()
    living = await open_store(f"sqlite://{folder / 'living'}", clock=CLOCK)
    tools = [child_tool(), till.tool, _waiting(reached, release)]
    async with (
        open_session(model=Family(), store=living, session_id="parent", tools=tools) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(session.run, "go")
        await reached.wait()
        await anyio.to_thread.run_sync(copy_database, folder / "living", folder / "dead")
        release.set()
    await living.close()
    store = await SqliteStore.open(folder / "dead", clock=CLOCK, is_dead=lambda _: True)
    yield Scene(store, till)
    await store.close()


def _waiting(reached: anyio.Event, release: anyio.Event):  # type: ignore[no-untyped-def]  # a tool
    @tool(effect="pure")
    async def wait() -> str:
        """Wait."""
        reached.set()
        await release.wait()
        return "waited"

    return wait


async def test_a_move_takes_the_children_along(tmp_path: Path) -> None:
    async with crashed(tmp_path) as scene:
        target = await open_store("memory:", clock=CLOCK)
        child = await scene.child()
        await sessions.move(scene.store, target, "parent", clock=CLOCK)
        assert await scene.store.list(SessionQuery(include_children=True)) == ()
        assert (await target.meta(child)).parent == "parent"
        assert await scene.finish(target) == []
        assert scene.till.charged == [1]


async def test_a_child_whose_log_is_gone_is_not_begun_anew(tmp_path: Path) -> None:
    async with crashed(tmp_path) as scene:
        await scene.store.delete(await scene.child())
        (result,) = await scene.finish(scene.store)
        assert (result.outcome, result.code) == ("unknown", "restart")
        assert "child session" in text_of(result.content)
        assert scene.till.charged == [1]


async def test_a_child_that_an_open_turn_needs_is_neither_deleted_nor_pruned_nor_moved_alone(tmp_path: Path) -> None:
    async with crashed(tmp_path) as scene:
        child, target, told = await scene.child(), await open_store("memory:", clock=CLOCK), list[str]()
        with pytest.raises(UserError, match="backstay -r parent --finish"):
            await sessions.delete(scene.store, child)
        with pytest.raises(UserError, match="backstay -r parent --finish"):
            await sessions.move(scene.store, target, child, clock=CLOCK)
        between = (await scene.store.meta(child)).updated + 1
        await sessions.rename(scene.store, "parent", "important", clock=CLOCK)
        days = (CLOCK.now() - between) / (24 * 3600 * 1_000_000)
        for dry in (True, False):
            gone = await sessions.prune(scene.store, clock=CLOCK, older_than_days=days, dry_run=dry, report=told.append)
            assert gone == ()
        assert [words.partition(":")[0] for words in told] == [f"{child} stays"] * 2
        await scene.finish(scene.store)
        assert scene.till.charged == [1]
        await sessions.delete(scene.store, child)


async def test_pruning_takes_a_child_with_its_parent(tmp_path: Path) -> None:
    async with crashed(tmp_path) as scene:
        child = await scene.child()
        for dry in (True, False):
            gone = await sessions.prune(scene.store, clock=CLOCK, older_than_days=-1, dry_run=dry)
            assert [meta.id for meta in gone] == ["parent", child]
        with pytest.raises(NoSession):
            await scene.store.meta(child)
