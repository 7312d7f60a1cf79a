"""An event loop with simulated time that runs ready tasks in random order, by a seed.

Time stands still while anything is ready and then jumps to the next deadline, so hours take milliseconds. With a seed,
what is ready at the same moment runs in an order that the seed decides; without one, in the order in which it became
ready. Work that anyio gives to a thread is waited for on the spot. So two runs with the same seed are the same, step
for step.
"""

import asyncio
import contextvars
import heapq
import math
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack, cast

import anyio
import anyio.to_thread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RESOLUTION_S: Final = 1e-6
"""Deadlines closer than this are the same moment."""
THREAD_PATIENCE_S: Final = 60.0
"""How long a worker thread may take, in real seconds."""

Watch = Callable[[str], None]
"""Told the name of a task just before it goes on."""


class Stuck(Exception):
    """Everything waits, and nothing will ever wake it."""


def run_virtually(work: Callable[[], Awaitable[T]], *, seed: int | None = None, watch: Watch | None = None) -> T:
    """Run `work` to its end on a loop of its own, in no time; raise `Stuck` when it waits for what never comes.

    `watch` is called between any two steps of the tasks: to count them, or to do something just there.
    """

    async def main() -> T:
        loop.threads = anyio.to_thread.current_default_thread_limiter()
        return await work()

    loop = VirtualLoop(seed, watch)
    runner = asyncio.Runner(loop_factory=lambda: loop)
    try:
        return runner.run(main())
    finally:
        with suppress(Stuck):  # what is stuck already cannot be cancelled either
            runner.close()
        _dismiss_threads(loop)


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. It has no sockets, no signals and no subprocesses; threads only through anyio's default limiter."""

    threads: anyio.CapacityLimiter | None = None
    """Knows which tasks wait for a thread."""
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool
    _thread_id: int | None

    def __init__(self, seed: int | None = None, watch: Watch | None = None) -> None:
        super().__init__()
        self.tasks = 0
        """Tasks that were made so far."""
        self._now = 0.0
        self._chance = None if seed is None else random.Random(f"order {seed}")
        self._watch = watch
        self._arrived: deque[asyncio.Handle] = deque()
        self._arrival = threading.Event()
        self.set_task_factory(_make_task)

    def time(self) -> float:
        """Pretended seconds since the loop was made."""
        return self._now

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Take what a thread brings; it runs at the beginning of the next round."""
        if threading.get_ident() == self._thread_id:
            return self.call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        self._arrived.append(handle)
        self._arrival.set()
        return handle

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Say nothing of what the tasks of a killed process leave behind; what matters is raised where it is awaited."""

    def _run_once(self) -> None:
        """Run one round: everything that is ready now, in the order of the seed."""
        brought = self._from_threads()
        if not (brought or self._ready or self._stopping):
            self._pass_time()
        while self._scheduled and self._scheduled[0].when() < self._now + RESOLUTION_S:
            self._ready.append(heapq.heappop(self._scheduled))
        ready = list(self._ready)
        self._ready.clear()
        if self._chance is not None and len(ready) > 1:
            ready.sort(key=_number)  # sets of tasks have no order that a second run would repeat
            self._chance.shuffle(ready)
        for handle in (*brought, *ready):
            if not handle.cancelled():
                if self._watch is not None:
                    self._watch(_name(handle))
                handle._run()

    def _from_threads(self) -> list[asyncio.Handle]:
        """Wait for every thread that works for a task."""
        while (busy := self._busy()) > len(self._arrived):
            if not self._arrival.wait(THREAD_PATIENCE_S):
                raise Stuck(f"{busy} threads have been busy for {THREAD_PATIENCE_S:g} seconds.")
            self._arrival.clear()
        return [self._arrived.popleft() for _ in range(len(self._arrived))]

    def _busy(self) -> int:
        if self.threads is None or not self.threads.borrowed_tokens:
            return 0
        waiting = (getattr(task, "_fut_waiter", None) for task in self.threads.statistics().borrowers)
        return sum(future is not None and not future.done() for future in waiting)

    def _pass_time(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():
            heapq.heappop(self._scheduled)
        if not self._scheduled or self._scheduled[0].when() == math.inf:
            waiting = "".join(f"\n  {_where(task)}" for task in asyncio.all_tasks(self))
            raise Stuck(f"Every task waits for something that nobody will do:{waiting}")
        self._now = max(self._now, self._scheduled[0].when())

    def _write_to_self(self) -> None:
        pass


class _Task(asyncio.Task[T]):
    """A task that knows how many were made before it."""

    number = 0


def _make_task(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Future[Any]:
    task: _Task[Any] = _Task(cast("Coroutine[Any, Any, Any]", coro), loop=loop, **options)
    if isinstance(loop, VirtualLoop):
        loop.tasks += 1
        task.number = loop.tasks
    return task


def _dismiss_threads(loop: VirtualLoop) -> None:
    """End the worker threads of a loop whose main task never ended; otherwise that task has done it."""
    for thread in threading.enumerate():
        stop = getattr(thread, "stop", None)
        if getattr(thread, "loop", None) is loop and stop is not None:
            stop()


def _number(handle: asyncio.Handle) -> int:
    task = _task(handle)
    return 0 if task is None else task.number


def _name(handle: asyncio.Handle) -> str:
    task = _task(handle)
    return "" if task is None else task.get_name()


def _task(handle: asyncio.Handle) -> _Task[Any] | None:
    owner = getattr(getattr(handle, "_callback", None), "__self__", None)
    return owner if isinstance(owner, _Task) else None


def _where(task: asyncio.Task[Any]) -> str:
    """Return the name of a task and the places in which it waits, the innermost last."""
    places: list[str] = []
    inner: Any = task.get_coro()  # Any: whatever coroutines await in the end
    while inner is not None:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "ag_frame", None)
        if frame is not None:
            places.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        inner = getattr(inner, "cr_await", None) or getattr(inner, "ag_await", None)
    return f"{task.get_name()}: {' > '.join(places[-6:])}"
