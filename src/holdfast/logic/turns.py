"""The turn segmenter: one pure function that export, resume, rollback, compaction and listing share.

A turn is the user message or messages that somebody sent and the assistant and tool messages that answer them. It is *completed* when its
last assistant message has text and no open call; a preamble before a call is not an answer.
"""

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.vocab.messages import SessionMessage, TextRef, ToolCall, ToolResult, text_of


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that belong together."""

    messages: tuple[SessionMessage, ...]
    completed: bool

    @property
    def asked(self) -> str:
        """The text of the user's messages."""
        return "\n\n".join(filter(None, (text_of(m.content) for m in self.messages if m.role == "user")))

    @property
    def answer(self) -> str:
        """The final text; empty when the turn is not completed."""
        return text_of(self.messages[-1].content) if self.completed else ""

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools it called, each once, in order."""
        calls = (part for m in self.messages for part in m.content if isinstance(part, ToolCall))
        return tuple(dict.fromkeys(call.name for call in calls))


def segment(messages: Iterable[SessionMessage]) -> tuple[Turn, ...]:
    """Cut a transcript into turns. Messages before the first user message belong to none."""
    turns: list[list[SessionMessage]] = []
    for message in messages:
        if message.role == "user" and not (turns and _open_question(turns[-1])):
            turns.append([message])
        elif turns:
            turns[-1].append(message)
    return tuple(Turn(messages=tuple(turn), completed=is_answered(turn)) for turn in turns)


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


def _open_question(turn: Sequence[SessionMessage]) -> bool:
    """Whether a further user message belongs to the same turn: nothing has answered yet, or a call's results came last (a steer)."""
    return turn[-1].role in ("user", "tool")
