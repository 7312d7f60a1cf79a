"""Writes a session out as one JSON document."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final, Literal, assert_never

import msgspec

from backstay.catalog.load import PagedLog, with_log
from backstay.catalog.sessions import add_event
from backstay.export.files import Format
from backstay.export.page.fold import Dialogue, dialogue_of
from backstay.export.page.html import html_page
from backstay.export.page.markdown import markdown_page
from backstay.logic.secrets.redact import PLAIN, Redactor
from backstay.logic.state.conversation import ConversationFold
from backstay.logic.state.entries import Entry
from backstay.logic.state.session_state import State, record_of
from backstay.ports import Clock, EventStore
from backstay.vocab.errors import LogDamaged, NeedsUpgrade, SessionBusy, StoreError
from backstay.vocab.events import Exported, ModelAsked
from backstay.vocab.events.instructions import MemoryNoted
from backstay.vocab.specs import SessionMeta, ToolSpec
from backstay.wire.json_text import json_pieces


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


async def export(
    store: EventStore, session: str, kind: Format, take: Callable[[Iterable[str]], None], redactor: Redactor = PLAIN
) -> tuple[Exported, int]:
    """Give `take` the text of an export in pieces, without the session's secrets; return the event that tells of it, and its bytes.

    `take` runs in a thread. Nothing is written to the session.
    """
    digest, size = hashlib.sha256(), 0

    def counted(pieces: Iterable[str]) -> Iterator[str]:
        nonlocal size
        for piece in pieces:
            content = piece.encode()
            digest.update(content)
            size += len(content)
            yield piece

    await with_log(store, session, lambda log: take(counted(_pieces(log, kind, redactor))))
    return Exported(format=kind, sha256=digest.hexdigest()), size


def _pieces(log: PagedLog, kind: Format, redactor: Redactor) -> Iterator[str]:
    match kind:
        case "workflow":
            from backstay.export.workflow import workflow_text  # noqa: PLC0415 - it loads the YAML library

            return workflow_text(log, redactor)
        case "json":
            return record_text(log, redactor)
        case "markdown" | "html":
            return page(log, kind, redactor=redactor)
        case _:
            assert_never(kind)


async def note_export(store: EventStore, session: str, made: Exported, *, clock: Clock) -> str:
    """Write down that `session` was exported; say why that could not be, and nothing when it could: the export is good without it.

    Raise `LogDamaged` or `NeedsUpgrade` when the log goes further than what can be read: then the export is not all there is.
    """
    try:
        await add_event(store, session, made, clock=clock)
    except SessionBusy:
        return f"{session!r} is at work elsewhere"
    except (LogDamaged, NeedsUpgrade):
        raise
    except StoreError as exc:
        return str(exc).rstrip(".")
    return ""


PageKind = Literal["markdown", "html"]
_PAGES: Final[dict[PageKind, Callable[[Dialogue], Iterator[str]]]] = {"markdown": markdown_page, "html": html_page}


def page(log: PagedLog, kind: PageKind, *, redactor: Redactor = PLAIN) -> Iterator[str]:
    """The conversation of a log as a page, without its secrets, a turn at a time."""
    return _PAGES[kind](dialogue_of(log, redactor))
