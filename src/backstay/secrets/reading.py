"""Everything of a stored session that may hold a secret, one text after the other."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, Literal

import msgspec
from msgspec import Struct, field

from backstay.logic.parts import cited_blobs
from backstay.logic.rewriting import FILES, texts_in
from backstay.ports import EventStore
from backstay.vocab.errors import BlobMissing
from backstay.vocab.event import Recorded
from backstay.vocab.event_files import RestoreStarted, TreeKept
from backstay.vocab.messages import MediaRef
from backstay.wire.names import NAME_OF

Role = Literal["words", "file", "listing", "media"]
"""What a blob is: words of the conversation, what a file held, a listing of such contents, or a medium."""
CHUNK: Final = 2_048
"""Events that are read at a time."""


class Cited(Struct):
    """A blob, and what cites it."""

    seq: int
    roles: set[Role] = field(default_factory=set)


async def records_of(store: EventStore, session: str) -> AsyncIterator[tuple[Recorded, ...]]:
    """The events of a session, some at a time, as far as they can be read."""
    after = 0
    while True:
        records = (await store.read(session, after, CHUNK)).records
        if records:
            yield records
        if len(records) < CHUNK:
            return
        after = records[-1].seq


async def content_of(store: EventStore, sha256: str) -> bytes | None:
    """The bytes of a blob; None when they are gone, which `sessions verify` says."""
    try:
        return await store.blob(sha256)
    except BlobMissing:
        return None


def texts_of(record: Recorded) -> Iterator[str]:
    """Every text in an event, names of fields aside."""
    yield from texts_in(msgspec.to_builtins(record.event))


def name_of(record: Recorded) -> str:
    """What kind of event it is."""
    return NAME_OF[type(record.event)]


def note_citations(cited: dict[str, Cited], records: Iterable[Recorded]) -> None:
    """Add the blobs that `records` cite."""
    for record in records:
        event = record.event
        media = _media(event) if not isinstance(event, FILES) else frozenset[str]()
        for sha in cited_blobs(event):
            about = cited.setdefault(sha, Cited(record.seq))
            if isinstance(event, TreeKept | RestoreStarted):
                about.roles.add("listing")
            elif isinstance(event, FILES):
                about.roles.add("file")
            else:
                about.roles.add("media" if sha in media else "words")


def _media(event: object) -> frozenset[str]:
    parts = (*getattr(event, "parts", ()), *getattr(event, "content", ()), *getattr(event, "request", ()))
    return frozenset(part.sha256 for part in parts if isinstance(part, MediaRef))
