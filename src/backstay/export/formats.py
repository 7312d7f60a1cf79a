"""Write a session as a document: the formats, the files that they go to, and the record of a session as JSON."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final, Literal, assert_never

import msgspec

from backstay.catalog.paged_log import PagedLog, with_log
from backstay.catalog.sessions import add_event
from backstay.export.dialogue import Dialogue, dialogue_of
from backstay.export.html import html_page
from backstay.export.markdown import markdown_page
from backstay.logic.secrets.redact import PLAIN, Redactor
from backstay.logic.state.conversation import ConversationFold
from backstay.logic.state.entries import Entry
from backstay.logic.state.session_state import State, record_of
from backstay.ports import Clock, EventStore
from backstay.system.files import replace_file
from backstay.vocab import events
from backstay.vocab.errors import LogDamaged, NeedsUpgrade, SessionBusy, StoreError, UserError
from backstay.vocab.specs import SessionMeta, ToolSpec
from backstay.wire.write_json import json_pieces

Format = Literal["workflow", "json", "markdown", "html"]
ENDINGS: Final[dict[str, Format]] = {
    ".yaml": "workflow",
    ".yml": "workflow",
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
}
"""The format for the ending of a file."""


def format_of(target: Path) -> Format:
    """Return the format for the ending of `target`. Raise `UserError` for any other ending."""
    kind = ENDINGS.get(target.suffix.lower())
    if kind is None:
        endings = ", ".join(f"{ending} ({meant})" for ending, meant in ENDINGS.items())
        raise UserError(f"{target.name!r} does not say what to write: end it in {endings}.")
    return kind


def write_pieces(target: Path, pieces: Iterable[str]) -> None:
    """Replace `target` with a text in one step. A link stays, and the file that it leads to is replaced; a device or a pipe is written to.

    Raise `UserError` when that cannot be done; then the old file stays.
    """
    place = Path(os.path.realpath(target))
    content = (piece.encode() for piece in pieces)
    try:
        if not place.exists() or place.is_file():
            replace_file(place, content)
            return
        with open(os.open(place, os.O_WRONLY | os.O_CLOEXEC), "wb") as file:
            file.writelines(content)
    except OSError as exc:
        raise UserError(_refusal(target, place, exc)) from exc


def _refusal(target: Path, place: Path, exc: OSError) -> str:
    if isinstance(exc, FileNotFoundError):
        return f"Cannot write {str(target)!r}: there is no folder {str(place.parent)!r}. Make it first."
    return f"Cannot write {str(target)!r}: {exc.strerror or exc}."


def record_text(log: PagedLog, redactor: Redactor = PLAIN) -> Iterator[str]:
    """Yield the record of a session as JSON, without its secrets."""
    state, fold, asked = State(), ConversationFold(), None
    state.meta = SessionMeta(id=log.session)
    for records in log.pages():
        state.outline(records)
        for record in records:
            fold.apply(record)
            if isinstance(record.event, events.ModelAsked):
                asked = record.event
            elif isinstance(record.event, events.MemoryNoted):
                state.transcript.memory.append(record.event)
    prompt = log.blob(asked.instructions).decode() if asked and asked.instructions else ""
    tools = msgspec.json.decode(log.blob(asked.tools), type=tuple[ToolSpec, ...]) if asked and asked.tools else ()
    conversation = fold.over(log, log.session)
    fields = msgspec.to_builtins(record_of(state, system_prompt=prompt, tool_schemas=tools))
    history: Iterator[Entry] = (entry for turn in conversation.transcripts() for entry in turn.entries())
    fields["messages"] = conversation.messages()
    if (first := next(history, None)) is not None:
        fields["history"] = chain((first,), history)
    pieces = json_pieces(dict(sorted(fields.items())), indented=True, redactor=redactor)
    return (piece.decode() for piece in chain(pieces, (b"\n",)))


async def export(
    store: EventStore, session: str, kind: Format, take: Callable[[Iterable[str]], None], redactor: Redactor = PLAIN
) -> tuple[events.Exported, int]:
    """Pass the text of an export to `take` in pieces, without secrets; return the event about it, and the number of bytes.

    `take` runs in a thread. Nothing is written to the session.
    """
    digest, size = hashlib.sha256(), 0

    def measure(pieces: Iterable[str]) -> Iterator[str]:
        nonlocal size
        for piece in pieces:
            content = piece.encode()
            digest.update(content)
            size += len(content)
            yield piece

    await with_log(store, session, lambda log: take(measure(_pieces(log, kind, redactor))))
    return events.Exported(format=kind, sha256=digest.hexdigest()), size


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


async def note_export(store: EventStore, session: str, made: events.Exported, *, clock: Clock) -> str:
    """Note in the log that `session` was exported; return why that failed, or nothing. The export is good without the note.

    Raise `LogDamaged` or `NeedsUpgrade` when the log cannot be read to its end: then the export is not complete.
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
    """Yield the conversation of a log as a page, without its secrets, a turn at a time."""
    return _PAGES[kind](dialogue_of(log, redactor))
