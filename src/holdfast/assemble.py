"""Puts a session together: store, model, tools, policy, loop."""

import functools
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from msgspec.structs import replace as replace_fields

from holdfast import replay, shelf
from holdfast.ceilings import known_facts, make_policy, not_about_money, suited
from holdfast.config.apply import settled
from holdfast.config.granting import EVERYWHERE, GrantBook
from holdfast.hands import Hands, StoredOutputs
from holdfast.hooks import registered
from holdfast.listening import Listening, RunAgent
from holdfast.logic.acts import Ground
from holdfast.logic.hooks.spec import AgentHook
from holdfast.logic.parts import LONG, digest
from holdfast.logic.permissions import rule_about
from holdfast.logic.variables import filled_in
from holdfast.models import Models, childs_model
from holdfast.opening import Prepared, prepare
from holdfast.options import DEFAULT, Options, default_store_url, takes_options
from holdfast.ports import EventStore, Model, Trace
from holdfast.providers.local.profile import profile_of
from holdfast.runtime.bus import Bus
from holdfast.runtime.inbox import Inbox
from holdfast.runtime.lease import beat
from holdfast.runtime.runner import Runner
from holdfast.runtime.world import FindModel, KeepRules, OpenChild, Tell, World
from holdfast.session import Fork, Session
from holdfast.stores.trace import FileTrace, NoTrace
from holdfast.stores.trace_files import trace_folder
from holdfast.stores.urls import open_store
from holdfast.surroundings import WallsAround, check_walls, ground_of, looks
from holdfast.tools.toolset import Toolset
from holdfast.vocab.errors import TurnError, TurnPaused, UserError
from holdfast.vocab.event import Grant
from holdfast.vocab.event_limits import BudgetSet, ChildPaused
from holdfast.vocab.events import ChildFinished, ChildStarted
from holdfast.vocab.specs import ModelFacts
from holdfast.workspaces.project import data_dir

BASE_PROMPT: Final = """\
You are an agent that works in a person's folder, with tools. Do what was asked, no more. Read before you change. Say what you did, plainly.
A tool result that says "outcome unknown" means that nobody knows whether the call happened: find out before you rely on it or repeat it."""


@takes_options(Options)
def open_session(options: Options) -> AbstractAsyncContextManager[Session]:
    """Open a new session, or an old one with `resume=ID`. The arguments are the fields of `Options`."""
    return open_with(options)


async def query(prompt: str, *, model: str | Model, store: str | EventStore | None = None, **options: Any) -> str:
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
            options = await settled(options, store)
            trace = await _trace(options, store, stack)
            models = Models(options, store)
            stack.push_async_callback(_shielded, models.aclose)
            find = models.find
            prepared = await prepare(options, store, find)
            stack.push_async_callback(_shielded, store.release, prepared.lease)
            facts = await known_facts(options, prepared.model, prepared.state, find)
            walled = "" if options.only_tools else await check_walls(options, prepared.state.progress.scope)
            runner = _runner(options, store, trace, prepared, find, facts, stack)
            tasks = runner.world.tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(beat, store, prepared.lease.owner, options.clock, options.lease_ttl_s)
            tasks.start_soon(_shielded, runner.drive)  # a cancelled block still closes its session properly
            fork = _forker(store, prepared, options)
            session = Session(
                runner,
                tasks,
                report=prepared.report,
                fork=fork,
                opened=prepared.announced,
                variables=prepared.variables,
                warnings=(walled,) if walled else (),
            )
            stack.push_async_callback(_shielded, _leave, session, runner, tasks)
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


async def _shielded(work: Callable[..., Awaitable[None]], *args: object) -> None:
    """Clean up even when the block was cancelled."""
    with anyio.CancelScope(shield=True):
        await work(*args)


async def _leave(session: Session, runner: Runner, tasks: TaskGroup) -> None:
    try:
        await session.close("the session's block was left")
        await replay.remember(runner.world.store, runner.world.state, runner.failure)
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
    trace: Trace = NoTrace() if folder is None else FileTrace(folder)
    stack.push_async_callback(_shielded, trace.close)
    return trace


def _runner(
    options: Options,
    store: EventStore,
    trace: Trace,
    prepared: Prepared,
    find: FindModel,
    facts: Mapping[str, ModelFacts],
    stack: AsyncExitStack,
) -> Runner:
    options = suited(options, prepared.model)
    progress, inbox = prepared.state.progress, Inbox()
    scope = options.fs_scope or progress.scope
    ground = ground_of(prepared.state.meta.cwd, scope, options.folders, trusted=options.trust is not False)
    hands = Hands(ground, options.rules, StoredOutputs(store, inbox, prepared.state), options.tool_environment)
    stack.push_async_callback(_shielded, hands.aclose)
    toolset = _toolset(options, prepared.model, hands)
    added = filled_in(options.append_system_prompt, prepared.variables)
    instructions = "\n\n".join(filter(None, (options.system_prompt or BASE_PROMPT, added)))
    schemas = msgspec.json.encode(toolset.specs())
    blobs = {digest(content): content for content in (instructions.encode(), schemas)}
    own_hooks, functions = registered(options.hooks)
    hooks = (*options.hook_specs, *own_hooks)
    policy = replace_fields(
        make_policy(options, toolset.specs(), instructions, schemas, facts),
        hooks=hooks,
        ground=ground,
        rule_matches=functools.partial(rule_about, ground=ground),
    )
    world = _world(options, store, prepared, find, toolset, ground, inbox)
    world.instructions = instructions
    world.raise_walls = walls = WallsAround(scope, ground)
    stack.callback(walls.close)
    if policy.hooks:
        listening = Listening(
            specs=policy.hooks,
            functions=functions,
            project=prepared.state.meta.project,
            environment=hands.programs,
            survey=options.survey,
            run_agent=_agent(options, hands, world),
        )
        world.hear_hooks = listening.hear
    return Runner(
        world,
        lease=prepared.lease,
        nonce=prepared.nonce,
        policy=policy,
        policy_blobs=blobs,
        bus=Bus(),
        trace=trace,
        opening=prepared.opening,
        patience_s=options.patience_s,
    )


def _world(
    options: Options,
    store: EventStore,
    prepared: Prepared,
    find: FindModel,
    toolset: Toolset,
    ground: Ground,
    inbox: Inbox,
) -> World:
    world = World(
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
    world.open_child = _child_opener(options, store, world)
    return world


def _agent(options: Options, hands: Hands, world: World) -> RunAgent:
    """Lets a child that can only look around answer for a hook. It is kept nowhere."""

    async def answer(prompt: str, hook: AgentHook) -> str:
        inherited = replace(
            options,
            store=None,
            session_id=None,
            resume=None,
            fork=False,
            cwd=world.cwd,
            model=hook.model or world.state.progress.model,
            tools=hands.looking(),
            tool_names=None,
            only_tools=True,
            permission_mode="plan",
            fs_scope=world.state.progress.scope,
            taint=tuple(sorted(world.state.progress.consent.taint)),
            parameters={},
            max_rounds=hook.max_turns,
            hooks=(),
            hook_specs=(),
            parent=world.session,
            machine=None,
            owner=None,
            asker=None,
            prompt=None,
        )
        async with open_with(inherited) as child:
            return await child.run(prompt)

    return answer


def _toolset(options: Options, model: str, hands: Hands) -> Toolset:
    profile = profile_of(model)
    own = () if options.only_tools else hands.tools()
    fitting = (each for each in own if profile is None or each.spec.name in profile.tools)
    found = Toolset.of(*fitting, *(options.tools or ()))
    return found if options.tool_names is None else found.only(options.tool_names)


def _keeper(project: str, cwd: str) -> KeepRules:
    """Remembers what was granted for longer than the session. What was meant from the working folder is written out in full."""

    async def keep(rules: Sequence[str], grant: Grant) -> str:
        book = GrantBook(data_dir())
        whole = [re.sub(r"^((?:Read|Edit)\()/(?!/)", lambda found: f"{found[1]}/{cwd}/", rule) for rule in rules]
        try:
            await anyio.to_thread.run_sync(book.add, project if grant == "project" else EVERYWHERE, whole)
        except UserError as exc:
            return f"it holds for this session only: {exc}"
        return ""

    return keep


def _short(text: str, child: str) -> str:
    """A child's answer as its parent keeps it: an event stays small, and the child's own log has the whole."""
    return text if len(text) <= LONG else f"{text[:LONG]}\n(cut here; session {child} has the rest)"


def _forker(store: EventStore, prepared: Prepared, options: Options) -> Fork:
    async def fork(at: str) -> str:
        return await shelf.fork(store, prepared.session, at=at, clock=options.clock)

    return fork


def _share(started: ChildStarted, options: Options) -> dict[str, Any]:
    """What a child may spend. Nobody is asked for more in the middle of it: it waits, and its parent asks."""
    share = msgspec.convert(started.budget, BudgetSet) if started.budget else BudgetSet(limit=None)
    return {
        "budget_microcents": share.limit,
        "on_exceed": share.on_exceed,
        "allow_unpriced": True,
        "asker": not_about_money(options.asker or options.prompt),
    }


def _child_opener(options: Options, store: EventStore, world: World) -> OpenChild:
    """Opens child sessions in the same store, with the parent's model, mode, tools and person, and without children of their own."""

    async def open_child(started: ChildStarted, tell: Tell) -> ChildFinished | ChildPaused:
        inherited = replace(
            options,
            store=store,
            session_id=started.child,
            resume=None,
            fork=False,
            name="",
            cwd=world.cwd,
            model=await childs_model(options.model or world.state.progress.model, started, world),
            permission_mode=world.state.progress.mode,
            fs_scope=world.state.progress.scope,
            tools=[each for each in options.tools or () if not each.spec.child],
            tool_names=_without_children(options),
            parent=world.session,
            machine=None,
            owner=None,
            taint=tuple(sorted(world.state.progress.consent.taint)),
            **_share(started, options),
        )
        opened: list[Session] = []
        try:
            return await _run_child(started, inherited, opened)
        finally:
            for child in opened:  # closed by now: a call that was cut short is settled
                tell(child.usage, child.cost, child.taint)

    return open_child


def _without_children(options: Options) -> list[str] | None:
    makes_children = {each.spec.name for each in options.tools or () if each.spec.child}
    return None if options.tool_names is None else [name for name in options.tool_names if name not in makes_children]


async def _run_child(started: ChildStarted, options: Options, opened: list[Session]) -> ChildFinished | ChildPaused:
    async with open_with(options) as child:
        opened.append(child)
        text, outcome = "", "completed"
        try:
            text = await child.run(started.prompt, input_id=started.call)
        except TurnPaused:
            share = options.budget_microcents or 0
            return ChildPaused(call=started.call, child=started.child, share=share, spent=child.usage, cost=child.cost)
        except TurnError as exc:
            text, outcome = exc.text or str(exc), "failed"
        return ChildFinished(
            call=started.call,
            child=started.child,
            outcome="completed" if outcome == "completed" else "failed",
            text=_short(text, started.child),
            spent=child.usage,
            cost=child.cost,
            taint=child.taint,
        )
