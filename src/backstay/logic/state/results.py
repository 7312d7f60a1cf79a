"""The result of each input and each turn, over the whole log: a rewind does not undo an answer that was given."""

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from backstay.logic.budget import add, less
from backstay.logic.context_usage import ContextState
from backstay.logic.state.entries import Entry
from backstay.vocab import events
from backstay.vocab.event import Event, Recorded, ToolOutcome, TurnOutcome
from backstay.vocab.messages import DurablePart, InputPart, TextRef, ToolCall, text_of
from backstay.vocab.specs import Usage

DeniedBy = Literal["policy", "mode", "nobody", "person", "hook"]
"""Who denied a call. `policy`: a rule, or a check that denies by itself. `mode`: it would have been asked about, and the mode never asks.
`nobody`: there was no asker."""


class Denial(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call that was not allowed to run."""

    call: str
    tool: str
    args: str
    why: str
    reason: str = ""
    """The kind of reason for which it was denied, or would have been asked about: `rule`, `mode`, `critical` ..."""
    by: DeniedBy = "policy"
    offers: tuple[str, ...] = ()
    """Rules that would have allowed it, as narrow as what is shown."""
    remedies: tuple[str, ...] = ()
    """Where none is offered: rules that would have allowed it if the person had written them."""

    @property
    def halted(self) -> bool:
        """Whether it needed an answer and there was no one to give it."""
        return self.by in ("nobody", "mode")


class ToolSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call of a turn, and how it ended."""

    call: str
    tool: str
    outcome: ToolOutcome | TurnOutcome
    code: str = ""


class TurnResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One turn, as its caller sees it."""

    turn: str
    number: int
    started: int
    ended: int = 0
    outcome: TurnOutcome | None = None
    """None while it is open."""
    stop_reason: str = ""
    code: str = ""
    message: str = ""
    text: str = ""
    """What the model said last in this turn; never that of an earlier one. Of a very long answer only the head."""
    said: tuple[DurablePart, ...] = ()
    """The parts of a very long answer, from which the whole can be read."""
    rounds: int = 0
    usage: Usage = Usage()
    """Of every model call of the turn, failed ones, summaries and child sessions included."""
    cost: int = 0
    """Micro-cents of those calls, as far as their models have a price."""
    priced: int = 0
    """Calls whose cost is known. A child session counts as one."""
    unpriced: int = 0
    """Calls whose cost is not."""
    tools: tuple[ToolSummary, ...] = ()
    """The calls of tools that are over, in the order in which they ended."""
    denials: tuple[Denial, ...] = ()


class Inputs(msgspec.Struct, kw_only=True):
    """The inputs that were received, and the turn that answers each."""

    parts: dict[str, tuple[InputPart, ...]] = {}
    turn_of: dict[str, str] = {}
    dropped: set[str] = set()
    displays: dict[str, str] = {}
    """What is shown instead of an input, where that differs."""
    raw: dict[str, str] = {}
    """What hooks see instead of an input, where that differs."""


class Results:
    """The turns of a log and what each input led to."""

    __slots__ = ("_calls", "_children", "_verdicts", "inputs", "open", "turns")

    def __init__(
        self, turns: dict[str, TurnResult] | None = None, inputs: Inputs | None = None, open_turn: str = ""
    ) -> None:
        self.turns = turns if turns is not None else {}
        self.inputs = inputs if inputs is not None else Inputs()
        self.open = open_turn
        self._calls: dict[str, ToolCall] = {}
        self._verdicts: dict[str, events.CallJudged] = {}
        self._children: dict[str, tuple[Usage, int]] = {}
        """What the child sessions of the open turn have said that they spent."""

    def apply(self, record: Recorded) -> None:
        """Take an event in."""
        change = _FOLDS.get(type(record.event))
        if change is not None:
            change(self, record, record.event)

    def over(self) -> tuple[TurnResult, ...]:
        """Forget the turns that have ended, and what was received; return those turns."""
        ended = tuple(turn for turn in self.turns.values() if turn.turn != self.open)
        for turn in ended:
            del self.turns[turn.turn]
        self.inputs.parts.clear()
        self.inputs.displays.clear()
        self.inputs.raw.clear()
        return ended

    def _fold_dropped(self, record: Recorded, event: events.InputDropped) -> None:
        if record.by == "hook" and self.open:  # its turn says why
            self.inputs.turn_of.update(dict.fromkeys(event.inputs, self.open))
        else:
            self.inputs.dropped.update(event.inputs)

    def _fold_started(self, record: Recorded, event: events.TurnStarted) -> None:
        self.open = record.id
        self.turns[record.id] = TurnResult(turn=record.id, number=event.number, started=record.at)

    def _fold_taken(self, _: Recorded, event: events.InputTaken) -> None:
        self.inputs.turn_of.update(dict.fromkeys(event.inputs, self.open))

    def _fold_reply(self, _: Recorded, event: events.ModelReplied) -> None:
        if self.open:
            self._calls, self._verdicts = {call.id: call for call in events.calls_of(event)}, {}
            said = event.parts if any(isinstance(part, TextRef) for part in event.parts) else ()
            self._change(text=text_of(event.parts), said=said, rounds=self.turns[self.open].rounds + 1)
            self._spend(event.usage, event.cost)

    def _fold_paid(self, _: Recorded, event: events.ModelFailed | events.Compacted) -> None:
        self._spend(event.usage, event.cost)

    def _fold_judged(self, _: Recorded, event: events.CallJudged) -> None:
        self._verdicts[event.call] = event
        if event.decision == "deny":
            by: DeniedBy = "hook" if event.reason == "hook" else "policy"
            self._deny(event.call, event.detail, "mode" if event.unasked else by)

    def _fold_answer(self, _: Recorded, event: events.PermissionAnswered) -> None:
        if not event.allowed:
            self._deny(event.call, event.message or "refused", "nobody" if event.nobody else "person")
        elif event.args and event.call in self._calls:
            self._calls[event.call] = replace(self._calls[event.call], args=event.args)

    def _fold_hook(self, _: Recorded, event: events.HookFinished) -> None:
        if event.event == "PreToolUse" and event.args and event.subject in self._calls:
            self._calls[event.subject] = replace(self._calls[event.subject], args=event.args)
        elif event.event == "PermissionRequest" and event.decision == "deny":
            self._deny(event.subject, event.reason or "a hook refused it", "hook")

    def _fold_tool_end(self, _: Recorded, event: events.ToolFinished) -> None:
        self._add_summary(event.call, event.outcome, event.code)

    def _fold_child_pause(self, _: Recorded, event: events.ChildPaused) -> None:
        self._child_spent(event)

    def _fold_child_end(self, _: Recorded, event: events.ChildFinished) -> None:
        self._child_spent(event)
        self._add_summary(event.call, event.outcome)

    def _fold_completed(self, record: Recorded, event: events.TurnCompleted) -> None:
        self._change(
            outcome=event.outcome,
            stop_reason=event.stop_reason,
            code=event.code,
            message=event.message,
            ended=record.at,
        )
        self.open, self._calls, self._children = "", {}, {}

    def _fold_received(self, _: Recorded, event: events.InputReceived) -> None:
        self.inputs.parts[event.input] = event.parts
        if event.display:
            self.inputs.displays[event.input] = event.display
        if event.raw:
            self.inputs.raw[event.input] = event.raw

    def _change(self, **changes: object) -> None:
        if self.open:
            self.turns[self.open] = replace(self.turns[self.open], **changes)

    def _spend(self, usage: Usage | None, cost: int | None, calls: int = 1) -> None:
        if self.open and usage is not None:
            turn = self.turns[self.open]
            self._change(
                usage=add(turn.usage, usage),
                cost=turn.cost + (cost or 0),
                priced=turn.priced + (calls if cost is not None else 0),
                unpriced=turn.unpriced + (calls if cost is None else 0),
            )

    def _child_spent(self, event: events.ChildFinished | events.ChildPaused) -> None:
        """Add what a child says that it has spent in all; what it had said before is counted already."""
        if event.spent is None:
            return
        usage, cost = self._children.get(event.child, (Usage(), 0))
        fresh = 0 if event.child in self._children else 1
        self._children[event.child] = (event.spent, event.cost or 0)
        self._spend(less(event.spent, usage), None if event.cost is None else event.cost - cost, fresh)

    def _add_summary(self, call_id: str, outcome: ToolOutcome | TurnOutcome, code: str = "") -> None:
        call = self._calls.pop(call_id, None)
        if call is not None and self.open:
            summary = ToolSummary(call=call.id, tool=call.name, outcome=outcome, code=code)
            self._change(tools=(*self.turns[self.open].tools, summary))

    def _deny(self, call_id: str, why: str, by: DeniedBy) -> None:
        call = self._calls.get(call_id)
        if call is not None and self.open:
            verdict = self._verdicts.get(call_id)
            denial = Denial(
                call=call.id,
                tool=call.name,
                args=call.args,
                why=verdict.detail if verdict and by == "nobody" else why,
                reason="hook" if by == "hook" else verdict.reason if verdict else "",
                by=by,
                offers=verdict.offers if verdict else (),
                remedies=verdict.remedies if verdict else (),
            )
            self._change(denials=(*self.turns[self.open].denials, denial))


_FOLDS: Final[dict[type[Event], Callable[[Results, Recorded, Any], None]]] = {  # Any: each takes its own event
    events.InputReceived: Results._fold_received,
    events.InputDropped: Results._fold_dropped,
    events.InputTaken: Results._fold_taken,
    events.TurnStarted: Results._fold_started,
    events.TurnCompleted: Results._fold_completed,
    events.ModelReplied: Results._fold_reply,
    events.ModelFailed: Results._fold_paid,
    events.Compacted: Results._fold_paid,
    events.CallJudged: Results._fold_judged,
    events.PermissionAnswered: Results._fold_answer,
    events.HookFinished: Results._fold_hook,
    events.ToolFinished: Results._fold_tool_end,
    events.ChildFinished: Results._fold_child_end,
    events.ChildPaused: Results._fold_child_pause,
}
FOLDS_ON: Final = frozenset(_FOLDS)
"""The events that results are made of."""

CostStatus = Literal["unknown", "estimated", "exact"]
"""`unknown`: some call has no known price. `estimated`: the tokens are."""


class UsageSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one turn."""

    kind: Literal["exact", "estimated"]
    """`exact` when the provider counted every token."""
    scope: Literal["turn"] = "turn"
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    context_used: int
    context_max: int
    context_percentage: float
    cost: int | None
    """Micro-cents; None when no call has a known price."""
    cost_status: CostStatus

    @property
    def total(self) -> int:
        """Everything that was sent and received."""
        return self.input + self.output


def usage_snapshot(turn: TurnResult, context: ContextState) -> UsageSnapshot:
    """Return the figures of `turn`, with the context as it is after it."""
    usage = turn.usage
    counted = bool(turn.priced + turn.unpriced) and not usage.estimated
    return UsageSnapshot(
        kind="exact" if counted else "estimated",
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        reasoning=usage.reasoning,
        context_used=context.used,
        context_max=context.max,
        context_percentage=context.percentage,
        cost=turn.cost if turn.priced else None,
        cost_status="unknown" if turn.unpriced or not turn.priced else "exact" if counted else "estimated",
    )


class ExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one input, and how the session stands after it."""

    response: str
    """What the model said last in this turn."""
    history: tuple[Entry, ...]
    """The full history, this turn included."""
    tool_summaries: tuple[ToolSummary, ...]
    """The calls of this turn, in the order in which they ended."""
    context_state: ContextState
    usage: UsageSnapshot | None = None
    """None when no model was asked."""
