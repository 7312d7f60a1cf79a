"""Call the model: performs `ModelAsked`, streamed, from the transcript to a reply in the inbox.

Performs `WaitStarted` too: lets time pass before a model is asked again.
"""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

import anyio
from msgspec.structs import replace

from backstay.logic.budget import cost
from backstay.logic.context_usage import tokens_of
from backstay.logic.json_checks import answer_problem
from backstay.logic.secrets.redact import PLAIN
from backstay.logic.state.request_messages import find_blobs
from backstay.logic.stored_content import digest, make_durable, replace_surrogates
from backstay.logic.text import count_seconds
from backstay.ports import Model, ModelReply, ModelRequest
from backstay.runtime.barrier import Fault
from backstay.runtime.run_tool import inspect_call
from backstay.runtime.services import Outcome, Performer, Services
from backstay.vocab import events
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError, UserError
from backstay.vocab.event import Recorded
from backstay.vocab.ids import call_id, provider_of
from backstay.vocab.messages import InFlightPart, Reasoning, SignedReasoning, Text, ToolCall, text_of
from backstay.vocab.specs import ModelFacts, Usage

Show = Callable[[Delta], None]


async def stream_model(model: Model, request: ModelRequest, *, idle_s: float | None, show: Show) -> ModelReply:
    """Ask, show every delta, return the reply. Any sign of life moves the deadline; a stream without its reply was cut."""
    patience = math.inf if idle_s is None else idle_s
    reply: ModelReply | None = None
    stream = model.ask(request)
    with anyio.CancelScope(deadline=anyio.current_time() + patience) as idle:
        try:
            reply = await _read(stream, idle, patience, show)
        finally:
            if isinstance(stream, AsyncGenerator):  # its connection is closed now, also after an error
                with anyio.CancelScope(shield=True):
                    await stream.aclose()
    if idle.cancelled_caught:
        raise ProviderError("timeout", f"{model.name} was silent for {count_seconds(patience)}.")
    if reply is None:
        raise ProviderError("transport", f"The stream of {model.name} ended without its final event: it was cut.")
    return reply


async def _read(
    stream: AsyncIterator[Delta | ModelReply], idle: anyio.CancelScope, patience: float, show: Show
) -> ModelReply | None:
    reply: ModelReply | None = None
    async for item in stream:
        if idle.deadline < (due := anyio.current_time() + patience):
            idle.deadline = due + patience / 100  # a little later, so that a burst does not move it every time
        if isinstance(item, ModelReply):
            reply = item
        elif type(item) is not Delta:  # a bare delta only says that something came
            show(item)
    return reply


class AskModel(Performer[events.ModelAsked]):
    """One model call."""

    by = "model"

    def __init__(self, record: Recorded, services: Services) -> None:
        super().__init__(record, services)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._call_args: list[str] = []
        """Arguments of calls: they are no answer, but they are paid for."""
        self._facts = ModelFacts()
        self._tapped = False

    async def run(self) -> Outcome:
        """Ask, stream, and return the reply or the failure."""
        try:
            model = await self._services.resolve_model(self._intent.model)
            self._facts = model.facts
            request = await self._request()
            reply = await stream_model(model, request, idle_s=self._services.idle_timeout_s, show=self._show)
        except ProviderError as exc:
            return self._failure(exc)
        except UserError as exc:
            return self._failure(ProviderError("bad_request", str(exc)))
        self._trace_whole(model, request, reply)
        outcome = self._reply(reply, reply.model or model.name)
        replied = outcome.drafts[0].event
        assert isinstance(replied, events.ModelReplied)
        facts = [await inspect_call(self._services, call) for call in events.calls_of(replied)]
        inspected = self._finish(*facts, by="system").drafts
        return Outcome((outcome.drafts[0], *inspected, *outcome.drafts[1:]), outcome.blobs)

    def report_stop(self) -> Outcome:
        """Return the part of the answer that had arrived."""
        return self._reply(ModelReply(parts=self._partial(), stop="interrupted"), self._intent.model)

    def report_fault(self, fault: Fault) -> Outcome:
        """Return a failure of an unknown kind: the adapter broke."""
        return self._failure(ProviderError("unknown", f"{fault.kind}: {fault.message}"))

    # --- the request -------------------------------------------------------------------------------------------------------------

    async def _request(self) -> ModelRequest:
        outgoing, transcript = self._services.outgoing, self._services.state.transcript
        fresh = outgoing.fresh(transcript)
        blobs = {sha: await self._services.store.blob(sha) for sha in find_blobs(fresh, transcript.opaques)}
        if sum(map(len, blobs.values())) > 1_000_000:
            await anyio.lowlevel.checkpoint()
        outgoing.extend(fresh, blobs.__getitem__, transcript.opaques)
        return ModelRequest(
            model=self._intent.model,
            messages=tuple(outgoing.messages),
            instructions="\n\n".join(filter(None, (self._services.instructions, *outgoing.system))),
            tools=self._services.tools.specs(),
            parameters=self._intent.parameters,
            position=self._services.state.progress.replies,
            place=self._services.state.progress.count_replies(self._intent.model),
            tap=self._tap,
        )

    def _tap(self, kind: str, content: Mapping[str, object]) -> None:
        self._tapped = True
        self._services.tap(
            kind, {"execution": self._intent.turn, "round": self._intent.round, "ask": self._id, **content}
        )

    def _trace_whole(self, model: Model, request: ModelRequest, reply: ModelReply) -> None:
        """Trace a request and its reply for a model that is not asked over the network and has no payloads of its own."""
        if not self._tapped:
            self._tap("provider_request", {"model": model.name, "messages": len(request.messages)})
            self._tap("provider_native_raw_payload", {"kind": "response", "payload": {"parts": reply.parts}})
            self._tap("provider_response_raw", {"status": 200, "stop": reply.stop, "usage": reply.usage})

    def _show(self, delta: Delta) -> None:
        if isinstance(delta, TextDelta):
            self._text.append(delta.text)
        elif isinstance(delta, ReasoningDelta):
            self._reasoning.append(delta.text)
        elif isinstance(delta, ToolArgsDelta):
            self._call_args.append(delta.text)
        self._services.stream(delta)

    # --- what came of it ---------------------------------------------------------------------------------------------------------

    def _partial(self) -> tuple[InFlightPart, ...]:
        parts: tuple[InFlightPart, ...] = (Text(text=replace_surrogates("".join(self._text))),) if self._text else ()
        if self._reasoning:
            parts = (Reasoning(text=replace_surrogates("".join(self._reasoning))), *parts)
        return parts

    def _all_parts(self) -> tuple[InFlightPart, ...]:
        return (
            *self._partial(),
            *((Text(text=replace_surrogates("".join(self._call_args))),) if self._call_args else ()),
        )

    def _reply(self, reply: ModelReply, model: str) -> Outcome:
        parts = self._with_call_ids(reply.parts)
        durable, blobs = make_durable(parts)
        doubts = _impossible(reply.usage)
        counted = None if doubts else reply.usage
        usage = counted or self._estimate(parts if reply.stop != "interrupted" else self._all_parts())
        opaque = None
        if reply.opaque:
            opaque = events.Opaque(
                provider=reply.provider or provider_of(self._intent.model), sha256=digest(reply.opaque)
            )
            blobs[opaque.sha256] = reply.opaque
        event = events.ModelReplied(
            parts=durable,
            stop=reply.stop,
            model=model,
            usage=usage,
            cost=cost(usage, self._facts.prices) if reply.cost is None else reply.cost,
            opaque=opaque,
            problem=self._problem(reply),
        )
        notes = (events.ModelNoted(note=replace_surrogates(note)) for note in (*reply.notes, *doubts))
        return self._finish(event, *notes, blobs=blobs)

    def _problem(self, reply: ModelReply) -> str:
        schema = self._intent.parameters.get("schema")
        if not isinstance(schema, dict) or reply.stop in ("interrupted", "tool_calls"):
            return ""
        return answer_problem(text_of(reply.parts), schema)

    def _estimate(self, parts: Sequence[InFlightPart]) -> Usage:
        """Estimate the usage of a stream that was cut, or whose provider sent none."""
        sent = self._intent.tokens * self._services.state.progress.context.ratio
        durable, _ = make_durable(parts)
        return Usage(input=int(sent), output=tokens_of(durable) if durable else 0, estimated=True)

    def _with_call_ids(self, parts: Sequence[InFlightPart]) -> tuple[InFlightPart, ...]:
        """Give the calls our own ids, and replace lone surrogates, which cannot be stored."""
        named: list[InFlightPart] = []
        count = 0
        for part in parts:
            match part:
                case ToolCall():
                    name, args = replace_surrogates(part.name), replace_surrogates(part.args)
                    named.append(replace(part, id=call_id(self._id, count), name=name, args=args))
                    count += 1
                case Text():
                    named.append(Text(text=replace_surrogates(part.text)))
                case Reasoning() | SignedReasoning():
                    named.append(Reasoning(text=replace_surrogates(part.text)))
                case _:
                    named.append(part)
        return tuple(named)

    def _failure(self, exc: ProviderError) -> Outcome:
        partial = self._partial()
        durable, blobs = make_durable(partial)
        usage = self._estimate(self._all_parts()) if partial or self._call_args else None
        event = events.ModelFailed(
            kind=exc.kind,
            message=PLAIN.text(replace_surrogates(str(exc))),
            retry_after_s=exc.retry_after_s,
            parts=durable,
            usage=usage,
            cost=cost(usage, self._facts.prices) if usage else None,
        )
        return self._finish(event, blobs=blobs)


def _impossible(usage: Usage | None) -> tuple[str, ...]:
    """Return a note for usage figures that cannot be: they are not believed."""
    if usage is None or min(usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning) >= 0:
        return ()
    return (f"the provider's usage cannot be ({usage.input} in, {usage.output} out), so it was estimated",)


class Wait(Performer[events.WaitStarted]):
    """One wait before a model is asked again."""

    async def run(self) -> Outcome:
        """Wait until it is time."""
        until, since = self._intent.until, self._record.at
        left = min(until - self._services.clock.now(), until - since)  # the clock may have been ahead
        if left > 0:
            await self._services.clock.sleep(left / 1_000_000)
        return self._finish(events.WaitEnded())

    def report_fault(self, fault: Fault) -> Outcome:
        """End the wait: a clock that breaks is no reason to wait for ever."""
        return self._finish(events.WaitEnded())
