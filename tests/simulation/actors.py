"""The model, the tools and the person of a simulated world: each as unreliable as the real ones, or worse."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Final, cast

import anyio
from msgspec import Struct
from msgspec.structs import replace

from backstay.hooks.decorator import Hook, hook
from backstay.ports import Answer, Model, ModelReply, ModelRequest, Question, Tool, ToolContext, ToolOutput
from backstay.testing.crash.process import EffectLedger, MortalProcess
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta
from backstay.vocab.errors import ErrorKind, ProviderError
from backstay.vocab.messages import InFlightPart, Reasoning, Text, ToolCall, ToolResult, text_of
from backstay.vocab.specs import Effect, ModelFacts, ToolSpec, Usage
from tests.simulation.stores import Universe

KINDS: Final[tuple[ErrorKind, ...]] = (
    "rate_limit",
    "overloaded",
    "timeout",
    "transport",
    "bad_request",
    "unknown",
    "auth",
    "context_overflow",
)
WORDS: Final = ("yes", "no", "  ", "", "maybe so", "käse", "\ud800", "a\x00b", "{}")
"""What is said: blank, empty, and what no store can hold, too."""
LONG: Final = "long " * 7_000


WINDOWS: Final = (1_200, 2_500, 6_000, 200_000)
"""Tokens that models take, by the seed: in most worlds so few that conversations are made shorter."""
OTHER: Final = "simulated:other"
"""The model that answers when the first cannot."""


class FakeModel:
    """A model that says anything and sometimes nothing."""

    def __init__(self, universe: Universe, name: str = "simulated:model") -> None:
        self._universe = universe
        self._name = name

    @property
    def name(self) -> str:
        """As it is written in the log."""
        return self._name

    @property
    def format(self) -> str:
        """The wire format whose rules are the strictest."""
        return "anthropic"

    @property
    def facts(self) -> ModelFacts:
        """What is known of it: how little it takes, and whether it can summarise."""
        seed = self._universe.seed
        return ModelFacts(window=WINDOWS[seed % len(WINDOWS)], max_output=200, summarises=seed % 3 > 0)

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Answer, or fail in one of the ways in which providers fail."""
        universe, dice = self._universe, self._universe.dice("model")
        await universe.dawdle("model", 2.0)
        if universe.happens("model", 0.1):
            wait = dice.choice((None, 0.5, 20.0, 500.0))
            raise ProviderError(dice.choice(KINDS), "The provider is busy.", retry_after_s=wait)
        parts: list[InFlightPart] = []
        if dice.random() < 0.2:
            parts.append(Reasoning(text=dice.choice(WORDS)))
            yield ReasoningDelta(text=dice.choice(WORDS))
        if dice.random() < 0.8:
            parts.append(Text(text=dice.choice(WORDS)))
            yield TextDelta(text="say")
            await universe.dawdle("model", 1.0)
            yield TextDelta(text="ing")
        await self._fail()
        if universe.happens("model", 0.03):
            return  # the stream is cut
        parts += [_call(dice.choice(NAMES), dice.random(), number) for number in range(self._calls(request))]
        usage = Usage(input=_size(request), output=50) if dice.random() < 0.8 else None
        reply = ModelReply(parts=tuple(parts), usage=usage)
        yield reply
        if universe.happens("model", 0.02):
            yield reply

    async def _fail(self) -> None:
        universe, dice = self._universe, self._universe.dice("model")
        if universe.happens("model", 0.05):
            raise ProviderError(dice.choice(KINDS), "The provider is not well.")
        if universe.happens("model", 0.02):
            raise ValueError("The adapter is not well.")
        if universe.happens("model", 0.02):
            await anyio.sleep_forever()

    def _calls(self, request: ModelRequest) -> int:
        """How many calls: fewer the longer the turn is."""
        rounds = 0
        for message in reversed(request.messages):
            if message.role == "user":
                break
            rounds += message.role == "assistant"
        return self._universe.dice("model").choice((0, 0, 1, 1, 2, 4)) if rounds < 2 and request.tools else 0


def _size(request: ModelRequest) -> int:
    """About the tokens of a request, as a provider counts them that counts otherwise than we do."""
    texts = sum(len(text_of(part.content if isinstance(part, ToolResult) else (part,))) for part in _parts(request))
    return 300 + 12 * len(request.messages) + texts // 3


def _parts(request: ModelRequest) -> Iterator[InFlightPart]:
    return (part for message in request.messages for part in message.parts)


def _call(name: str, luck: float, number: int) -> ToolCall:
    args = '{"n": 1}' if luck < 0.9 else "{broken" if luck < 0.95 else '{"m": 1}'
    if name == "delegate" and luck < 0.9:
        args = '{"prompt": "What do you think?"}'
    return ToolCall(id="", name=name, args=args, provider_id=f"p{number}")


def _spec(name: str, effect: Effect = "once") -> ToolSpec:
    return ToolSpec(name=name, description=name, schema={"type": "object"}, effect=effect)


def _said(event: str, **fields: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


SPECS: Final = (
    replace(_spec("look", "pure"), concurrent=True),
    _spec("count", "pure"),
    _spec("put", "idempotent"),
    _spec("book", "reconcilable"),
    _spec("pay"),
    replace(_spec("order"), asks=True),
    _spec("stumble"),
    _spec("stubborn"),
    replace(_spec("delegate"), child=True),
)
NAMES: Final = (
    "look",
    "look",
    "put",
    "book",
    "pay",
    *(spec.name for spec in SPECS),
    *(spec.name for spec in SPECS[:6]),
    "no",
)
HOOKS: Final[dict[str, tuple[dict[str, object], ...]]] = {
    "PreToolUse": (
        _said("PreToolUse", permissionDecision="deny"),
        _said("PreToolUse", permissionDecision="ask"),
        _said("PreToolUse", permissionDecision="allow", updatedInput={"n": 2}),
    ),
    "PermissionRequest": (
        _said("PermissionRequest", decision={"behavior": "deny"}),
        _said("PermissionRequest", decision={"behavior": "allow"}),
        _said("PermissionRequest", decision={"behavior": "allow", "updatedInput": {"n": 3}}),
    ),
    "PostToolUse": (
        _said("PostToolUse", additionalContext="Well done."),
        {"decision": "block", "reason": "Look again."},
    ),
    "Stop": ({"decision": "block", "reason": "Go on."},),
}
"""What hooks say, besides nothing."""
ONCE: Final = frozenset(spec.name for spec in SPECS if spec.effect == "once")


def fake_tools(universe: Universe, process: MortalProcess, ledger: EffectLedger) -> list[Tool]:
    """The tools of a simulated process; now and then one that an earlier process had is not there any more."""
    missing = universe.dice("tools").choice(SPECS).name if universe.happens("tools", 0.15) else ""
    return [FakeTool(spec, universe, process, ledger) for spec in SPECS if spec.name != missing]


class FakeTool(Struct, frozen=True):
    """A tool that takes its time, breaks, hangs, or does not want to stop."""

    spec: ToolSpec
    universe: Universe
    process: MortalProcess
    ledger: EffectLedger

    def problem(self, args: dict[str, object]) -> str:
        """Why these arguments cannot be used."""
        wanted = "prompt" if self.spec.child else "n"
        return "" if wanted in args else f"{wanted!r} is missing."

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Do it, perhaps."""
        dice = self.universe.dice("tool")
        await self.universe.dawdle("tool", 3.0)
        self.process.check()
        self.ledger.effects[self.spec.name, context.key] += 1
        context.show("on it ")
        if self.spec.name == "stubborn":
            with anyio.CancelScope(shield=True):
                await anyio.sleep(dice.random() * 12)
        await self.universe.dawdle("tool", 3.0)
        if self.spec.name == "stumble":
            raise ValueError("stumbled")
        if self.universe.happens("tool", 0.01):
            await anyio.sleep_forever()
        return ToolOutput(text=LONG if dice.random() < 0.005 else dice.choice(WORDS), failed=dice.random() < 0.1)

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Look it up in the ledger."""
        await self.universe.dawdle("tool", 1.0)
        return ToolOutput(text="had been done") if self.ledger.effects[self.spec.name, context.key] else None


def fake_hooks(universe: Universe) -> list[Hook]:
    """In every fourth world, hooks that take their time and say anything."""
    return [_hook(universe, event) for event in HOOKS] if universe.seed % 4 == 1 else []


def _hook(universe: Universe, event: str) -> Hook:
    @hook(event, matcher="pay|order|put|look" if "Tool" in event else "")
    async def say(told: dict[str, object]) -> dict[str, object] | None:
        dice = universe.dice("hook")
        await universe.dawdle("hook", 4.0)
        if universe.happens("hook", 0.02):
            raise RuntimeError("the hook is not well")
        return dice.choice((None, None, *HOOKS[event]))

    return say


async def answer(universe: Universe, question: Question) -> Answer:
    """Decide about a call, or fail to."""
    dice = universe.dice("person")
    await universe.dawdle("person", 5.0)
    if universe.happens("person", 0.05):
        raise RuntimeError("nobody is at home")
    return Answer(allowed=dice.random() < 0.7, grant=dice.choice(("once", "session")), message=dice.choice(("", "no")))


if TYPE_CHECKING:
    _model: Model = FakeModel(cast("Universe", None))
    _tool: Tool = cast("FakeTool", None)
