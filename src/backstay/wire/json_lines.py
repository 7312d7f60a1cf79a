"""A session as lines of JSON, for `log export --format events` and `log import`. Pure.

    {"format":"backstay-log","version":1,"session":"S","events":12,"crc":"5f2b9c01"}
    {"blob":"<SHA-256>","data":"<base64>","crc":"..."}
    {"seq":1,"id":...,"type":"session:started","session":"S",...,"crc":"..."}

The first line says how many events follow, so a file that lost its end is found out. A blob stands before the first event
that cites it; its `data` is null when it was gone as the file was written. An event is a line of the native stream
(`wire/stream.py`), with a `v` where its shape is not the first. Each line ends with `crc`: the CRC-32 of all bytes before it.

A first line without `events` and `crc` is that of another program: then no line needs a `crc`.
"""

import base64
import binascii
import zlib
from typing import Final

import msgspec

from backstay.logic.stored_content import digest
from backstay.vocab import events
from backstay.vocab.errors import LogDamaged, NeedsUpgrade, UserError
from backstay.vocab.event import By, Recorded
from backstay.wire.codec import decode_body
from backstay.wire.stream import PREFIX, line, micros

FORMAT: Final = "backstay-log"
VERSION: Final = 1
LONGEST_HEADER: Final = 4096
"""More bytes than a first line has."""
_SEAL: Final = len(b',"crc":"00000000"}')


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line."""

    format: str
    version: int
    session: str
    events: int | None = None
    crc: str = ""

    @property
    def is_sealed(self) -> bool:
        """Whether each line must have a checksum."""
        return bool(self.crc) or self.events is not None


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """A line with a blob."""

    sha256: str
    content: bytes | None
    """None when it was gone as the file was written."""


class _AnyLine(msgspec.Struct, frozen=True, kw_only=True):
    """Any other line, before it is known which."""

    blob: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    seq: int = 0
    id: str = ""
    type: str = ""
    v: int = 1
    session: str = ""
    at: str = ""
    by: By = "system"
    cause: str = ""


_header_decoder: Final = msgspec.json.Decoder(Header)
_line_decoder: Final = msgspec.json.Decoder(_AnyLine)


def header_line(session: str, events: int) -> bytes:
    """Return the first line of a file with so many events, and its line end."""
    header = Header(format=FORMAT, version=VERSION, session=session, events=events)
    return _seal(msgspec.json.encode(header))


def blob_line(sha256: str, content: bytes | None) -> bytes:
    """Return the line of a blob, and its line end."""
    text = None if content is None else base64.b64encode(content).decode("ascii")
    return _seal(msgspec.json.encode({"blob": sha256, "data": text}))


def event_line(session: str, record: Recorded) -> bytes:
    """Return the line of an event, and its line end."""
    version = events.VERSIONS[type(record.event)]
    shape = b',"v":%d}' % version if version != 1 else b"}"
    return _seal(line(session, record)[:-1] + shape)


def is_log(content: bytes) -> bool:
    """Return whether `content` is the first line of a file of this format, also of one that was altered since."""
    try:
        return _header_decoder.decode(content).format == FORMAT
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def read_header(content: bytes) -> Header:
    """Return the first line of a file. Raise `LogDamaged` for anything else, `NeedsUpgrade` when a newer Backstay wrote it."""
    try:
        header = _header_decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise LogDamaged(f"this is not the first line of an exported log: {exc}") from exc
    if header.format != FORMAT:
        raise LogDamaged(f"the format is {header.format!r}, not {FORMAT!r}")
    if header.version > VERSION:
        raise NeedsUpgrade(
            f"the format has version {header.version}, this Backstay reads {VERSION}: upgrade to import it"
        )
    if header.is_sealed:
        check_seal(content)
    return header


def check_seal(content: bytes) -> None:
    """Raise `LogDamaged` unless a line, with its end, is as it was written."""
    if not content.endswith(b"\n"):
        raise LogDamaged("it is torn off")
    body = content[: -_SEAL - 1]
    if content[-_SEAL - 1 : -1] != b',"crc":"%08x"}' % zlib.crc32(body):
        raise LogDamaged("it was altered: its checksum is wrong")


def read_line(content: bytes, session: str) -> Recorded | Blob:
    """Return the event of `session` or the blob of a line. Raise `LogDamaged` or `NeedsUpgrade` with the reason when it holds neither."""
    try:
        found = _line_decoder.decode(content)
        if found.blob is not None:
            return _blob(found.blob, found.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, binascii.Error) as exc:
        raise LogDamaged(f"it is neither an event nor a blob: {exc}") from exc
    if not found.type.startswith(PREFIX) or not found.id:
        raise LogDamaged("it is neither an event nor a blob")
    if found.session != session:
        raise LogDamaged(f"it belongs to session {found.session!r}, and the file to {session!r}")
    event = decode_body(found.type.removeprefix(PREFIX), found.v, found.data)
    try:
        at = micros(found.at)
    except UserError as exc:
        raise LogDamaged(str(exc)) from exc
    return Recorded(seq=found.seq, id=found.id, at=at, by=found.by, cause=found.cause, event=event)


def _blob(sha256: str, data: msgspec.Raw) -> Blob:
    text = msgspec.json.decode(data, type=str | None)
    content = None if text is None else base64.b64decode(text, validate=True)
    if content is not None and digest(content) != sha256:
        raise LogDamaged(f"the blob {sha256!r} is not what its name says")
    return Blob(sha256=sha256, content=content)


def _seal(content: bytes) -> bytes:
    body = content[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))
