"""Count the secrets of a stored session: their kinds and where they stand, never their values."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Final, Literal

import anyio.to_thread
import msgspec
from msgspec import Struct, field

from backstay.logic.secrets.erase import Eraser, kind_of
from backstay.logic.secrets.redact import replace
from backstay.logic.secrets.rewrite import FILES, as_text, list_texts, texts_in
from backstay.logic.stored_content import find_cited_blobs
from backstay.ports import EventStore, Rewritable
from backstay.stores.stored_trace import trace_texts
from backstay.stores.trace import trace_folder
from backstay.vocab import events
from backstay.vocab.errors import BlobMissing
from backstay.vocab.event import Recorded
from backstay.vocab.messages import MediaRef
from backstay.vocab.specs import SessionMeta
from backstay.wire.codec import NAME_OF

Role = Literal["words", "file", "listing", "media"]
"""What a blob is: words of the conversation, what a file held, a listing of such contents, or a medium."""
CHUNK: Final = 2_048
"""Events that are read at a time."""


class Cited(Struct):
    """A blob, and what cites it."""

    seq: int
    roles: set[Role] = field(default_factory=set)


async def records_of(store: EventStore, session: str) -> AsyncIterator[tuple[Recorded, ...]]:
    """Yield the events of a session, some at a time, as far as they can be read."""
    after = 0
    while True:
        records = (await store.read(session, after, CHUNK)).records
        if records:
            yield records
        if len(records) < CHUNK:
            return
        after = records[-1].seq


async def content_of(store: EventStore, sha256: str) -> bytes | None:
    """Return the bytes of a blob; None when they are gone, which `sessions verify` says."""
    try:
        return await store.blob(sha256)
    except BlobMissing:
        return None


def texts_of(record: Recorded) -> Iterator[str]:
    """Return every text in an event, without the names of fields."""
    yield from texts_in(msgspec.to_builtins(record.event))


def name_of(record: Recorded) -> str:
    """Return the name of an event's kind."""
    return NAME_OF[type(record.event)]


def note_citations(cited: dict[str, Cited], records: Iterable[Recorded]) -> None:
    """Add the blobs that `records` cite."""
    for record in records:
        event = record.event
        media = _media(event) if not isinstance(event, FILES) else frozenset[str]()
        for sha in find_cited_blobs(event):
            about = cited.setdefault(sha, Cited(record.seq))
            if isinstance(event, events.TreeKept | events.RestoreStarted):
                about.roles.add("listing")
            elif isinstance(event, FILES):
                about.roles.add("file")
            else:
                about.roles.add("media" if sha in media else "words")


def _media(event: object) -> frozenset[str]:
    parts = (*getattr(event, "parts", ()), *getattr(event, "content", ()), *getattr(event, "request", ()))
    return frozenset(part.sha256 for part in parts if isinstance(part, MediaRef))


class SecretPlace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place with secrets."""

    where: Literal["event", "blob", "trace", "put aside"]
    event: int = 0
    """Its number; of a blob, that of the first event that cites it."""
    name: str = ""
    """The event's type, or the blob's hash."""
    kinds: dict[str, int]


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The secrets found in one session."""

    session: str
    name: str
    """What it is called, without the secrets in it."""
    store: str
    spots: tuple[SecretPlace, ...]
    problem: str = ""
    """Why not all of it could be looked at."""

    @property
    def kinds(self) -> dict[str, int]:
        """The kinds of secrets that were found, and at how many places."""
        return kinds_of(self.spots)

    @property
    def count(self) -> int:
        """At how many places something was found."""
        return sum(self.kinds.values())


def kinds_of(spots: Iterable[SecretPlace]) -> dict[str, int]:
    """Return what was found at some places, and how often."""
    total: Counter[str] = Counter()
    for spot in spots:
        total.update(spot.kinds)
    return dict(sorted(total.items()))


class SecretScan(Struct):
    """One look through everything of a session. `learn` is called first: what it finds is then found everywhere."""

    store: EventStore
    session: str
    eraser: Eraser
    cited: dict[str, Cited] = field(default_factory=dict)

    async def learn(self) -> bool:
        """Look through everything once; return whether there is any secret."""
        found = False
        async for records in records_of(self.store, self.session):
            note_citations(self.cited, records)
            found = await self._learn_from([text for each in records for text in texts_of(each)]) or found
        for sha, about in sorted(self.cited.items()):
            content = await content_of(self.store, sha) if about.roles != {"media"} else None
            found = (content is not None and await self._learn_from([_text(content, about)])) or found
        return await self._learn_from([*await self._read_trace(), *await self._aside()]) or found

    async def spots(self) -> tuple[SecretPlace, ...]:
        """Return every place with secrets in the log and its blobs, and how many there are beside it."""
        spots: list[SecretPlace] = []
        async for records in records_of(self.store, self.session):
            for record in records:
                if kinds := self._kinds(texts_of(record)):
                    spots.append(SecretPlace(where="event", event=record.seq, name=name_of(record), kinds=kinds))
        for sha, about in sorted(self.cited.items(), key=lambda item: item[1].seq):
            content = await content_of(self.store, sha)
            if content is not None and (kinds := self.kinds_in_blob(content, about)):
                spots.append(SecretPlace(where="blob", event=about.seq, name=sha, kinds=kinds))
        return (*spots, *await self._beside())

    def kinds_in_blob(self, content: bytes, about: Cited) -> dict[str, int]:
        """Return the secrets in a blob. In a medium, which is no text, only known values are looked for."""
        text = _text(content, about)
        if about.roles == {"media"}:
            return {"a known value": 1} if self.eraser.mask_known(text) != text else {}
        return self._kinds((text,))

    async def _beside(self) -> tuple[SecretPlace, ...]:
        traced, aside = self._kinds(await self._read_trace()), self._kinds(await self._aside())
        spots = [SecretPlace(where="trace", kinds=traced)] if traced else []
        return (*spots, *((SecretPlace(where="put aside", kinds=aside),) if aside else ()))

    async def _read_trace(self) -> Sequence[str]:
        folder = trace_folder(self.store.url)
        if folder is None:
            return ()
        return await anyio.to_thread.run_sync(lambda: list(trace_texts(folder, self.session)))

    async def _aside(self) -> Sequence[str]:
        return await self.store.aside(self.session) if isinstance(self.store, Rewritable) else ()

    async def _learn_from(self, texts: Sequence[str]) -> bool:
        """Let the eraser learn from texts, off the event loop; return whether there was anything to learn."""
        found = await anyio.to_thread.run_sync(lambda: sum(len(self.eraser.learn(text)) for text in texts))
        return found > 0

    def _kinds(self, texts: Iterable[str]) -> dict[str, int]:
        return dict(Counter(kind_of(one.why) for text in texts for one in self.eraser.find(text)))


def _text(content: bytes, about: Cited) -> str:
    """Return the text of a blob that is searched: of a listing the names."""
    return list_texts(content) if "listing" in about.roles else as_text(content)


async def scan(store: EventStore, meta: SessionMeta, eraser: Eraser) -> Findings:
    """Look for secrets in a session, and change nothing."""
    look = SecretScan(store, meta.id, eraser)
    part = await store.read(meta.id, max(0, meta.seq - 1))
    problem = part.trouble.detail if part.trouble is not None else ""
    spots = await look.spots() if await look.learn() else ()
    name = replace(meta.name, eraser.find(meta.name))
    return Findings(session=meta.id, name=name, store=store.url, spots=spots, problem=problem)
