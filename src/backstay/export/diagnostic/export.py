"""Write the diagnostic log of a session: one JSON object a line, made from its log and its trace, without secrets.

Nothing is written to the session, so one that is running can be exported too.
"""

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from backstay.catalog.paged_log import PagedLog
from backstay.export.diagnostic.external_payloads import Payloads, join
from backstay.export.diagnostic.lines import DiagnosticSource, lines_of
from backstay.export.diagnostic.messages import Fields, MessageHistory
from backstay.logic.secrets.redact import PLAIN, Redactor
from backstay.stores.stored_trace import read_trace
from backstay.stores.trace import trace_folder
from backstay.stores.trace_lines import HISTORIES
from backstay.system.files import replace_file
from backstay.vocab.errors import BlobMissing, UserError

REPEATED: Final = frozenset(("systemPrompt", "tools", "toolSchemas", "system", "instructions"))
"""Fields that many lines have in common."""
REPEATED_INLINE: Final = 4 * 1024
TEXTS: Final = 64
"""Long texts that are kept for the lines to come."""


def load_source(log: PagedLog, url: str) -> DiagnosticSource:
    """Return the source of the diagnostic log of a session in the store at `url`. Only the trace is read at once: it is kept small."""

    @functools.lru_cache(TEXTS)
    def text(sha256: str) -> str | None:
        try:
            return log.blob(sha256).decode("utf-8", "replace")
        except BlobMissing:
            return None

    folder = trace_folder(url)
    trace = None if folder is None else read_trace(folder, log.session)
    return DiagnosticSource(session=log.session, records=log, trace=trace, text=text)


def write_diagnostic(source: DiagnosticSource, target: Path, redactor: Redactor = PLAIN) -> int:
    """Write a diagnostic log to `target` and its payloads beside it; return the number of lines. On failure `target` stays as it was."""
    lines, count = json_lines(source, Payloads(target.parent, source.session), redactor=redactor), 0

    def count_lines() -> Iterator[bytes]:
        nonlocal count
        for line in lines:
            count += 1
            yield line + b"\n"

    try:
        replace_file(target, count_lines())
    except OSError as exc:
        raise UserError(f"Cannot write {str(target)!r}: {exc.strerror or exc}.") from exc
    return count


def json_lines(
    source: DiagnosticSource, payloads: Payloads | None = None, *, redactor: Redactor = PLAIN
) -> Iterator[bytes]:
    """Yield the diagnostic log, a line at a time. Without `payloads` every line is whole, however long."""
    writer = _Writer(payloads, redactor)
    return (writer.line(fields) for fields in lines_of(source, redactor))


class _Writer:
    def __init__(self, payloads: Payloads | None, redactor: Redactor) -> None:
        self._payloads = payloads
        self._redactor = redactor
        self._items: dict[int, tuple[object, bytes]] = {}
        """Encoded items of requests, which many requests share; the items are kept, so that their ids are not used again."""

    def line(self, fields: Fields) -> bytes:
        if fields.get("payloadKind") == "request":
            fields = fields | {"payload": self._request(fields.get("payload"))}
        return msgspec.json.encode({key: self._field(key, value) for key, value in fields.items()})

    def _field(self, key: str, value: object) -> object:
        if value is None or isinstance(value, int | float | msgspec.Raw):
            return value
        if isinstance(value, MessageHistory):
            return self._list(value.items)
        content = self._redactor.field(key, value)
        if self._payloads is None or (isinstance(content, str) and len(content) < 1024):
            return content
        written = msgspec.json.encode(content)
        if key in REPEATED:
            return msgspec.Raw(self._payloads.field(written, REPEATED_INLINE))
        return msgspec.Raw(self._payloads.field(written))

    def _request(self, payload: object) -> object:
        """Return a request as it was sent, its history in parts that it shares with the requests before it."""
        if not isinstance(payload, dict):
            return payload
        raw = {key: self._body(value) if isinstance(value, dict) else value for key, value in payload.items()}
        return msgspec.Raw(msgspec.json.encode(self._body(raw)))

    def _body(self, body: dict[str, object]) -> dict[str, object]:
        written: dict[str, object] = {}
        for key, value in body.items():
            if key in HISTORIES and isinstance(value, list):
                written[key] = self._list([self._item(item) for item in value])
            else:
                written[key] = self._field(key, value)
        return written

    def _item(self, item: object) -> bytes:
        known = self._items.get(id(item))
        if known is None:
            known = item, msgspec.json.encode(self._redactor.value(item))
            self._items[id(item)] = known
        return known[1]

    def _list(self, items: Iterable[bytes]) -> msgspec.Raw:
        listed = list(items)
        return msgspec.Raw(join(listed) if self._payloads is None else self._payloads.items(listed))
