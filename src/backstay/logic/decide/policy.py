"""The policy of a session: what shapes its decisions besides its log."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from backstay.hooks.matching import RuleMatches
from backstay.hooks.spec import HookSpec
from backstay.logic.state.retries import Retries
from backstay.permissions.call_site import CallSite
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule
from backstay.vocab.specs import Mode, ModelFacts, ToolSpec

SESSION_TURNS: Final = 50
"""Turns that a session may have, when nothing else is said."""
AUTO_COMPACT: Final = 0.835
"""How full the context may get before the conversation is made shorter."""


def compaction_share(value: float | Literal[False] | None) -> float | None:
    """Return the share of the window that `value` means: None for the default, False for never. Raise `UserError` for what is none."""
    if value is None:
        return AUTO_COMPACT
    if value is False:
        return None
    if not 0 < value <= 1:
        raise UserError(f"auto_compact is {value!r}. Give a share of the window above 0 and up to 1, or False.")
    return float(value)


LOOSENESS: Final[Mapping[Mode, int]] = {"plan": 0, "dontAsk": 1, "default": 2, "acceptEdits": 3, "bypassPermissions": 4}
"""The modes, the strictest first."""


def looser(mode: Mode, than: Mode) -> bool:
    """Return whether `mode` lets more happen without a person."""
    return LOOSENESS[mode] > LOOSENESS[than]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The policy of a session: what shapes its decisions besides its log."""

    tools: Mapping[str, ToolSpec] = {}
    rules: tuple[Rule, ...] = ()
    call_site: CallSite = CallSite(cwd="/", home="/")
    """The call site, before the paths of a call are resolved."""
    hooks: tuple[HookSpec, ...] = ()
    rule_matches: RuleMatches | None = None
    """Returns whether a hook's `if` is about a call."""
    mode_after_turn: Mode | None = None
    """The loosest mode in which the next turn may begin: the open turn keeps the looser one of an earlier opening. None for any."""
    strictest_mode: Mode | None = None
    """The mode of managed settings: a looser one may not be taken."""
    bypass_forbidden: str = ""
    """The file that forbids the mode `bypassPermissions`."""
    agent: str = ""
    """The name of the agent whose session it is."""
    forks: frozenset[str] = frozenset()
    """The skills that a child session follows."""
    instructions: str = ""
    """Hash of the system prompt's blob."""
    tools_digest: str = ""
    """Hash of the blob with the tool schemas."""
    parameters: dict[str, object] = {}
    max_rounds: int | None = None
    """Model calls that one turn may take."""
    max_session_turns: int = SESSION_TURNS
    parallel: int = 8
    """Pure calls that may run at the same time."""
    starts_turns: bool = True
    """Whether queued input may begin a turn; a session that is closing lets it wait for the next opening."""
    fallbacks: tuple[str, ...] = ()
    """The models that answer when the session's own cannot, in order."""
    retries: Retries = Retries()
    facts: Mapping[str, ModelFacts] = {}
    """What is known of the models that may answer."""
    overhead: int = 0
    """Tokens of the instructions and the tools, estimated."""
    auto_compact: float | None = AUTO_COMPACT
    """The share of the window at which the conversation is made shorter; None for never."""
    compact_instructions: str = ""
    """Instructions for summaries."""
    max_messages: int | None = None
    """More messages than this are trimmed from the front, without a summary."""
    allow_unpriced: bool = False
    """Whether a budget may be kept although a model that answers has no known price."""
    schema_tries: int = 3
    """How often the model may answer again when its answer does not fit the schema."""

    def why_not(self, mode: Mode) -> str:
        """Return why a mode may not be taken; empty when it may."""
        if mode == "bypassPermissions" and self.bypass_forbidden:
            return f"{self.bypass_forbidden} forbids the mode 'bypassPermissions'"
        if self.strictest_mode is not None and looser(mode, self.strictest_mode):
            return f"the mode {mode!r} is looser than {self.strictest_mode!r}, which is settled for this machine"
        return ""

    def stricter_mode_between_turns(self, mode: Mode) -> Mode | None:
        """Return the mode that follows `mode` when no turn is open; None when `mode` stays."""
        after = self.mode_after_turn
        return after if after is not None and looser(mode, after) else None

    def facts_of(self, model: str) -> ModelFacts:
        """Return the facts about `model`; cautious values when none are known."""
        return self.facts.get(model) or ModelFacts()

    def chain(self, model: str) -> tuple[str, ...]:
        """Return the models that may answer, in order."""
        return (model, *(each for each in self.fallbacks if each != model))
