"""What the torture found, each in its smallest form."""

from collections.abc import Sequence

import anyio
import pytest

from backstay.logic.decide.step import settle
from backstay.logic.state.progress import fold_all
from backstay.ports import EventStore
from backstay.providers.scripted import ScriptedModel
from backstay.session.assemble import open_session
from backstay.stores.memory import MemoryStore
from backstay.stores.owners import this_process
from backstay.system.machine import SystemClock
from backstay.testing.builders import log, started
from backstay.vocab.errors import LeaseLost, StoreFull
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.events import Closed, InputDropped, InputReceived, InputTaken, TurnStarted
from backstay.vocab.messages import Text
from tests.torture.through import through

pytestmark = pytest.mark.anyio


async def memory() -> EventStore:
    return await MemoryStore.open(clock=SystemClock())


def model() -> ScriptedModel:
    return ScriptedModel.of([{"text": "hello"}] * 5)


def test_input_that_was_taken_while_its_drop_was_on_the_way_stays_taken() -> None:
    received = InputReceived(input="in-1", parts=(Text(text="go"),))
    taken = log(started(), received, TurnStarted(number=1), InputTaken(inputs=("in-1",)))

    step = settle(fold_all(taken), [Draft(event=InputDropped(inputs=("in-1",)))], None, nonce="t1", now=0)
    waiting = settle(fold_all(taken[:2]), [Draft(event=InputDropped(inputs=("in-1", "x")))], None, nonce="t1", now=0)

    assert step.records == ()
    assert [record.event for record in waiting.records] == [InputDropped(inputs=("in-1",))]


async def test_a_session_that_could_not_be_started_is_not_held() -> None:
    store, space = await memory(), False

    def look(_: str, records: Sequence[Recorded]) -> None:
        if not space:
            raise StoreFull("No space.")

    with pytest.raises(StoreFull):
        async with open_session(model=model(), store=through(store, before=look), session_id="s1"):
            pass
    space = True

    async with open_session(model=model(), store=through(store, before=look), session_id="s1") as session:
        assert await session.run("go") == "hello"


async def test_a_store_that_cannot_take_the_end_of_a_session_raises_its_own_error() -> None:
    def look(_: str, records: Sequence[Recorded]) -> None:
        if any(isinstance(record.event, Closed) for record in records):
            raise StoreFull("No space.")

    with pytest.raises(StoreFull):
        async with open_session(model=model(), store=through(await memory(), before=look)) as session:
            await session.run("go")


async def test_input_to_a_session_that_was_taken_over_is_refused_and_nobody_waits_for_ever() -> None:
    store = await MemoryStore.open(clock=SystemClock(), is_dead=lambda _: True)

    async with open_session(model=model(), store=store, session_id="s1") as session:
        await store.lease("s1", this_process())
        with anyio.fail_after(10), pytest.raises(LeaseLost):
            await session.run("and now?")
