"""The project context: what was discovered for a session when it was opened, kept up to date while it is open."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from backstay.commands.registry import CommandModule, Commands
from backstay.config.trust.own_runs import own_runs
from backstay.hooks.settings import read_hooks
from backstay.hooks.spec import HookSpec
from backstay.logic.context_usage import estimate_text
from backstay.logic.state.prompt_variables import fill_variables
from backstay.logic.state.session_state import State
from backstay.permissions.call_site import CallSite
from backstay.runtime.runner import Runner
from backstay.runtime.services import DispatchHooks, ReadFolderNotes
from backstay.sandbox.environment import harden_environment
from backstay.sandbox.git import git_environment
from backstay.session.apply_settings import read_settings_files
from backstay.session.open import Prepared
from backstay.session.options import Options, ResolvedOptions, ResolvedSettings
from backstay.session.toolbox import StoredOutputs, Toolbox
from backstay.session.workspace import path_resolver
from backstay.system.files import has_changed
from backstay.system.folders import data_dir
from backstay.vocab import events
from backstay.vocab.errors import UserError
from backstay.vocab.event import Draft
from backstay.vocab.rules import Rule, RuleSource
from backstay.vocab.specs import ModelFacts

if TYPE_CHECKING:
    from backstay.instructions.build import Instructions, Why
    from backstay.mcp.servers import Servers, ServerStatus
    from backstay.memory.memory import Memory, MemoryAnswer
    from backstay.plugins.plugin import Plugin
    from backstay.session.project.discover_extensions import Discovery
    from backstay.session.project.inclusions import InclusionRunner
    from backstay.skills.includes import Inclusion
    from backstay.skills.render import Judged
    from backstay.skills.scan import Found
    from backstay.skills.skill import Skill


RebuildDispatch = Callable[[ResolvedOptions, Sequence[HookSpec]], DispatchHooks | None]
P = ParamSpec("P")
_RULES_OF: Final[Mapping[str, RuleSource]] = {
    "project": "project",
    "plugin": "plugin",
    "person": "person",
    "built-in": "default",
}
"""Whose rules the grants of a text are, by who brought it."""


class ProjectContext:
    """The project context of one session. Made before the runner, and bound to it with `bind`."""

    def __init__(
        self,
        discovery: "Discovery",
        *,
        servers: "Servers | None" = None,
        notices: Sequence[str] = (),
        offers: Sequence[str] = (),
    ) -> None:
        self._discovery = discovery
        self._notices = tuple(notices)
        self._runner: Runner | None = None
        self._refresh_lock = anyio.Lock()
        self.settings_notices: tuple[str, ...] = ()
        """What is to be said about the settings files."""
        self.newest_settings: ResolvedSettings | None = None
        """What the settings came to when they changed while the session is open; None while they did not."""
        self.servers = servers
        self.reload: Callable[[], Awaitable[None]] | None = None
        """Reads settings again that were changed."""
        self.background: Callable[[], Sequence[tuple[str, str]]] = tuple
        """What runs in the background: its name, and what it is."""
        self.commands = Commands(offers=frozenset(offers))

    def bind(self, runner: Runner, modules: Sequence[CommandModule] = ()) -> None:
        """Bind to the session that `runner` drives, with the commands of `modules`."""
        self._runner = runner
        for module in modules:
            self.commands.add_module(module)

    def folder_notes_reader(self, state: State) -> ReadFolderNotes:
        """Return what finds the notes of subfolders for the session of `state`."""
        from backstay.instructions.notes import SubfolderNotes  # noqa: PLC0415 - it needs what a look around has loaded

        return SubfolderNotes(lambda: self._discovery.place, state, self.add_notice).find

    # --- what there is -----------------------------------------------------------------------------------------------------------

    @property
    def found(self) -> "Found":
        """Skills, agents and commands of one's own."""
        return self._discovery.found

    @property
    def instructions(self) -> "Instructions":
        """The instructions of the session."""
        return self._discovery.instructions

    @property
    def remembers(self) -> bool:
        """Whether something may be remembered about the project: the settings can switch that off."""
        return self._discovery.open_memory is not None

    @property
    def plugins(self) -> "tuple[Plugin, ...]":
        """The plugins that are on."""
        return self._discovery.plugins.plugins

    def plugin_rules(self) -> tuple[Rule, ...]:
        """Return what plugins deny, and what they want a person to be asked for."""
        return tuple(rule for plugin in self.plugins for rule in plugin.deny_rules)

    def plugin_hooks(self) -> tuple[HookSpec, ...]:
        """Return the hooks of plugins, each bound to its plugin's folder."""
        return tuple(
            spec
            for plugin in self.plugins
            for section in plugin.hooks_raw
            for spec in read_hooks(section, source="plugin", root=str(plugin.folder)).specs
        )

    @property
    def language(self) -> str:
        """The language that the person would like to read; empty when none was set."""
        return self._discovery.place.language

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for the person about what was discovered."""
        failed = (
            f"The MCP server {name!r} does not answer: {status.why}"
            for name, status in self.server_status().items()
            if status.state == "failed"
        )
        return (*self._notices, *self._discovery.notices, *failed)

    def add_notice(self, words: str) -> None:
        """Add a notice for the person, once."""
        if words not in self._notices:
            self._notices = (*self._notices, words)

    @cached_property
    def inclusions(self) -> "InclusionRunner":
        """The runner of inclusions in texts."""
        from backstay.session.project.inclusions import InclusionRunner  # noqa: PLC0415 - few texts include something

        return InclusionRunner(self._bound().services)

    def server_status(self) -> "Mapping[str, ServerStatus]":
        """Return the status of each MCP server by name."""
        return self.servers.status if self.servers is not None else {}

    # --- keeping fresh -----------------------------------------------------------------------------------------------------------

    async def refresh_if_stale(self) -> None:
        """Discover again if a file that was read has changed. This costs a few stat calls when none has."""
        async with self._refresh_lock:  # first come, first served
            if self.reload is not None:
                await self.reload()
            if self._is_outdated() or await anyio.to_thread.run_sync(self._discovery.is_stale):
                await self.refresh("changed")

    async def rebuild(self) -> None:
        """Rebuild the instructions because a compaction made room; a turn that begins meanwhile waits for it."""
        async with self._refresh_lock:
            await self.refresh("compacted")

    async def refresh(self, why: "Why") -> bool:
        """Put the instructions together again; say whether they are others now. The model has them from the next request on."""
        runner = self._bound()
        from backstay.session.project.discover_extensions import discover_again  # noqa: PLC0415 - loaded by now

        progress = runner.services.progress
        before = self.instructions.sha256
        look = partial(discover_again, self._discovery, mode=progress.mode, model=progress.model)
        self._discovery = await anyio.to_thread.run_sync(look)
        now = self.instructions
        if now.sha256 == before and why != "compacted":
            return False
        grown = estimate_text(now.text) - estimate_text(runner.services.instructions)
        runner.set_instructions(now.text, now.sha256, max(0, runner.policy.overhead + grown))
        runner.piggybacked = (*runner.piggybacked, Draft(event=now.event(why)))
        return now.sha256 != before

    async def apply_read_denials(self, rules: Sequence[Rule]) -> None:
        """Leave out of the instructions what `rules` deny to read."""
        from backstay.instructions.inputs import denials_of  # noqa: PLC0415 - loaded by now

        denials = denials_of(rules)
        if denials != self._discovery.place.denials:
            self._discovery = replace(self._discovery, place=replace(self._discovery.place, denials=denials))
            await self.refresh("changed")

    async def set_language(self, language: str) -> None:
        """Set the language of the answers for this session."""
        self._discovery = replace(self._discovery, place=replace(self._discovery.place, language=language))
        await self.refresh("asked")

    # --- using it ----------------------------------------------------------------------------------------------------------------

    async def render_skill(self, skill: "Skill", arguments: str) -> tuple[str, str]:
        """Return the text of a skill or command with everything that it includes, and what a person types for it.

        Raise `UserError` when it cannot be had: then nothing of it was run, or the rest of it was not.
        """
        from backstay.skills.render import SkillContext, expand, frame_skill, render  # noqa: PLC0415 - loaded by now

        about = SkillContext(
            session_id=self._bound().services.session, project_dir=str(self._discovery.sources.paths.root)
        )
        rendered = await render(skill, arguments, about)

        async def fetch(inclusion: "Inclusion") -> str | None:
            return await self.inclusions.fetch(inclusion)

        async def judge(inclusion: "Inclusion") -> "Judged":
            return await self.inclusions.judge(inclusion, grants=skill.grants, source=_RULES_OF[skill.source])

        text = await expand(rendered, fetch, judge=judge)
        return (text if skill.fork else frame_skill(rendered, text)), rendered.display

    async def record_untrusted_input(self, source: str) -> None:
        """Record that untrusted input enters the conversation."""
        services = self._bound().services
        if "untrusted" not in services.state.progress.grants.taint:
            met = Draft(event=events.TaintMet(taints=("untrusted",), source=source), by="user")
            await services.inbox.deliver(met, wakes=False)

    async def remember(
        self, answer: "Callable[Concatenate[Memory, P], MemoryAnswer]", *args: P.args, **kwargs: P.kwargs
    ) -> "MemoryAnswer":
        """Ask the memory something, beside the loop."""
        assert self._discovery.open_memory is not None
        asked = await anyio.to_thread.run_sync(partial(answer, self._discovery.open_memory(), *args, **kwargs))
        if any(event.act in ("saved", "approved") for event in asked.noted):
            await self.refresh("changed")
        return asked

    def _is_outdated(self) -> bool:
        """Return whether the instructions tell of another mode or model than the session has now."""
        progress, place = self._bound().services.progress, self._discovery.place
        return (place.mode, place.model) != (progress.mode, progress.model)

    def _bound(self) -> Runner:
        assert self._runner is not None, "a project context is used after `bind`"
        return self._runner


class Reloading(Struct):
    """Reads the settings of an open session again when a file has changed: rules, hooks, and the strictest mode."""

    given: Options
    """The caller's options, before any file was read."""
    first: ResolvedOptions
    """What they came to at the opening."""
    now: ResolvedOptions
    project: ProjectContext
    runner: Runner
    toolbox: Toolbox
    caller_hooks: Sequence[HookSpec]
    rebuild_dispatch: RebuildDispatch
    tell: Callable[[str], None]

    async def __call__(self) -> None:
        """Look, and read again if need be. Settings that cannot be read leave everything as it was."""
        layered = self.now.resolved.layered
        if not await anyio.to_thread.run_sync(has_changed, layered.fingerprint):
            return
        meta = self.runner.services.state.meta
        try:
            fresh = await anyio.to_thread.run_sync(read_settings_files, self.given, meta, layered)
        except UserError as exc:
            self.tell(f"{exc} Until then the settings stay as they were.")
            return
        self.now = fresh
        for words in fresh.resolved.layered.warnings:
            if words not in layered.warnings:
                self.tell(words)
        self.project.settings_notices = fresh.resolved.layered.warnings
        options = with_project(fresh, self.project)
        self._apply(options)
        await self.project.apply_read_denials(options.rules)
        await self._speak(layered.settings.language)

    def _apply(self, options: ResolvedOptions) -> None:
        runner, services = self.runner, self.runner.services
        hooks = (*options.resolved.hooks, *self.caller_hooks)
        runner.policy = replace(
            runner.policy,
            rules=tuple(options.rules),
            hooks=hooks,
            strictest_mode=options.resolved.strictest_mode,
            bypass_forbidden=options.resolved.bypass_forbidden,
        )
        self.toolbox.rules = options.rules
        runner.in_force.resolve_paths = path_resolver(services.tools, runner.policy.call_site, options.rules)
        runner.in_force.dispatch_hooks = self.rebuild_dispatch(options, hooks)
        first = self.first.resolved  # programs go on with the variables of the opening
        self.project.newest_settings = replace(options.resolved, keys=first.keys, environment=first.environment)

    async def _speak(self, before: str) -> None:
        language = self.now.resolved.layered.settings.language
        if language != before:
            await self.project.set_language(language)


async def find_project(
    options: ResolvedOptions,
    prepared: Prepared,
    facts: Mapping[str, ModelFacts],
    call_site: CallSite,
    outputs: StoredOutputs,
    stack: AsyncExitStack,
) -> ProjectContext | None:
    """Discover the project and connect to its servers. Return None for a session whose caller gives it all that it needs."""
    if options.bare or options.only_tools or options.lineage.parent:
        return None
    added = options.append_system_prompt and fill_variables(options.append_system_prompt, prepared.variables)
    look = partial(
        _discover,
        replace(options, append_system_prompt=added),
        session=prepared.session,
        mode=prepared.mode,
        model=prepared.model,
        window=facts[prepared.model].window if prepared.model in facts else ModelFacts().window,
    )
    discovery = await anyio.to_thread.run_sync(look)
    servers, notices = await _connect_servers(options, discovery, call_site, outputs, stack)
    project = ProjectContext(discovery, servers=servers, notices=notices)
    layered = options.resolved.layered
    project.settings_notices = (*layered.warnings, *filter(None, (layered.notice,)))
    return project


def with_project(options: ResolvedOptions, project: ProjectContext | None) -> ResolvedOptions:
    """Return `options` with the rules and hooks of plugins and skills. A plugin denies and asks; trusted skills may be used."""
    if project is None:
        return options
    skills = (rule for each in project.found.for_model if each.trusted for rule in _skill_rules(each.name))
    return replace(
        options,
        rules=(*options.rules, *project.plugin_rules(), *skills),
        resolved=replace(options.resolved, hooks=(*options.resolved.hooks, *project.plugin_hooks())),
        compact_instructions=options.compact_instructions or project.instructions.compact_instructions,
    )


def forking_skills(project: ProjectContext | None) -> frozenset[str]:
    """Return the skills that run in a session of their own."""
    return frozenset(each.name for each in project.found.for_model if each.fork) if project is not None else frozenset()


def _discover(
    options: ResolvedOptions, **about: Any
) -> "Discovery":  # Any: the keywords of `discover`, which checks them
    from backstay.session.project.discover_extensions import discover  # noqa: PLC0415 - much to load; here it loads beside the loop

    return discover(options, **about)


def _skill_rules(skill: str) -> tuple[Rule, ...]:
    return tuple(
        Rule(decision="allow", tool="Skill", pattern=pattern, source="default") for pattern in (skill, f"{skill} *")
    )


async def _connect_servers(
    options: ResolvedOptions, discovery: "Discovery", call_site: CallSite, outputs: StoredOutputs, stack: AsyncExitStack
) -> "tuple[Servers | None, tuple[str, ...]]":
    """Return the MCP servers, connected as far as they answer."""
    layered = options.resolved.layered
    brought = [each for each in discovery.plugins.plugins if each.mcp_servers_raw]
    in_project = any(name.startswith("servers:") for name in layered.trust.survey.seen)
    if not (options.mcp_config or brought or in_project or any("mcpServers" in file.content for file in layered.files)):
        return None, ()
    from backstay.mcp.config.files import PluginServers, ServerInputs, read_servers  # noqa: PLC0415 - few have servers

    plugins = [PluginServers(plugin=each.name, folder=each.folder, servers=each.mcp_servers_raw) for each in brought]
    place = ServerInputs(layered=layered, given=tuple(options.mcp_config), plugins=plugins, keys=options.resolved.keys)
    found = await anyio.to_thread.run_sync(read_servers, place)
    held = (f"The MCP server {each.name!r} of {each.place} is not used: {each.why}" for each in found.held_back)
    notices = (*found.problems, *found.warnings, *held)
    if not found.specs:
        return None, notices
    from backstay.mcp.config.start import JudgedPrograms, ServerPrograms, may_start, session_servers  # noqa: PLC0415 - likewise

    own = own_runs(layered.trust, call_site.cwd)
    specs, waiting = await anyio.to_thread.run_sync(may_start, found.specs, options.resolved.held_hooks, own)
    notices += tuple(waiting)
    if not specs:
        return None, notices
    servers = session_servers(
        specs,
        cwd=call_site.cwd,
        data=data_dir(),
        roots=call_site.roots,
        keep=outputs.keep,
        on_wait=options.on_wait,
        environment={**os.environ, **harden_environment(os.environ, call_site.roots, call_site.cwd)},
        added={} if call_site.trusted else git_environment(call_site.cwd),
        programs=None if own is None else JudgedPrograms(ServerPrograms(), specs, own),
    )
    return await stack.enter_async_context(servers), notices
