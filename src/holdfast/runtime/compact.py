"""Performs `CompactionStarted`: chooses what stays, has the rest summarised, and leaves one event that swaps them.

The summary comes first and the swap after it, so a crash, a failing model or an interrupt leaves the conversation as it was. A model that
cannot summarise does not stop the turn: then the summary is put together from the conversation's own words.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.logic.compaction import (
    Plan,
    chunks,
    clipped,
    digest,
    plan,
    question,
    state_after,
    trim_plan,
    without_marks,
)
from holdfast.logic.parts import clean, shorten
from holdfast.logic.pricing import cost
from holdfast.logic.usage import add
from holdfast.ports import Model, ModelRequest
from holdfast.runtime.barrier import Fault
from holdfast.runtime.stream_model import stream_model
from holdfast.runtime.world import Outcome, World
from holdfast.vocab.deltas import Delta
from holdfast.vocab.errors import ProviderError, UserError
from holdfast.vocab.event import Draft, Recorded
from holdfast.vocab.event_limits import CompactionFailed, CompactionStarted
from holdfast.vocab.events import ModelNoted
from holdfast.vocab.messages import Message, SessionMessage, Text, TextRef, text_of
from holdfast.vocab.specs import Usage


class Compact:
    """One compaction."""

    def __init__(self, record: Recorded, world: World) -> None:
        assert isinstance(record.event, CompactionStarted)
        self._started = record.event
        self._id = record.id
        self._world = world
        self._usage: Usage | None = None
        self._notes: list[str] = []

    async def run(self) -> Outcome:
        """Shorten the conversation, or say why it stays as it is."""
        chosen = self._plan()
        if chosen is None:
            return self._fail("There is nothing that could be shortened.")
        model = await self._summariser() if self._started.trigger != "trim" else None
        text = "" if self._started.trigger == "trim" else await self._summary(chosen, model)
        return self._done(chosen, text, model if self._usage is not None else None)

    def stopped(self) -> Outcome:
        """The conversation stays as it was."""
        return self._fail("It was interrupted.")

    def failed(self, fault: Fault) -> Outcome:
        """The conversation stays as it was."""
        return self._fail(f"{fault.kind}: {fault.message}")

    def _plan(self) -> Plan | None:
        state, started = self._world.state, self._started
        messages = state.transcript.messages
        if started.trigger == "trim":
            return trim_plan(messages, started.keep)
        return plan(
            messages,
            state.transcript.compacted,
            used=started.used,
            window=started.window,
            overhead=started.overhead,
            ratio=state.progress.fill.ratio,
        )

    async def _summariser(self) -> Model | None:
        try:
            model = await self._world.model(self._started.model)
        except UserError:
            return None
        return model if model.facts.summarises else None

    async def _summary(self, chosen: Plan, model: Model | None) -> str:
        room = chosen.summary_tokens
        if model is None:
            return digest(chosen.old, room)
        try:
            text = await self._summarised(chosen.old, model, room)
        except ProviderError as exc:
            self._notes.append(f"the summary was put together without {model.name}: {exc}")
            return digest(chosen.old, room)
        return text or digest(chosen.old, room)

    async def _summarised(self, old: Sequence[SessionMessage], model: Model, room: int) -> str:
        """A summary, piece by piece, so that each question fits the model's window."""
        piece = max(500, self._started.window // 2 - 2 * room)
        so_far = ""
        for chunk in chunks(old, piece):
            asked = question(chunk, so_far, self._started.instructions, room)
            request = ModelRequest(
                model=model.name,
                messages=(Message(role="user", parts=(Text(text=asked),)),),
                parameters={"max_output": min(model.facts.max_output, room * 2)},
                tap=self._world.tap,
            )
            reply = await stream_model(model, request, idle_s=self._world.idle_timeout_s, show=_nobody)
            if reply.usage is not None:
                self._usage = reply.usage if self._usage is None else add(self._usage, reply.usage)
            so_far = clipped(without_marks(clean(text_of(reply.parts))), room)
        return so_far

    def _done(self, chosen: Plan, text: str, model: Model | None) -> Outcome:
        started = self._started
        summary: Text | TextRef | None = None
        blobs: dict[str, bytes] = {}
        if chosen.forgone:
            text = f"{text}\n({chosen.forgone} texts that the person gave are only in the log.)"
        if text:
            summary, blobs = shorten(text)
        event = state_after(chosen, summary, started.trigger)
        prices = model.facts.prices if model is not None else None
        event = replace(
            event,
            before=started.used,
            after=int((started.overhead + event.guess) * self._world.state.progress.fill.ratio),
            window=started.window,
            model=model.name if model is not None else "",
            usage=self._usage,
            cost=cost(self._usage, prices) if self._usage is not None else None,
        )
        notes = tuple(Draft(event=ModelNoted(note=note), cause=self._id) for note in self._notes)
        return Outcome((Draft(event=event, cause=self._id), *notes), blobs)

    def _fail(self, message: str) -> Outcome:
        return Outcome((Draft(event=CompactionFailed(message=message), cause=self._id),))


def _nobody(delta: Delta) -> None:
    """A summary is not shown while it is written."""
