"""Parse server-sent events from bytes that are split anywhere."""

import msgspec

MAX_LINE = 64 * 1024 * 1024
"""A line or an event longer than this is not one of an event stream."""


class SseEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream. `data` is undecoded JSON text, or whatever the server sent."""

    name: str = ""
    data: bytes


class SseParser:
    """Collects bytes until they make events. An event counts once the empty line after it has come."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._scanned = 0
        self._name = ""
        self._data: list[bytes] = []
        self._held = 0
        self._swallow_lf = False
        self._crlf = False
        """Whether lines end in both: then a CR alone ends nothing, and an event counts only with its last byte."""
        self._begun = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that `chunk` completes."""
        self._rest += chunk
        events: list[SseEvent] = []
        for line in self._lines():
            if line:
                self._field(line)
            elif self._data:
                events.append(SseEvent(name=self._name, data=b"\n".join(self._data)))
                self._name, self._data, self._held = "", [], 0
            else:
                self._name = ""
        if len(self._rest) > MAX_LINE or self._held > MAX_LINE:
            raise ValueError(f"an event of more than {MAX_LINE} bytes")
        return events

    def _lines(self) -> list[bytes]:
        """Return the whole lines that have come. CR, LF and CRLF end one; a CR at the end of what came may be half of a CRLF."""
        if self._swallow_lf and self._rest:
            if self._rest[:1] == b"\n":
                del self._rest[:1]
                self._crlf = True
            self._swallow_lf = False
        self._crlf = self._crlf or self._rest.find(b"\r\n", max(0, self._scanned - 1)) >= 0
        usable = len(self._rest) - (self._crlf and self._rest.endswith(b"\r"))
        cut = max(self._rest.rfind(b"\n", self._scanned, usable), self._rest.rfind(b"\r", self._scanned, usable))
        if cut < 0:
            self._scanned = usable
            return []
        whole = bytes(self._rest[: cut + 1])
        del self._rest[: cut + 1]
        self._scanned = 0
        self._swallow_lf = whole.endswith(b"\r")
        if not self._begun:
            self._begun = True
            whole = whole.removeprefix(b"\xef\xbb\xbf")
        return whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removesuffix(b"\n").split(b"\n")

    def _field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._held += len(value) + 1
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
