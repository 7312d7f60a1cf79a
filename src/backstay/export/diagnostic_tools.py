"""Tool calls in the diagnostic log: the calls of one reply are a batch."""

from collections.abc import Collection, Iterator, Sequence

import msgspec
from msgspec import Struct

from backstay.export.diagnostic_messages import Fields, Messages
from backstay.vocab.events import ChildFinished, ToolFinished
from backstay.vocab.messages import ToolCall


class _Call(Struct, frozen=True, kw_only=True):
    call: ToolCall
    about: Fields


class Batches:
    """The calls of a session, by batch."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._calls: dict[str, _Call] = {}
        self.parent = ""
        """The session whose call opened this one."""

    def started(self, batch: str, calls: Sequence[ToolCall], about: Fields) -> Iterator[tuple[str, Fields]]:
        """A reply asked for `calls`; `about` is what its lines say of the model call."""
        if not calls:
            return
        names = [call.name for call in calls]
        mode = {"mode": "parallel" if len(calls) > 1 else "sequential", "maxConcurrency": 8 if len(calls) > 1 else 1}
        yield "tool_batch_started", {**about, "batchId": batch, **mode, "requestCount": len(calls), "toolNames": names}
        for index, call in enumerate(calls):
            place = {"batchId": batch, "batchIndex": index, "ownerPath": self._owners(about)}
            one = _Call(call=call, about={**about, "toolCallId": call.id, "toolName": call.name, **place})
            self._calls[call.id] = one
            yield "tool_execution_request", one.about | {"parameters": _parameters(call.args)}

    def finished(self, event: ToolFinished | ChildFinished, messages: Messages) -> Iterator[tuple[str, Fields]]:
        """A call has its result."""
        child = isinstance(event, ChildFinished)
        ok = event.outcome in ("ok", "completed")
        text = event.text if isinstance(event, ChildFinished) else messages.text(event.content)
        fields: Fields = {"success": ok, "denied": event.outcome == "denied", "outcome": event.outcome, "result": text}
        if not ok:
            fields["error"] = {"code": "" if isinstance(event, ChildFinished) else event.code, "message": text[:2000]}
        if child:
            fields["childSessionId"] = event.child if isinstance(event, ChildFinished) else ""
        yield "tool_execution_result", self.about(event.call) | fields

    def forget(self, kept: Collection[str]) -> None:
        """Drop the calls of all turns but those `kept`."""
        self._calls = {id: one for id, one in self._calls.items() if one.about.get("executionId") in kept}

    def about(self, call: str) -> Fields:
        """What every line about `call` says."""
        known = self._calls.get(call)
        return known.about if known is not None else {"conversationId": self._session, "toolCallId": call}

    def _owners(self, about: Fields) -> list[Fields]:
        parents: list[Fields] = [{"type": "session", "id": self.parent}] if self.parent else []
        return [
            *parents,
            {"type": "session", "id": self._session},
            {"type": "execution", "id": about.get("executionId")},
        ]


def _parameters(args: str) -> object:
    """The arguments, read; the text as the model sent it when it is not JSON."""
    try:
        return msgspec.json.decode(args) if args.strip() else {}
    except (msgspec.DecodeError, RecursionError):
        return args
