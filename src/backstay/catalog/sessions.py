"""The sessions of a store: find, show, rename, fork, delete, prune, move, verify."""

import functools
from typing import Final

import anyio.to_thread
import msgspec
from msgspec.structs import replace

from backstay.catalog.hold import (
    check_unneeded,
    fold_log,
    forget_trace,
    hold_session,
    whole_log,
    whole_progress,
)
from backstay.catalog.move import move as move  # noqa: PLC0414 - a part of this interface
from backstay.catalog.paged_log import pages
from backstay.catalog.prune import prune as prune  # noqa: PLC0414 - a part of this interface
from backstay.logic.state.log_copies import fork_records, node_of
from backstay.logic.state.outline import project
from backstay.logic.state.progress import stamp
from backstay.logic.state.session_state import SessionRecord, record_of
from backstay.logic.stored_content import as_stored_event
from backstay.logic.text import HIDDEN, OBEYED
from backstay.ports import Clock, EventStore, SessionQuery
from backstay.version import VERSION
from backstay.vocab import events
from backstay.vocab.errors import BadId, LogDamaged, NoSession, StoreMismatch, UserError
from backstay.vocab.event import Draft, Event
from backstay.vocab.ids import check_session_id, make_opening, make_session_id
from backstay.vocab.specs import Origin, SessionMeta, ToolSpec

LONGEST_NAME: Final = 200


async def exists(store: EventStore, session: str) -> bool:
    """Return whether anything is stored under that id."""
    try:
        return (await store.meta(session)).seq > 0
    except NoSession:
        return False


async def find(store: EventStore, wanted: str) -> SessionMeta:
    """Return the session with that id or, when there is none, the newest with that name."""
    if not wanted.strip():
        raise BadId("An empty text names no session. `backstay sessions list` shows them.")
    try:
        return await store.meta(check_session_id(wanted))
    except (NoSession, UserError):
        named = await store.list(SessionQuery(name=wanted, include_children=True, limit=1))
        if named:
            return named[0]
        raise NoSession(
            f"There is no session with the id or name {wanted!r}. `backstay sessions list` shows them."
        ) from None


def check_name(name: str) -> str:
    """Return `name` if a session can have it. Raise `BadId` otherwise."""
    if not name.strip():
        raise BadId("A session's name cannot be blank. Give it a word.")
    if HIDDEN.search(name) or OBEYED.search(name):
        raise BadId(f"{name!r} cannot be a session's name: it has characters that cannot be shown.")
    if is_no_name(name):
        why = f"it has more than {LONGEST_NAME} characters" if len(name) > LONGEST_NAME else "it reads like a path"
        raise BadId(f"{name!r} cannot be a session's name: {why}.")
    return name


def is_no_name(text: str) -> bool:
    """Return whether `text` is too long for a session's name, or reads like a path."""
    return len(text) > LONGEST_NAME or "/" in text or "\\" in text


async def newest(store: EventStore, project: str) -> SessionMeta:
    """Return the newest session of a project in which something was said, and that is at home in this store."""
    found = await store.list(SessionQuery(project=project, include_empty=False))
    for meta in found:
        if meta.store in ("", store.identity):
            return meta
    raise NoSession(f'No session of {project!r} can be continued yet. Start one with `backstay -p "..."`.')


async def check_store(store: EventStore, session: str) -> None:
    """Raise `StoreMismatch` when another store wrote the session."""
    meta = await store.meta(session)
    if meta.store and meta.store != store.identity:
        raise StoreMismatch(
            f"Session {session!r} was written by the store {meta.store!r}, and this is {store.identity!r}. "
            f"Bring it over with `backstay sessions move {session} STORE_URL --store {store.url}`."
        )


async def rename(store: EventStore, session: str, name: str, *, clock: Clock) -> None:
    """Give a session a name."""
    await add_event(store, session, events.Renamed(name=name), clock=clock)


async def fork(
    store: EventStore, session: str, *, clock: Clock, at: str = "", new_id: str | None = None, name: str = ""
) -> str:
    """Copy a session's conversation, up to turn `at` or to its end, into a new session; return its id."""
    session = check_session_id(session)
    await check_store(store, session)
    log = await whole_log(store, session)
    state = await fold_log(session, log)
    beginning = log[0].event
    if not isinstance(beginning, events.Started):
        raise LogDamaged(
            f"The log of session {session!r} does not begin with its start. `backstay log repair {session}` may help."
        )
    node = node_of(state.transcript, at)
    fork_id = check_session_id(new_id) if new_id else make_session_id(clock.now(), clock.nonce())
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
        scope_implied=state.progress.scope_implied,
        taint=tuple(sorted(state.progress.grants.taint)),
    )
    async with hold_session(store, fork_id, "fork") as lease:
        nonce = make_opening(lease.token, clock.nonce())
        copy = functools.partial(fork_records, log, state.transcript, started, at=node, nonce=nonce)
        records = await anyio.to_thread.run_sync(copy)
        copied = await fold_log(fork_id, records)
        opened = stamp(copied.progress, Draft(event=events.Opened(version=VERSION)), nonce=nonce, now=clock.now())
        await store.append(lease, 0, (*records, opened))  # blobs are cited, not copied: they are in this store
        if not await exists(store, session):  # until it was deleted it kept the blobs; since then, who knows
            await store.delete(fork_id)
            raise NoSession(f"Session {session!r} was deleted while it was being copied.")
    return fork_id


async def delete(store: EventStore, session: str) -> None:
    """Forget a session. Raise `SessionBusy` when it is open elsewhere, `UserError` when the open turn of its parent needs it.

    No other session is touched.
    """
    async with hold_session(store, session, "delete"):
        if await exists(store, session):
            await check_unneeded(store, await store.meta(session), "deleted")
        await store.delete(session)
    await forget_trace(store, session)


async def verify(store: EventStore, session: str) -> tuple[str, ...]:
    """Read everything of a session back, a page at a time; say what is wrong. It may be in use meanwhile."""
    wrong = list(await store.verify(session))
    meta = await store.meta(session)  # first: what is appended after it is not compared
    trouble, told = None, SessionMeta(id=session)
    async for part in pages(store, session):
        told = project(told, [record for record in part.records if record.seq <= meta.seq])
        trouble = part.trouble
    if trouble is not None and not any(trouble.detail in words for words in wrong):
        wrong.append(f"{trouble.kind}: {trouble.detail}")
    if trouble is None and told != meta:
        wrong.append("the metadata is not what the log says")
    if meta.store and meta.store != store.identity:
        wrong.append(f"another store wrote it: {meta.store!r}")
    return tuple(dict.fromkeys(wrong))


async def record(store: EventStore, session: str) -> SessionRecord:
    """Return a session as one document, with the system prompt and the tool schemas that were sent last."""
    part = await store.read(session)
    state = await fold_log(session, part.records)
    asked = next((r.event for r in reversed(part.records) if isinstance(r.event, events.ModelAsked)), None)
    if asked is None:
        return record_of(state)
    prompt = (await store.blob(asked.instructions)).decode() if asked.instructions else ""
    tools = msgspec.json.decode(await store.blob(asked.tools), type=tuple[ToolSpec, ...]) if asked.tools else ()
    return record_of(state, system_prompt=prompt, tool_schemas=tools)


async def add_event(store: EventStore, session: str, event: Event, *, clock: Clock) -> None:
    """Write one event to a session that is not open, without resuming it. Raise `StoreMismatch` when it is at home elsewhere."""
    await check_store(store, session)
    async with hold_session(store, session) as lease:
        progress = await whole_progress(store, session)
        written = stamp(
            progress,
            Draft(event=as_stored_event(event), by="user"),
            nonce=make_opening(lease.token, clock.nonce()),
            now=clock.now(),
        )
        await store.append(lease, progress.seq, (written,))
