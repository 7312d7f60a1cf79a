"""Writes a session out as one JSON document."""

from collections.abc import Iterator
from itertools import chain

import msgspec

from backstay.logic.conversation import ConversationFold
from backstay.logic.entries import Entry
from backstay.logic.record import record_of
from backstay.logic.redact import PLAIN, Redactor
from backstay.logic.state import State
from backstay.pages import PagedLog
from backstay.vocab.event_memory import MemoryNoted
from backstay.vocab.events import ModelAsked
from backstay.vocab.specs import SessionMeta, ToolSpec
from backstay.wire.json_pieces import json_pieces


def record_text(log: PagedLog, redactor: Redactor = PLAIN) -> Iterator[str]:
    """The record of a session as JSON, without its secrets."""
    state, fold, asked = State(), ConversationFold(), None
    state.meta = SessionMeta(id=log.session)
    for records in log.pages():
        state.outline(records)
        for record in records:
            fold.apply(record)
            if isinstance(record.event, ModelAsked):
                asked = record.event
            elif isinstance(record.event, MemoryNoted):
                state.transcript.memory.append(record.event)
    prompt = log.blob(asked.instructions).decode() if asked and asked.instructions else ""
    tools = msgspec.json.decode(log.blob(asked.tools), type=tuple[ToolSpec, ...]) if asked and asked.tools else ()
    told = fold.over(log, log.session)
    fields = msgspec.to_builtins(record_of(state, system_prompt=prompt, tool_schemas=tools))
    history: Iterator[Entry] = (entry for turn in told.transcripts() for entry in turn.entries())
    fields["messages"] = told.messages()
    if (first := next(history, None)) is not None:
        fields["history"] = chain((first,), history)
    pieces = json_pieces(dict(sorted(fields.items())), indented=True, redactor=redactor)
    return (piece.decode() for piece in chain(pieces, (b"\n",)))
