"""An event loop in which time is pretended and the order of what is ready is chance, told by a seed.

Time stands still while anything is ready and then jumps to the next deadline, so hours take milliseconds. With a seed,
what is ready at the same moment runs in an order that the seed decides; without one, in the order in which it became
ready. Two runs with the same seed are the same, step for step.
"""

import asyncio
import heapq
import math
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")

RESOLUTION_S: Final = 1e-6
"""Deadlines closer than this are the same moment."""
THREAD_PATIENCE_S: Final = 30.0
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
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main())


class _Limiter(Protocol):
    @property
    def borrowed_tokens(self) -> float:
        """How many threads are at work."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. It has no sockets, no signals and no subprocesses."""

    threads: _Limiter | None = None
    """Knows whether a worker thread is busy: then real time passes, and pretended time does not."""
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, seed: int | None = None, watch: Watch | None = None) -> None:
        super().__init__()
        self.tasks = 0
        """Tasks that were made so far."""
        self._now = 0.0
        self._chance = None if seed is None else random.Random(f"order {seed}")
        self._watch = watch
        self._woken = threading.Event()
        self.set_task_factory(_numbered)

    def time(self) -> float:
        """Pretended seconds since the loop was made."""
        return self._now

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Say nothing of what the tasks of a killed process leave behind; what matters is raised where it is awaited."""

    def _run_once(self) -> None:
        """One round: everything that is ready now, in the order of the seed."""
        self._pass_time()
        ready = list(self._ready)
        self._ready.clear()
        if self._chance is not None and len(ready) > 1:
            ready.sort(key=_number)  # sets of tasks have no order that a second run would repeat
            self._chance.shuffle(ready)
        for handle in ready:
            if not handle.cancelled():
                if self._watch is not None:
                    self._watch(_name(handle))
                handle._run()

    def _pass_time(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():
            heapq.heappop(self._scheduled)
        while not (self._ready or self._stopping):
            if self.threads is not None and self.threads.borrowed_tokens:
                self._woken.wait(THREAD_PATIENCE_S)
                self._woken.clear()
            elif not self._scheduled or self._scheduled[0].when() == math.inf:
                waiting = "".join(f"\n  {_where(task)}" for task in asyncio.all_tasks(self))
                raise Stuck(f"Every task waits for something that nobody will do:{waiting}")
            else:
                self._now = max(self._now, self._scheduled[0].when())
                break
        while self._scheduled and self._scheduled[0].when() < self._now + RESOLUTION_S:
            self._ready.append(heapq.heappop(self._scheduled))

    def _write_to_self(self) -> None:
        self._woken.set()


class _Task(asyncio.Task[T]):
    """A task that knows how many were made before it."""

    number = 0


def _numbered(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T], **options: Any) -> _Task[T]:
    task = _Task(coro, loop=loop, **options)
    if isinstance(loop, VirtualLoop):
        loop.tasks += 1
        task.number = loop.tasks
    return task


def _number(handle: asyncio.Handle) -> int:
    task = _task(handle)
    return 0 if task is None else task.number


def _name(handle: asyncio.Handle) -> str:
    task = _task(handle)
    return "" if task is None else task.get_name()


def _task(handle: asyncio.Handle) -> _Task[Any] | None:
    owner = getattr(handle._callback, "__self__", None)
    return owner if isinstance(owner, _Task) else None


def _where(task: asyncio.Task[Any]) -> str:
    """The name of a task and the places in which it waits, the innermost last."""
    places: list[str] = []
    inner: Any = task.get_coro()  # Any: whatever coroutines await in the end
    while inner is not None:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "ag_frame", None)
        if frame is not None:
            places.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        inner = getattr(inner, "cr_await", None) or getattr(inner, "ag_await", None)
    return f"{task.get_name()}: {' > '.join(places[-6:])}"
