"""The transcript as a request: messages that every provider accepts.

No sequence of crash, interrupt, steer, fork, rewind or change of model may lead to a request that a provider refuses for its shape, so the
repairs live here: results stand in call order right after their calls, blank text and reasoning that nothing follows are left out, a
system message goes to the front, and the first word is the user's. A call without its result cannot be here: nothing is asked while a call
is open.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from backstay.logic.state.transcript import Transcript
from backstay.vocab import events
from backstay.vocab.messages import (
    InFlightPart,
    InlineMedia,
    MediaRef,
    Message,
    Reasoning,
    ServerBlock,
    SessionMessage,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
)

Resolve = Callable[[str], bytes]
"""Gives the bytes of a blob by its hash."""

NO_RESULT = "There is no record of a result for this call."


class Outgoing:
    """The request's history, kept from one request to the next: only what was said since is converted.

    Works because a request is only made when no call is open: what was converted once is whole.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.system: list[str] = []
        """What was injected as the system's words; it is sent with the instructions."""
        self._converted = 0
        self._epoch = -1

    def fresh(self, transcript: Transcript) -> Sequence[SessionMessage]:
        """Return the messages that `extend` has to take in."""
        if transcript.epoch != self._epoch:
            self.messages, self.system = [], []
            self._converted, self._epoch = 0, transcript.epoch
        return transcript.messages[self._converted :]

    def extend(
        self,
        fresh: Sequence[SessionMessage],
        resolve: Resolve,
        opaques: Mapping[str, events.Opaque] = MappingProxyType({}),
    ) -> None:
        """Take in what was said since."""
        for message in fresh:
            if message.role == "system":
                self.system += [part.text for part in _parts(message, resolve) if isinstance(part, Text)]
        self.messages += to_messages(fresh, resolve, opaques)
        self._converted += len(fresh)
        if self.messages and self.messages[0].role != "user":
            self.messages.insert(
                0, Message(role="user", parts=(Text(text="(The conversation begins with the assistant.)"),))
            )


def find_blobs(fresh: Iterable[SessionMessage], opaques: Mapping[str, events.Opaque]) -> set[str]:
    """Return the blobs that `extend` will ask for."""
    found: set[str] = set()
    for message in fresh:
        if (opaque := opaques.get(message.id)) is not None:
            found.add(opaque.sha256)
        for part in message.content:
            for each in part.content if isinstance(part, ToolResult) else (part,):
                if isinstance(each, TextRef | MediaRef):
                    found.add(each.sha256)
    return found


def to_messages(
    transcript: Sequence[SessionMessage], resolve: Resolve, opaques: Mapping[str, events.Opaque] = MappingProxyType({})
) -> list[Message]:
    """Return the messages of a request, without system messages."""
    messages: list[Message] = []
    waiting: dict[str, ToolResult | None] = {}
    for message in transcript:
        if message.role == "tool":
            waiting.update(
                {p.call: _whole(p, resolve) for p in message.content if isinstance(p, ToolResult) and p.call in waiting}
            )
            continue
        messages.extend(_results(waiting))
        waiting = {}
        if message.role != "system" and (parts := tuple(_parts(message, resolve))):
            messages.append(_message(message, parts, resolve, opaques.get(message.id)))
            waiting = {part.id: None for part in parts if isinstance(part, ToolCall)}
    messages.extend(_results(waiting))
    return messages


def _message(
    message: SessionMessage, parts: tuple[InFlightPart, ...], resolve: Resolve, opaque: events.Opaque | None
) -> Message:
    if opaque is None:
        return Message(role=message.role, parts=parts)
    return Message(role=message.role, parts=parts, opaque=resolve(opaque.sha256), provider=opaque.provider)


def _results(waiting: dict[str, ToolResult | None]) -> list[Message]:
    return [
        Message(role="tool", parts=(result or ToolResult(call=call, content=(Text(text=NO_RESULT),), is_error=True),))
        for call, result in waiting.items()
    ]


def _parts(message: SessionMessage, resolve: Resolve) -> Iterable[InFlightPart]:
    parts: list[InFlightPart] = []
    for part in message.content:
        match part:
            case TextRef():
                parts.append(_text(part, resolve))
            case MediaRef():
                parts.append(_media(part, resolve))
            case ToolResult():
                parts.append(_whole(part, resolve))
            case Text() if not part.text.strip():
                continue
            case _:
                parts.append(part)
    while parts and isinstance(parts[-1], Reasoning):
        parts.pop()
    if parts and all(isinstance(part, Reasoning | ServerBlock) for part in parts):
        parts.append(_describe_used(parts))
    return parts


def _describe_used(parts: Sequence[InFlightPart]) -> Text:
    """Return words for a reply of which only its own provider would be sent anything: without them, the message would be empty."""
    done = dict.fromkeys(part.name or part.kind for part in parts if isinstance(part, ServerBlock))
    return Text(text=f"[used: {', '.join(done)}]")


def _whole(result: ToolResult, resolve: Resolve) -> ToolResult:
    content: list[Text | TextRef | MediaRef | InlineMedia] = []
    for part in result.content:
        match part:
            case TextRef():
                content.append(_text(part, resolve))
            case MediaRef():
                content.append(_media(part, resolve))
            case Text() if not part.text.strip():
                continue
            case _:
                content.append(part)
    return ToolResult(call=result.call, content=tuple(content), is_error=result.is_error)


def _text(ref: TextRef, resolve: Resolve) -> Text:
    return Text(text=resolve(ref.sha256).decode("utf-8", "replace"))


def _media(ref: MediaRef, resolve: Resolve) -> InlineMedia:
    return InlineMedia(media_type=ref.media_type, content=resolve(ref.sha256), name=ref.name)
