"""What a user holds: one session.

A thin face on the log. Everything it does is an event left in the inbox or a look at a fold; a feature that seems to need a branch here
wants an event instead.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Literal, Protocol, get_args

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from holdfast.commanding import Commanding
from holdfast.kit.forking import Forks
from holdfast.kit.kit import Kit
from holdfast.logic.execution import ExecutionResult
from holdfast.logic.parts import clean
from holdfast.logic.pricing import dollars
from holdfast.logic.redact import Redactor
from holdfast.logic.report import ResumeReport
from holdfast.logic.results import TurnResult
from holdfast.logic.usage_snapshot import usage_snapshot
from holdfast.runtime.barrier import Fault, guarded
from holdfast.runtime.bus import Item
from holdfast.runtime.callbacks import Callback, Callbacks
from holdfast.runtime.following import follow_input
from holdfast.runtime.queueing import Prompt as Prompt  # noqa: PLC0414
from holdfast.runtime.runner import STOP_DEADLINE_S, Runner
from holdfast.runtime.texts import whole_text
from holdfast.vocab.errors import (
    StoreFull,
    StoreUnavailable,
    TurnFailed,
    TurnInterrupted,
    TurnPaused,
    UserError,
)
from holdfast.vocab.event import Delivery, Draft
from holdfast.vocab.events import FaultCaught, Interrupted

Fork = Callable[[str], Awaitable[str]]
EndReason = Literal["clear", "resume", "logout", "prompt_input_exit", "bypass_permissions_disabled", "other"]
"""Why a session ends, in the words that `SessionEnd` hooks know."""


class Attachable(Protocol):
    """Something that wants to know the session: a transport."""

    def attach(self, session: "Session") -> None:
        """Take the session."""


class Session(Commanding):
    """An open session. Made by `open_session`."""

    def __init__(
        self,
        runner: Runner,
        tasks: TaskGroup,
        *,
        report: ResumeReport | None,
        fork: Fork,
        opened: tuple[Item, ...],
        variables: Mapping[str, str],
        warnings: tuple[str, ...] = (),
        kit: Kit | None = None,
        forks: Forks | None = None,
    ) -> None:
        super().__init__(runner, variables, kit, forks)
        self._tasks = tasks
        self._fork = fork
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._closing = anyio.Lock()
        self._callbacks = Callbacks(runner.bus, self._world.inbox, self._world.state, lambda: self.context_state)
        self.warnings = warnings
        """What whoever opened it should know."""
        self.report = report
        """What opening it again found; None for a new session."""
        self.opened: tuple[Item, ...] = opened
        """What happened while it was opened, before anybody could subscribe."""

    @property
    def redactor(self) -> Redactor:
        """Takes secrets out of what is shown to others: what looks like one, known keys, and variables that are called secrets."""
        return self._world.mask.shown

    # --- talking -----------------------------------------------------------------------------------------------------------------

    async def run(self, prompt: Prompt, *, input_id: str | None = None, display: str = "", raw: str = "") -> str:
        """Say something, wait for the turn to end, and return the final text.

        Raise `TurnFailed` or `TurnInterrupted` after the event that says so is durable; the session stays usable.
        """
        return (await self.result(prompt, input_id=input_id, display=display, raw=raw)).text

    async def execute(
        self, prompt: Prompt, *, input_id: str | None = None, display: str = "", raw: str = ""
    ) -> ExecutionResult:
        """Like `run`, but return the answer with the history, the tools, the context and the usage."""
        turn = await self.result(prompt, input_id=input_id, display=display, raw=raw)
        return ExecutionResult(
            response=turn.text,
            history=await self.full_history(),
            tool_summaries=turn.tools,
            context_state=self.context_state,
            usage=usage_snapshot(turn, self.context_state) if turn.priced + turn.unpriced else None,
        )

    async def result(
        self, prompt: Prompt, *, input_id: str | None = None, display: str = "", raw: str = ""
    ) -> TurnResult:
        """Like `run`, but return everything about the turn."""
        name = clean(input_id or self._next_input())
        async for _ in self.send(prompt, input_id=name, display=display, raw=raw):
            pass
        await self._callbacks.caught_up(self.seq)
        if self._runner.failure is not None:
            raise self._runner.failure
        result = self.input_result(name)
        if result is None and self.is_paused:
            raise self._paused()
        if result is None:
            raise self._without_turn(name)
        if result.outcome == "abandoned":
            why = "Its turn was given up after a crash, so there is no answer. Send it again under another input id."
            raise TurnInterrupted(why, turn=result.turn, text=result.text)
        return self._checked(await self._whole(result))

    async def send(
        self,
        prompt: Prompt,
        *,
        delivery: Delivery = "queue",
        input_id: str | None = None,
        display: str = "",
        raw: str = "",
        replaces: bool = False,
    ) -> AsyncIterator[Item]:
        """Say something and follow what happens: events, deltas and notices, until the turn that answers is over.

        The model gets `prompt`; people are shown `display` and `UserPromptSubmit` hooks `raw`, where they are given. While a turn runs,
        inputs wait in the order in which they came, at most `queue_limit` of them; with `replaces`, this one takes the place of the
        one that waits last. What a model or a tool says meanwhile, in the turn before, is left out; its events are not.
        """
        if self.kit is not None and not self.is_running:
            await self.kit.keep_fresh()
        event, blobs = self._said(prompt, delivery, input_id, display, raw)
        name = event.input
        known = self._world.state.results.inputs
        subscription = self._runner.bus.subscribe(after=self.seq)
        waits = self.is_running and self.is_paused
        behind = self.is_running and event.delivery == "queue"
        try:
            if name not in known.parts:
                await self._enqueue(event, blobs, replaces=replaces)
            elif name in known.dropped or (
                (result := self.input_result(name)) is not None and result.outcome is not None
            ):
                return
            else:
                await self._deliver()
            if waits and self.is_paused:  # it is queued behind a turn that nothing happens in
                return
            turn = known.turn_of.get(name, "")
            async for item in follow_input(subscription, self._world.store, self.id, name, turn, behind=behind):
                yield item
        finally:
            subscription.close()

    async def finish(self) -> TurnResult | None:
        """Finish the turn that was open when the session was opened, and whatever was queued. None when nothing was."""
        state = self._world.state
        turn = state.progress.turn
        waiting = state.progress.queue
        if self.is_restoring:
            await self.finish_restore()
        if turn is None and not waiting:
            return None
        await self._deliver()
        await self.until_idle()
        if self._runner.failure is not None:
            raise self._runner.failure
        newest = waiting[-1].input if waiting else ""
        over = state.results.inputs.turn_of.get(newest) or (turn.id if turn else "")
        if self.is_paused and state.progress.turn is not None:
            over = state.progress.turn.id
        return self._checked(await self._whole(state.results.turns[over])) if over in state.results.turns else None

    async def until_idle(self) -> None:
        """Return when nothing goes on by itself any more: see `is_executing`."""
        subscription = self.subscribe()
        try:
            while self.is_executing:
                await anext(subscription)
        except StopAsyncIteration:
            return
        finally:
            subscription.close()

    def on(self, name: str, callback: Callback) -> Callable[[], None]:
        """Call `callback` for each `name` (`text_delta`, `tool_start`, `complete`, any event's name, `*`); returns what ends it."""
        end = self._callbacks.add(name, callback)
        if not self._callbacks.running:
            self._callbacks.running = True
            self._tasks.start_soon(self._callbacks.run)
        return end

    async def fork(self, *, at: str = "") -> "ForkedSession":
        """Copy the conversation, up to turn `at` or to here, into a new session and return its id. This one is untouched."""
        return ForkedSession(await self._fork(at))

    def attach_transport(self, transport: Attachable) -> None:
        """Give this session to a transport. It is not started by that."""
        transport.attach(self)

    # --- the end -----------------------------------------------------------------------------------------------------------------

    async def close(self, reason: str = "", *, drain_s: float = 0.0) -> None:
        """Close the session: let the running turn finish within `drain_s` seconds, else interrupt it. Once is enough."""
        self._ending = True
        async with self._closing:
            if not self._closed:
                await self._close(reason, drain_s)

    async def shutdown(self, reason: EndReason = "other", message: str = "") -> None:
        """End now: refuse new prompts, stop the turn, drop what is queued, let go of the rest, close. Once is enough.

        `SessionEnd` hooks are told the reason; the log keeps the message.
        """
        if reason not in get_args(EndReason):
            raise UserError(f"{reason!r} is no reason to end. The reasons are {', '.join(get_args(EndReason))}.")
        self._ending = True
        if self._closed:
            return
        self._world.ending = reason
        if self._runner.alive:
            with suppress(StoreFull, StoreUnavailable):
                await self.abort(message or reason)
        await self.close(message or reason)

    def on_close(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do this when the session is closed, when its turn is over and before the end is written; the newest first.

        It has a few seconds; what it raises is written down and ends nothing else.
        """
        self._closers.append(work)

    async def _close(self, reason: str, drain_s: float) -> None:
        if self._runner.alive:
            self._runner.hold()
            with anyio.move_on_after(drain_s + STOP_DEADLINE_S * 2):
                with suppress(StoreFull, StoreUnavailable):  # whoever sent it is told
                    await self._world.inbox.deliver(goes_on=False)  # what was on its way in is in now
                with anyio.move_on_after(drain_s):
                    await self.until_idle()
                if (self.is_running and not self.is_paused) or self.is_compacting:
                    self._world.inbox.post(Draft(event=Interrupted(reason=reason), by="user"))
                await self.until_idle()
        while self._closers:
            await self._let_go(self._closers.pop())
        await self._runner.close(reason)
        self._closed = True

    async def _let_go(self, work: Callable[[], Awaitable[None]]) -> None:
        async def in_time() -> None:
            with anyio.fail_after(STOP_DEADLINE_S):
                await work()

        fault = await guarded("what was to be done at the end", in_time)
        if isinstance(fault, Fault) and self._runner.wrote:
            caught = FaultCaught(where=fault.where, kind=fault.kind, message=fault.trace[-2000:])
            self._world.inbox.post(Draft(event=caught))

    # --- how -----------------------------------------------------------------------------------------------------------------------

    async def _whole(self, result: TurnResult) -> TurnResult:
        if not result.said:
            return result
        return replace(result, text=await whole_text(result.said, self._world.store.blob), said=())

    def _checked(self, result: TurnResult) -> TurnResult:
        match result.outcome:
            case "completed" | "abandoned":
                return result
            case None if self.is_paused:
                raise self._paused(result)
            case "failed":
                raise TurnFailed(result.message, turn=result.turn, reason=result.code, text=result.text)
            case _:
                raise TurnInterrupted(result.message or "The turn was interrupted.", turn=result.turn, text=result.text)

    def _without_turn(self, name: str) -> TurnInterrupted:
        if name in self._world.state.results.inputs.dropped:
            return TurnInterrupted("The input was dropped before its turn began.", turn="")
        return TurnInterrupted(
            f"The session was closed before the turn of input {name!r} began. The input is kept: it runs when the session is opened "
            "again. Whoever sends it again under the same id sends it once.",
            turn="",
        )

    def _paused(self, result: TurnResult | None = None) -> TurnPaused:
        purse = self._world.state.progress.purse
        return TurnPaused(
            f"The turn is paused: {dollars(purse.spent)} are spent and the budget is {dollars(purse.limit or 0)}. "
            "Raise the budget and finish the turn.",
            turn=result.turn if result is not None else "",
            text=result.text if result is not None else "",
        )


class ForkedSession(str):
    """The id of a fork."""

    __slots__ = ()

    @property
    def id(self) -> str:
        """The id."""
        return str(self)
