"""`--agent`: a session that is one of the agents that were found. Which one is settled when it begins, and holds from then on."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import anyio.to_thread
from msgspec.structs import replace

from backstay.catalog import sessions
from backstay.config.model_finder import Finder
from backstay.config.permissions_section import looser
from backstay.headless.job import model_name
from backstay.logic.state.session_state import State
from backstay.permissions.call_site import CallSite
from backstay.ports import EventStore
from backstay.providers.local.pins import profile_of
from backstay.runtime.inbox import Inbox
from backstay.session.options import Options
from backstay.session.project.discover import look_here
from backstay.session.project.tools import tool_name
from backstay.session.toolbox import StoredOutputs, Toolbox
from backstay.skills.agents import AgentDefinition, resolve_model
from backstay.skills.scan import Found
from backstay.vocab.errors import BadId, UserError
from backstay.vocab.events import Started
from backstay.vocab.rules import Rule

_SERVERS = "mcp__"


async def as_agent(options: Options, store: EventStore, *, model_given: bool) -> Options:
    """`options`, which are settled, with what the agent that they name, or that the session was begun as, means for them.

    `model_given` says whether whoever opens it named a model: that goes before the agent's. Raise `BadId` for an agent that there is
    not, or for another one than the session has; `UserError` when the agent of an old session cannot be had any more.
    """
    begun = await _begun(options, store)
    recorded = begun.agent if begun is not None else ""
    if begun is not None and options.agent and options.agent != recorded:
        was = f"as the agent {recorded!r}" if recorded else "without an agent"
        raise BadId(f"Session {begun.session!r} was begun {was}, and stays so. Leave --agent away.")
    wanted = options.agent or recorded
    if not wanted:
        return options
    folder = Path(begun.context.working_dir if begun is not None else options.cwd)
    found = await anyio.to_thread.run_sync(partial(_found, options, folder))
    agent = _named(found, wanted, old=begun is not None)
    if begun is None and not model_given and agent.model:
        options = replace(options, model=_model(options, agent.model))
    name = model_name(options) or (begun.model if begun is not None else "")
    told = replace(_told(options, agent, new=begun is None), agent=wanted)
    return _narrowed(told, agent, _tools(store, found, name))


async def _begun(options: Options, store: EventStore) -> Started | None:
    """How the session that is meant began; None for a new one."""
    wanted = options.resume or options.session_id
    if wanted is None or not await sessions.exists(store, wanted):
        return None
    first = (await store.read(wanted, 0, 1)).records
    event = first[0].event if first else None
    return event if isinstance(event, Started) else None


def _found(options: Options, folder: Path) -> Found:
    if options.bare or options.layered is None:
        return Found()
    return look_here(folder.expanduser().absolute(), options.layered).found


def _named(found: Found, wanted: str, *, old: bool) -> AgentDefinition:
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


def _model(options: Options, wanted: str) -> str:
    """The model that an agent names: a profile of the settings that count, or a name or shortcut."""
    settings = options.layered.settings if options.layered is not None else None
    if settings is not None and wanted in settings.providers:
        return Finder(settings, options.clock).complete(wanted)
    return resolve_model(wanted, model_name(options))


def _told(options: Options, agent: AgentDefinition, *, new: bool) -> Options:
    """What the agent is told, and how long and how freely it may work: never more freely than without it."""
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


def _narrowed(options: Options, agent: AgentDefinition, tools: Iterable[str]) -> Options:
    """Only the tools that the agent has. What it never has is denied, too, whatever else allows it."""
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


def _tools(store: EventStore, found: Found, model: str) -> tuple[str, ...]:
    """The names of the tools that a session has before servers bring theirs."""
    hands = Toolbox(CallSite(cwd="/", home="/"), (), StoredOutputs(store, Inbox(), State()))
    skill = ("Skill",) if found.for_model else ()
    names = (*(each.spec.name for each in hands.tools()), *skill)
    profile = profile_of(model)
    return names if profile is None else tuple(each for each in names if each in profile.tools)
