"""Prepare a session for its runner: write the start of a new one, or read, check and take over an old one."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import msgspec
from msgspec import Struct, field

from backstay.catalog import load, sessions
from backstay.catalog.hold import refuse_writing
from backstay.hooks.dispatch import mark_of
from backstay.hooks.run_context import marks
from backstay.logic.decide.policy import looser
from backstay.logic.state.lifecycle import move
from backstay.logic.state.prompt_variables import secret_variable
from backstay.logic.state.resume import PendingOpen, ResumeReport, report
from backstay.logic.state.session_state import State
from backstay.logic.stored_content import as_stored_event, replace_surrogates
from backstay.ports import EventStore, Machine, MachineMismatch, Slot
from backstay.providers.registry import full_name
from backstay.runtime.admit_items import as_stored
from backstay.runtime.barrier import Fault, run_guarded
from backstay.runtime.bus import Item
from backstay.runtime.mask_events import Mask
from backstay.runtime.services import ResolveModel
from backstay.session.limits import budget_change
from backstay.session.options import ResolvedOptions
from backstay.stores.owners import this_process
from backstay.system.folders import git_ref, project_root
from backstay.tools.shell.processes import stop_call, stop_calls, stop_group
from backstay.version import VERSION
from backstay.vocab import events
from backstay.vocab.errors import NoSession, SeqConflict, StoreError, UserError
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.ids import check_session_id, event_id, make_opening, make_session_id
from backstay.vocab.specs import FsScope, Lease, Mode, Owner, SessionContext


class Prepared(Struct, frozen=True, kw_only=True):
    """A session that is ready to be driven."""

    session: str
    state: State
    lease: Lease
    nonce: str
    model: str
    opening: PendingOpen = PendingOpen()
    covered: int = 0
    """Events that a snapshot covers."""
    report: ResumeReport | None = None
    announced: tuple[Item, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    """Those of the session's context, as its first event has them."""
    mode_after_turn: Mode | None = None
    """The mode that follows the open turn, which keeps its own."""
    warnings: tuple[str, ...] = ()
    """Warnings for the caller, besides the report."""

    @property
    def mode(self) -> Mode:
        """The mode that calls are judged in, also when the opening that says so is not written yet."""
        return self.opening.progress_with(self.state.progress).mode

    @property
    def scope(self) -> FsScope:
        """How far commands and files reach, also when the opening that says so is not written yet."""
        return self.opening.progress_with(self.state.progress).scope


MOST_HOOKS: Final = 32
"""Handlers of one hearing whose left-over programs are looked for."""


_WALLS: Final = "The scope 'full' came with it and ended too: commands run in 'sandboxed' again. To name one for good: --scope full."
_NO_SANDBOX: Final = "Commands still run without a sandbox, as before; --scope sandboxed sets one up."


async def prepare(options: ResolvedOptions, store: EventStore, find: ResolveModel) -> Prepared:
    """Start the session that `options` mean, or take it over. Raise before any model is asked when that cannot be."""
    owner, mask = options.owner or this_process(), Mask(options.resolved.keys.values(os.environ))
    options = msgspec.structs.replace(options, name=mask.redactor.mask_known(options.name))
    wanted = options.resume if options.resume is not None else options.session_id
    if wanted is None:
        return await _start(options, store, owner, make_session_id(options.clock.now(), options.clock.nonce()), find)
    wanted = check_session_id(wanted)
    if options.resume is None and not await sessions.exists(store, wanted):
        with suppress(SeqConflict):  # another process has begun and closed it meanwhile: then it is resumed
            return await _start(options, store, owner, wanted, find)
    if options.fork:
        target = options.session_id if options.resume else None
        wanted = await sessions.fork(store, wanted, clock=options.clock, new_id=target, name=options.name)
    return await _resume(options, store, owner, wanted, find)


async def _start(
    options: ResolvedOptions, store: EventStore, owner: Owner, session: str, find: ResolveModel
) -> Prepared:
    context, root = await anyio.to_thread.run_sync(_new_context, options)
    model = _model_name(options, Path(context.working_dir))
    await find(model)
    started = events.Started(
        session=session,
        context=context,
        store=store.identity,
        model=model,
        mode=options.permission_mode or "default",
        project=root,
        name=options.name,
        agent=options.agent,
        parent=options.lineage.parent,
        version=VERSION,
        taint=options.lineage.taint,
        scope_implied=options.fs_scope is None and options.context is None,
    )
    started = Mask(options.resolved.keys.values(os.environ)).mask_started(started)
    state = State()
    state.meta = msgspec.structs.replace(state.meta, id=session)
    first = [as_stored_event(event) for event in (started, budget_change(options, state)) if event is not None]
    lease = await store.lease(session, owner, options.lease_ttl_s)
    nonce = make_opening(lease.token, options.clock.nonce())
    now = options.clock.now()
    records = tuple(
        Recorded(seq=seq, id=event_id(nonce, seq), at=now, by="user", event=event)
        for seq, event in enumerate(first, start=1)
    )
    try:
        await store.append(lease, 0, records)
    except BaseException:
        await _release(store, lease)
        raise
    announced: list[Item] = []
    for record in records:
        announced += (record, *state.apply(record))
    state.outline(records)
    return Prepared(
        session=session,
        state=state,
        lease=lease,
        nonce=nonce,
        model=model,
        announced=tuple(announced),
        variables=started.context.variables,
    )


async def _resume(
    options: ResolvedOptions, store: EventStore, owner: Owner, session: str, find: ResolveModel
) -> Prepared:
    await sessions.check_store(store, session)
    lease = await store.lease(session, owner, options.lease_ttl_s)
    try:
        loaded = await load.load(store, session, whole=options.on_crash == "abandon")
        if loaded.trouble is not None:
            refuse_writing(session, loaded.trouble)
        first = (await store.read(session, 0, 1)).records[0].event
        variables = first.context.variables if isinstance(first, events.Started) else {}
        return await _take_over(options, store, loaded, lease, find, variables)
    except BaseException:
        await _release(store, lease)
        raise


async def _release(store: EventStore, lease: Lease) -> None:
    """Give a lease back after an error, which matters more than one of the release: the lease runs out by itself."""
    with anyio.CancelScope(shield=True), suppress(StoreError):
        await store.release(lease)


async def _take_over(
    options: ResolvedOptions,
    store: EventStore,
    loaded: load.Loaded,
    lease: Lease,
    find: ResolveModel,
    variables: Mapping[str, str],
) -> Prepared:
    state = loaded.state
    await _stop_programs(state)
    model = _model_to_resume(options, state)
    absent = (
        *await _attach_machine(options.machine, state.slots_for(options.on_crash)),
        *await _missing_model(options, model, find),
    )
    folder = state.meta.cwd
    drifted = () if await anyio.Path(folder).is_dir() else (f"the working folder {folder!r} is gone",)
    found = report(
        state.progress,
        len(state.transcript.messages),
        options.on_crash,
        absent=absent,
        drifted=drifted,
    )
    opened = events.Opened(on_crash=options.on_crash, version=VERSION)
    opening = [Draft(event=opened), *await _draft_child_spending(state, store)]
    if model != state.progress.model:
        opening.append(Draft(event=events.ModelChanged(model=model), by="user"))
    ended, finishing = (
        _mode_that_follows(options, state),
        state.progress.turn is not None and options.on_crash == "continue",
    )
    opening += _mode_change(options, state, ended, finishing=finishing)
    if options.name and options.name != state.meta.name:
        opening.append(Draft(event=events.Renamed(name=options.name), by="user"))
    opening += _scope_change(options, state, ended)
    if (budget := budget_change(options, state)) is not None:
        opening.append(Draft(event=budget, by="user"))
    _, notices = move(state.life, "resume", after=state.progress.seq)
    return Prepared(
        session=state.progress.session,
        state=state,
        lease=lease,
        nonce=make_opening(lease.token, options.clock.nonce()),
        model=model,
        opening=PendingOpen(tuple(map(as_stored, opening))),
        covered=state.progress.seq - loaded.folded,
        report=found,
        announced=notices,
        variables=variables,
        mode_after_turn=ended if finishing else None,
        warnings=tuple(filter(None, (_opening_warning(options, state, ended, finishing=finishing),))),
    )


async def _stop_programs(state: State) -> None:
    """Stop what the last process left running: programs of calls, in the background too, and of hooks."""
    for call in state.progress.calls:
        if call.process is not None:
            await stop_group(call.process.group, call.process.boot, call.process.started, call.id)
        elif call.phase == "running":
            await stop_call(call.id)
    for process in state.progress.left:
        await stop_group(process.group, process.boot, process.started, process.call)
    for hook in state.progress.hooks.open:
        await stop_calls(tuple(marks(mark_of(state.progress.session, hook.event, hook.subject), MOST_HOOKS)))


def _mode_change(options: ResolvedOptions, state: State, ended: Mode | None, *, finishing: bool) -> tuple[Draft, ...]:
    mode = None if ended and finishing else ended or options.permission_mode
    if mode is None or mode == state.progress.mode:
        return ()
    return (Draft(event=events.ModeChanged(mode=mode), by="system" if ended else "user"),)


def _mode_that_follows(options: ResolvedOptions, state: State) -> Mode | None:
    """Return the mode that takes the place of one that was looser than the settings and was asked for by an earlier opening alone."""
    loose = options.permission_mode is None and looser(state.progress.mode, options.resolved.mode)
    return options.resolved.mode if loose else None


def _scope_change(options: ResolvedOptions, state: State, ended: Mode | None) -> tuple[Draft, ...]:
    """Return the change to a scope named now, or to the one that the mode implies when none was ever named."""
    progress, named = state.progress, options.fs_scope
    scope = named or (
        scope_of_mode(ended or options.permission_mode or progress.mode) if progress.scope_implied else progress.scope
    )
    if scope == progress.scope and (named is None or not progress.scope_implied):
        return ()
    return (Draft(event=events.ScopeChanged(scope=scope, implied=named is None), by="user" if named else "system"),)


def scope_of_mode(mode: Mode | None) -> FsScope:
    """Return the scope that a mode implies when the caller names none."""
    return "full" if mode == "bypassPermissions" else "sandboxed"


def _opening_warning(options: ResolvedOptions, state: State, ended: Mode | None, *, finishing: bool) -> str:
    """Return the warning for the caller: the recorded mode ended, or a copy runs without a sandbox that was not asked for now."""
    unsaid = state.progress.scope == "full" and options.fs_scope is None
    walls = "" if not unsaid else _WALLS if state.progress.scope_implied else _NO_SANDBOX
    if ended:
        return _mode_warning(state, ended, walls, finishing=finishing)
    return _NO_SANDBOX if options.fork and walls == _NO_SANDBOX else ""


def _mode_warning(state: State, mode: Mode, walls: str, *, finishing: bool) -> str:
    was = state.progress.mode
    kept = (
        f"The open turn keeps the mode {was!r}, in which it began. After it"
        if finishing
        else f"The mode {was!r} ended when the session was left. From now on"
    )
    after = f" {walls}" if walls and was == "bypassPermissions" else ""
    return f"{kept} calls are judged in {mode!r}. To loosen it again: --permission-mode {was}.{after}"


async def _draft_child_spending(state: State, store: EventStore) -> list[Draft]:
    """Return what child sessions that were running have spent: the parent's log does not have it."""
    drafts: list[Draft] = []
    skill = state.progress.skill
    running = [call.child for call in state.progress.calls if call.child]
    for child in running if skill is None else (*running, skill.started.child):
        try:
            found = (await load.load(store, child)).state
        except NoSession:
            continue  # it was not begun
        spent = found.progress.budget.spent + found.progress.budget.reserved
        drafts.append(Draft(event=events.ChildSpent(child=child, spent=found.usage.total, cost=spent), by="child"))
    return drafts


async def _attach_machine(machine: Machine | None, slots: Mapping[str, events.SlotWritten]) -> tuple[str, ...]:
    """Hand a machine its slot. The conversation goes on even when the machine refuses it."""
    if machine is None:
        return ()
    kept = slots.get(machine.id)
    slot = Slot(owner=kept.owner, version=kept.version, content=kept.content) if kept else None

    async def attach() -> str:
        try:
            machine.attach(slot)
        except MachineMismatch as exc:
            return f"the machine {machine.id!r} cannot use its state and is stopped: {exc}"
        return ""

    answer = await run_guarded(f"the machine {machine.id!r}", attach)
    if isinstance(answer, Fault):
        return (f"the machine {machine.id!r} failed and is stopped: {answer.message}",)
    return (answer,) if answer else ()


def _new_context(options: ResolvedOptions) -> tuple[SessionContext, str]:
    """Return the context of a new session, checked, and the root of its project."""
    cwd = Path(options.cwd).expanduser().absolute()
    if replace_surrogates(str(cwd)) != str(cwd):
        raise UserError(
            f"The name of the working folder {str(cwd)!r} is not UTF-8: nobody could find it again. Rename it."
        )
    if not cwd.is_dir():
        raise UserError(f"The working folder {str(cwd)!r} does not exist.")
    root = project_root(cwd)
    made = SessionContext(
        working_dir=str(cwd),
        git_ref=git_ref(root),
        fs_scope=options.fs_scope or scope_of_mode(options.permission_mode),
        variables=dict(options.variables),
    )
    try:
        context = msgspec.convert(msgspec.to_builtins(options.context or made), SessionContext)
    except (msgspec.ValidationError, TypeError) as exc:  # a TypeError: something in it is no plain value
        raise UserError(f"The session's context is not valid: {exc}.") from exc
    if context.variables and (problem := secret_variable(context.variables)):
        raise UserError(problem)
    return context, str(root)


def _model_to_resume(options: ResolvedOptions, state: State) -> str:
    return state.progress.model if options.model is None else _model_name(options, Path(options.cwd).absolute())


async def _missing_model(options: ResolvedOptions, model: str, find: ResolveModel) -> tuple[str, ...]:
    """Report a recorded model that is missing, which matters only when it is asked. Raise `UserError` for one that the caller named."""
    try:
        await find(model)
    except UserError as exc:
        if options.model is not None:
            raise
        return (f"the model: {exc}",)
    return ()


def _model_name(options: ResolvedOptions, cwd: Path) -> str:
    """Return the name that goes into the log."""
    if isinstance(options.model, str):
        return full_name(options.model, cwd)
    return options.model.name if options.model is not None else ""
