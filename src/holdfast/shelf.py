"""The sessions of a store: find, show, rename, fork, delete, prune, move, verify."""

import functools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import anyio.to_thread
import msgspec
from msgspec.structs import replace

from holdfast.logic.forking import fork_records, node_of
from holdfast.logic.parts import cited_blobs
from holdfast.logic.record import SessionRecord, record_of
from holdfast.logic.state import State, state_of
from holdfast.logic.step import stamp
from holdfast.ports import Clock, EventStore, SessionQuery
from holdfast.stores.owners import this_process
from holdfast.stores.trace_files import delete_trace, trace_folder
from holdfast.version import VERSION
from holdfast.vocab.errors import BadId, LogDamaged, NoSession, StoreMismatch, UserError
from holdfast.vocab.event import Draft, Event, Recorded
from holdfast.vocab.event_files import ContentsKept, FileKept, TreeKept
from holdfast.vocab.events import ModelAsked, Opened, Renamed, Started, StoreChanged
from holdfast.vocab.ids import base36, check_session_id
from holdfast.vocab.specs import Lease, Origin, SessionMeta, ToolSpec

DAY: Final = 24 * 3600 * 1_000_000
TOGETHER: Final = 64 * 1024 * 1024
"""Bytes of blobs that a move has in memory."""
_OF_FILES: Final = (FileKept, ContentsKept, TreeKept)


async def exists(store: EventStore, session: str) -> bool:
    """Whether anything is stored under that id."""
    try:
        return (await store.meta(session)).seq > 0
    except NoSession:
        return False


async def find(store: EventStore, wanted: str) -> SessionMeta:
    """The session with that id or, when there is none, the newest with that name."""
    if not wanted.strip():
        raise BadId("An empty text names no session. `holdfast sessions list` shows them.")
    try:
        return await store.meta(check_session_id(wanted))
    except (NoSession, UserError):
        named = await store.list(SessionQuery(name=wanted, include_children=True, limit=1))
        if named:
            return named[0]
        raise NoSession(
            f"There is no session with the id or name {wanted!r}. `holdfast sessions list` shows them."
        ) from None


async def newest(store: EventStore, project: str) -> SessionMeta:
    """The newest session of a project in which something was said."""
    found = await store.list(SessionQuery(project=project, include_empty=False, limit=1))
    if not found:
        raise NoSession(f'No session of {project!r} can be continued yet. Start one with `holdfast -p "..."`.')
    return found[0]


async def check_store(store: EventStore, session: str) -> None:
    """Raise `StoreMismatch` when another store wrote the session."""
    meta = await store.meta(session)
    if meta.store and meta.store != store.identity:
        raise StoreMismatch(
            f"Session {session!r} was written by the store {meta.store!r}, and this is {store.identity!r}. "
            f"Bring it over with `holdfast sessions move {session} STORE_URL --store {store.url}`."
        )


async def rename(store: EventStore, session: str, name: str, *, clock: Clock) -> None:
    """Give a session a name."""
    await add_event(store, session, Renamed(name=name), clock=clock)


async def fork(
    store: EventStore, session: str, *, clock: Clock, at: str = "", new_id: str | None = None, name: str = ""
) -> str:
    """Copy a session's conversation, up to turn `at` or to its end, into a new session; return its id."""
    session = check_session_id(session)
    part = await store.read(session)
    state = await _folded(session, part.records)
    beginning = part.records[0].event
    if not isinstance(beginning, Started):
        raise LogDamaged(
            f"The log of session {session!r} does not begin with its start. `holdfast log repair {session}` may help."
        )
    node = node_of(state.transcript, at)
    fork_id = check_session_id(new_id) if new_id else new_session_id(clock)
    if await exists(store, fork_id):
        raise UserError(f"There is a session {fork_id!r} already. Choose another id for the fork.")
    origin = Origin(session=session, event=node or state.transcript.branches.tip)
    started = replace(
        beginning,
        session=fork_id,
        name=name,
        model=state.progress.model,
        mode=state.progress.mode,
        store=store.identity,
        origin=origin,
        parent="",
        version=VERSION,
        context=replace(beginning.context, fs_scope=state.progress.scope),
        taint=tuple(sorted(state.progress.consent.taint)),
    )
    lease = await store.lease(fork_id, this_process("fork"))
    try:
        nonce = _nonce(lease, clock)
        copy = functools.partial(fork_records, part.records, state.transcript, started, at=node, nonce=nonce)
        records = await anyio.to_thread.run_sync(copy)
        copied = await _folded(fork_id, records)
        opened = stamp(copied.progress, Draft(event=Opened(version=VERSION)), nonce=nonce, now=clock.now())
        # what was kept of files can be a workspace's worth of bytes; citing it is enough, since it is in this store
        blobs = await _blobs(store, [each for each in records if not isinstance(each.event, _OF_FILES)])
        await store.append(lease, 0, (*records, opened), blobs)
    finally:
        await store.release(lease)
    return fork_id


async def delete(store: EventStore, session: str) -> None:
    """Forget a session. Raise `SessionBusy` when somebody has it open; no other session is touched."""
    lease = await store.lease(session, this_process("delete"))
    try:
        await store.delete(session)
    finally:
        await store.release(lease)
    await _delete_trace(store, session)


async def prune(
    store: EventStore, *, clock: Clock, older_than_days: float | None = None, empty: bool = False, dry_run: bool = False
) -> tuple[SessionMeta, ...]:
    """Delete old sessions, or empty ones, and return them. A session that somebody has open stays."""
    if older_than_days is None and not empty:
        raise UserError("Say what to prune: older_than_days, empty, or both.")
    horizon = clock.now() - int((older_than_days or 0) * DAY)
    everything = await store.list(SessionQuery(include_children=True))
    old = [meta for meta in everything if older_than_days is not None and meta.updated < horizon]
    void = [meta for meta in everything if empty and meta.empty and meta not in old]
    gone = [meta for meta in (*old, *void) if await store.holder(meta.id) is None]
    for meta in () if dry_run else gone:
        await delete(store, meta.id)
    return tuple(gone)


async def move(source: EventStore, target: EventStore, session: str, *, clock: Clock) -> None:
    """Bring a session into another store, with its blobs, and delete it here once it is safe there.

    The source is told first that the session left, so that there is never more than one place where it can be opened. A move that was
    cut off is finished by moving again.
    """
    held = await source.lease(session, this_process("move"))
    try:
        part = await source.read(session)
        if part.trouble is not None and part.trouble.kind != "torn":
            raise LogDamaged(
                f"Session {session!r} cannot be moved: {part.trouble.detail.rstrip('.')}. "
                f"Mend it first: `holdfast log repair {session}`."
            )
        arrived = (await target.read(session)).records if await exists(target, session) else ()
        if part.records[: len(arrived)] != arrived:
            raise UserError(f"The target store has another session {session!r} already.")
        records = await _leave(source, held, part.records, target.identity, clock)
        lease = await target.lease(session, this_process("move"))
        try:
            await _carry(source, target, lease, len(arrived), records)
        finally:
            await target.release(lease)
        await source.delete(session)
        await _delete_trace(source, session)
    finally:
        await source.release(held)


async def _leave(
    source: EventStore, held: Lease, records: tuple[Recorded, ...], target: str, clock: Clock
) -> tuple[Recorded, ...]:
    """Write down that a session goes to the store `target`, unless that is written already; return its whole log."""
    newest = records[-1].event
    if isinstance(newest, StoreChanged) and newest.store == target:
        return records
    state = await _folded(held.session, records)
    event = StoreChanged(store=target, came_from=source.identity)
    last = stamp(state.progress, Draft(event=event, by="user"), nonce=_nonce(held, clock), now=clock.now())
    await source.append(held, last.seq - 1, (last,))
    return (*records, last)


async def verify(store: EventStore, session: str) -> tuple[str, ...]:
    """Read everything of a session back and fold it; say what is wrong. It may be in use meanwhile."""
    wrong = list(await store.verify(session))
    meta = await store.meta(session)  # first: what is appended after it is not compared
    part = await store.read(session)
    trouble = part.trouble if part.trouble is not None and part.trouble.kind != "torn" else None
    if trouble is not None and not any(trouble.detail in words for words in wrong):
        wrong.append(f"{trouble.kind}: {trouble.detail}")
    if trouble is None and (await _folded(session, part.records[: meta.seq])).meta != meta:
        wrong.append("the metadata is not what the log says")
    if meta.store and meta.store != store.identity:
        wrong.append(f"another store wrote it: {meta.store!r}")
    return tuple(dict.fromkeys(wrong))


async def notes(store: EventStore, session: str) -> tuple[str, ...]:
    """What lies beside the log of a session and does not count: reported, and nothing is wrong with it."""
    part = await store.read(session)
    torn = part.trouble is not None and part.trouble.kind == "torn"
    return part.notes or ((part.trouble.detail,) if part.trouble is not None and torn else ())


async def record(store: EventStore, session: str) -> SessionRecord:
    """A session as one document, with the system prompt and the tool schemas that were sent last."""
    part = await store.read(session)
    state = await _folded(session, part.records)
    asked = next((r.event for r in reversed(part.records) if isinstance(r.event, ModelAsked)), None)
    if asked is None:
        return record_of(state)
    prompt = (await store.blob(asked.instructions)).decode() if asked.instructions else ""
    tools = msgspec.json.decode(await store.blob(asked.tools), type=tuple[ToolSpec, ...]) if asked.tools else ()
    return record_of(state, system_prompt=prompt, tool_schemas=tools)


async def _folded(session: str, records: Sequence[Recorded]) -> State:
    """What a log means, folded off the event loop."""
    return await anyio.to_thread.run_sync(state_of, session, records)


def _nonce(lease: Lease, clock: Clock) -> str:
    return f"{base36(lease.token)}{clock.nonce()}"


def new_session_id(clock: Clock) -> str:
    """A fresh id that sorts by time and can be typed."""
    moment = datetime.fromtimestamp(clock.now() / 1_000_000, UTC)
    return f"{moment:%Y%m%d-%H%M%S}-{clock.nonce()}"


async def add_event(store: EventStore, session: str, event: Event, *, clock: Clock) -> None:
    """Write one event to a session that nobody has open, without setting it going."""
    lease = await store.lease(session, this_process())
    try:
        progress = (await _folded(session, (await store.read(session)).records)).progress
        nonce = _nonce(lease, clock)
        await store.append(
            lease, progress.seq, (stamp(progress, Draft(event=event, by="user"), nonce=nonce, now=clock.now()),)
        )
    finally:
        await store.release(lease)


async def _delete_trace(store: EventStore, session: str) -> None:
    folder = trace_folder(store.url)
    if folder is not None:
        await anyio.to_thread.run_sync(delete_trace, folder, session)


async def _carry(
    source: EventStore, target: EventStore, lease: Lease, arrived: int, records: Sequence[Recorded]
) -> None:
    """Bring the events after the first `arrived` to another store, with their blobs, as much at a time as memory should hold."""
    part: list[Recorded] = []
    blobs: dict[str, bytes] = {}
    size = 0
    for record in records[arrived:]:
        part.append(record)
        for sha in sorted(cited_blobs(record.event) - blobs.keys()):
            blobs[sha] = await source.blob(sha)
            size += len(blobs[sha])
        if size >= TOGETHER:
            await target.append(lease, arrived, part, blobs)
            arrived, part, blobs, size = arrived + len(part), [], {}, 0
    if part:
        await target.append(lease, arrived, part, blobs)


async def _blobs(store: EventStore, records: Sequence[Recorded]) -> dict[str, bytes]:
    cited = {sha for record in records for sha in cited_blobs(record.event)}
    return {sha: await store.blob(sha) for sha in sorted(cited)}
