"""Specifications: tools, models and their prices, the workspace, leases, the metadata of a session."""

from typing import Literal

import msgspec

Effect = Literal["pure", "idempotent", "reconcilable", "once"]
"""What a second run of a tool would mean.

`pure` reads. `idempotent` may run again with the same call key. `reconcilable` can find out whether it happened. `once` must not run
twice and is the default for anything that writes or runs.
"""

Touches = Literal["reads", "edits", "runs", "web", "person", "notes", "host"]
"""What the policy needs to know: reads the workspace, edits files, runs programs, goes to the web, needs a person's answer, keeps notes of
the session alone, or belongs to the program that opened the session."""

Taint = Literal["untrusted", "private", "outside"]
"""What must not meet in one session without a person: untrusted words, private data, a way out."""

Mode = Literal["plan", "default", "acceptEdits", "dontAsk", "bypassPermissions"]
MODES: tuple[Mode, ...] = ("plan", "default", "acceptEdits", "dontAsk", "bypassPermissions")

OnCrash = Literal["continue", "abandon"]
FsScope = Literal["sandboxed", "project", "full"]


class _Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    pass


class ToolSpec(_Spec, frozen=True, kw_only=True):
    """A tool as the model and the policy know it."""

    name: str
    description: str
    schema: dict[str, object]
    """JSON Schema of the arguments."""
    effect: Effect = "once"
    touches: Touches = "host"
    concurrent: bool = False
    """Whether neighbouring calls of one reply may run at the same time. Only `pure` tools do."""
    child: bool = False
    """A call of it opens a child session instead of running a function."""
    asks: bool = False
    """A call of it always needs a person, in every mode except `bypassPermissions`."""
    taints: tuple[Taint, ...] = ()
    """What every call of it brings along, as it declares."""


class Selection(_Spec, frozen=True, kw_only=True):
    """Lines of a file that the person had selected."""

    file: str
    start_line: int
    end_line: int


class SessionContext(_Spec, frozen=True, kw_only=True):
    """The workspace of a session."""

    working_dir: str
    active_file: str | None = None
    selection: Selection | None = None
    git_ref: str | None = None
    fs_scope: FsScope = "sandboxed"
    variables: dict[str, str] = {}
    """Plain text, echoed in the log: never a secret."""


class Origin(_Spec, frozen=True, kw_only=True):
    """Where a fork came from."""

    session: str
    event: str
    """The last event of the path that was copied."""


class Usage(_Spec, frozen=True, kw_only=True):
    """Tokens of one model call. `input` counts everything sent, cached or not."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    estimated: bool = False


Ability = Literal["tools", "images", "documents", "audio", "reasoning", "effort", "structured", "web_search", "caching"]


class Prices(_Spec, frozen=True, kw_only=True):
    """Micro-cents for a million tokens of each class. A dollar is 100,000,000 micro-cents."""

    input: int
    output: int
    cache_read: int | None = None
    """Like `input` when it is not said."""
    cache_write: int | None = None
    """Like `input` when it is not said."""


class ModelFacts(_Spec, frozen=True, kw_only=True):
    """What is known of a model. The defaults are for an unknown one: cautious, and usable."""

    window: int = 200_000
    """Tokens that a request and its answer may have together."""
    max_output: int = 16_384
    prices: Prices | None = None
    abilities: frozenset[Ability] = frozenset(("tools",))
    known: bool = False
    summarises: bool = True
    """Whether it can be asked to summarise; a script cannot."""


class Owner(_Spec, frozen=True, kw_only=True):
    """A process that may hold sessions."""

    id: str
    host: str
    boot: str
    pid: int
    started: int
    """When the process started, in the operating system's own ticks: a reused pid is recognised by it."""
    label: str = ""
    namespace: int = 0
    """Within which `pid` counts; 0 where the system does not say."""


class Lease(_Spec, frozen=True, kw_only=True):
    """The right to write one session. A write with a token lower than the newest one is refused."""

    session: str
    token: int
    owner: Owner
    since: int


class SessionMeta(_Spec, frozen=True, kw_only=True):
    """The line of a session in a list: a projection of its log, kept in the same transaction."""

    id: str
    seq: int = 0
    name: str = ""
    project: str = ""
    cwd: str = ""
    created: int = 0
    updated: int = 0
    turns: int = 0
    """Completed turns."""
    model: str = ""
    mode: Mode = "default"
    prompt: str = ""
    """The first words of the first input."""
    answer: str = ""
    """The first words of the newest answer."""
    open_turn: bool = False
    """Whether a turn is open, or a skill that a person runs in a child session."""
    closed: bool = False
    exported: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    store: str = ""
    origin: str = ""
    parent: str = ""

    @property
    def empty(self) -> bool:
        """Nothing was ever said in it."""
        return not self.prompt


class Trouble(_Spec, frozen=True, kw_only=True):
    """What is wrong with a stored log: it can only be read."""

    kind: Literal["damaged", "newer"]
    detail: str
    seq: int
    """The last event that can be read."""
