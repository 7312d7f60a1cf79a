"""The door without a person: finds the session that a job means, runs it, and says how it ended."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import anyio

from holdfast import shelf
from holdfast.assemble import open_with
from holdfast.options import DEFAULT, Options, default_store_url
from holdfast.ports import EventStore
from holdfast.stores.urls import open_store
from holdfast.view.account import INTERRUPTED
from holdfast.view.desk import Desk
from holdfast.view.pipes import Outlet
from holdfast.view.stopping import Stopping
from holdfast.view.talk import Complain, Job, Talk, check_model
from holdfast.vocab.errors import BadId, HoldfastError, NoSession
from holdfast.vocab.specs import SessionMeta
from holdfast.workspaces.project import project_root


async def run(job: Job, out: BinaryIO, descriptor: int, complain: Complain) -> int:
    """Do a job and return the exit code. Raise `HoldfastError` when it could not start.

    Only the chosen format goes to `out`; input lines are read from `descriptor`; everything else is a complaint.
    """
    stopping = Stopping(job.drain_s)
    code = INTERRUPTED
    failure: HoldfastError | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(stopping.listen, tasks)
        try:
            code = await _run(job, out, descriptor, complain, stopping)
        except HoldfastError as exc:
            failure = exc
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return code


async def find(store: EventStore, wanted: str) -> SessionMeta:
    """The session with that id or name. Raise `BadId` for a text that can be neither."""
    try:
        return await shelf.find(store, wanted)
    except NoSession:
        if not wanted.strip() or len(wanted) > 200 or not wanted.isprintable() or set(wanted) & set("/\\"):
            raise BadId(f"{wanted!r} is neither the id nor the name of a session.") from None
        raise


async def _run(job: Job, out: BinaryIO, descriptor: int, complain: Complain, stopping: Stopping) -> int:
    async with _opened_store(job.options) as store:
        desk = Desk() if job.lines else None
        options = replace(await _found(job, store), store=store, asker=desk.ask if desk else None)
        if options.resume is None and not (options.session_id and await shelf.exists(store, options.session_id)):
            check_model(options)
        async with open_with(options) as session:
            talk = Talk(replace(job, options=options), session, Outlet(out), complain, desk)
            await talk.open()
            return await talk.run(descriptor, stopping)


@asynccontextmanager
async def _opened_store(options: Options) -> AsyncIterator[EventStore]:
    if options.store is not None and not isinstance(options.store, str):
        yield options.store
        return
    url = "memory:" if options.store is None else default_store_url() if options.store == DEFAULT else options.store
    store = await open_store(url, clock=options.clock)
    try:
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await store.close()


async def _found(job: Job, store: EventStore) -> Options:
    """The options with the id of the session that is meant."""
    options = job.options
    if job.newest:
        return replace(options, resume=(await shelf.newest(store, _project(options))).id)
    if options.resume is not None:
        return replace(options, resume=(await find(store, options.resume)).id)
    return options


def _project(options: Options) -> str:
    return str(project_root(Path(options.cwd).expanduser().absolute()))
