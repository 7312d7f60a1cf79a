"""Performs `ModelAsked`: one model call, streamed, from the transcript to a reply in the inbox."""

import math
from collections.abc import Sequence

import anyio

from holdfast.logic.parts import clean, make_durable
from holdfast.ports import Model, ModelReply, ModelRequest
from holdfast.runtime.barrier import Fault
from holdfast.runtime.inspect_call import inspected
from holdfast.runtime.world import Outcome, World
from holdfast.vocab.deltas import Delta, ReasoningDelta, TextDelta
from holdfast.vocab.errors import ProviderError, UserError
from holdfast.vocab.events import Draft, ModelAsked, ModelFailed, ModelReplied, Recorded
from holdfast.vocab.ids import call_id
from holdfast.vocab.messages import (
    InFlightPart,
    Reasoning,
    SessionMessage,
    SignedReasoning,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
)
from holdfast.vocab.specs import Usage


class AskModel:
    """One model call."""

    def __init__(self, record: Recorded, world: World) -> None:
        assert isinstance(record.event, ModelAsked)
        self._asked = record.event
        self._id = record.id
        self._world = world
        self._said: list[str] = []
        self._thought: list[str] = []

    async def run(self) -> Outcome:
        """Ask, stream, and return the reply or the failure."""
        try:
            model = await self._world.model(self._asked.model)
            reply = await self._stream(model, await self._request())
        except ProviderError as exc:
            return self._failure(exc)
        except UserError as exc:
            return self._failure(ProviderError("bad_request", str(exc)))
        return self._reply(reply, reply.model or model.name)

    def stopped(self) -> Outcome:
        """The part of the answer that had arrived."""
        parts: tuple[InFlightPart, ...] = (Text(text=clean("".join(self._said))),) if self._said else ()
        if self._thought:
            parts = (Reasoning(text=clean("".join(self._thought))), *parts)
        spent = Usage(input=self._world.state.usage.context, output=len("".join(self._said)) // 4, estimated=True)
        return self._reply(ModelReply(parts=parts, stop="interrupted", usage=spent), self._asked.model)

    def failed(self, fault: Fault) -> Outcome:
        """An adapter broke: the call failed for an unknown reason."""
        return self._failure(ProviderError("unknown", f"{fault.kind}: {fault.message}"))

    async def _request(self) -> ModelRequest:
        outgoing = self._world.outgoing
        fresh = outgoing.fresh(self._world.state.transcript)
        outgoing.extend(fresh, await self._texts(fresh))
        return ModelRequest(
            model=self._asked.model,
            messages=tuple(outgoing.messages),
            instructions="\n\n".join(filter(None, (self._world.instructions, *outgoing.system))),
            tools=self._world.tools.specs(),
            parameters=self._asked.parameters,
            position=self._world.state.progress.replies,
        )

    async def _texts(self, history: Sequence[SessionMessage]) -> "_Texts":
        texts = _Texts()
        for ref in _references(history):
            if ref.sha256 not in texts.whole:
                content = await self._world.store.blob(ref.sha256)
                texts.whole[ref.sha256] = content.decode("utf-8", "replace")
        return texts

    async def _stream(self, model: Model, request: ModelRequest) -> ModelReply:
        """Pass deltas on until the reply comes. Any sign of life moves the deadline."""
        reply: ModelReply | None = None
        patience = math.inf if self._world.idle_timeout_s is None else self._world.idle_timeout_s
        with anyio.CancelScope(deadline=anyio.current_time() + patience) as idle:
            async for item in model.ask(request):
                if idle.deadline < (due := anyio.current_time() + patience):
                    idle.deadline = due + patience / 100  # a little later, so that a burst does not move it every time
                if isinstance(item, ModelReply):
                    reply = item
                else:
                    self._show(item)
        if idle.cancelled_caught:
            raise ProviderError("timeout", f"{model.name} was silent for {patience:g} seconds.")
        if reply is None:
            raise ProviderError("transport", f"The stream of {model.name} ended without its final event: it was cut.")
        return reply

    def _show(self, delta: Delta) -> None:
        if isinstance(delta, TextDelta):
            self._said.append(delta.text)
        elif isinstance(delta, ReasoningDelta):
            self._thought.append(delta.text)
        self._world.stream(delta)

    def _reply(self, reply: ModelReply, model: str) -> Outcome:
        parts = self._with_call_ids(reply.parts)
        durable, blobs = make_durable(parts)
        event = ModelReplied(parts=durable, stop=reply.stop, model=model, usage=reply.usage)
        looked = [inspected(self._world, call, cause=self._id) for call in parts if isinstance(call, ToolCall)]
        return Outcome((Draft(event=event, by="model", cause=self._id), *looked), blobs)

    def _with_call_ids(self, parts: Sequence[InFlightPart]) -> tuple[InFlightPart, ...]:
        """Our own ids for the calls, and text that can be stored: lone surrogates are replaced."""
        named: list[InFlightPart] = []
        count = 0
        for part in parts:
            match part:
                case ToolCall():
                    named.append(
                        ToolCall(
                            id=call_id(self._id, count),
                            name=clean(part.name),
                            args=clean(part.args),
                            provider_id=part.provider_id,
                        )
                    )
                    count += 1
                case Text():
                    named.append(Text(text=clean(part.text)))
                case Reasoning() | SignedReasoning():
                    named.append(Reasoning(text=clean(part.text)))
                case _:
                    named.append(part)
        return tuple(named)

    def _failure(self, exc: ProviderError) -> Outcome:
        event = ModelFailed(kind=exc.kind, message=clean(str(exc)), retry_after_s=exc.retry_after_s)
        return Outcome((Draft(event=event, by="model", cause=self._id),))


class _Texts:
    """Long texts by handle, all of them fetched before."""

    def __init__(self) -> None:
        self.whole: dict[str, str] = {}

    def __call__(self, ref: TextRef) -> str:
        return self.whole[ref.sha256]


def _references(history: Sequence[SessionMessage]) -> list[TextRef]:
    found: list[TextRef] = []
    for said in history:
        for part in said.content:
            if isinstance(part, TextRef):
                found.append(part)
            elif isinstance(part, ToolResult):
                found.extend(inner for inner in part.content if isinstance(inner, TextRef))
    return found
