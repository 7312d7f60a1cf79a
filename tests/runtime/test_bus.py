"""The bus: in order, bounded, and never in anybody's way."""

import anyio

from backstay.runtime.bus import Bus
from backstay.vocab.deltas import Lagged, TextDelta
from backstay.vocab.event import Recorded
from backstay.vocab.events import Renamed


def record(seq: int) -> Recorded:
    return Recorded(seq=seq, id=f"e.{seq}", at=seq, by="user", event=Renamed(name=str(seq)))


async def test_two_listeners_hear_the_same_in_order() -> None:
    bus = Bus()
    one, two = bus.subscribe(), bus.subscribe()
    bus.publish([record(1), TextDelta(text="x", after=1)])
    bus.publish([record(2)])
    bus.close()
    heard = [[item async for item in listener] for listener in (one, two)]
    assert heard[0] == heard[1] == [record(1), TextDelta(text="x", after=1), record(2)]


async def test_a_listener_to_one_kind_hears_nothing_else() -> None:
    bus = Bus()
    events = bus.subscribe(capacity=2, only=Recorded)
    bus.publish(TextDelta(text="x", after=1) for _ in range(9))
    bus.publish([record(1), TextDelta(text="x", after=1)])
    assert [events.take(), events.take()] == [record(1), None]


async def test_a_slow_listener_is_told_where_it_lost_track_and_others_are_not_disturbed() -> None:
    bus = Bus()
    slow, quick = bus.subscribe(capacity=3), bus.subscribe()
    bus.publish([record(1)])
    assert slow.take() == record(1)
    bus.publish(record(seq) for seq in range(2, 10))
    bus.publish([record(10)])
    assert slow.take() == Lagged(after=1, missed=8)
    assert slow.take() == record(10)
    assert [quick.take() for _ in range(10)] == [record(seq) for seq in range(1, 11)]


async def test_a_listener_that_read_the_log_again_hears_nothing_twice() -> None:
    bus = Bus()
    listener = bus.subscribe(capacity=2)
    bus.publish(record(seq) for seq in range(1, 5))
    bus.publish([record(5)])
    lagged = listener.take()
    assert lagged == Lagged(after=0, missed=4)
    listener.mark_read(5)  # the log had all five by then
    assert listener.take() is None


async def test_deltas_of_what_was_read_from_the_log_meanwhile_are_left_out() -> None:
    bus = Bus()
    listener = bus.subscribe(after=1)
    late, timely = TextDelta(text="late", after=1), TextDelta(text="timely", after=3)
    bus.publish([late, record(2), late, record(3), timely])
    listener.mark_read(3)

    assert [listener.take(), listener.take()] == [timely, None]


async def test_a_waiting_listener_wakes_and_ends_with_the_bus() -> None:
    bus = Bus()
    heard: list[object] = []

    async def listen() -> None:
        async for item in bus.subscribe():
            heard.append(item)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        bus.publish([record(1)])
        await anyio.wait_all_tasks_blocked()
        assert heard == [record(1)]
        bus.close()
    assert [item async for item in bus.subscribe()] == []
