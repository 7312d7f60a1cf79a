"""Request and perform compactions (`CompactionStarted`): choose the messages that stay, and have the rest summarised.

The summary comes first and the swap after it, so a crash, a failing model or an interrupt leaves the conversation as it was. A model that
cannot summarise does not stop the turn: then the summary is put together from the conversation's own words.
"""

from collections.abc import Mapping
from typing import Final

import anyio
from msgspec.structs import replace

from backstay.logic.budget import add, cost
from backstay.logic.compaction import (
    Plan,
    chunks,
    clip_tokens,
    digest,
    plan,
    question,
    state_after,
    trim_plan,
    without_marks,
)
from backstay.logic.context_usage import estimate_text
from backstay.logic.decide.model_call import estimate_cost
from backstay.logic.secrets.redact import PLAIN
from backstay.logic.state.session_state import State
from backstay.logic.stored_content import replace_surrogates, to_stored_text
from backstay.logic.text import pluralise
from backstay.ports import Model, ModelRequest
from backstay.runtime.ask_model import stream_model
from backstay.runtime.barrier import Fault
from backstay.runtime.bus import follow
from backstay.runtime.runner import Runner
from backstay.runtime.services import Outcome, Performer, Services, fetch_text, fire_and_wait
from backstay.vocab import events
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import ProviderError, UserError
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.messages import Message, Text, TextRef, text_of
from backstay.vocab.specs import Usage

LEAST_PIECE: Final = 64
"""Tokens of the conversation in one question, below which it is not worth asking."""
FITS: Final = 0.7
"""The share of the window that a question and its answer may take; the rest is for what the estimate misses."""


def what_to_shorten(started: events.CompactionStarted, state: State) -> Plan | None:
    """Plan how `started` would shorten the conversation; None when there is nothing that could be shortened."""
    messages = state.transcript.messages
    if started.trigger == "trim":
        return trim_plan(messages, started.keep)
    return plan(
        messages,
        state.transcript.compacted,
        used=started.used,
        window=started.window,
        overhead=started.overhead,
        ratio=state.progress.context.ratio,
        turn=state.progress.turn.since if state.progress.turn is not None else None,
    )


async def request_compaction(runner: Runner, instructions: str = "", *, model: str = "") -> events.Compacted | None:
    """Ask the loop for a compaction, by `model` or by the session's own, and wait for its end. `Session.compact` says what it raises."""
    services, policy = runner.services, runner.policy
    if model:
        await services.resolve_model(model)
    progress = services.state.progress
    own = progress.retries.choose(policy.chain(services.progress.model), progress.at)
    started = events.CompactionStarted(
        trigger="manual",
        model=model or own,
        used=progress.context.request_tokens(policy.overhead),
        window=policy.facts_of(own).window,
        overhead=policy.overhead,
        reserved=estimate_cost(progress, own, policy) if progress.budget.limit is not None else 0,
        instructions=instructions or policy.compact_instructions,
    )
    if not progress.busy and what_to_shorten(started, services.state) is None:
        return None
    subscription = runner.subscribe()
    try:
        await runner.deliver(Draft(event=started, by="user"))
        async for item in follow(subscription, services.store, services.session):
            match item:
                case Recorded(event=events.Compacted() as done):
                    return done
                case Recorded(event=events.CompactionFailed(message=why)):
                    raise UserError(f"The conversation stays as it is: {why}")
                case Recorded(event=events.Rewound() | events.HistoryCleared() | events.CompactionUndone()):
                    raise UserError("The conversation became another one while it was being compacted.")
                case _:
                    pass
    finally:
        subscription.close()
    raise runner.ended_with


class Compact(Performer[events.CompactionStarted]):
    """One compaction."""

    def __init__(self, record: Recorded, services: Services) -> None:
        super().__init__(record, services)
        self._chosen: Plan | None = None
        self._earlier = ""
        self._model: Model | None = None
        self._usage: Usage | None = None
        self._cost: int | None = None
        self._notes: list[str] = []

    async def run(self) -> Outcome:
        """Shorten the conversation, or say why it stays as it is."""
        verdict = await fire_and_wait(self._services, "PreCompact", self._id, matcher_value=self._intent.trigger)
        if verdict is not None and verdict.blocked:
            return self._fail(f"A hook refused it: {verdict.reason or 'it gave no reason'}")
        chosen = self._chosen = what_to_shorten(self._intent, self._services.state)
        if chosen is None:
            return self._fail("There is nothing that could be shortened.")
        if self._intent.trigger == "trim":
            return self._replace(chosen, "")
        if chosen.earlier is not None:
            self._earlier = text_of((chosen.earlier,))
            self._earlier = await fetch_text((chosen.earlier,), self._services.store.blob)
        return self._replace(chosen, await self._summary(chosen))

    def report_stop(self) -> Outcome:
        """Leave the conversation as it was."""
        return self._fail("It was interrupted.")

    def report_fault(self, fault: Fault) -> Outcome:
        """Summarise by the conversation's own words, unless the fault came before it was known what stays."""
        if self._chosen is None:
            return self._fail(f"{fault.kind}: {fault.message}")
        self._notes.append(f"the summary was put together without a model: {fault.kind}: {fault.message}")
        return self._replace(self._chosen, self._digest(self._chosen))

    # --- the summary -------------------------------------------------------------------------------------------------------------

    async def _summary(self, chosen: Plan) -> str:
        try:
            model = self._model = await self._services.resolve_model(self._intent.model)
            text = await self._ask_for_summary(chosen, model) if model.facts.summarises and not chosen.thin else ""
        except (ProviderError, UserError) as exc:
            self._notes.append(f"the summary was put together without {self._intent.model}: {PLAIN.text(str(exc))}")
            text = ""
        return text or self._digest(chosen)

    def _digest(self, chosen: Plan) -> str:
        return digest(chosen.old, chosen.summary_tokens, self._earlier)

    async def _ask_for_summary(self, chosen: Plan, model: Model) -> str:
        """Ask the model for a summary, piece by piece, so that each question fits the model's window; empty when there is none."""
        room = chosen.summary_tokens
        answer = min(model.facts.max_output, room * 2)
        rest = estimate_text(question("", " ", self._intent.instructions, room)) + room + answer
        window = min(self._intent.window, model.facts.window)
        piece = int(window * FITS / max(1.0, self._services.state.progress.context.ratio)) - rest
        so_far = clip_tokens(self._earlier, room)
        for chunk in chunks(chosen.old, piece) if piece >= LEAST_PIECE else ():
            asked = question(chunk, so_far, self._intent.instructions, room)
            if not self._affordable(asked, model):
                self._notes.append("the summary was put together without a model: there is no money left for one")
                return ""
            so_far = clip_tokens(without_marks(replace_surrogates(await self._ask(model, asked, answer))), room)
            if not so_far:
                self._notes.append(f"the summary was put together without {model.name}: its answer was blank")
                return ""
        return so_far if piece >= LEAST_PIECE else ""

    async def _ask(self, model: Model, asked: str, most: int) -> str:
        request = ModelRequest(
            model=model.name,
            messages=(Message(role="user", parts=(Text(text=asked),)),),
            parameters={"max_output": most},
            position=self._services.state.progress.replies,
            purpose="summary",
            tap=self._tap,
        )
        deltas: list[Delta] = []
        sent = Usage(input=self._estimate(asked), estimated=True)
        try:
            reply = await stream_model(model, request, idle_s=self._services.idle_timeout_s, show=deltas.append)
        except ProviderError:
            if deltas:
                self._spend(model, replace(sent, output=len(deltas)))
            raise
        except anyio.get_cancelled_exc_class():
            self._spend(model, replace(sent, output=len(deltas)))
            raise
        text = text_of(reply.parts)
        self._spend(model, reply.usage or replace(sent, output=self._estimate(text)), reply.cost)
        return text

    def _tap(self, kind: str, content: Mapping[str, object]) -> None:
        turn = self._services.state.progress.turn
        execution = turn.id if turn is not None else self._id
        self._services.tap(kind, {"execution": execution, "round": 0, "ask": self._id, **content})

    def _estimate(self, text: str) -> int:
        return int(estimate_text(text) * self._services.state.progress.context.ratio)

    # --- money -------------------------------------------------------------------------------------------------------------------

    def _spend(self, model: Model, usage: Usage, said: int | None = None) -> None:
        self._usage = usage if self._usage is None else add(self._usage, usage)
        paid = cost(usage, model.facts.prices) if said is None else said
        if paid is not None:
            self._cost = (self._cost or 0) + paid

    def _affordable(self, asked: str, model: Model) -> bool:
        budget = self._services.state.progress.budget
        left = budget.remaining()
        if left is None or budget.on_exceed == "warn":
            return True
        left -= self._cost or 0
        return left > 0 and (cost(Usage(input=self._estimate(asked)), model.facts.prices) or 0) <= left

    # --- what came of it ---------------------------------------------------------------------------------------------------------

    def _replace(self, chosen: Plan, text: str) -> Outcome:
        started = self._intent
        summary: Text | TextRef | None = None
        blobs: dict[str, bytes] = {}
        if chosen.forgone:
            text = f"{text}\n({pluralise(chosen.forgone, 'text')} that the person gave can be found in the log only.)"
        if text and (todos := self._services.state.transcript.todos):
            listed = "\n".join(f"- [{todo.status}] {todo.content}" for todo in todos)
            text = f"{text}\n\nThe list of things to do, as it stands:\n{listed}"
        if text:
            summary, blobs = to_stored_text(text)
        event = state_after(chosen, summary, started.trigger)
        event = replace(
            event,
            before=started.used,
            after=int((started.overhead + event.guess) * self._services.state.progress.context.ratio),
            window=started.window,
            model=self._model.name if self._model is not None and self._usage is not None else "",
            usage=self._usage,
            cost=self._cost,
        )
        notes = (events.ModelNoted(note=replace_surrogates(note)) for note in self._notes)
        return self._finish(event, *notes, blobs=blobs)

    def _fail(self, message: str) -> Outcome:
        return self._finish(events.CompactionFailed(message=PLAIN.text(message), usage=self._usage, cost=self._cost))
