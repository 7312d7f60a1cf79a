"""Puts a session together: store, model, tools, policy, loop."""

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

from holdfast import replay, shelf
from holdfast.ceilings import known_facts, make_policy, suited
from holdfast.checkpoints.keeping import Keeping
from holdfast.config.apply import settled
from holdfast.config.granting import EVERYWHERE, GrantBook
from holdfast.config.own_runs import own_runs
from holdfast.config.settings import Settings
from holdfast.hands import Hands, StoredOutputs
from holdfast.hooks import registered
from holdfast.instructions.base import BASE
from holdfast.kit.finding import find_kit, forking, with_kit
from holdfast.kit.forking import Forks
from holdfast.kit.kit import Kit
from holdfast.kit.sources import modules_of
from holdfast.kit.tools import CommandTool, SkillTool, kit_tools
from holdfast.listening import Listening
from holdfast.living import Living
from holdfast.logic.acts import Ground
from holdfast.logic.hooks.spec import HookSpec
from holdfast.logic.parts import clean, digest
from holdfast.logic.permissions import rule_about
from holdfast.logic.redact import Redactor
from holdfast.logic.variables import filled_in, secret_values
from holdfast.models import Models
from holdfast.offspring import agent_runner, child_opener
from holdfast.opening import Prepared, prepare
from holdfast.options import DEFAULT, Options, default_store_url, takes_options
from holdfast.ports import EventStore, Model, Tool, Trace
from holdfast.providers.local.profile import profile_of
from holdfast.reloading import Relisten, Reloading
from holdfast.runtime.ask_human import THIS_SESSION
from holdfast.runtime.bus import Bus
from holdfast.runtime.hooks.means import PythonFunction
from holdfast.runtime.inbox import Inbox
from holdfast.runtime.lease import beat
from holdfast.runtime.masking import Mask
from holdfast.runtime.runner import Runner
from holdfast.runtime.world import FindModel, HearHooks, KeepRules, World
from holdfast.session import Fork, Session
from holdfast.stores.trace import FileTrace, NoTrace
from holdfast.stores.trace_files import trace_folder
from holdfast.stores.urls import open_store
from holdfast.surroundings import WallsAround, check_walls, ground_of, looks
from holdfast.tools.bounded import BoundedTool
from holdfast.tools.toolset import Toolset
from holdfast.vocab.errors import UserError
from holdfast.vocab.event import Draft, Grant
from holdfast.vocab.specs import ModelFacts
from holdfast.workspaces.project import data_dir


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
    return _Block(options)


class _Block:
    """The block in which a session is open. What is raised in it leaves it as it was raised, not in a group."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Session:
        options = self._options
        async with AsyncExitStack() as stack:
            store = await _store(options, stack)
            given, options = options, await settled(options, store)
            trace = await _trace(options, store, stack)
            models = Models(options, store)
            stack.push_async_callback(_shielded, models.aclose)
            find = models.find
            prepared = await prepare(options, store, find)
            stack.push_async_callback(_shielded, store.release, prepared.lease)
            facts = await known_facts(options, prepared.model, prepared.state, find)
            walled = "" if options.only_tools else await check_walls(options, prepared.scope)
            living = Living()
            stack.push_async_callback(_shielded, living.stop)
            await living.start(options, prepared)
            built = await _built(options, store, trace, prepared, find, facts, stack)
            built.reloads(given, options)
            runner = built.runner
            living.belongs_to(runner.world)
            tasks = runner.world.tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(beat, store, prepared.lease.owner, options.clock, options.lease_ttl_s)
            tasks.start_soon(_shielded, runner.drive)  # a cancelled block still closes its session properly
            fork = _forker(store, prepared, options)
            session = Session(
                runner,
                tasks,
                report=living.reported(prepared.report),
                fork=fork,
                opened=prepared.announced,
                variables=prepared.variables,
                warnings=tuple(
                    filter(None, (*prepared.warnings, walled, *living.warnings(resumed=prepared.report is not None)))
                ),
                kit=built.kit,
                forks=built.forks,
            )
            built.belongs_to(session)
            session.on_close(built.hands.aclose)
            snapshots = replay.Snapshots(runner.world, prepared.covered)
            tasks.start_soon(living.attend, session, snapshots)
            stack.push_async_callback(_shielded, _leave, session, runner, tasks, snapshots)
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
            raise _alone(group) from None


def _alone(group: BaseException) -> BaseException:
    """The one error that a task group wrapped, or the group when it holds several."""
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        group = group.exceptions[0]
    return group


async def _shielded(work: Callable[..., Awaitable[object]], *args: object) -> None:
    """Clean up even when the block was cancelled."""
    with anyio.CancelScope(shield=True):
        await work(*args)


async def _leave(session: Session, runner: Runner, tasks: TaskGroup, snapshots: replay.Snapshots) -> None:
    try:
        await session.close("the session's block was left")
        if runner.failure is None:
            await snapshots.keep()
    finally:
        runner.end()
        tasks.cancel_scope.cancel()


async def _store(options: Options, stack: AsyncExitStack) -> EventStore:
    if options.store is not None and not isinstance(options.store, str):
        return options.store
    url = "memory:" if options.store is None else default_store_url() if options.store == DEFAULT else options.store
    store = await open_store(url, clock=options.clock)
    stack.push_async_callback(_shielded, store.close)
    return store


async def _trace(options: Options, store: EventStore, stack: AsyncExitStack) -> Trace:
    if options.trace is not None:
        return options.trace
    folder = trace_folder(store.url)
    known = Redactor(exact=(*options.keys.values(os.environ), *secret_values(os.environ)))
    trace: Trace = NoTrace() if folder is None else FileTrace(folder, redactor=known)
    stack.push_async_callback(_shielded, trace.close)
    return trace


class _Built(Struct, frozen=True):
    """A session's loop and what belongs to it."""

    runner: Runner
    kit: Kit | None
    forks: Forks
    toolset: Toolset
    hands: Hands
    own_hooks: Sequence[HookSpec]
    relisten: Relisten

    def bound(self, options: Options, known: str, *, resumed: bool) -> "_Built":
        """Let the kit work for the loop. `known` are the instructions that the log has."""
        if self.kit is None:
            return self
        self.kit.bind(self.runner, (*modules_of(self.kit), *options.modules))
        told = self.kit.instructions
        if self.runner.world.mask.name(told.sha256) != known:
            self.runner.riders = (Draft(event=told.event("resumed" if resumed else "start")),)
        return self

    def reloads(self, given: Options, options: Options) -> None:
        """Have settings read again that change while the session is open, unless whoever opened it gave their own."""
        if self.kit is not None and options.layered is not None and not isinstance(given.settings, Settings):
            self.kit.reload = Reloading(
                given, options, self.kit, self.runner, self.hands, self.own_hooks, self.relisten, self.kit.add_note
            )

    def belongs_to(self, session: Session) -> None:
        """Tell the tools whose they are."""
        for tool in self.toolset:
            if isinstance(tool, SkillTool | CommandTool):
                tool.session = session


async def _built(
    options: Options,
    store: EventStore,
    trace: Trace,
    prepared: Prepared,
    find: FindModel,
    facts: Mapping[str, ModelFacts],
    stack: AsyncExitStack,
) -> _Built:
    options = suited(options, prepared.model)
    scope, inbox = prepared.scope, Inbox()
    running = options.survey.running if options.survey is not None else ()
    trusted = options.trust is not False
    ground = ground_of(prepared.state.meta.cwd, scope, options.folders, trusted=trusted, running=running)
    outputs = StoredOutputs(store, inbox, prepared.state)
    kit = await find_kit(options, prepared, facts, ground, outputs, stack)
    options = with_kit(options, kit)
    asked_for = options.survey is None or bool(options.survey.claims)
    hands = Hands(ground, options.rules, outputs, options.tool_environment, options.keys, asked_for=asked_for)
    stack.push_async_callback(_shielded, hands.aclose)
    toolset = _toolset(options, prepared.model, hands, kit)
    mask = Mask(options.keys.values(os.environ), secret_values(os.environ))
    instructions = mask.instructions(kit.instructions.text if kit is not None else _told(options, prepared))
    schemas = msgspec.json.encode(toolset.specs())
    own_hooks, functions = registered(options.hooks)
    policy = replace_fields(
        make_policy(options, toolset.specs(), instructions, schemas, facts),
        hooks=(*options.hook_specs, *own_hooks),
        ground=ground,
        rule_matches=functools.partial(rule_about, ground=ground),
        forks=forking(kit),
        mode_after_turn=prepared.mode_after_turn,
    )
    world = _world(options, store, prepared, find, toolset, ground, inbox)
    world.instructions = instructions
    world.mask = mask
    world.raise_walls = walls = WallsAround(scope, ground)
    stack.callback(walls.close)
    forks = Forks(prepared.state, kit)
    world.open_child = child_opener(options, store, world, forks, open_with)
    if options.checkpoints and not options.only_tools:
        world.files = Keeping(world, ground.roots)
    relisten = functools.partial(_listening, functions=functions, hands=hands, world=world)
    world.hear_hooks = relisten(options, policy.hooks)
    runner = Runner(
        world,
        lease=prepared.lease,
        nonce=prepared.nonce,
        policy=policy,
        policy_blobs={digest(content): content for content in (instructions.encode(), schemas)},
        bus=Bus(),
        trace=trace,
        opening=prepared.opening,
        patience_s=options.patience_s,
    )
    if kit is not None:
        kit.background = hands.running
    built = _Built(runner, kit, forks, toolset, hands, own_hooks, relisten)
    return built.bound(options, prepared.state.instructions, resumed=prepared.report is not None)


def _listening(
    options: Options,
    specs: Sequence[HookSpec],
    *,
    functions: Mapping[str, PythonFunction],
    hands: Hands,
    world: World,
) -> HearHooks | None:
    """Who hears hooks; nobody when there are none."""
    if not specs:
        return None
    return Listening(
        specs=specs,
        functions=functions,
        project=world.state.meta.project,
        environment=hands.programs,
        keys=hands.keys,
        survey=options.survey,
        held=options.held_hooks,
        own=own_runs(None if options.layered is None else options.layered.trust, world.cwd),
        run_agent=agent_runner(options, hands, world, open_with),
    ).hear


def _told(options: Options, prepared: Prepared) -> str:
    """The instructions of a session that looks around at nothing."""
    added = filled_in(options.append_system_prompt, prepared.variables)
    return clean("\n\n".join(filter(None, (options.system_prompt or BASE, added))))


def _world(
    options: Options,
    store: EventStore,
    prepared: Prepared,
    find: FindModel,
    toolset: Toolset,
    ground: Ground,
    inbox: Inbox,
) -> World:
    return World(
        session=prepared.session,
        cwd=prepared.state.meta.cwd,
        store=store,
        clock=options.clock,
        tools=toolset,
        model=find,
        state=prepared.state,
        inbox=inbox,
        stream=lambda delta: None,
        asker=options.asker or options.prompt,
        idle_timeout_s=options.idle_timeout_s,
        tool_timeout_s=options.tool_timeout_s,
        look=looks(toolset, ground, options.rules),
        keep_rules=None if options.bare else _keeper(prepared.state.meta.project, ground.cwd),
    )


def _toolset(options: Options, model: str, hands: Hands, kit: Kit | None) -> Toolset:
    profile = profile_of(model)
    brought = () if kit is None else (*kit_tools(kit), *(kit.servers.tools if kit.servers is not None else ()))
    own = () if options.only_tools else (*hands.tools(), *brought)
    fitting = (each for each in own if profile is None or each.spec.name in profile.tools)
    found = Toolset.of(*fitting, *_bounded(options, hands))
    return found if options.tool_names is None else found.only(options.tool_names)


def _bounded(options: Options, hands: Hands) -> Iterator[Tool]:
    """The tools that were given; those of our own keep within bounds by themselves."""
    for each in options.tools or ():
        limit = options.tool_output_chars
        yield each if limit is None else BoundedTool(each, limit, hands.outputs.keep, readable=not options.only_tools)


def _keeper(project: str, cwd: str) -> KeepRules:
    """Remembers what was granted for longer than the session. What was meant from the working folder is written out in full."""

    async def keep(rules: Sequence[str], grant: Grant) -> str:
        book = GrantBook(data_dir())
        whole = [re.sub(r"^((?:Read|Edit)\()/(?!/)", lambda found: f"{found[1]}/{cwd}/", rule) for rule in rules]
        try:
            await anyio.to_thread.run_sync(book.add, project if grant == "project" else EVERYWHERE, whole)
        except UserError as exc:
            return f"{THIS_SESSION}: {exc}"
        return ""

    return keep


def _forker(store: EventStore, prepared: Prepared, options: Options) -> Fork:
    async def fork(at: str) -> str:
        return await shelf.fork(store, prepared.session, at=at, clock=options.clock)

    return fork
