"""A log as a chain of segments: which bytes of which file count, and what they say.

Pure, over anything that holds segments.

The newest segment that began counts as a whole. Its second line names the segment before it and how many bytes of that
one count, and so on down to the segment whose `prev` is 0. A segment that no other one names never became part of the
log. Nothing below the segment of a deletion counts.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.stores.jsonl_lines import Beginning, Flaw, Head, Lines, read_head, read_lines
from holdfast.vocab.event import Recorded

HEAD_ROOM: Final = 4096
"""More bytes than the first two lines of a segment have."""
ROOM: Final = 256 * 1024
"""Bytes of a segment that are read at once; more where a batch has more."""


class Segments(Protocol):
    """The segment files of one session."""

    @property
    def tokens(self) -> Sequence[int]:
        """The segments that are there, ascending."""

    def size(self, token: int) -> int:
        """The bytes of a segment."""

    def content(self, token: int, start: int, end: int) -> bytes:
        """A stretch of a segment's bytes, shorter when the file is."""

    def accepted(self, token: int) -> int:
        """The bytes of a segment that counted when it was given back; 0 when nobody says."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A point between two batches of a log."""

    segment: int = 0
    offset: int = 0
    seq: int = 0


BEGIN: Final = Place()


class Reading(Struct, frozen=True, kw_only=True):
    """What was read of a log."""

    records: tuple[Recorded, ...] = ()
    end: Place = BEGIN
    """Behind the last whole batch that was read; segment 0 when nothing can be read."""
    last: Place = BEGIN
    """Before that batch."""
    flaw: Flaw | None = None
    rest: int = 0
    """Bytes behind `end` in the newest segment: half a batch."""
    ignored: Mapping[int, int] = field(default_factory=dict)
    """How many bytes the older segments that were read hold behind what counts."""
    chain: tuple[int, ...] = ()
    """The segments that hold what was asked for."""
    resumed: bool = False
    """Whether reading began at the place that was asked for."""


def read_log(segments: Segments, after: int = 0, limit: int | None = None, place: Place | None = None) -> Reading:
    """Read the events after seq `after`, and `limit` of them or a few more: a batch is never cut.

    With a `place` whose seq is at most `after`, reading begins there if that place is still part of the log. A flaw is
    never reported on the word of a place.
    """
    links, broken = _chain(segments, after, place.segment if place else None)
    resumed = place is not None and bool(links) and _is_on(place, links[0], segments)
    if place is not None and not resumed:
        return read_log(segments, after, limit)
    records: list[Recorded] = []
    ignored: dict[int, int] = {}
    end, rest, last = place, 0, BEGIN
    for link in links:
        token, goes_on = link.token, link.beginning.after
        begin = end if end and end.segment == token else Place(segment=token, offset=link.start, seq=goes_on)
        if end is not None and end.seq != begin.seq:
            broken = Flaw(
                "damaged", f"{name_of(token)} goes on after seq {goes_on}, the one before ends with {end.seq}"
            )
            break
        lines = _read_link(segments, link, begin, after, None if limit is None else limit - len(records))
        records += lines.records
        end, rest = Place(segment=token, offset=lines.end, seq=lines.seq), lines.rest
        last = Place(segment=token, offset=lines.last[0], seq=lines.last[1])
        if lines.flaw is not None:
            broken = Flaw(lines.flaw.kind, f"{name_of(token)}: {lines.flaw.detail}")
            break
        if limit is not None and len(records) >= limit:
            broken = None  # whatever is broken lies behind what was asked for
            break
        if link.end is not None and segments.size(token) > link.end:
            ignored[token] = segments.size(token) - link.end
    if resumed and broken is not None:
        return read_log(segments, after, limit)
    return Reading(
        records=tuple(records),
        end=end or BEGIN,
        last=last,
        flaw=broken,
        rest=rest,
        ignored=ignored,
        chain=tuple(link.token for link in links),
        resumed=resumed,
    )


def parts_of(segments: Segments) -> tuple[tuple[int, ...], dict[int, int]]:
    """The segments that hold a log, and how many bytes the older of them hold behind what counts."""
    links, _ = _chain(segments, 0, None)
    sizes = {link.token: segments.size(link.token) - link.end for link in links if link.end is not None}
    return tuple(link.token for link in links), {token: more for token, more in sizes.items() if more > 0}


def name_of(token: int) -> str:
    """The name of the segment file of a token."""
    return f"{token:08}.jsonl"


class HeldSegments:
    """Segments in memory."""

    def __init__(self, contents: Mapping[int, bytes]) -> None:
        self._contents = contents

    @property
    def tokens(self) -> Sequence[int]:
        """The segments that are there, ascending."""
        return sorted(self._contents)

    def size(self, token: int) -> int:
        """The bytes of a segment."""
        return len(self._contents[token])

    def content(self, token: int, start: int, end: int) -> bytes:
        """A stretch of a segment's bytes."""
        return self._contents[token][start:end]

    def accepted(self, token: int) -> int:
        """Nobody says how much counted."""
        return 0


class _Link(Struct, frozen=True):
    token: int
    beginning: Beginning
    start: int
    end: int | None
    """None for the newest segment: it counts as a whole."""


def _chain(segments: Segments, after: int, down_to: int | None) -> tuple[list[_Link], Flaw | None]:
    """The segments that hold the events after `after`, oldest first, and what breaks the chain above them.

    Where the first lines of a segment are lost, the one below is taken to count as a whole: nobody is left to say
    otherwise.
    """
    links: list[_Link] = []
    broken: Flaw | None = None
    tokens = segments.tokens
    there = frozenset(tokens)
    token, end = (tokens[-1] if tokens else 0), None
    while token:
        head = _head_of(segments, token) if token in there else Flaw("damaged", "it is missing")
        if isinstance(head, Head) and head.claim.gone:
            break
        if isinstance(head, Head) and head.beginning is not None:
            beginning = head.beginning
            links.append(_Link(token, beginning, head.length, end))
            if beginning.after <= after and beginning.sound and (down_to is None or token <= down_to):
                break
            token, end = beginning.prev, beginning.length
            continue
        if isinstance(head, Flaw) or links:
            flaw = head if isinstance(head, Flaw) else Flaw("damaged", "it never began")
            broken = Flaw(flaw.kind, f"{name_of(token)}: {flaw.detail}")
        links.clear()
        token, end = max((each for each in tokens if each < token), default=0), None
    links.reverse()
    return links, broken


def _head_of(segments: Segments, token: int) -> Head | Flaw:
    head = read_head(segments.content(token, 0, HEAD_ROOM))
    if isinstance(head, Flaw):
        return head
    if head.claim.segment != token or (head.beginning is not None and head.beginning.prev >= token):
        return Flaw("damaged", "its first lines belong to another segment")
    return head


def _is_on(place: Place, link: _Link, segments: Segments) -> bool:
    if link.token != place.segment:
        return False
    end = segments.size(place.segment) if link.end is None else link.end
    return link.start <= place.offset <= end


def _read_link(segments: Segments, link: _Link, begin: Place, after: int, limit: int | None) -> Lines:
    """Read one segment up to what counts of it; whatever is missing of that is damage."""
    least = (
        segments.accepted(begin.segment) if link.end is None else 0
    )  # first: who writes may append and release meanwhile
    end = segments.size(begin.segment) if link.end is None else link.end
    lines = _read_stretches(segments, begin, end, after, limit)
    if lines.flaw is not None or (limit is not None and len(lines.records) >= limit):
        return lines
    if link.end is None:
        missing = Flaw("damaged", f"bytes {lines.end} to {least} are missing or not whole")
        return replace(lines, flaw=missing) if lines.end < least else lines
    if lines.end + lines.rest < end:
        return replace(lines, flaw=Flaw("damaged", f"bytes {lines.end + lines.rest} to {end} are missing"))
    if lines.rest:
        return replace(lines, flaw=Flaw("damaged", f"the batch at byte {lines.end} is not whole"))
    return lines


def _read_stretches(segments: Segments, begin: Place, end: int, after: int, limit: int | None) -> Lines:
    """The batches from `begin` to byte `end`, read so that never much more than one batch is in memory as bytes."""
    records: list[Recorded] = []
    at, seq, room = begin.offset, begin.seq, ROOM
    while True:
        content = segments.content(begin.segment, at, min(end, at + room))
        lines = read_lines(content, at, seq, after, None if limit is None else limit - len(records))
        records += lines.records
        enough = limit is not None and len(records) >= limit
        if lines.flaw is not None or enough or at + room >= end or len(content) < room:
            return replace(lines, records=tuple(records))
        room = ROOM if lines.end > at else room * 2
        at, seq = lines.end, lines.seq
