"""The lines of a segment file: JSON objects that end with a checksum of themselves. Pure.

The first line of a segment is the claim of the lease that writes it, the second says what of the log before it counts,
the others are events as `wire.codec` writes them. Every line has `,"crc":"<8 hex>"` as its last field: the CRC-32 of
all bytes before it. An event that is not the last of its batch has `,"left":<n>` before the checksum: the number of
lines of the batch that follow. So a batch counts when its last line is whole, and half a batch is nothing.
"""

import zlib
from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from holdfast.vocab.errors import LogDamaged, NeedsUpgrade
from holdfast.vocab.event import Recorded
from holdfast.vocab.specs import Owner
from holdfast.wire.codec import decode, encode

FORMAT: Final = 1
"""Of the folder and its segments; a higher one needs a newer Holdfast."""
_SEAL: Final = len(b',"crc":"00000000"}')
_LEFT: Final = b',"left":'
_DIGITS: Final = frozenset(b"0123456789")


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a segment: who took the session. Without an owner, nobody writes the segment."""

    segment: int
    """The token of the lease."""
    format: int = FORMAT
    session: str
    since: int
    ttl: int = 0
    owner: Owner | None = None
    gone: bool = False
    """The session was deleted: nothing of older segments counts."""


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """The second line of a segment: where the log goes on from."""

    prev: int
    """The token of the segment before; 0 when the log begins here."""
    length: int
    """The bytes of that segment that count. Whatever its writer added later is ignored."""
    after: int
    """The last seq before this segment."""
    sound: bool = True
    """False when the log before was damaged as this segment began: nothing after the damage counts."""


class Head(Struct, frozen=True):
    """The first two lines of a segment."""

    claim: Claim
    beginning: Beginning | None
    """None when the claimant got no further."""
    length: int


class Flaw(Struct, frozen=True):
    """Why reading stopped."""

    kind: Literal["damaged", "newer"]
    detail: str


class Lines(Struct, frozen=True):
    """What a stretch of lines says."""

    records: tuple[Recorded, ...]
    end: int
    """Behind the last whole batch."""
    seq: int
    """Of the last event of that batch."""
    rest: int
    """Bytes behind `end` that are the beginning of a batch."""
    last: tuple[int, int]
    """Where the last whole batch begins, and the seq before it."""
    flaw: Flaw | None = None


def seal(line: bytes) -> bytes:
    """The JSON object `line` with its checksum and a line end."""
    body = line[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))


def seal_struct(line: Claim | Beginning) -> bytes:
    """One of the first two lines."""
    return seal(msgspec.json.encode(line))


def seal_batch(records: Sequence[Recorded]) -> bytes:
    """The lines of one append."""
    lines = [encode(record) for record in records]
    last = len(lines) - 1
    return b"".join(
        seal(line if n == last else b'%b,"left":%d}' % (line[:-1], last - n)) for n, line in enumerate(lines)
    )


def read_head(content: bytes) -> Head | Flaw:
    """The first two lines of a segment, or what is wrong with them."""
    stop = content.find(b"\n")
    second = content.find(b"\n", stop + 1)
    if stop < 0 or not _is_sealed(content, 0, stop):
        return Flaw("damaged", "its first line is damaged")
    try:
        number = msgspec.json.decode(content[:stop], type=dict[str, object]).get("format")
        if isinstance(number, int) and number > FORMAT:
            return Flaw("newer", f"its format is {number}, this Holdfast knows {FORMAT}: upgrade to open this session")
        claim = msgspec.json.decode(content[:stop], type=Claim)
        if second < 0 and not _lost_its_end(content, stop + 1):
            return Head(claim, None, stop + 1)
        if not _is_sealed(content, stop + 1, second):
            return Flaw("damaged", "its second line is damaged")
        beginning = msgspec.json.decode(content[stop + 1 : second], type=Beginning)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        return Flaw("damaged", f"its first lines cannot be read: {exc}")
    return Head(claim, beginning, second + 1)


def read_lines(content: bytes, base: int, seq: int, after: int = 0, limit: int | None = None) -> Lines:
    """Read the batches in `content`, which begins at byte `base` of its segment, where the event before has `seq`.

    Events up to `after` are not decoded. Reading ends with the batch that reaches `limit` events.
    """
    records: list[Recorded] = []
    batch: list[Recorded] = []
    end = position = left = 0
    whole = number = seq
    last = (base, seq)
    view, find, crc32 = memoryview(content), content.find, zlib.crc32

    def stopped(kind: Literal["damaged", "newer"], detail: str) -> Lines:
        flaw = Flaw(kind, f"the line at byte {base + position}: {detail}")
        return Lines(tuple(records), base + end, whole, 0, last, flaw)

    while (stop := find(b"\n", position)) >= 0:
        body = stop - _SEAL  # as _is_sealed says it; a call for every line would double the time of reading
        if body <= position or content[body:stop] != b',"crc":"%08x"}' % crc32(view[position:body]):
            return stopped("damaged", "its checksum is wrong")
        follow = _left(content, position, stop) if content[body - 1] in _DIGITS else 0
        if left and follow != left - 1:
            return stopped("damaged", "it does not belong to the batch before it")
        number += 1
        if number > after:
            try:
                record = decode(view[position:stop])
            except NeedsUpgrade as exc:
                return stopped("newer", str(exc))
            except LogDamaged as exc:
                return stopped("damaged", str(exc))
            if record.seq != number:
                return stopped("damaged", f"it has seq {record.seq} where {number} belongs")
            batch.append(record)
        position, left = stop + 1, follow
        if not left:
            records += batch
            batch.clear()
            last = base + end, whole
            end, whole = position, number
            if limit is not None and len(records) >= limit:
                return Lines(tuple(records), base + end, whole, 0, last)
    if _lost_its_end(content, position):
        return stopped("damaged", "its line end is damaged")
    return Lines(tuple(records), base + end, whole, len(content) - end, last)


def _is_sealed(content: bytes, start: int, stop: int) -> bool:
    if stop - start <= _SEAL:
        return False
    crc = zlib.crc32(memoryview(content)[start : stop - _SEAL])
    return content[stop - _SEAL : stop] == b',"crc":"%08x"}' % crc


def _left(content: bytes, start: int, stop: int) -> int:
    """How many lines of its batch follow this one.

    An event ends with a bracket or a quote, so a digit can only be that number.
    """
    number = content.rfind(b":", start, stop - _SEAL) + 1
    return int(content[number : stop - _SEAL]) if content[number - len(_LEFT) : number] == _LEFT else 0


def _lost_its_end(content: bytes, position: int) -> bool:
    """Whether the bytes after the last line end are a whole line and one byte more: a torn write cannot leave that."""
    return len(content) > position + 1 and _is_sealed(content, position, len(content) - 1)
