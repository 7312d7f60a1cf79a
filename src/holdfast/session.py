"""What a user holds: one session.

A thin face on the log. Everything it does is an event left in the inbox or a look at a fold; a feature that seems to need a branch here
wants an event instead.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Literal

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from msgspec.structs import replace

from holdfast.logic.context import estimate
from holdfast.logic.parts import clean, make_durable, shorten
from holdfast.logic.pricing import dollars
from holdfast.logic.report import ResumeReport
from holdfast.logic.results import TurnResult
from holdfast.logic.transcript import Entry
from holdfast.logic.variables import filled_in
from holdfast.runtime.bus import Item
from holdfast.runtime.callbacks import Callback, Callbacks
from holdfast.runtime.changing import Changing
from holdfast.runtime.following import follow_input
from holdfast.runtime.runner import STOP_DEADLINE_S, Runner
from holdfast.runtime.texts import whole_text
from holdfast.vocab.errors import (
    InputConflict,
    StoreFull,
    StoreUnavailable,
    TurnFailed,
    TurnInterrupted,
    TurnPaused,
    UserError,
)
from holdfast.vocab.event import By, Delivery, Draft
from holdfast.vocab.events import (
    EntryAdded,
    HistoryCleared,
    InputDropped,
    InputReceived,
    Interrupted,
    MessageInjected,
    Rewound,
)
from holdfast.vocab.messages import InFlightPart, InputPart, MediaLink, MediaRef, Text, TextRef

Prompt = str | tuple[InFlightPart, ...]
Fork = Callable[[str], Awaitable[str]]


class Session(Changing):
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
    ) -> None:
        super().__init__(runner)
        self._tasks = tasks
        self._fork = fork
        self._variables = variables
        self._inputs = 0
        self._closing = anyio.Lock()
        self._callbacks = Callbacks(runner.bus, self._world.inbox, self._world.state, lambda: self.context_state)
        self.warnings = warnings
        """What whoever opened it should know."""
        self.report = report
        """What opening it again found; None for a new session."""
        self.opened: tuple[Item, ...] = opened
        """What happened while it was opened, before anybody could subscribe."""

    # --- talking -----------------------------------------------------------------------------------------------------------------

    async def run(self, prompt: Prompt, *, input_id: str | None = None) -> str:
        """Say something, wait for the turn to end, and return the final text.

        Raise `TurnFailed` or `TurnInterrupted` after the event that says so is durable; the session stays usable.
        """
        return (await self.result(prompt, input_id=input_id)).text

    async def result(self, prompt: Prompt, *, input_id: str | None = None) -> TurnResult:
        """Like `run`, but return everything about the turn."""
        name = clean(input_id or self._next_input())
        async for _ in self.send(prompt, input_id=name):
            pass
        await self._callbacks.caught_up(self.seq)
        if self._runner.failure is not None:
            raise self._runner.failure
        result = self.input_result(name)
        if result is None and self.is_paused:
            raise self._paused()
        if result is None:
            raise TurnInterrupted("The input was dropped before its turn began.", turn="")
        return self._checked(await self._whole(result))

    async def send(
        self, prompt: Prompt, *, delivery: Delivery = "queue", input_id: str | None = None, display: str = ""
    ) -> AsyncIterator[Item]:
        """Say something and follow what happens: events, deltas and notices, until the turn that answers is over."""
        parts, blobs = self._input(prompt)
        name = clean(input_id or self._next_input())
        known = self._world.state.results.inputs
        if name in known.parts and known.parts[name] != parts:
            raise InputConflict(f"The input id {name!r} was used for another text in session {self.id!r}.")
        subscription = self._runner.bus.subscribe(after=self.seq)
        waits = self.is_running and self.is_paused
        try:
            if name not in known.parts:
                event = InputReceived(input=name, parts=parts, delivery=delivery, display=display)
                await self._deliver(Draft(event=event, by="user"), blobs=blobs)
            elif name in known.dropped or (
                (result := self.input_result(name)) is not None and result.outcome is not None
            ):
                return
            else:
                await self._deliver()
            if waits and self.is_paused:  # it is queued behind a turn that nothing happens in
                return
            turn = known.turn_of.get(name, "")
            async for item in follow_input(subscription, self._world.store, self.id, name, turn):
                yield item
        finally:
            subscription.close()

    async def steer(self, prompt: Prompt) -> None:
        """Say something into the running turn: it is taken at the next point where no call is open."""
        parts, blobs = self._input(prompt)
        event = InputReceived(input=self._next_input(), parts=parts, delivery="steer")
        await self._deliver(Draft(event=event, by="user"), blobs=blobs)

    async def finish(self) -> TurnResult | None:
        """Finish the turn that was open when the session was opened, and whatever was queued. None when nothing was."""
        state = self._world.state
        turn = state.progress.turn
        waiting = state.progress.queue
        if turn is None and not waiting:
            return None
        await self._deliver()
        await self._until_idle()
        if self._runner.failure is not None:
            raise self._runner.failure
        newest = waiting[-1].input if waiting else ""
        over = state.results.inputs.turn_of.get(newest) or (turn.id if turn else "")
        if self.is_paused and state.progress.turn is not None:
            over = state.progress.turn.id
        return self._checked(await self._whole(state.results.turns[over])) if over in state.results.turns else None

    async def abort(self, reason: str = "", *, by: By = "user") -> None:
        """Stop the running turn and drop what is queued; nothing happens when the session is idle. `by` says who wants it."""
        stopped = Draft(event=Interrupted(reason=reason), by=by)
        dropped = Draft(event=InputDropped(inputs=("*",)), by=by)
        await self._deliver(stopped, dropped, goes_on=self._world.state.progress.busy)

    async def drop_queued(self) -> None:
        """Take back what is queued; the running turn goes on."""
        await self._deliver(Draft(event=InputDropped(inputs=("*",)), by="user"), goes_on=False)

    def on(self, name: str, callback: Callback) -> Callable[[], None]:
        """Call `callback` for each `name` (`text_delta`, `tool_start`, `complete`, any event's name, `*`); returns what ends it."""
        end = self._callbacks.add(name, callback)
        if not self._callbacks.running:
            self._callbacks.running = True
            self._tasks.start_soon(self._callbacks.run)
        return end

    # --- history -----------------------------------------------------------------------------------------------------------------

    async def full_history(self) -> tuple[Entry, ...]:
        """The conversation with the events between its messages."""
        return (await self._whole_transcript()).entries()

    async def inject(self, role: Literal["system", "user", "assistant"], content: str) -> None:
        """Add a message to the history without asking the model."""
        if role not in ("system", "user", "assistant"):
            raise UserError(f"A message of role {role!r} cannot be injected. Use 'system', 'user' or 'assistant'.")
        part, blobs = shorten(content)
        await self._deliver(
            Draft(event=MessageInjected(role=role, parts=(part,)), by="user"), blobs=blobs, goes_on=False
        )

    async def add_entry(self, kind: str, content: dict[str, object]) -> None:
        """Add an entry to the full history; no model sees it."""
        text = msgspec.json.encode(content).decode()
        await self._deliver(Draft(event=EntryAdded(kind=kind, content=text), by="user"), goes_on=False)

    async def clear_history(self) -> None:
        """Start the conversation over, the context's token count included. The log keeps what was."""
        await self._deliver(Draft(event=HistoryCleared(), by="user"), goes_on=False)

    async def rewind(self, *, to: str | None = None, before: str | None = None) -> None:
        """Let the conversation go on from the end of turn `to`, or from just before turn `before`. Nothing is deleted."""
        if (to is None) == (before is None):
            raise UserError("Say either `to=TURN` (the last turn to keep) or `before=TURN`.")
        transcript = await self._whole_transcript()
        node = transcript.before_turn(before) if before is not None else transcript.turn_end(to or "")
        if node is None:
            raise UserError(
                f"There is no turn {before or to!r} to rewind to in session {self.id!r}; `turns` lists them."
            )
        there = transcript.at(node).messages
        event = Rewound(
            to=node,
            turns=transcript.turns_up_to(node) if node else 0,
            tokens=sum(map(estimate, there)),
            messages=len(there),
        )
        await self._deliver(Draft(event=event, by="user"), goes_on=False)

    async def fork(self, *, at: str = "") -> "ForkedSession":
        """Copy the conversation, up to turn `at` or to here, into a new session and return its id. This one is untouched."""
        return ForkedSession(await self._fork(at))

    # --- the end -----------------------------------------------------------------------------------------------------------------

    async def close(self, reason: str = "", *, drain_s: float = 0.0) -> None:
        """Close the session: let the running turn finish within `drain_s` seconds, else interrupt it. Once is enough."""
        async with self._closing:
            if not self._closed:
                await self._close(reason, drain_s)

    async def _close(self, reason: str, drain_s: float) -> None:
        if self._runner.alive:
            self._runner.hold()
            with anyio.move_on_after(drain_s + STOP_DEADLINE_S * 2):
                with suppress(StoreFull, StoreUnavailable):  # whoever sent it is told
                    await self._world.inbox.deliver(goes_on=False)  # what was on its way in is in now
                with anyio.move_on_after(drain_s):
                    await self._until_idle()
                if (self.is_running and not self.is_paused) or self.is_compacting:
                    self._world.inbox.post(Draft(event=Interrupted(reason=reason), by="user"))
                await self._until_idle()
        await self._runner.close(reason)
        self._closed = True

    # --- how -----------------------------------------------------------------------------------------------------------------------

    async def _whole(self, result: TurnResult) -> TurnResult:
        if not result.said:
            return result
        return replace(result, text=await whole_text(result.said, self._world.store.blob), said=())

    async def _until_idle(self) -> None:
        subscription = self.subscribe()
        try:
            while (self.is_running and not self.is_paused) or self.is_compacting or self._will_begin:
                await anext(subscription)
        except StopAsyncIteration:
            return
        finally:
            subscription.close()

    @property
    def _will_begin(self) -> bool:
        return bool(self.pending_inputs) and self._runner.begins and not self.is_running

    def _next_input(self) -> str:
        self._inputs += 1
        return f"{self._runner.nonce}-in-{self._inputs}"

    def _input(self, prompt: Prompt) -> tuple[tuple[InputPart, ...], dict[str, bytes]]:
        given = (Text(text=prompt),) if isinstance(prompt, str) else prompt
        parts, blobs = make_durable(
            Text(text=filled_in(clean(part.text), self._variables)) if isinstance(part, Text) else part
            for part in given
        )
        kept = tuple(part for part in parts if isinstance(part, Text | TextRef | MediaRef | MediaLink))
        if not any(not isinstance(part, Text) or part.text.strip() for part in kept):
            raise UserError("The prompt is empty. Say something.")
        return kept, blobs

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
