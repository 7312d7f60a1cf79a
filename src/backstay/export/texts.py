"""An export in any of its formats, piece by piece, and what a session's log says of it."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import assert_never

from backstay.export.files import Format
from backstay.logic.redact import PLAIN, Redactor
from backstay.pages import PagedLog, with_log
from backstay.ports import Clock, EventStore
from backstay.shelf import add_event
from backstay.vocab.errors import LogDamaged, NeedsUpgrade, SessionBusy, StoreError
from backstay.vocab.events import Exported


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
            from backstay.export.record import record_text  # noqa: PLC0415 - one format needs nothing of another

            return record_text(log, redactor)
        case "markdown" | "html":
            from backstay.export.transcripts import page  # noqa: PLC0415 - as above

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
