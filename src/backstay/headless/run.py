"""The door without a person: finds the session that a job means, runs it, and says how it ended."""

from pathlib import Path
from typing import BinaryIO

import anyio
from msgspec.structs import replace

from backstay.catalog import sessions
from backstay.catalog.open_store import opened
from backstay.headless.agent_option import as_agent
from backstay.headless.approvals import ApprovalQueue
from backstay.headless.conversation import HeadlessRun
from backstay.headless.formats import hinting, with_store
from backstay.headless.job import Complain, Job, check_model
from backstay.headless.result import INTERRUPTED
from backstay.headless.signals import Stopping
from backstay.headless.stdio import Outlet
from backstay.logic.text import HIDDEN, OBEYED
from backstay.ports import EventStore, SessionQuery
from backstay.sandbox.folders import project_root
from backstay.session.apply_settings import apply_settings
from backstay.session.assemble import open_with
from backstay.session.options import Options
from backstay.vocab.errors import BackstayError, BadId, NoSession
from backstay.vocab.specs import SessionMeta


async def run(job: Job, out: BinaryIO, descriptor: int, complain: Complain) -> int:
    """Do a job and return the exit code. Raise `BackstayError` when it could not start.

    Only the chosen format goes to `out`; input lines are read from `descriptor`; everything else is a complaint.
    """
    stopping = Stopping(job.drain_s, complain)
    code = INTERRUPTED
    failure: BackstayError | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(stopping.listen, tasks)
        try:
            code = await _run(job, out, descriptor, complain, stopping)
        except BackstayError as exc:
            failure = exc
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return code


async def find(store: EventStore, wanted: str, complain: Complain) -> SessionMeta:
    """The session with that id or name; the newest, and a complaint, when several have the name."""
    newest, *others = await _meant(store, wanted)
    if others:
        complain(f"{len(others) + 1} sessions are called {wanted!r}; the newest is meant: {newest.id}.")
    return newest


async def find_one(store: EventStore, wanted: str) -> SessionMeta:
    """The one session with that id or name. Raise `BadId` when several have the name: for what cannot be taken back."""
    found, *others = await _meant(store, wanted)
    if others:
        ids = ", ".join(meta.id for meta in (found, *others))
        raise BadId(f"{len(others) + 1} sessions are called {wanted!r}: {ids}. Say which one by its id.")
    return found


def check_name(name: str) -> str:
    """`name`, when it can be a session's name. Raise `BadId` otherwise."""
    if not name.strip():
        raise BadId("A session's name cannot be blank. Give it a word.")
    if HIDDEN.search(name) or OBEYED.search(name):
        raise BadId(f"{name!r} cannot be a session's name: it has characters that cannot be shown.")
    return name


async def _meant(store: EventStore, wanted: str) -> tuple[SessionMeta, ...]:
    """The session with that id, or all those with that name, newest first. Raise `BadId` for a text that can be neither."""
    try:
        found = await sessions.find(store, wanted)
    except NoSession:
        if len(wanted) > 200 or not wanted.isprintable() or set(wanted) & set("/\\"):
            raise BadId(f"{wanted!r} is neither the id nor the name of a session.") from None
        raise
    if found.id == wanted:
        return (found,)
    return await store.list(SessionQuery(name=wanted, include_children=True)) or (found,)


async def _run(job: Job, out: BinaryIO, descriptor: int, complaining: Complain, stopping: Stopping) -> int:
    async with opened(job.options.store, clock=job.options.clock) as store:
        with hinting(store.url):

            def complain(words: str) -> None:
                complaining(with_store(words, store.url))

            desk = ApprovalQueue(complain) if job.lines else None
            found = await apply_settings(await _found(job, store, complain), store)
            found = await as_agent(found, store, model_given=job.options.model is not None)
            options = replace(found, store=store, asker=desk.ask if desk else None, on_wait=complain)
            if options.resume is None and not (options.session_id and await sessions.exists(store, options.session_id)):
                check_model(options)
            async with open_with(options) as session:
                talk = HeadlessRun(replace(job, options=options), session, Outlet(out), complain, desk)
                await talk.open()
                return await talk.run(descriptor, stopping)


async def _found(job: Job, store: EventStore, complain: Complain) -> Options:
    """The options with the id of the session that is meant."""
    options = job.options
    if not job.newest and options.resume is None:
        return options
    if job.newest:
        meta = await sessions.newest(store, _project(options))
    else:
        meta = await find(store, options.resume or "", complain)
    if options.fork and meta.open_turn:
        complain(left_behind(meta))
    return replace(options, resume=meta.id)


def left_behind(meta: SessionMeta) -> str:
    """What a copy of a session with an open turn does not have, in words."""
    return (
        f"A turn of {meta.id} is open. The copy has it up to its last finished step; what was going on stays behind, "
        f"and so does what is queued. `backstay -r {meta.id} --finish` finishes it there."
    )


def _project(options: Options) -> str:
    return str(project_root(Path(options.cwd).expanduser().absolute()))
