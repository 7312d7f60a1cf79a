"""The options of a session: those of the caller, those filled in from settings, and those that a parent hands to a child."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, ParamSpec, TypeVar, get_args

import msgspec
from msgspec import Struct, field

from backstay.hooks.spec import HookSpec
from backstay.logic.decide.policy import compaction_share
from backstay.logic.state.retries import Retries
from backstay.ports import Asker, Clock, EventStore, Machine, Model, Tool, Trace
from backstay.stores.open import DEFAULT
from backstay.system.machine import SystemClock
from backstay.vocab.env_keys import Keys
from backstay.vocab.errors import UserError
from backstay.vocab.event import OnExceed
from backstay.vocab.rules import Rule
from backstay.vocab.specs import MODES, FsScope, Mode, OnCrash, Owner, SessionContext, Taint

if TYPE_CHECKING:
    from backstay.commands.registry import CommandModule
    from backstay.config.layers import Layered
    from backstay.config.settings import Settings
    from backstay.config.trust.inventory import WorkspaceInventory
    from backstay.hooks.decorator import Hook

    ReadLayers = Callable[[Path, WorkspaceInventory | None], Layered]

P = ParamSpec("P")
R = TypeVar("R")


class Options(Struct, frozen=True, kw_only=True):
    """Everything that shapes how a session is opened. The arguments of `open_session` are these fields."""

    model: str | Model | None = None
    """`provider:model`, a model, or the name of a profile of the settings."""
    settings: "Settings | str | Path | None" = None
    """What fills the fields that say nothing: settings, and then no file is read, or a file over those that are found."""
    layers: "ReadLayers | None" = None
    """Reads the settings files of a folder, in layers, instead of the usual way; then `settings` is not used. The inventory is what the
    workspace brought along when the session was opened with trust: that word is not about what has come since."""
    find: Callable[[str], Model] | None = None
    """Makes a model of its name in the log; the profiles of the settings and the built-in providers unless it is given."""
    cwd: str | Path = "."
    tools: Sequence[Tool] | None = None
    """Tools besides those that are built in."""
    tool_names: Sequence[str] | None = None
    """Only these of the tools, built in or given; a child session has no others either."""
    only_tools: bool = False
    """Whether `tools` are all the tools there are."""
    store: str | EventStore | None = DEFAULT
    """A store's URL, an open store, or None for a session that is kept nowhere."""
    resume: str | None = None
    session_id: str | None = None
    """Opens the session of this id, or starts it under this id."""
    fork: bool = False
    """With `resume`: go on in a copy."""
    name: str = ""
    agent: str = ""
    """The name of the agent that a new session is; the caller sets the tools and instructions that it means."""
    permission_mode: Mode | None = None
    """The mode of this opening. A looser one than the settings say ends with it, unless a turn stays open: that turn keeps it."""
    rules: Sequence[Rule] = ()
    system_prompt: str | None = None
    append_system_prompt: str = ""
    asker: Asker | None = None
    """Who is asked for permission. Without one `prompt` is; without that, what would ask is denied."""
    prompt: Asker | None = None
    on_crash: OnCrash = "continue"
    max_rounds: int | None = None
    max_session_turns: int = 0
    """Turns that the session may have; 0 means the default of 50."""
    max_messages: int | None = None
    """More messages than this are left out of requests, the oldest first, without a summary."""
    fallback_models: Sequence[str | Model] = ()
    """The models that answer when the first cannot, in order."""
    retries: Retries = field(default_factory=Retries)
    auto_compact: float | Literal[False] | None = None
    """The share of the window at which the conversation is made shorter; False for never, None for the default of 0.835."""
    compact_instructions: str = ""
    """What summaries are to look at especially."""
    budget_microcents: int | None = None
    """What the session and its children may cost. A dollar is 100,000,000 micro-cents."""
    on_exceed: OnExceed | None = None
    """What happens when the budget is spent: `fail` unless something else is said."""
    allow_unpriced: bool = False
    """Whether a budget may be set although a model has no known price."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    web_search: bool = True
    """Whether a model whose provider can search the web by itself may do so."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Plain text that a prompt may name as `{{ctx.NAME}}`; written into the log, so never a secret."""
    fs_scope: FsScope | None = None
    context: SessionContext | None = None
    """Instead of what `cwd`, `variables` and `fs_scope` say."""
    machine: Machine | None = None
    idle_timeout_s: float | None = 120.0
    tool_timeout_s: float | None = 900.0
    tool_output_chars: int | None = 30_000
    """Characters of a result of `tools` that the model is shown: its beginning and its end. The whole is kept; None shows all of it."""
    patience_s: float = 30.0
    lease_ttl_s: float = 15.0
    clock: Clock = field(default_factory=SystemClock)
    owner: Owner | None = None
    trace: Trace | None = None
    folders: Sequence[str | Path] = ()
    """Folders besides the working folder that calls may work in."""
    hooks: Sequence["Hook"] = ()
    """Functions that are heard at the moments of a session, besides the hooks of the settings."""
    trust: bool | None = None
    """Whether what the workspace brings along may run: hooks, allowances, programs of its git configuration. None: as it was recorded."""
    bare: bool = False
    """Whether settings, grants and extensions are left out."""
    extensions: Sequence[object] = ()
    """Code that lives as long as the session; see `backstay.session.extensions.Extension`."""
    mcp_config: Sequence[str | Path] = ()
    """Files or JSON texts with MCP servers, besides those of the settings."""
    on_wait: Callable[[str], None] | None = None
    """Is told, in a sentence, what an opening waits for."""
    modules: Sequence["CommandModule"] = ()
    """Commands besides those that are built in."""
    checkpoints: bool = True
    """Whether what files held before a turn changed them is kept, so that they can be put back."""


class ResolvedSettings(Struct, frozen=True, kw_only=True):
    """The settings of one session, from files, the trust in the workspace and the environment."""

    layered: "Layered"
    """What the settings files say, and where the project is."""
    mode: Mode = "default"
    """The mode that the settings say. A session that was left in a looser one, and is opened again without one, goes on in this."""
    strictest_mode: Mode | None = None
    """The mode of a managed file, which nothing loosens."""
    bypass_forbidden: str = ""
    """The file that forbids the mode `bypassPermissions`."""
    hooks: Sequence[HookSpec] = ()
    inventory: "WorkspaceInventory | None" = None
    """What the workspace brings along, as it was when trust was judged."""
    is_trust_given: bool = True
    """Whether a person trusts the workspace, or nobody looks at what it brings along."""
    held_hooks: Mapping[str, str] = field(default_factory=dict)
    """The hooks of the workspace that run what cannot be followed, and why: they wait for trust for this run."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for the programs that tools and hooks start."""
    keys: Keys = field(default_factory=Keys)
    """The keys that the settings and the store name: no program gets them, and nothing that is written has their values."""


class Lineage(Struct, frozen=True, kw_only=True):
    """The properties that a child session inherits from the session that opens it."""

    parent: str = ""
    """The parent's id; empty for a session that has none."""
    taint: tuple[Taint, ...] = ()
    """What the parent has met."""


class ResolvedOptions(Options, frozen=True, kw_only=True):
    """Options in which the settings have filled what the caller left out."""

    resolved: ResolvedSettings
    lineage: Lineage = Lineage()


LEAST_OUTPUT: Final = 1_000
"""Characters of a tool's result that a model is shown at least."""


def takes_options(make: Callable[P, Options]) -> Callable[[Callable[[Options], R]], Callable[P, R]]:
    """Give a function that wants `Options` the keyword arguments of `Options` instead."""

    def decorate(work: Callable[[Options], R]) -> Callable[P, R]:
        @functools.wraps(work)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return work(check(make(*args, **kwargs)))

        return call

    return decorate


def check(options: Options) -> Options:
    """Return `options` if their values are valid. Raise `UserError` otherwise."""
    if options.permission_mode is not None and options.permission_mode not in MODES:
        raise UserError(f"{options.permission_mode!r} is not a permission mode. The modes are {', '.join(MODES)}.")
    if options.on_crash not in ("continue", "abandon"):
        raise UserError(f"{options.on_crash!r} is not a way to treat a crash. Use 'continue' or 'abandon'.")
    if options.on_exceed not in (None, *get_args(OnExceed)):
        raise UserError(f"{options.on_exceed!r} is not known. When a budget is spent: {', '.join(get_args(OnExceed))}.")
    given: Sequence[object] = options.rules
    if wrong := [rule for rule in given if not isinstance(rule, Rule)]:
        raise UserError(f"{wrong[0]!r} is not a rule. Write Rule.parse('allow', {str(wrong[0])!r}).")
    compaction_share(options.auto_compact)
    _check_kinds(options)
    if options.tool_output_chars is not None and options.tool_output_chars < LEAST_OUTPUT:
        raise UserError(
            f"tool_output_chars is {options.tool_output_chars}. Give at least {LEAST_OUTPUT:,} characters, or None for all of them."
        )
    if options.fork and options.resume is None:
        raise UserError("fork=True copies a session: say which with resume=ID.")
    if options.resume is not None and options.session_id is not None and not options.fork:
        raise UserError("resume=ID goes on under its own id. Give session_id with fork=True, or leave it out.")
    if options.max_messages is not None and options.max_messages < 1:
        raise UserError(f"max_messages is {options.max_messages}. Give a number from 1 on, or None for no limit.")
    if options.max_session_turns < 0:
        raise UserError(
            f"max_session_turns is {options.max_session_turns}. Give a number of turns; 0 means the default."
        )
    return options


def _check_kinds(options: Options) -> None:
    """Refuse what is of the wrong kind where anybody would only find out later."""
    for name in ("resume", "session_id"):
        if not isinstance(given := getattr(options, name), str | None):
            raise UserError(f"{name} is {given!r}. Give the id as text.")
    for name in ("name", "agent"):
        if not isinstance(given := getattr(options, name), str):
            raise UserError(f"{name} is {given!r}. Give it as text.")
    if not isinstance(options.store, str | None) and not hasattr(options.store, "append"):
        raise UserError(f"{options.store!r} is not a store. Give a URL, such as 'sqlite:///folder/file.db', or None.")
    if not isinstance(options.model, str | None) and not hasattr(options.model, "ask"):
        raise UserError(
            f"{options.model!r} is not a model. Write 'provider:model', or give an object that can be asked."
        )
    for each in options.tools or ():
        if not hasattr(each, "spec"):
            raise UserError(f"{each!r} is not a tool. Put @tool on the function.")
    try:
        msgspec.json.encode(options.parameters)
    except (TypeError, ValueError) as exc:
        raise UserError(f"The parameters cannot be sent: {exc}.") from exc
