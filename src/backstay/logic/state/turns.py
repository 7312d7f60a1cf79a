"""The turn segmenter: one pure function that says what belongs to which turn of a conversation.

A turn is the input that somebody sent and the messages that answer it, from its `TurnStarted` to its `TurnCompleted`. It is *completed*
when it ended so and its last assistant message has text and no open call; a preamble before a call is not an answer.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from backstay.logic.state.transcript import Transcript
from backstay.vocab.event import Recorded
from backstay.vocab.events import HistoryCleared, InputTaken, TurnCompleted, TurnStarted
from backstay.vocab.messages import SessionMessage, TextRef, ToolCall, ToolResult, text_of


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that belong together."""

    messages: tuple[SessionMessage, ...]
    inputs: tuple[SessionMessage, ...]
    """Those of them that somebody sent; the others that a model reads in the user's place are ours."""
    completed: bool

    @property
    def asked(self) -> str:
        """The text of what was sent."""
        return "\n\n".join(filter(None, (text_of(message.content) for message in self.inputs)))

    @property
    def answer(self) -> str:
        """The final text; empty when the turn is not completed."""
        return text_of(self.messages[-1].content) if self.completed else ""

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools it called, each once, in order."""
        calls = (part for m in self.messages for part in m.content if isinstance(part, ToolCall))
        return tuple(dict.fromkeys(call.name for call in calls))


Spoken = tuple[Recorded, SessionMessage | None]
"""A node of a path, and the message that it is."""


def segment(transcript: Transcript) -> tuple[Turn, ...]:
    """Cut a conversation into turns, also those that a summary stands for. What was cleared is left out."""
    spoken = list(transcript.spoken())
    cleared = max((at for at, (record, _) in enumerate(spoken) if isinstance(record.event, HistoryCleared)), default=-1)
    return tuple(segments(spoken[cleared + 1 :]))


def segments(spoken: Iterable[Spoken]) -> Iterator[Turn]:
    """Cut what was spoken into turns. Messages between turns belong to none.

    Input to which nothing was said at all goes with the next: what comes then answers both.
    """
    turn: Turn | None = None
    messages: list[SessionMessage] = []
    inputs: list[SessionMessage] = []
    for record, message in spoken:
        event = record.event
        if isinstance(event, TurnStarted):
            messages, inputs = [], []
            if turn is not None and turn.messages == turn.inputs:
                messages, inputs = [*turn.messages], [*turn.inputs]
            elif turn is not None:
                yield turn
            turn = None
        elif isinstance(event, TurnCompleted):
            done = event.outcome == "completed" and is_answered(messages)
            turn = Turn(messages=tuple(messages), inputs=tuple(inputs), completed=done)
        elif message is not None:
            messages.append(message)
            inputs += [message] if isinstance(event, InputTaken) else []
    if turn is not None:
        yield turn


def is_answered(messages: Sequence[SessionMessage]) -> bool:
    """Whether the last message is an assistant's with text and without an open call."""
    if not messages or messages[-1].role != "assistant" or messages[-1].state == "interrupted":
        return False
    last = messages[-1]
    has_text = bool(text_of(last.content).strip()) or any(isinstance(part, TextRef) for part in last.content)
    return has_text and not open_calls(messages)


def open_calls(messages: Iterable[SessionMessage]) -> tuple[str, ...]:
    """The calls among `messages` that have no result there."""
    calls: dict[str, None] = {}
    for message in messages:
        for part in message.content:
            if isinstance(part, ToolCall):
                calls[part.id] = None
            elif isinstance(part, ToolResult):
                calls.pop(part.call, None)
    return tuple(calls)
