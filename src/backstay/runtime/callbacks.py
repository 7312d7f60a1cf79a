"""Callbacks on a session: `session.on("text_delta", print)`.

Callbacks are called from one task, in order, behind the barrier: a slow or broken one delays or breaks nothing but the others. A slow
one may miss pieces of text, and gets every event. A broken one is recorded, once for each kind of error; no callback is called with that.

    text_delta                    a piece of the model's text
    tool_start, tool_end          `ToolStart`, `ToolEnd`: one call, told apart by its id
    server_tool                   a tool that the provider ran
    thinking                      True when a model is asked, False when it has answered
    context_update                `ContextState`: before a request an estimate, after it what was counted
    complete, error, interrupted  `TurnResult` of the turn that is over
    background_task_event         work beside the conversation; reserved until there are events of it
    background_job_group_event    several such works that belong together; reserved likewise
    lifecycle                     `Notice`
    the name of any event         `Recorded`
    the name of any delta         the delta; of `reasoning_delta`, its text
    *                             every item
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import anyio
import msgspec

from backstay.logic.state.file_diffs import DiffLine, arguments, file_diffs
from backstay.logic.state.session_state import State
from backstay.ports import EventStore
from backstay.runtime.barrier import Fault, run_guarded
from backstay.runtime.bus import Bus, Item, Subscription, follow
from backstay.runtime.inbox import Inbox
from backstay.vocab import events
from backstay.vocab.deltas import Delta, Notice, ReasoningDelta, TextDelta
from backstay.vocab.errors import StoreError, UserError
from backstay.vocab.event import Draft, Recorded, ToolOutcome
from backstay.vocab.messages import ServerBlock, TextRef, ToolCall, text_of
from backstay.wire.codec import NAME_OF

Callback = Callable[[object], Awaitable[None] | None]

_OWN_NAMES: Final = (
    "text_delta tool_start tool_end server_tool thinking complete error interrupted context_update "
    "background_task_event background_job_group_event lifecycle *"
)
NAMES: Final = frozenset((*_OWN_NAMES.split(), *NAME_OF.values()))


SHOWN: Final = 2_000
"""Characters of a tool's result that a callback is given; the log has the whole."""


_WHERE: Final = "the callback"
_ONCE: Final = "More errors of this kind in this callback are not recorded."


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
    diff_file: str = ""
    """The file that it changed; the first, when there are several."""
    diff_lines: tuple[DiffLine, ...] = ()


class _Listener(msgspec.Struct, eq=False):
    """One callback, as it was added: the same function may be added twice."""

    call: Callback
    faults: set[str] = msgspec.field(default_factory=set)
    """The kinds of errors that were recorded."""


class Callbacks:
    """The callbacks of one session."""

    def __init__(self, bus: Bus, store: EventStore, inbox: Inbox, state: State, context: Callable[[], object]) -> None:
        self._bus, self._store, self._inbox, self._state, self._context = bus, store, inbox, state, context
        self._by_name: dict[str, list[_Listener]] = {}
        self._seen = 0
        self._subscription: Subscription | None = None
        self._moved = anyio.Event()
        self._calls: dict[str, ToolCall] = {}
        """The calls of the newest reply, by their ids: tools of the same name run side by side."""
        self.running = False

    def add(self, name: str, callback: Callback) -> Callable[[], None]:
        """Call `callback` for every `name` from now on; the function that is returned ends it."""
        if name not in NAMES:
            raise UserError(f"{name!r} is not something to listen to. The names are {', '.join(sorted(NAMES))}.")
        listener = _Listener(callback)
        listeners = self._by_name.setdefault(name, [])
        listeners.append(listener)
        if self._subscription is None:  # now, not when `run` gets its turn: nothing is to be missed
            self._seen = self._state.progress.seq
            self._subscription = self._bus.subscribe(after=self._seen)
        return lambda: listeners.remove(listener) if listener in listeners else None

    async def run(self) -> None:
        """Call callbacks until the bus closes."""
        self.running = True
        assert self._subscription is not None
        try:
            await self._follow(self._subscription)
        except StoreError as exc:
            self._record(_WHERE, type(exc).__name__, f"The callbacks were too slow, and hear of nothing more: {exc}")
        finally:
            self.running = False

    async def _follow(self, subscription: Subscription) -> None:
        async for item in follow(subscription, self._store, self._state.meta.id):
            for name, payload in () if _is_ours(item) else self._payloads(item):
                for listener in tuple(self._by_name.get(name, ())):
                    await self._call(name, listener, payload)
            if isinstance(item, Recorded):
                self._seen = item.seq
                self._moved.set()
                self._moved = anyio.Event()

    async def wait_until(self, seq: int) -> None:
        """Return when everything up to `seq` was called back, or after a second."""
        with anyio.move_on_after(1.0):
            while self.running and self._seen < seq:
                await self._moved.wait()

    async def _call(self, name: str, listener: _Listener, payload: object) -> None:
        async def call() -> None:
            answer = listener.call(payload)
            if inspect.isawaitable(answer):
                await answer

        fault = await run_guarded(f"{_WHERE} for {name!r}", call)
        if isinstance(fault, Fault) and fault.kind not in listener.faults:
            listener.faults.add(fault.kind)
            self._record(fault.where, fault.kind, f"{fault.trace[-2000:]}\n{_ONCE}")

    def _record(self, where: str, kind: str, message: str) -> None:
        self._inbox.post(Draft(event=events.FaultCaught(where=where, kind=kind, message=message)))

    def _payloads(self, item: Item) -> Iterator[tuple[str, object]]:
        """Yield the names that `item` goes by, and the payload for each."""
        yield "*", item
        match item:
            case TextDelta() | ReasoningDelta():
                yield NAME_OF[type(item)], item.text
            case Delta():
                yield NAME_OF[type(item)], item
            case Notice():
                yield "lifecycle", item
            case Recorded():
                if not isinstance(item.event, events.Interrupted):  # that name is taken by the turn that ends of it
                    yield NAME_OF[type(item.event)], item
                yield from self._events(item)

    def _events(self, record: Recorded) -> Iterator[tuple[str, object]]:
        match record.event:
            case events.ToolStarted(call=call, name=name):
                yield "tool_start", ToolStart(call=call, tool=name, args=arguments(self._call_named(call).args))
            case events.ToolFinished() if self._by_name.get("tool_end"):
                yield "tool_end", self._end(record.event)
            case events.ModelAsked():
                yield "thinking", True
                yield "context_update", self._context()
            case events.ModelReplied(parts=parts):
                self._calls = {call.id: call for call in events.calls_of(record.event)}
                yield "thinking", False
                yield from (("server_tool", part) for part in parts if isinstance(part, ServerBlock))
                yield "context_update", self._context()
            case events.TurnCompleted(outcome=outcome, turn=turn):
                name = {"completed": "complete", "failed": "error"}.get(outcome, "interrupted")
                yield name, self._state.results.turns.get(turn)
            case _:
                pass

    def _end(self, event: events.ToolFinished) -> ToolEnd:
        call = self._call_named(event.call)
        args = arguments(call.args)
        text = text_of(event.content)
        whole = not any(isinstance(part, TextRef) for part in event.content)
        diffs = file_diffs(call.name, args, text if whole else "") if event.outcome == "ok" else ()
        return ToolEnd(
            call=event.call,
            tool=call.name,
            args=args,
            success=event.outcome == "ok",
            denied=event.outcome == "denied",
            outcome=event.outcome,
            code=event.code,
            result=text if len(text) <= SHOWN else f"{text[:SHOWN]}\n[{len(text) - SHOWN} characters more]",
            diff_file=diffs[0].file if diffs else "",
            diff_lines=diffs[0].lines if diffs else (),
        )

    def _call_named(self, call: str) -> ToolCall:
        """Return the call as the model wrote it; of a reply that came before the first callback was added, as the session knows it."""
        if (found := self._calls.get(call)) is not None:
            return found
        progress = self._state.progress
        known = {each.id: (each.name, each.args) for each in progress.calls}
        known |= {each.id: (each.name, each.args) for each in progress.ended}
        name, args = known.get(call, ("", ""))
        return ToolCall(id=call, name=name, args=args)


def _is_ours(item: Item) -> bool:
    """Return whether an item reports a broken callback: to call back with it would break that one again, for ever."""
    return (
        isinstance(item, Recorded)
        and isinstance(item.event, events.FaultCaught)
        and item.event.where.startswith(_WHERE)
    )
