"""Finds the kit of a session that is being opened, and says what it means for how the session is opened."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from msgspec.structs import replace

from backstay.config.trust.own_programs import own_runs
from backstay.logic.state.prompt_variables import fill_variables
from backstay.permissions.call_site import CallSite
from backstay.sandbox.folders import data_dir
from backstay.session.open import Prepared
from backstay.session.options import ResolvedOptions
from backstay.session.project.context import ProjectContext
from backstay.session.toolbox import StoredOutputs
from backstay.vocab.rules import Rule
from backstay.vocab.specs import ModelFacts

if TYPE_CHECKING:
    from backstay.mcp.servers import Servers
    from backstay.session.project.discover import Discovery


async def find_kit(
    options: ResolvedOptions,
    prepared: Prepared,
    facts: Mapping[str, ModelFacts],
    call_site: CallSite,
    outputs: StoredOutputs,
    stack: AsyncExitStack,
) -> ProjectContext | None:
    """Look around, and connect to what was found. None for a session that has all it needs from whoever opens it."""
    if options.bare or options.only_tools or options.lineage.parent:
        return None
    added = fill_variables(options.append_system_prompt, prepared.variables)
    look = partial(
        _look,
        replace(options, append_system_prompt=added),
        session=prepared.session,
        mode=prepared.mode,
        model=prepared.model,
        window=facts[prepared.model].window if prepared.model in facts else ModelFacts().window,
    )
    around = await anyio.to_thread.run_sync(look)
    servers, notes = await _servers(options, around, call_site, outputs, stack)
    kit = ProjectContext(around, servers=servers, notes=notes)
    layered = options.resolved.layered
    kit.of_settings = (*layered.warnings, *filter(None, (layered.notice,)))
    return kit


def with_kit(options: ResolvedOptions, kit: ProjectContext | None) -> ResolvedOptions:
    """`options` with the rules and hooks that come of a kit. A plugin denies and asks; skills of a trusted place may be used."""
    if kit is None:
        return options
    skills = (rule for each in kit.found.for_model if each.trusted for rule in _may_use(each.name))
    return replace(
        options,
        rules=(*options.rules, *kit.plugin_rules(), *skills),
        resolved=replace(options.resolved, hooks=(*options.resolved.hooks, *kit.plugin_hooks())),
        compact_instructions=options.compact_instructions or kit.instructions.compact_instructions,
    )


def forking(kit: ProjectContext | None) -> frozenset[str]:
    """The skills that run in a session of their own."""
    return frozenset(each.name for each in kit.found.for_model if each.fork) if kit is not None else frozenset()


def _look(options: ResolvedOptions, **about: Any) -> "Discovery":  # Any: the keywords of `discover`, which checks them
    from backstay.session.project.discover import discover  # noqa: PLC0415 - much to load; here it loads beside the loop

    return discover(options, **about)


def _may_use(skill: str) -> tuple[Rule, ...]:
    return tuple(
        Rule(decision="allow", tool="Skill", pattern=pattern, source="default") for pattern in (skill, f"{skill} *")
    )


async def _servers(
    options: ResolvedOptions, around: "Discovery", call_site: CallSite, outputs: StoredOutputs, stack: AsyncExitStack
) -> "tuple[Servers | None, tuple[str, ...]]":
    """The MCP servers, connected as far as they answer."""
    from backstay.mcp.config.files import PluginServers, ServersPlace, read_servers  # noqa: PLC0415 - few have servers
    from backstay.mcp.config.start import JudgedPrograms, may_start  # noqa: PLC0415 - likewise

    plugins = [
        PluginServers(plugin=each.name, folder=each.folder, servers=each.mcp_servers_raw)
        for each in around.plugins.plugins
        if each.mcp_servers_raw
    ]
    place = ServersPlace(
        layered=options.resolved.layered, given=tuple(options.mcp_config), plugins=plugins, keys=options.resolved.keys
    )
    found = await anyio.to_thread.run_sync(read_servers, place)
    held = (f"The MCP server {each.name!r} of {each.place} is not used: {each.why}" for each in found.held_back)
    own = own_runs(options.resolved.layered.trust, call_site.cwd)
    specs, waiting = await anyio.to_thread.run_sync(may_start, found.specs, options.resolved.held_hooks, own)
    notes = (*found.problems, *found.warnings, *held, *waiting)
    if not specs:
        return None, notes
    from backstay.mcp.config.start import ServerPrograms, session_servers  # noqa: PLC0415 - likewise

    servers = session_servers(
        specs,
        cwd=call_site.cwd,
        data=data_dir(),
        roots=call_site.roots,
        keep=outputs.keep,
        on_wait=options.on_wait,
        programs=None if own is None else JudgedPrograms(ServerPrograms(), specs, own),
    )
    return await stack.enter_async_context(servers), notes
