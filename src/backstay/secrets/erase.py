"""Erase the secrets of a stored session: put a mark in the place of each, in everything that is kept of the session.

The order makes a crash harmless. First what lies beside the log loses them, since it is looked for by what the log still says. Then the
log changes in one step, with an event that says so. Then the store removes what was replaced from its files. Doing it again after
a crash finds the old log or the new one, and a store that says that it is not clean.
"""

from collections.abc import Sequence

import anyio.to_thread
import msgspec
from msgspec import Struct, field

from backstay.catalog.hold import fold_log, hold_session, whole_log, whole_progress
from backstay.logic.secrets.erase import Eraser
from backstay.logic.secrets.rewrite import Moved, change_blob, rewrite_event, without_contents
from backstay.logic.state.progress import stamp
from backstay.logic.stored_content import as_stored_event, find_cited_blobs
from backstay.ports import ChangedPast, Clock, EventStore, Rewritable
from backstay.secrets.scan import Cited, SecretScan, content_of, kinds_of
from backstay.stores.stored_trace import change_trace
from backstay.stores.trace import trace_folder
from backstay.vocab import events
from backstay.vocab.errors import Bug, UserError
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.ids import make_opening
from backstay.vocab.specs import Lease, SessionMeta


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of secrets, blobs and file contents erased from one session."""

    session: str
    store: str
    count: int = 0
    """Secrets that are gone, counted as `scan` counts them."""
    kinds: dict[str, int] = {}
    blobs: int = 0
    contents: int = 0
    """Contents of files, and listings of folders, that can be put back no longer."""


class _Rewriting(Struct):
    """The log of a session as it will be."""

    scan: SecretScan
    records: Sequence[Recorded]
    moved: dict[str, Moved] = field(default_factory=dict)
    dropped_contents: set[str] = field(default_factory=set)

    async def read_blobs(self) -> None:
        """Find out which blobs change, and which contents and listings of files are given up."""
        for sha, about in sorted(self.scan.cited.items()):
            content = await content_of(self.scan.store, sha)
            if content is not None:
                await anyio.to_thread.run_sync(self._take, sha, about, content)
        listings = [
            sha
            for sha, about in self.scan.cited.items()
            if "listing" in about.roles and sha not in self.dropped_contents
        ]
        for sha in sorted(listings) if self.dropped_contents else ():
            content = await content_of(self.scan.store, sha)
            if content is not None and (new := without_contents(content, self.dropped_contents)) is not None:
                self.moved[sha] = new

    def events(self) -> tuple[Recorded, ...]:
        """Return the events that changed."""
        change = self.scan.eraser.text
        new = (
            msgspec.structs.replace(
                each, event=as_stored_event(rewrite_event(each.event, change, self.moved, self.dropped_contents))
            )
            for each in self.records
        )
        return tuple(after for before, after in zip(self.records, new, strict=True) if after != before)

    def _take(self, sha: str, about: Cited, content: bytes) -> None:
        if not self.scan.kinds_in_blob(content, about):
            return
        if (
            "listing" in about.roles
        ):  # names in it are never given other words: a restore would write files of those names
            self.dropped_contents.add(sha)
            return
        if "file" in about.roles:
            self.dropped_contents.add(sha)
        eraser = self.scan.eraser
        new = change_blob(content, eraser.mask_known if about.roles == {"media"} else eraser.text)
        if new is not None and about.roles != {"file"}:
            self.moved[sha] = new


async def erase(store: EventStore, meta: SessionMeta, eraser: Eraser, *, reason: str, clock: Clock) -> Erased:
    """Erase the secrets of a session. Raise `SessionBusy` when it is open in another process, `LogDamaged` when not all of it can be read.

    Nothing is written when there is none. Call `scour` when all sessions are done.
    """
    if not isinstance(store, Rewritable):
        raise UserError("A session that is kept in memory leaves nothing behind: end the process that has it.")
    async with hold_session(store, meta.id, "secrets erase") as lease:
        records = await whole_log(store, meta.id)
        scan = SecretScan(store, meta.id, eraser)
        if not await scan.learn():
            return Erased(session=meta.id, store=store.url)
        kinds = kinds_of(await scan.spots())
        folder = trace_folder(store.url)
        if folder is not None:
            await anyio.to_thread.run_sync(change_trace, folder, meta.id, eraser.text, eraser.pieces)
        await store.change_aside(meta.id, eraser.text)
        rewriting = _Rewriting(scan, records)
        await rewriting.read_blobs()
        changed = await anyio.to_thread.run_sync(rewriting.events)
        erased = Erased(
            session=meta.id,
            store=store.url,
            count=sum(kinds.values()),
            kinds=kinds,
            blobs=len(rewriting.moved),
            contents=len(rewriting.dropped_contents),
        )
        added = await _fact(meta.id, records, changed, erased, lease, reason, clock)
        cited, gone = _citations(records, changed)
        blobs = {each.sha256: each.content for each in rewriting.moved.values() if each.sha256 in cited}
        await store.rewrite(lease, ChangedPast(changed=changed, added=added, blobs=blobs, gone=gone))
        return erased


async def check_erasable(store: EventStore, meta: SessionMeta) -> None:
    """Raise what `erase` would raise when a session is open in another process, or not all of it can be read."""
    async with hold_session(store, meta.id, "secrets erase"):
        await whole_progress(store, meta.id)


async def scour(store: EventStore) -> None:
    """Remove from the files of a store everything that was replaced."""
    if isinstance(store, Rewritable):
        await store.scour()


async def is_clean(store: EventStore) -> bool:
    """Return whether the last erasing in a store came to its end."""
    return not isinstance(store, Rewritable) or await store.is_clean()


async def _fact(
    session: str,
    records: Sequence[Recorded],
    changed: Sequence[Recorded],
    erased: Erased,
    lease: Lease,
    reason: str,
    clock: Clock,
) -> Recorded:
    """Return the event that says what was done. Fold the log with it first: one that does not fold is never written."""
    new = {record.seq: record for record in changed}
    state = await fold_log(session, [new.get(record.seq, record) for record in records])
    if state.progress.seq != records[-1].seq:
        raise Bug(f"The log of session {session!r} does not fold to its end. Please report it.")
    event = events.SecretsErased(
        count=erased.count, kinds=erased.kinds, blobs=erased.blobs, contents=erased.contents, reason=reason
    )
    draft = Draft(event=as_stored_event(event), by="user")
    return stamp(state.progress, draft, nonce=make_opening(lease.token, clock.nonce()), now=clock.now())


def _citations(records: Sequence[Recorded], changed: Sequence[Recorded]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the blobs that the log cites now, and those that it cites no more."""
    new = {record.seq: record for record in changed}
    before = frozenset(sha for record in records for sha in find_cited_blobs(record.event))
    after = frozenset(sha for record in records for sha in find_cited_blobs(new.get(record.seq, record).event))
    return after, before - after
