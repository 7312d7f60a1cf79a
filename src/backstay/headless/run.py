"""Run one job: find the session and the agent that it names, open the session, and return the exit code."""

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import anyio
import anyio.to_thread
from msgspec.structs import replace

from backstay.catalog import sessions
from backstay.config.model_finder import Finder
from backstay.headless.approvals import ApprovalQueue
from backstay.headless.formats import hinting, with_store
from backstay.headless.headless_run import HeadlessRun, Job, check_model, model_name
from backstay.headless.lookup import find, fork_warning
from backstay.headless.result import INTERRUPTED
from backstay.headless.signals import StopSignals, Warn
from backstay.headless.stdio import OutputWriter
from backstay.logic.decide.policy import looser
from backstay.logic.state.session_state import State
from backstay.permissions.call_site import CallSite
from backstay.ports import EventStore
from backstay.runtime.inbox import Inbox
from backstay.session.apply_settings import apply_settings
from backstay.session.assemble import open_with
from backstay.session.limits import profile_of
from backstay.session.options import Options, ResolvedOptions
from backstay.session.project.commands import tool_name
from backstay.session.project.discover_extensions import discover_here
from backstay.session.toolbox import StoredOutputs, Toolbox
from backstay.skills.agents import AgentDefinition, resolve_model
from backstay.skills.scan import Found
from backstay.stores.open import use_store
from backstay.system.folders import project_root
from backstay.vocab import events
from backstay.vocab.errors import BackstayError, BadId, UserError
from backstay.vocab.rules import Rule

_SERVERS = "mcp__"


async def run(job: Job, out: BinaryIO, stdin_fd: int, warn: Warn) -> int:
    """Do a job and return the exit code. Raise `BackstayError` when it could not start.

    Only the chosen format goes to `out`; input lines are read from `stdin_fd`; everything else is a warning.
    """
    stop_signals = StopSignals(job.drain_s, warn)
    code = INTERRUPTED
    failure: BackstayError | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(stop_signals.listen, tasks)
        try:
            code = await _run(job, out, stdin_fd, warn, stop_signals)
        except BackstayError as exc:
            failure = exc
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return code


async def _run(job: Job, out: BinaryIO, stdin_fd: int, warn_person: Warn, stop_signals: StopSignals) -> int:
    async with use_store(job.options.store, clock=job.options.clock, warn=warn_person) as store:
        with hinting(store.url):

            def warn(words: str) -> None:
                warn_person(with_store(words, store.url))

            approvals = ApprovalQueue(warn) if job.lines else None
            options = await apply_settings(await _resolve_session(job, store, warn), store)
            options = await apply_agent(options, store, model_given=job.options.model is not None)
            options = replace(options, store=store, asker=approvals.ask if approvals else None, on_wait=warn)
            if options.resume is None and not (options.session_id and await sessions.exists(store, options.session_id)):
                check_model(options)
            async with open_with(options) as session:
                headless = HeadlessRun(replace(job, options=options), session, OutputWriter(out), warn, approvals)
                headless.check_model()
                await headless.print_opening()
                if options.name and session.name != options.name:
                    await session.rename(options.name)
                return await headless.run(stdin_fd, stop_signals)


# --- the session -----------------------------------------------------------------------------------------------------------------


async def _resolve_session(job: Job, store: EventStore, warn: Warn) -> Options:
    """Return the options with the id of the session to resume."""
    options = job.options
    if job.newest:
        meta = await sessions.newest(store, _project(options))
    elif options.resume is not None:
        meta = await find(store, options.resume, warn)
    else:
        return options
    if options.fork and meta.open_turn:
        warn(fork_warning(meta))
    return replace(options, resume=meta.id)


def _project(options: Options) -> str:
    return str(project_root(Path(options.cwd).expanduser().absolute()))


# --- the agent (`--agent`) -------------------------------------------------------------------------------------------------------


async def apply_agent(options: ResolvedOptions, store: EventStore, *, model_given: bool) -> ResolvedOptions:
    """Return `options` with the prompt, tools, model and limits of the agent that they name or that the session was begun as.

    A model that the caller gave (`model_given`) wins over the agent's. Raise `BadId` for an unknown agent, or for another one than the
    session was begun as; `UserError` when the agent of an old session does not exist any more.
    """
    begun = await _first_event(options, store)
    recorded = begun.agent if begun is not None else ""
    if begun is not None and options.agent and options.agent != recorded:
        was = f"as the agent {recorded!r}" if recorded else "without an agent"
        raise BadId(f"Session {begun.session!r} was begun {was}, and stays so. Leave --agent away.")
    wanted = options.agent or recorded
    if not wanted:
        return options
    found = await anyio.to_thread.run_sync(_discover, options)
    agent = _select_agent(found, wanted, old=begun is not None)
    if begun is None and not model_given and agent.model:
        options = replace(options, model=_agent_model(options, agent.model))
    name = model_name(options) or (begun.model if begun is not None else "")
    options = replace(_apply_prompt(options, agent, new=begun is None), agent=wanted)
    return _restrict_tools(options, agent, _tool_names(store, found, name))


async def _first_event(options: ResolvedOptions, store: EventStore) -> events.Started | None:
    """Return the start of the session that the options name; None for a new one."""
    wanted = options.resume or options.session_id
    if wanted is None or not await sessions.exists(store, wanted):
        return None
    first = (await store.read(wanted, 0, 1)).records
    event = first[0].event if first else None
    return event if isinstance(event, events.Started) else None


def _discover(options: ResolvedOptions) -> Found:
    return Found() if options.bare else discover_here(options.resolved.layered).found


def _select_agent(found: Found, wanted: str, *, old: bool) -> AgentDefinition:
    agent = next((each for each in found.agents if each.name == wanted), None)
    if agent is not None and agent.trusted:
        return agent
    if agent is not None:
        raise BadId(
            f"The agent {wanted!r} comes from {agent.file!r}, which is not trusted. "
            "See: backstay trust. For this run alone: --trust."
        )
    if old:
        raise UserError(
            f"The session was begun as the agent {wanted!r}, which is not here any more. Put its file back to go on."
        )
    names = ", ".join(each.name for each in found.usable_agents)
    raise BadId(f"There is no agent {wanted!r}. The agents are {names}.")


def _agent_model(options: ResolvedOptions, wanted: str) -> str:
    """Resolve the model of an agent: a profile of the settings, a name or a shortcut."""
    settings = options.resolved.layered.settings
    if wanted in settings.providers:
        return Finder(settings, options.clock).complete(wanted)
    return resolve_model(wanted, model_name(options))


def _apply_prompt(options: ResolvedOptions, agent: AgentDefinition, *, new: bool) -> ResolvedOptions:
    """Add the prompt, limits and effort of the agent, and its mode where that is stricter."""
    mode = agent.permission_mode if new else None
    stricter = mode is not None and looser(options.permission_mode or "default", mode)
    effort = {"effort": agent.effort} if agent.effort and "effort" not in options.parameters else {}
    return replace(
        options,
        append_system_prompt="\n\n".join(filter(None, (agent.system_prompt, options.append_system_prompt))),
        permission_mode=mode if stricter else options.permission_mode,
        max_rounds=options.max_rounds or agent.max_turns,
        parameters={**options.parameters, **effort},
    )


def _restrict_tools(options: ResolvedOptions, agent: AgentDefinition, tools: Iterable[str]) -> ResolvedOptions:
    """Keep the tools of the agent. Deny what it must not have, so that no other rule allows it."""
    denied = tuple(Rule.parse("deny", each, source="session") for each in agent.disallowed_tools)
    options = replace(options, rules=(*options.rules, *denied))
    if agent.tools is None:
        return options
    allowed = {Rule.parse("ask", each).tool for each in agent.tools}
    never = {rule.tool for rule in denied if rule.pattern is None}
    every = (*tools, tool_name("memory"))
    if any(each.startswith(_SERVERS) for each in allowed):  # what servers bring is known only when they are connected
        others = tuple(Rule(decision="deny", tool=each, source="session") for each in every if each not in allowed)
        return replace(options, rules=(*options.rules, *others))
    return replace(options, tool_names=tuple(each for each in tools if each in allowed - never))


def _tool_names(store: EventStore, found: Found, model: str) -> tuple[str, ...]:
    """List the names of the tools of a session, without those of servers."""
    toolbox = Toolbox(CallSite(cwd="/", home="/"), (), StoredOutputs(store, Inbox(), State()))
    skill = ("Skill",) if found.for_model else ()
    names = (*(each.spec.name for each in toolbox.tools()), *skill)
    profile = profile_of(model)
    return names if profile is None else tuple(each for each in names if each in profile.tools)
