"""From settings to options: what a person's files say, wherever whoever opens the session says nothing."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio.to_thread

from holdfast import shelf
from holdfast.config.finding import Finder
from holdfast.config.granting import GrantBook
from holdfast.config.layers import Layered, read_layers
from holdfast.config.permissions_section import looser
from holdfast.config.settings import ChatSettings, Settings, load_settings
from holdfast.hooks import configured
from holdfast.logic.trying import Retries
from holdfast.options import Options
from holdfast.ports import EventStore, Model
from holdfast.vocab.errors import UserError
from holdfast.vocab.rules import Rule
from holdfast.workspaces.project import data_dir, project_root


async def settled(options: Options, store: EventStore) -> Options:
    """`options` with everything that the settings say; as they are when that was done before."""
    if options.find is not None:
        return options
    wanted = options.resume or options.session_id
    meta = await store.meta(wanted) if wanted and await shelf.exists(store, wanted) else None
    new = meta is None
    options = await anyio.to_thread.run_sync(_with_files, options, meta.cwd if meta else str(options.cwd), new)
    if options.settings is None and not any(
        isinstance(each, str) for each in (options.model, *options.fallback_models)
    ):
        return replace(options, find=Finder(None, options.clock).find)
    return await anyio.to_thread.run_sync(_read, options, new)


def applied(options: Options, settings: Settings, *, new: bool) -> Options:
    """`options` with what `settings` say where they say nothing. Only a `new` session gets a model, a budget and a scope from there.

    An old one has its own, and a change of the settings does not change what was recorded.
    """
    chat = settings.chat
    filled = replace(
        options,
        fallback_models=tuple(options.fallback_models) or settings.fallback,
        auto_compact=settings.auto_compact if options.auto_compact is None else options.auto_compact,
        retries=_retries(options.retries, settings.retries),
        max_messages=chat.max_messages if options.max_messages is None else options.max_messages,
        max_session_turns=options.max_session_turns or chat.max_session_turns or 0,
        max_rounds=(chat.max_tool_turns or None) if options.max_rounds is None else options.max_rounds,
        rules=(*options.rules, *_commands(chat)),
    )
    return _begun(filled, chat) if new else filled


def with_layers(options: Options, layers: Layered, *, new: bool) -> Options:
    """`options` with what the settings files together say: settings, rules, folders, trust, and for a `new` session the mode.

    A mode that is managed cannot be made looser by whoever opens the session. Raise `UserError` for a mode that a file forbids.
    """
    mode = options.permission_mode
    if layers.mode is not None:
        if mode is None:
            mode = layers.mode if new else None
        elif layers.mode_source == "managed" and looser(mode, layers.mode):
            raise UserError(
                f"The mode {mode!r} is looser than {layers.mode!r}, which {layers.origins['mode']} settles."
            )
    if mode == "bypassPermissions" and layers.bypass_forbidden:
        raise UserError(f"{layers.bypass_forbidden} forbids the mode 'bypassPermissions'.")
    return replace(
        options,
        settings=layers.settings,
        rules=(*options.rules, *layers.rules),
        folders=(*options.folders, *layers.folders),
        permission_mode=mode,
        trust=layers.trust.trusted,
        survey=layers.trust.survey,
        hook_specs=(*options.hook_specs, *configured(layers).specs),
        tool_environment={**layers.env, **options.tool_environment},
    )


def _with_files(options: Options, cwd: str, new: bool) -> Options:
    """`options` with the settings files of the session's folder; without a way to read them, with what is managed alone."""
    read = options.layers or partial(read_layers, trust=options.trust, bare=True)
    layers = read(Path(cwd))
    found = with_layers(options, layers, new=new)
    if not options.bare:
        project = str(project_root(Path(cwd).expanduser().absolute()))
        found = replace(found, rules=(*found.rules, *GrantBook(data_dir()).rules(project)))
    return found if options.layers else replace(found, settings=options.settings)


def _begun(options: Options, chat: ChatSettings) -> Options:
    budget = chat.max_cost_microcents if options.budget_microcents is None else options.budget_microcents
    return replace(
        options,
        model=chat.default_model if options.model is None else options.model,
        budget_microcents=budget,
        on_exceed=chat.on_exceed if options.on_exceed is None and budget is not None else options.on_exceed,
        fs_scope=options.fs_scope or chat.fs_scope,
    )


def _read(options: Options, new: bool) -> Options:
    given = options.settings
    settings = load_settings(given) if isinstance(given, str | Path) else given
    filled = applied(options, settings, new=new) if settings is not None else options
    finder = Finder(settings, options.clock)
    return replace(
        filled,
        settings=None,
        find=finder.find,
        model=_completed(finder, filled.model),
        fallback_models=tuple(filter(None, (_completed(finder, each) for each in filled.fallback_models))),
    )


def _completed(finder: Finder, model: str | Model | None) -> str | Model | None:
    return finder.complete(model) if isinstance(model, str) else model


def _retries(given: Retries, wanted: int | None) -> Retries:
    return Retries(attempts=wanted + 1) if wanted is not None and given == Retries() else given


def _commands(chat: ChatSettings) -> Iterator[Rule]:
    """The commands that may run without asking, as rules."""
    for command in chat.allowed_commands:
        yield Rule(decision="allow", tool="Bash", pattern=command, source="person")
