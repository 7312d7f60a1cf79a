"""Open a session: put together its store, models, tools, policy and loop."""

import functools
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace as replace_fields

from backstay.catalog import load, sessions
from backstay.checkpoints.capture import FileCapture
from backstay.config.model_finder import Finder
from backstay.config.settings import Settings
from backstay.config.trust.own_runs import own_runs
from backstay.config.trust.trust_store import EVERYWHERE, GrantStore
from backstay.hooks.decorator import register_hooks
from backstay.hooks.dispatch import HookDispatcher
from backstay.hooks.run_context import PythonFunction
from backstay.hooks.spec import AgentHook, HookSpec
from backstay.instructions.base_prompt import BASE
from backstay.logic.secrets.redact import Redactor, secret_values
from backstay.logic.state.prompt_variables import fill_variables
from backstay.logic.stored_content import digest, replace_surrogates
from backstay.permissions import rule_about
from backstay.permissions.call_site import CallSite
from backstay.ports import Closable, EventStore, Model, Tool, Trace
from backstay.providers.recorded import PREFIX, RecordedModel, parse_recorded
from backstay.runtime.ask_approval import THIS_SESSION
from backstay.runtime.bus import Bus, DeltaStream
from backstay.runtime.inbox import Inbox
from backstay.runtime.mask_events import Mask
from backstay.runtime.runner import Runner
from backstay.runtime.services import DispatchHooks, InForce, ResolveModel, Services, StoreGrants, keep_alive
from backstay.session.apply_settings import apply_settings
from backstay.session.extensions import ExtensionHost
from backstay.session.limits import make_policy, model_facts, profile_of, with_model_profile
from backstay.session.open import Prepared, prepare
from backstay.session.options import Options, ResolvedOptions, takes_options
from backstay.session.performers import PERFORMERS
from backstay.session.project.commands import CommandTool, SkillTool, command_modules, project_tools
from backstay.session.project.project_context import (
    ProjectContext,
    RebuildDispatch,
    Reloading,
    find_project,
    forking_skills,
    with_project,
)
from backstay.session.session import Fork, Session
from backstay.session.subagents import SubagentPlans, agent_runner, fork_skill, open_child
from backstay.session.toolbox import StoredOutputs, Toolbox
from backstay.session.workspace import StartSandbox, call_site_of, check_sandbox, path_resolver
from backstay.stores.open import use_store
from backstay.stores.trace import FileTrace, NoTrace, trace_folder
from backstay.system.folders import data_dir
from backstay.tools.output import BoundedTool
from backstay.tools.toolset import Toolset
from backstay.vocab import events
from backstay.vocab.errors import IllegalTransition, UserError
from backstay.vocab.event import Draft, Grant, Recorded
from backstay.vocab.specs import ModelFacts


@takes_options(Options)
def open_session(options: Options) -> AbstractAsyncContextManager[Session]:
    """Open a new session, or an old one with `resume=ID`. The arguments are the fields of `Options`."""
    return open_with(options)


async def query(
    prompt: str, *, model: str | Model | None = None, store: str | EventStore | None = None, **options: Any
) -> str:
    """Ask one question and return the answer; nothing is kept unless a `store` is named. The options are those of `open_session`."""
    async with open_session(model=model, store=store, **options) as session:
        return await session.run(prompt)


def open_with(options: Options) -> AbstractAsyncContextManager[Session]:
    """Open a session as `options` say."""
    return _SessionContext(options)


class _SessionContext:
    """The block in which a session is open. What is raised in it leaves it as it was raised, not in a group."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Session:
        try:
            return await self._open()
        except BaseExceptionGroup as group:
            raise _unwrap(group) from None

    async def _open(self) -> Session:
        given = self._options
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(use_store(given.store, clock=given.clock))
            options = await apply_settings(given, store)
            trace = await _open_trace(options, store, stack)
            models = _Models(options, store)
            stack.push_async_callback(_run_shielded, models.aclose)
            find = models.find
            prepared = await prepare(options, store, find)
            stack.push_async_callback(_run_shielded, store.release, prepared.lease)
            facts = await model_facts(options, prepared.model, prepared.state, find)
            walled = "" if options.only_tools else await check_sandbox(options, prepared.scope)
            host = await _start_extensions(options, prepared, stack)
            built = await _build(_Opening(options, store, trace, prepared, host, stack), find, facts)
            built.enable_reload(given, options)
            runner = built.runner
            tasks = runner.services.tasks
            tasks.start_soon(keep_alive, store, prepared.lease.owner, options.clock, options.lease_ttl_s)
            tasks.start_soon(_run_shielded, runner.drive)  # a cancelled block still closes its session properly
            fork = _fork_function(store, prepared, options)
            unstarted = () if host is None or prepared.report is not None else host.started.notes
            session = Session(
                runner,
                tasks,
                report=prepared.report if host is None else host.started.complete_report(prepared.report),
                fork=fork,
                opened=prepared.announced,
                variables=prepared.variables,
                warnings=tuple(filter(None, (*prepared.warnings, walled, *unstarted))),
                project=built.project,
                run_skill=functools.partial(fork_skill, built.runner, built.plans),
            )
            built.attach_session(session)
            session.on_close(built.toolbox.aclose)
            snapshots = load.Snapshots(runner.services, prepared.covered)
            tasks.start_soon(_follow_session, session, snapshots, host)
            stack.push_async_callback(_run_shielded, _close_session, session, runner, tasks, snapshots)
            self._stack = stack.pop_all()
            return session

    def __getattr__(self, name: str) -> object:
        raise AttributeError(
            f"The session is not open yet: write `async with open_session(...) as session`, then session.{name}."
        )

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._stack.__aexit__(None, None, None)
        except BaseExceptionGroup as group:
            raise _unwrap(group) from None


def _unwrap(group: BaseException) -> BaseException:
    """Return the one error that a task group wrapped, or the group when it holds several."""
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        group = group.exceptions[0]
    return group


async def _run_shielded(work: Callable[..., Awaitable[object]], *args: object) -> None:
    """Run `work` to its end even when the block was cancelled."""
    with anyio.CancelScope(shield=True):
        await work(*args)


async def _start_extensions(
    options: ResolvedOptions, prepared: Prepared, stack: AsyncExitStack
) -> ExtensionHost | None:
    """Start the extensions that were given, and look for those that left state; None when there are neither."""
    slots = prepared.state.slots_for(options.on_crash)
    if not options.extensions and not slots:
        return None
    host = ExtensionHost()
    stack.push_async_callback(_run_shielded, host.stop)
    await host.start(options, prepared, slots)
    return host


async def _follow_session(session: Session, snapshots: load.Snapshots, host: ExtensionHost | None) -> None:
    """Keep a snapshot after each turn, and put the instructions together again after each compaction."""
    if host is not None:
        await host.join(session)
    subscription = session.subscribe(only=Recorded)
    try:
        async for item in subscription:
            if isinstance(item, Recorded) and isinstance(item.event, events.TurnCompleted):
                await snapshots.rest()
            elif (
                isinstance(item, Recorded) and isinstance(item.event, events.Compacted) and session.project is not None
            ):
                await session.project.rebuild()
    except IllegalTransition:  # it was closed between two looks
        return
    finally:
        subscription.close()


async def _close_session(session: Session, runner: Runner, tasks: TaskGroup, snapshots: load.Snapshots) -> None:
    try:
        await session.close("the session's block was left")
        if runner.failure is None:
            await snapshots.keep()
    finally:
        runner.end()
        tasks.cancel_scope.cancel()


async def _open_trace(options: ResolvedOptions, store: EventStore, stack: AsyncExitStack) -> Trace:
    if options.trace is not None:
        return options.trace
    folder = trace_folder(store.url)
    known = Redactor(exact=(*options.resolved.keys.values(os.environ), *secret_values(os.environ)))
    trace: Trace = NoTrace() if folder is None else FileTrace(folder, redactor=known)
    stack.push_async_callback(_run_shielded, trace.close)
    return trace


class _Models:
    """Finds models by the names that the log has. Those that were given are used as they are, and not closed."""

    def __init__(self, options: Options, store: EventStore) -> None:
        given = (options.model, *options.fallback_models)
        self._given = {model.name: model for model in given if model is not None and not isinstance(model, str)}
        self._made: dict[str, Model] = {}
        self._make = options.find or Finder(None, options.clock).find
        self._store = store

    async def find(self, name: str) -> Model:
        """Return the model called `name`. Raise `UserError` when there is none."""
        if name in self._given:
            return self._given[name]
        if name not in self._made:
            recorded = name.startswith(PREFIX)
            self._made[name] = await (
                self._find_recorded(name) if recorded else anyio.to_thread.run_sync(self._make, name)
            )
        return self._made[name]

    async def aclose(self) -> None:
        """Close what was made here."""
        for model in self._made.values():
            if isinstance(model, Closable):
                await model.aclose()

    async def _find_recorded(self, name: str) -> Model:
        """Return the replies of a session of the same store, by its id or its name."""
        wanted, start = parse_recorded(name)
        session = (await sessions.find(self._store, wanted)).id
        return RecordedModel((await self._store.read(session)).records, self._store.blob, start, name=name)


class _Opening(Struct, frozen=True):
    """A session that is being opened: what it was asked for, what is there already, and what ends with it."""

    options: ResolvedOptions
    store: EventStore
    trace: Trace
    prepared: Prepared
    host: ExtensionHost | None
    stack: AsyncExitStack


class _Built(Struct, frozen=True):
    """A session's loop and what belongs to it."""

    runner: Runner
    project: ProjectContext | None
    plans: SubagentPlans
    toolset: Toolset
    toolbox: Toolbox
    caller_hooks: Sequence[HookSpec]
    rebuild_dispatch: RebuildDispatch

    def bind_project(self, options: ResolvedOptions, known: str, *, resumed: bool) -> "_Built":
        """Bind the project context to the loop. `known` are the instructions that the log has."""
        if self.project is None:
            return self
        self.project.bind(self.runner, (*command_modules(self.project), *options.modules))
        told = self.project.instructions
        if self.runner.services.mask.name_of(told.sha256) != known:
            self.runner.piggybacked = (Draft(event=told.event("resumed" if resumed else "start")),)
        return self

    def enable_reload(self, given: Options, options: ResolvedOptions) -> None:
        """Reload settings that change while the session is open, unless the caller gave settings."""
        if self.project is not None and not isinstance(given.settings, Settings):
            self.project.reload = Reloading(
                given,
                options,
                options,
                self.project,
                self.runner,
                self.toolbox,
                self.caller_hooks,
                self.rebuild_dispatch,
                self.project.add_notice,
            )

    def attach_session(self, session: Session) -> None:
        """Tell the tools whose they are."""
        for tool in self.toolset:
            if isinstance(tool, SkillTool | CommandTool):
                tool.session = session


async def _build(opening: _Opening, find: ResolveModel, facts: Mapping[str, ModelFacts]) -> _Built:
    prepared, stack = opening.prepared, opening.stack
    options = with_model_profile(opening.options, prepared.model)
    inbox = Inbox()
    inventory = options.resolved.inventory
    running = inventory.running if inventory is not None else ()
    trusted = options.trust is not False
    call_site = call_site_of(
        prepared.state.meta.cwd,
        prepared.scope,
        options.folders,
        trusted=trusted,
        running=running,
        environment=options.resolved.environment,
    )
    call_site = replace_fields(call_site, trust_given=options.resolved.is_trust_given)
    outputs = StoredOutputs(opening.store, inbox, prepared.state)
    project = await find_project(options, prepared, facts, call_site, outputs, stack)
    options = with_project(options, project)
    environment, is_bare = options.resolved.environment, inventory is not None and inventory.bare
    toolbox = Toolbox(call_site, options.rules, outputs, environment, options.resolved.keys, bare=is_bare)
    stack.push_async_callback(_run_shielded, toolbox.aclose)
    toolset = _toolset(options, prepared.model, toolbox, project)
    mask = Mask(options.resolved.keys.values(os.environ), secret_values(os.environ))
    instructions = mask.mask_instructions(
        project.instructions.text if project is not None else _instructions(options, prepared)
    )
    schemas = msgspec.json.encode(toolset.specs())
    caller_hooks, functions = register_hooks(options.hooks) if options.hooks else ((), {})
    policy = replace_fields(
        make_policy(options, toolset.specs(), instructions, schemas, facts),
        hooks=(*options.resolved.hooks, *caller_hooks),
        call_site=call_site,
        rule_matches=functools.partial(rule_about, call_site=call_site),
        forks=forking_skills(project),
        mode_after_turn=prepared.mode_after_turn,
    )
    in_force = InForce(
        policy=policy,
        instructions=instructions,
        resolve_paths=path_resolver(toolset, call_site, options.rules),
        opening=prepared.opening.mask_with(mask.mask_drafts),
    )
    plans = SubagentPlans(prepared.state, project)
    core = await _services(opening, options, find, toolset, call_site, inbox, mask, project, in_force, plans)
    rebuild_dispatch = functools.partial(_hook_dispatch, functions=functions, toolbox=toolbox, services=core)
    in_force.dispatch_hooks = rebuild_dispatch(options, policy.hooks)
    runner = Runner(
        core,
        performers=PERFORMERS,
        lease=prepared.lease,
        nonce=prepared.nonce,
        policy_blobs={digest(content): content for content in (instructions.encode(), schemas)},
        patience_s=options.patience_s,
    )
    if project is not None:
        project.background = toolbox.running
    built = _Built(runner, project, plans, toolset, toolbox, caller_hooks, rebuild_dispatch)
    return built.bind_project(options, prepared.state.instructions, resumed=prepared.report is not None)


async def _services(
    opening: _Opening,
    options: ResolvedOptions,
    find: ResolveModel,
    toolset: Toolset,
    call_site: CallSite,
    inbox: Inbox,
    mask: Mask,
    project: ProjectContext | None,
    in_force: InForce,
    plans: SubagentPlans,
) -> Services:
    """Build the services of a session."""
    prepared, host = opening.prepared, opening.host
    deltas = DeltaStream(prepared.session, prepared.state, mask, Bus(), opening.trace)
    warnings: list[str] = []
    sandbox = StartSandbox(prepared.scope, call_site, warnings.append)
    opening.stack.callback(sandbox.close)
    services = Services(
        session=prepared.session,
        cwd=prepared.state.meta.cwd,
        store=opening.store,
        clock=options.clock,
        tools=toolset,
        resolve_model=find,
        state=prepared.state,
        inbox=inbox,
        in_force=in_force,
        deltas=deltas,
        mask=mask,
        asker=options.asker or options.prompt,
        read_folder_notes=None if project is None else project.folder_notes_reader(prepared.state),
        store_grants=None if options.bare else _grant_writer(prepared.state.meta.project, call_site.cwd),
        start_sandbox=sandbox,
        warnings=warnings,
        open_child=functools.partial(open_child, options, opening.store, plans, open_with),
        tasks=await opening.stack.enter_async_context(anyio.create_task_group()),
        save_extension_state=functools.partial(host.extension_state, prepared.state) if host and host.active else None,
        stop_extensions=functools.partial(host.dispose, deltas.tap) if host and host.active else None,
        idle_timeout_s=options.idle_timeout_s,
        tool_timeout_s=options.tool_timeout_s,
    )
    keeps_files = options.checkpoints and not options.only_tools
    if not keeps_files:
        return services
    is_new = prepared.report is None
    return replace_fields(services, files=FileCapture(services, call_site.roots, recalled=is_new))


def _hook_dispatch(
    options: ResolvedOptions,
    specs: Sequence[HookSpec],
    *,
    functions: Mapping[str, PythonFunction],
    toolbox: Toolbox,
    services: Services,
) -> DispatchHooks | None:
    """Return what dispatches hooks; None when there are none."""
    if not specs:
        return None
    return HookDispatcher(
        specs=specs,
        functions=functions,
        project=services.state.meta.project,
        environment=toolbox.programs,
        keys=toolbox.keys,
        survey=options.resolved.inventory,
        held=options.resolved.held_hooks,
        own=own_runs(options.resolved.layered.trust, services.cwd),
        run_agent=agent_runner(options, toolbox, services, open_with)
        if any(isinstance(spec.handler, AgentHook) for spec in specs)
        else None,
    ).dispatch


def _instructions(options: ResolvedOptions, prepared: Prepared) -> str:
    """Return the instructions of a session that discovers nothing."""
    added = options.append_system_prompt and fill_variables(options.append_system_prompt, prepared.variables)
    return replace_surrogates("\n\n".join(filter(None, (options.system_prompt or BASE, added))))


def _toolset(options: ResolvedOptions, model: str, toolbox: Toolbox, project: ProjectContext | None) -> Toolset:
    profile = profile_of(model)
    brought = (
        ()
        if project is None
        else (*project_tools(project), *(project.servers.tools if project.servers is not None else ()))
    )
    own = () if options.only_tools else (*toolbox.tools(), *brought)
    fitting = (each for each in own if profile is None or each.spec.name in profile.tools)
    found = Toolset.of(*fitting, *_limit_output(options, toolbox))
    return found if options.tool_names is None else found.only(options.tool_names)


def _limit_output(options: ResolvedOptions, toolbox: Toolbox) -> Iterator[Tool]:
    """Yield the caller's tools with bounded output; the built-in ones bound theirs themselves."""
    for each in options.tools or ():
        limit = options.tool_output_chars
        yield each if limit is None else BoundedTool(each, limit, toolbox.outputs.keep, readable=not options.only_tools)


def _grant_writer(project: str, cwd: str) -> StoreGrants:
    """Return what stores grants that outlive the session, with paths below the working folder written out in full."""

    async def keep(rules: Sequence[str], grant: Grant) -> str:
        book = GrantStore(data_dir())
        whole = [re.sub(r"^((?:Read|Edit)\()/(?!/)", lambda found: f"{found[1]}/{cwd}/", rule) for rule in rules]
        try:
            await anyio.to_thread.run_sync(book.add, project if grant == "project" else EVERYWHERE, whole)
        except UserError as exc:
            return f"{THIS_SESSION}: {exc}"
        return ""

    return keep


def _fork_function(store: EventStore, prepared: Prepared, options: ResolvedOptions) -> Fork:
    async def fork(at: str) -> str:
        return await sessions.fork(store, prepared.session, at=at, clock=options.clock)

    return fork
