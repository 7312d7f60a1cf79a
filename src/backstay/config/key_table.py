"""All settings keys in one table, with their kinds and descriptions.

The reader, the JSON Schema, the reference and `backstay config` use this table.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from backstay.vocab.event import OnExceed
from backstay.vocab.specs import Ability, FsScope, Mode

Count = Annotated[int, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(gt=0, le=1)]
Dollars = Annotated[float, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1)]
Tries = Annotated[int, Meta(ge=0, le=20)]
Milliseconds = Annotated[float, Meta(gt=0, le=86_400_000)]
TrustLevel = Literal["safe", "moderate", "full"]
Address = Annotated[str, Meta(pattern="^($|https?://)")]
Texts = tuple[str, ...]
Object = dict[str, Any]  # Any: the form of a type that a JSON Schema can be made of
Objects = list[Any]  # Any: likewise

Merge = Literal["highest", "list"]
"""Whether the highest file's word counts, or what all files say."""
SettableBy = Literal["any", "trusted", "stricter", "machine"]
"""Whose files may set it. `any`: also an untrusted project's. `trusted`: a project's once it is trusted. `stricter`: likewise, and
before that where it only makes stricter. `machine`: what is managed alone."""
ClaudeFiles = Literal["no", "yes", "project"]
"""Whether it is read from `.claude` files too; `project`: only from a project's."""


class Key(Struct, frozen=True, kw_only=True):
    """One setting."""

    name: str
    """Dotted; `*` stands for a name that the author of the file chooses."""
    kind: object
    """A type that its value fits."""
    description: str
    """What it does, in one sentence."""
    default: str = ""
    """The value when no file sets it."""
    settable_by: SettableBy = "trusted"
    merge: Merge = "highest"
    claude_files: ClaudeFiles = "no"
    alias: str = ""
    """Another spelling of its last part."""
    replace_depth: int = 0
    """How many parts of the name a higher file replaces as a whole; 0 for all of them, which is this value alone."""
    secret: bool = False
    required: bool = False
    """Whether what it is in cannot do without it."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the name."""
        return tuple(self.name.split("."))


class Section(Struct, frozen=True, kw_only=True):
    """Keys that belong together."""

    title: str
    about: str
    """A paragraph for the reference, after the table."""
    keys: tuple[Key, ...]


_PERMISSIONS: Final = Section(
    title="`permissions`, `hooks`, `env`: what may run",
    about="A mode that the machine's file settles can be made stricter and not looser.",
    keys=(
        Key(
            name="permissions.deny",
            kind=Texts,
            settable_by="any",
            merge="list",
            claude_files="yes",
            description="Rules for calls that never happen, such as `Bash(git push *)`; deny beats ask beats allow, in all files.",
        ),
        Key(
            name="permissions.ask",
            kind=Texts,
            settable_by="any",
            merge="list",
            claude_files="yes",
            description="Rules for calls that a person is asked about.",
        ),
        Key(
            name="permissions.allow",
            kind=Texts,
            merge="list",
            claude_files="yes",
            default="`Read` and `Glob` of `.agents/**`, `.claude/**`, `.backstay/**`",
            description="Rules for calls that need no asking. A pattern that begins with `/` starts at the project's root in a project's "
            "file, and at the file's own folder in any other.",
        ),
        Key(
            name="permissions.defaultMode",
            kind=Mode,
            settable_by="stricter",
            claude_files="yes",
            default="`default`",
            description="The mode that a new session begins in; `bypassPermissions` never comes from a project's file.",
        ),
        Key(
            name="permissions.additionalDirectories",
            kind=Texts,
            merge="list",
            claude_files="yes",
            description="Folders besides the working folder that calls may work in; relative to the project's root in a project's file, "
            "and to the working folder in any other.",
        ),
        Key(
            name="permissions.disableBypassPermissionsMode",
            kind=Literal["disable"] | bool,
            settable_by="any",
            merge="list",
            claude_files="yes",
            description='`"disable"`: `bypassPermissions` cannot be used.',
        ),
        Key(
            name="defaultTrustLevel",
            kind=TrustLevel,
            settable_by="stricter",
            description="Another way to say the mode: `safe` is `plan`, `moderate` is `default`, `full` is `acceptEdits`; "
            "`permissions.defaultMode` in the same file goes before it.",
        ),
        Key(
            name="hooks.*",
            kind=Objects,
            merge="list",
            claude_files="yes",
            description="What runs at a moment of a session, beside the hooks of all other files ([hooks](hooks.md)).",
        ),
        Key(
            name="disableAllHooks",
            kind=bool,
            merge="list",
            claude_files="yes",
            default="`false`",
            description="`true`: no hooks. In your file: none but the machine's and this run's. In a project's: none of the project's. In "
            "`~/.claude`: none of `.claude`.",
        ),
        Key(
            name="allowedHttpHookUrls",
            kind=Texts,
            settable_by="any",
            merge="list",
            claude_files="yes",
            default="any",
            description="Addresses that hooks may post to; a project limits its own hooks alone.",
        ),
        Key(
            name="httpHookAllowedEnvVars",
            kind=Texts,
            settable_by="any",
            merge="list",
            claude_files="yes",
            default="those that a hook lists",
            description="Variables that headers of hooks may use.",
        ),
        Key(
            name="allowManagedHooksOnly",
            kind=bool,
            settable_by="machine",
            claude_files="yes",
            default="`false`",
            description="`true`: only the machine's hooks run.",
        ),
        Key(
            name="env.*",
            kind=str,
            claude_files="project",
            description="A variable of the programs that tools and hooks start; Backstay itself does not read it.",
        ),
    ),
)

_CHAT: Final = Section(
    title="`chat`: how conversations are held",
    about="The model, the budget and the scope are for new sessions: an old one keeps what was recorded. The rest counts whenever a "
    "session is opened.",
    keys=(
        Key(
            name="chat.default_model",
            kind=Name | None,
            description="Who answers when `--model` is not given: any name that it takes.",
        ),
        Key(
            name="chat.fs_scope",
            kind=FsScope | None,
            default="`sandboxed`",
            description="How far file access is meant to reach, written into the session.",
        ),
        Key(
            name="chat.allowed_commands",
            kind=tuple[Name, ...],
            merge="list",
            description='Shell commands that run without asking, as in `--allow "Bash(git status)"`.',
        ),
        Key(
            name="chat.max_messages",
            kind=AtLeastOne | None,
            default="no limit",
            description="Messages that a request may hold; the oldest are left out, without a summary.",
        ),
        Key(
            name="chat.max_cost_microcents",
            kind=Count | None,
            default="no limit",
            description="What a session and its children may cost; a dollar is 100,000,000.",
        ),
        Key(name="chat.on_exceed", kind=OnExceed, default="`fail`", description="What happens when that is spent."),
        Key(
            name="chat.max_session_turns",
            kind=Count | None,
            default="50",
            description="Turns that a session may have; 0 is the default.",
        ),
        Key(
            name="chat.max_tool_turns",
            kind=Count | None,
            default="no limit; 6 for `local:`",
            description="Model calls in one turn; 0 is the default.",
        ),
    ),
)

_PROFILE: Final = (
    Key(
        name="type",
        kind=Name,
        required=True,
        default="must be given",
        description="The built-in provider whose format it speaks; see the table of providers.",
    ),
    Key(name="model", kind=str, description="What the profile's name alone means."),
    Key(name="base_url", alias="baseURL", kind=Address, default="that of the type", description="Its address."),
    Key(
        name="api_key",
        alias="apiKey",
        kind=str,
        secret=True,
        default="without a `base_url`, the type's own variable; none on this machine",
        description='Its key: `"$ENV:NAME"` reads an environment variable at each question, `"$KEYRING:SERVICE/USER"` the keyring of the '
        "operating system once; a plain key works too, in a file of your own (`chmod 600`).",
    ),
    Key(
        name="timeout",
        kind=Milliseconds | None,
        default="120000",
        description="Milliseconds that an answer may be silent before the call is given up.",
    ),
    Key(
        name="options",
        kind=Object,
        secret=True,
        description="Further fields of its requests, as the provider names them; passed through untouched.",
    ),
    Key(
        name="headers.*",
        kind=str,
        secret=True,
        description="A header of each request: a text, or `$ENV:` or `$KEYRING:` as above.",
    ),
)


def _within(prefix: str, replace_depth: int, keys: Sequence[Key]) -> tuple[Key, ...]:
    return tuple(replace(each, name=f"{prefix}.{each.name}", replace_depth=replace_depth) for each in keys)


_PROVIDERS: Final = Section(
    title="`providers`: profiles, servers under names of your own",
    about="A profile `house` is asked as `house:MODEL`, or as `house` when it has a `model`. A higher file's profile replaces the whole "
    "profile of that name, so that no file can lead another file's key to an address of its own. `backstay models show house` says "
    "what it comes to. Keys and headers reach the server and nothing else: no log, trace, message or error has them. `provider`, "
    "without a name, is an older form of one profile; it is used when there is no `currentProvider`, with a warning.",
    keys=(
        Key(
            name="currentProvider",
            kind=Name,
            description="The profile that answers when `--model` is not given; it must be there, and have a `model`.",
        ),
        *_within("providers.*", 2, _PROFILE),
        *_within("provider", 1, [replace(each, alias="name") if each.name == "type" else each for each in _PROFILE]),
    ),
)

_MODELS: Final = Section(
    title="`models`: what you know better than the catalog",
    about="An entry is found by the whole name (`house:qwen3-32b`, `openai:gpt-4o`) or by the model's id alone. What is left out stays "
    "as the catalog has it; of a model that it does not know, the cautious defaults stay: a window of 200,000, 16,384 tokens out, no "
    "price, `tools`.",
    keys=_within(
        "models.*",
        2,
        (
            Key(
                name="window",
                kind=AtLeastOne | None,
                description="Tokens that a request and its answer may have together.",
            ),
            Key(name="max_output", kind=AtLeastOne | None, description="Tokens that an answer may have."),
            Key(name="prices.input", kind=Dollars, required=True, description="Dollars for a million tokens in."),
            Key(name="prices.output", kind=Dollars, required=True, description="Dollars for a million tokens out."),
            Key(
                name="prices.cache_read",
                kind=Dollars | None,
                description="Dollars for a million tokens from the cache.",
            ),
            Key(
                name="prices.cache_write",
                kind=Dollars | None,
                description="Dollars for a million tokens into the cache.",
            ),
            Key(name="abilities", kind=tuple[Ability, ...] | None, description="All that it can do."),
        ),
    ),
)

_SURROUNDINGS: Final = Section(
    title="Plugins, MCP servers",
    about="",
    keys=(
        Key(
            name="enabledPlugins.*",
            kind=bool,
            claude_files="project",
            description="Whether a plugin, `name@marketplace`, is used.",
        ),
        Key(
            name="extraKnownMarketplaces.*",
            kind=Object,
            claude_files="project",
            description='A marketplace besides those that you added: `{"source": {...}}`.',
        ),
        Key(
            name="mcpServers.*",
            kind=Object,
            claude_files="yes",
            secret=True,
            description="An MCP server, as in `.mcp.json`.",
        ),
        Key(
            name="enableAllProjectMcpServers",
            kind=bool,
            claude_files="yes",
            default="`false`",
            description="Whether all servers of a trusted `.mcp.json` are used though `enabledMcpjsonServers` names some.",
        ),
        Key(
            name="enabledMcpjsonServers",
            kind=Texts,
            merge="list",
            claude_files="yes",
            description="Servers of `.mcp.json` that are used.",
        ),
        Key(
            name="disabledMcpjsonServers",
            kind=Texts,
            settable_by="any",
            merge="list",
            claude_files="yes",
            description="Servers of `.mcp.json` that are not used, whichever file enables them.",
        ),
    ),
)

_REST: Final = Section(
    title="The rest",
    about="",
    keys=(
        Key(
            name="$schema",
            kind=str,
            settable_by="any",
            description="For editors: the address of the JSON Schema (`backstay config schema`).",
        ),
        Key(
            name="model",
            kind=Name,
            claude_files="yes",
            description="The default model where neither `currentProvider` nor `chat.default_model` says one; `opus`, `sonnet` and `haiku` "
            "are understood too.",
        ),
        Key(name="language", kind=str, claude_files="yes", description="The language of answers, in plain words."),
        Key(
            name="fallback",
            kind=tuple[Name, ...],
            description="Models that answer when the first one cannot, in order.",
        ),
        Key(
            name="auto_compact",
            alias="autoCompactThreshold",
            kind=Share | Literal[False],
            default="0.835",
            description="The share of the window at which the conversation is made shorter; `false`: never.",
        ),
        Key(
            name="retries",
            kind=Tries,
            default="3",
            description="How often a call that failed in passing is tried again.",
        ),
        Key(
            name="taskContext.enabled",
            kind=bool,
            default="`true`",
            description="Whether the task at hand is told to the model.",
        ),
        Key(
            name="taskContext.dir",
            kind=str,
            default="`.agents/tasks`",
            description="Where tasks are kept, below the project's root.",
        ),
        Key(
            name="memory.enabled",
            kind=bool,
            default="`true`",
            description="Whether the index of what was noted of the project is told to the model.",
        ),
    ),
)

SECTIONS: Final = (_PERMISSIONS, _CHAT, _PROVIDERS, _MODELS, _SURROUNDINGS, _REST)
KEYS: Final = tuple(key for section in SECTIONS for key in section.keys)
