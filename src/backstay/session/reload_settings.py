"""Settings that change while a session is open apply from its next turn on."""

from collections.abc import Callable, Sequence

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from backstay.config.reload import has_changed_since
from backstay.hooks.spec import HookSpec
from backstay.runtime.runner import Runner
from backstay.runtime.services import DispatchHooks
from backstay.session.apply_settings import read_settings_files
from backstay.session.options import Options, ResolvedOptions
from backstay.session.project.context import ProjectContext, with_project
from backstay.session.toolbox import Toolbox
from backstay.session.workspace import path_resolver
from backstay.vocab.errors import UserError

RebuildDispatch = Callable[[ResolvedOptions, Sequence[HookSpec]], DispatchHooks | None]


class Reloading(Struct):
    """Reads the settings of an open session again when a file has changed: rules, hooks, and the strictest mode."""

    given: Options
    """The caller's options, before any file was read."""
    now: ResolvedOptions
    project: ProjectContext
    runner: Runner
    toolbox: Toolbox
    caller_hooks: Sequence[HookSpec]
    rebuild_dispatch: RebuildDispatch
    tell: Callable[[str], None] = lambda words: None

    async def __call__(self) -> None:
        """Look, and read again if need be. Settings that cannot be read leave everything as it was."""
        layered = self.now.resolved.layered
        if not await anyio.to_thread.run_sync(has_changed_since, layered):
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
        self.project.settings_notes = fresh.resolved.layered.warnings
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

    async def _speak(self, before: str) -> None:
        language = self.now.resolved.layered.settings.language
        if language != before:
            await self.project.set_language(language)
