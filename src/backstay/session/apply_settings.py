"""Apply settings to options: settings files fill in the options that the caller left out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec.structs import replace

from backstay.catalog import sessions
from backstay.config.layers import Layered, collect_keys, read_layers
from backstay.config.model_finder import Finder, choose
from backstay.config.reload import keep_denials
from backstay.config.settings import IDLE_TIMEOUT_S, ChatSettings, Settings, load_settings
from backstay.config.trust.inventory import WorkspaceInventory
from backstay.config.trust.trust_store import GrantStore
from backstay.hooks.decorator import read_configured_hooks
from backstay.logic.decide.policy import looser
from backstay.logic.state.retries import Retries
from backstay.ports import EventStore, Model
from backstay.session.options import Options, ResolvedOptions, ResolvedSettings
from backstay.system.folders import data_dir, project_root
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule
from backstay.vocab.specs import Mode, SessionMeta


async def apply_settings(options: Options, store: EventStore) -> ResolvedOptions:
    """Return `options` with everything that the settings say, or as they are when they have it already."""
    if isinstance(options, ResolvedOptions):
        return options
    wanted = options.resume or options.session_id
    meta = await store.meta(wanted) if wanted and await sessions.exists(store, wanted) else None
    found = await anyio.to_thread.run_sync(read_settings_files, options, meta)
    said = found.settings if isinstance(found.settings, Settings) else None
    keys = await anyio.to_thread.run_sync(collect_keys, said, found.resolved.layered, store.url)
    found = replace(found, resolved=replace(found.resolved, keys=found.resolved.keys.join((keys,))))
    if found.find is not None:
        return found
    if found.settings is None and not any(isinstance(each, str) for each in (found.model, *found.fallback_models)):
        return replace(found, find=Finder(None, found.clock).find)
    return await anyio.to_thread.run_sync(
        _apply_model_settings, found, meta is None, "" if meta is None else meta.model
    )


def fill_defaults(options: ResolvedOptions, settings: Settings, *, new: bool) -> ResolvedOptions:
    """Fill the options that the caller left unset from `settings`. Only a `new` session gets a model, a budget and a scope from there.

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
        rules=(*options.rules, *_rules_of_allowed_commands(chat)),
    )
    return _fill_new(filled, settings) if new else filled


def merge_layers(options: Options, layers: Layered, recorded: Mode | None = None) -> ResolvedOptions:
    """Return `options` with what the settings files together say: settings, rules, hooks, folders, trust, and for a new session the mode.

    `recorded` is the mode of a session that is opened again. A mode that is managed cannot be made looser by the caller,
    and a session that was looser becomes as strict. Raise `UserError` for a mode that a file forbids.
    """
    managed = layers.mode if layers.mode_source == "managed" else None
    mode = options.permission_mode
    if mode is None and recorded is None:
        mode = layers.mode
    elif mode is not None and managed is not None and looser(mode, managed):
        raise UserError(f"The mode {mode!r} is looser than {managed!r}, which {layers.mode_file} settles.")
    if mode == "bypassPermissions" and layers.bypass_forbidden:
        raise UserError(f"{layers.bypass_forbidden} forbids the mode 'bypassPermissions'.")
    if mode is None and recorded is not None:
        if recorded == "bypassPermissions" and layers.bypass_forbidden:
            mode = "default"
        if managed is not None and looser(mode or recorded, managed):
            mode = managed
    resolved = ResolvedSettings(
        layered=layers,
        mode=layers.mode or "default",
        strictest_mode=managed,
        bypass_forbidden=layers.bypass_forbidden,
        hooks=read_configured_hooks(layers).specs if layers.files or layers.hooks else (),
        inventory=layers.trust.vouched,
        is_trust_given=layers.trust.given,
        held_hooks=layers.trust.held_hooks,
        environment=layers.env,
    )
    said: dict[str, Any] = {name: getattr(options, name) for name in Options.__struct_fields__}  # Any: of each its own
    said |= {
        "settings": layers.settings,
        "rules": (*options.rules, *layers.rules),
        "folders": (*options.folders, *layers.folders),
        "permission_mode": mode,
        "trust": layers.trust.trusted,
    }
    return ResolvedOptions(**said, resolved=resolved)


def read_settings_files(options: Options, meta: SessionMeta | None, before: Layered | None = None) -> ResolvedOptions:
    """Return `options` with the settings files of the session's folder; with the managed ones alone when the caller wants no others.

    `before` is what held until now in a session that is open: then what is new never denies less, and the workspace is trusted only as
    far as it is what it was.
    """
    folder = options.context.working_dir if options.context is not None else options.cwd
    cwd = Path(meta.cwd if meta else folder).expanduser().absolute()
    project = project_root(cwd)
    if options.trust and meta and project != project_root(Path(options.cwd).expanduser().absolute()):
        raise UserError(
            f"The session works in {str(cwd)!r}, and you trust the folder you stand in. Go there to trust it."
        )
    alone = options.bare or options.only_tools or isinstance(options.settings, Settings)
    given = None if isinstance(options.settings, Settings) else options.settings
    vouched = None if before is None else before.trust.vouched

    def read_files(folder: Path, seen: WorkspaceInventory | None) -> Layered:
        return read_layers(folder, given=None if alone else given, trust=options.trust, bare=alone, vouched=seen)

    read = options.layers or read_files
    layers = read(cwd, vouched) if before is None else keep_denials(before, read(cwd, vouched))
    found = merge_layers(options, layers, meta.mode if meta else None)
    if not options.bare:
        found = replace(found, rules=(*found.rules, *GrantStore(data_dir()).rules(str(project))))
    return replace(found, settings=options.settings) if alone and not options.layers else found


def _fill_new(options: ResolvedOptions, settings: Settings) -> ResolvedOptions:
    chat, model = settings.chat, options.model
    if model is None:
        chosen = choose(settings, by_key=not options.bare)
        model = None if chosen is None else chosen.model
    budget = chat.max_cost_microcents if options.budget_microcents is None else options.budget_microcents
    return replace(
        options,
        model=model,
        budget_microcents=budget,
        on_exceed=chat.on_exceed if options.on_exceed is None and budget is not None else options.on_exceed,
        fs_scope=options.fs_scope or chat.fs_scope,
    )


def _apply_model_settings(options: ResolvedOptions, new: bool, recorded: str) -> ResolvedOptions:
    given = options.settings
    settings = load_settings(given) if isinstance(given, str | Path) else given
    filled = fill_defaults(options, settings, new=new) if settings is not None else options
    finder = Finder(settings, options.clock)
    idle_timeout_s = _idle_timeout(filled, finder, recorded)  # reads the settings that a profile stands in
    return replace(
        filled,
        settings=None,
        find=finder.find,
        resolved=replace(filled.resolved, keys=filled.resolved.keys.join((collect_keys(finder.settings),))),
        idle_timeout_s=idle_timeout_s,
        model=_complete_model_name(finder, filled.model),
        fallback_models=tuple(filter(None, (_complete_model_name(finder, each) for each in filled.fallback_models))),
    )


def _complete_model_name(finder: Finder, model: str | Model | None) -> str | Model | None:
    return finder.complete(model) if isinstance(model, str) else model


def _idle_timeout(options: Options, finder: Finder, recorded: str) -> float | None:
    """Return how long models may be silent: what was asked for, else the longest that a profile of one of them says."""
    names = [each for each in (options.model or recorded, *options.fallback_models) if isinstance(each, str)]
    said = [found for each in names if (found := finder.idle_timeout_s(each)) is not None]
    if options.idle_timeout_s != IDLE_TIMEOUT_S:
        return options.idle_timeout_s
    usual = [IDLE_TIMEOUT_S] if len(said) < len(names) and len(names) > 1 else []
    return max((*said, *usual), default=IDLE_TIMEOUT_S)


def _retries(given: Retries, wanted: int | None) -> Retries:
    return Retries(attempts=wanted + 1) if wanted is not None and given == Retries() else given


def _rules_of_allowed_commands(chat: ChatSettings) -> Iterator[Rule]:
    """Yield the commands that may run without asking, as rules."""
    for command in chat.allowed_commands:
        yield Rule(decision="allow", tool="Bash", pattern=command, source="person")
