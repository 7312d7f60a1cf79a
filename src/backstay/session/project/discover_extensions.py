"""Discover what the folder of a session offers: plugins, skills, agents, commands and memory; and build the instructions from it."""

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from backstay.config.layers import Layered
from backstay.instructions.build import Instructions, gather
from backstay.instructions.inputs import InstructionInputs, Listed, denials_of, find_inputs
from backstay.memory.folder import INDEX_PATH
from backstay.memory.memory import Memory
from backstay.providers.catalog import facts_of
from backstay.session.apply_settings import merge_layers
from backstay.session.options import Options, ResolvedOptions
from backstay.skills.scan import Found, PluginFolders, Sources, plugin_folders, scan_now, sources_of
from backstay.system.folders import data_dir
from backstay.vocab.specs import Mode, ModelFacts

if TYPE_CHECKING:
    from backstay.plugins.load import Loaded
    from backstay.plugins.plugin import Plugin

_ABOUT_PLUGINS: Final = (b"Plugins", b"Marketplaces", b"\\u")
"""One of these stands in every file that says something about plugins: the last where a key is written in another way."""


OpenMemory = Callable[[], Memory]


class NoPlugins(Struct, frozen=True, kw_only=True):
    """Stands in for `Loaded` when no settings mention plugins, so that the plugin code is not imported."""

    plugins: "tuple[Plugin, ...]" = ()
    problems: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()


class Discovery(Struct, frozen=True, kw_only=True):
    """The discovered extensions of a folder, and the instructions made from them."""

    sources: Sources
    found: Found = field(default_factory=Found)
    plugins: "Loaded | NoPlugins" = field(default_factory=NoPlugins)
    open_memory: OpenMemory | None = None
    """Opens the memory of the project; None when that is switched off."""
    place: InstructionInputs
    instructions: Instructions
    hands_over: bool = False
    """Whether work can be handed to agents: without a tool for that, the model is told of none."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for the person: what was skipped, held back, or wrong."""
        held = (f"The plugin {name!r} of this workspace waits for trust." for name in self.plugins.held_back)
        return (*self.plugins.problems, *held, *map(str, self.found.problems), *self.instructions.problems)

    def is_stale(self) -> bool:
        """Return whether anything that was looked at is not as it was."""
        return self.instructions.stale() or self.found.is_stale()


def discover(options: ResolvedOptions, *, session: str, mode: Mode, model: str, window: int) -> Discovery:
    """Discover the extensions for a session. Block on files; report a broken file as a problem, never as an error."""
    layered, trusted = options.resolved.layered, options.trust is not False
    paths, settings = layered.paths, layered.settings
    plugins = _plugins(layered)
    brought = tuple(map(_folders, plugins.plugins))
    sources = sources_of(paths, trusted=trusted, inventory=options.resolved.inventory, plugins=brought)
    found = scan_now(sources)
    memory = partial(Memory, paths.root, clock=options.clock, session=session, trusted=trusted)
    open_memory = memory if settings.memory.enabled else None
    place = find_inputs(
        paths,
        trusted=trusted,
        folders=options.folders,
        denials=denials_of((*options.rules, *(rule for plugin in plugins.plugins for rule in plugin.deny_rules))),
        system_prompt=options.system_prompt,
        append=_appendix(options, plugins.plugins),
        language=settings.language,
        task_context=settings.task_context.enabled,
        task_folder=settings.task_context.dir,
        mode=mode,
        model=model,
        window=window,
        date=datetime.fromtimestamp(options.clock.now() / 1_000_000, UTC).strftime("%Y-%m-%d"),
    )
    hands_over = any(each.spec.child for each in options.tools or ())
    place = _add_lists(place, found, open_memory, hands_over=hands_over)
    return Discovery(
        hands_over=hands_over,
        sources=sources,
        found=found,
        plugins=plugins,
        open_memory=open_memory,
        place=place,
        instructions=gather(place),
    )


def discover_again(before: Discovery, *, mode: Mode, model: str) -> Discovery:
    """Discover again what may have changed in the same folder."""
    found = scan_now(before.sources) if before.found.is_stale() else before.found
    place = replace(before.place, mode=mode, model=model)
    place = _add_lists(place, found, before.open_memory, hands_over=before.hands_over)
    return replace(before, found=found, place=place, instructions=gather(place))


def _add_lists(
    place: InstructionInputs, found: Found, open_memory: OpenMemory | None, *, hands_over: bool
) -> InstructionInputs:
    """Return the inputs of the instructions with the lists of skills and agents that were found, and with the memory."""
    is_kept = open_memory is not None and os.path.lexists(place.paths.root / INDEX_PATH)
    remembered = open_memory().at_start() if open_memory is not None and is_kept else None
    return replace(
        place,
        memory=remembered.text if remembered is not None else "",
        memory_source=remembered.source if remembered is not None else "",
        skills=tuple(Listed(name=each.name, description=each.listing) for each in found.for_model),
        agents=tuple(
            Listed(name=each.name, description=each.listing) for each in (found.usable_agents if hands_over else ())
        ),
    )


def _plugins(layered: Layered) -> "Loaded | NoPlugins":
    said = [file.text.content for file in layered.files if file.text is not None]
    if not any(words in content for content in said for words in _ABOUT_PLUGINS):
        return NoPlugins()
    from backstay.plugins.load import PluginConfig  # noqa: PLC0415 - only for those who have plugins

    return PluginConfig.of(layered).load()


def _folders(plugin: "Plugin") -> PluginFolders:
    return plugin_folders(plugin, str(data_dir() / "plugins" / "data" / plugin.id))


def _appendix(options: ResolvedOptions, plugins: "Iterable[Plugin]") -> str:
    told = (plugin.instructions for plugin in plugins)
    return "\n\n".join(filter(None, (*told, options.append_system_prompt)))


def discover_here(layered: Layered, *, model: str = "") -> Discovery:
    """Return what a session with these settings finds around its folder. Block on files; start no server and write nothing.

    Raise `UserError` when the settings ask for a mode that they forbid.
    """
    options = merge_layers(Options(cwd=layered.paths.cwd), layered)
    facts = facts_of(model) if model else ModelFacts()
    mode = options.permission_mode or "default"
    return discover(options, session="", mode=mode, model=model, window=facts.window)
