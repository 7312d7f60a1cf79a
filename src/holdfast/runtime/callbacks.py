"""The callback style: `session.on("text_delta", print)`.

Callbacks are called from one task, in order, behind the barrier: a slow or broken one delays or breaks nothing but itself.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import anyio
import msgspec

from holdfast.logic.state import State
from holdfast.runtime.barrier import Fault, guarded
from holdfast.runtime.bus import Bus, Item, Subscription
from holdfast.runtime.inbox import Inbox
from holdfast.vocab.deltas import Delta, Lagged, Notice, ReasoningDelta, TextDelta
from holdfast.vocab.errors import UserError
from holdfast.vocab.event import Draft, Recorded, ToolOutcome
from holdfast.vocab.events import (
    FaultCaught,
    ModelAsked,
    ModelReplied,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    calls_of,
)
from holdfast.vocab.messages import ServerBlock, ToolCall, text_of
from holdfast.wire.names import NAME_OF

Callback = Callable[[object], Awaitable[None] | None]

NAMES: Final = frozenset(
    {
        "text_delta",
        "tool_start",
        "tool_end",
        "server_tool",
        "thinking",
        "complete",
        "error",
        "interrupted",
        "context_update",
        "lifecycle",
        "*",
        *NAME_OF.values(),
    }
)


SHOWN: Final = 2_000
"""Characters of a tool's result that a callback is given; the log has the whole."""


class ToolStart(msgspec.Struct, frozen=True, kw_only=True):
    """A tool begins."""

    call: str
    tool: str
    args: dict[str, object]


class ToolEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A call is over: it went well, failed, or was not allowed to run."""

    call: str
    tool: str
    args: dict[str, object]
    success: bool
    denied: bool = False
    outcome: ToolOutcome = "ok"
    code: str = ""
    """Why it did not go well: `unknown_tool`, `bad_arguments`, `denied`, `exit:1` ..."""
    result: str = ""
    """The beginning of what it gave back."""


class Callbacks:
    """The callbacks of one session."""

    def __init__(self, bus: Bus, inbox: Inbox, state: State, context: Callable[[], object]) -> None:
        self._bus, self._inbox, self._state, self._context = bus, inbox, state, context
        self._by_name: dict[str, list[Callback]] = {}
        self._seen = 0
        self._subscription: Subscription | None = None
        self._moved = anyio.Event()
        self._calls: dict[str, ToolCall] = {}
        """The calls of the newest reply."""
        self.running = False

    def add(self, name: str, callback: Callback) -> Callable[[], None]:
        """Call `callback` for every `name` from now on; the function that is returned ends it."""
        if name not in NAMES:
            raise UserError(f"{name!r} is not something to listen to. The names are {', '.join(sorted(NAMES))}.")
        self._by_name.setdefault(name, []).append(callback)
        if self._subscription is None:  # now, not when `run` gets its turn: nothing is to be missed
            self._seen = self._state.progress.seq
            self._subscription = self._bus.subscribe(after=self._seen)
        return lambda: self._by_name[name].remove(callback)

    async def run(self) -> None:
        """Call callbacks until the bus closes."""
        self.running = True
        assert self._subscription is not None
        async for item in self._subscription:
            if isinstance(item, Lagged):
                continue  # callbacks are live only; the log has what they missed
            for name, payload in self._payloads(item):
                for callback in tuple(self._by_name.get(name, ())):
                    await self._call(name, callback, payload)
            if isinstance(item, Recorded):
                self._seen = item.seq
                self._moved.set()
                self._moved = anyio.Event()

    async def caught_up(self, seq: int) -> None:
        """Return when everything up to `seq` was called back, or after a second."""
        with anyio.move_on_after(1.0):
            while self.running and self._seen < seq:
                await self._moved.wait()

    async def _call(self, name: str, callback: Callback, payload: object) -> None:
        async def call() -> None:
            answer = callback(payload)
            if inspect.isawaitable(answer):
                await answer

        fault = await guarded(f"the callback for {name!r}", call)
        if isinstance(fault, Fault):
            caught = FaultCaught(where=fault.where, kind=fault.kind, message=fault.trace[-2000:])
            self._inbox.post(Draft(event=caught))

    def _payloads(self, item: Item) -> Iterator[tuple[str, object]]:
        """The names that `item` goes by, and what each is told."""
        yield "*", item
        match item:
            case TextDelta() | ReasoningDelta():
                yield NAME_OF[type(item)], item.text
            case Delta():
                yield NAME_OF[type(item)], item
            case Notice():
                yield "lifecycle", item
            case Recorded():
                yield NAME_OF[type(item.event)], item
                yield from self._events(item)

    def _events(self, record: Recorded) -> Iterator[tuple[str, object]]:
        match record.event:
            case ToolStarted(call=call, name=name):
                yield "tool_start", ToolStart(call=call, tool=name, args=self._args(call))
            case ToolFinished():
                yield "tool_end", self._end(record.event)
            case ModelAsked():
                yield "thinking", True
                yield "context_update", self._context()
            case ModelReplied(parts=parts):
                self._calls = {call.id: call for call in calls_of(record.event)}
                yield "thinking", False
                yield from (("server_tool", part) for part in parts if isinstance(part, ServerBlock))
                yield "context_update", self._context()
            case TurnCompleted(outcome=outcome, turn=turn):
                name = {"completed": "complete", "failed": "error"}.get(outcome, "interrupted")
                yield name, self._state.results.turns.get(turn)
            case _:
                pass

    def _end(self, event: ToolFinished) -> ToolEnd:
        call = self._calls.get(event.call)
        text = text_of(event.content)
        return ToolEnd(
            call=event.call,
            tool=call.name if call is not None else "",
            args=self._args(event.call),
            success=event.outcome == "ok",
            denied=event.outcome == "denied",
            outcome=event.outcome,
            code=event.code,
            result=text if len(text) <= SHOWN else f"{text[:SHOWN]}\n[{len(text) - SHOWN} characters more]",
        )

    def _args(self, call: str) -> dict[str, object]:
        """The arguments as the model wrote them; empty when they cannot be read."""
        found = self._calls.get(call)
        try:
            return msgspec.json.decode(found.args, type=dict[str, object]) if found is not None else {}
        except msgspec.DecodeError:
            return {}
