"""What became of each input and each turn, over the whole log: a rewind does not undo an answer that was given."""

from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.logic.usage import add
from holdfast.vocab.event import Event, Recorded, TurnOutcome
from holdfast.vocab.events import (
    CallJudged,
    ChildFinished,
    InputDropped,
    InputReceived,
    InputTaken,
    ModelReplied,
    PermissionAnswered,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
    calls_of,
)
from holdfast.vocab.messages import DurablePart, InputPart, TextRef, ToolCall, text_of
from holdfast.vocab.specs import Usage

HEARS: Final[frozenset[type[Event]]] = frozenset(
    (
        InputReceived,
        InputDropped,
        InputTaken,
        TurnStarted,
        TurnCompleted,
        ModelReplied,
        CallJudged,
        PermissionAnswered,
        ToolFinished,
        ChildFinished,
    )
)
"""The events that results are made of."""


class Denial(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call that was not allowed to run."""

    call: str
    tool: str
    args: str
    why: str
    halted: bool = False
    """Nobody could be asked."""


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
    """The parts of a very long answer, for whoever wants it whole."""
    rounds: int = 0
    usage: Usage = Usage()
    denials: tuple[Denial, ...] = ()


class Inputs(msgspec.Struct, kw_only=True):
    """What was received, and the turn that answers each."""

    parts: dict[str, tuple[InputPart, ...]] = {}
    turn_of: dict[str, str] = {}
    dropped: set[str] = set()


class Results:
    """The turns of a log and what each input led to."""

    __slots__ = ("_calls", "inputs", "open", "turns")

    def __init__(
        self, turns: dict[str, TurnResult] | None = None, inputs: Inputs | None = None, open_turn: str = ""
    ) -> None:
        self.turns = turns if turns is not None else {}
        self.inputs = inputs if inputs is not None else Inputs()
        self.open = open_turn
        self._calls: dict[str, ToolCall] = {}

    def apply(self, record: Recorded) -> None:
        """Take an event in."""
        event = record.event
        match event:
            case InputReceived():
                self.inputs.parts[event.input] = event.parts
            case InputDropped():
                self.inputs.dropped.update(event.inputs)
            case TurnStarted():
                self.open = record.id
                self.turns[record.id] = TurnResult(turn=record.id, number=event.number, started=record.at)
            case InputTaken():
                self.inputs.turn_of.update(dict.fromkeys(event.inputs, self.open))
            case ModelReplied() if self.open:
                self._calls = {call.id: call for call in calls_of(event)}
                turn = self.turns[self.open]
                usage = add(turn.usage, event.usage) if event.usage else turn.usage
                said = event.parts if any(isinstance(part, TextRef) for part in event.parts) else ()
                self._change(text=text_of(event.parts), said=said, rounds=turn.rounds + 1, usage=usage)
            case CallJudged(decision="deny"):
                self._deny(event.call, event.detail, halted=False)
            case PermissionAnswered(allowed=False):
                self._deny(event.call, event.message or "refused", halted=event.nobody)
            case ToolFinished() | ChildFinished():
                self._calls.pop(event.call, None)
            case TurnCompleted():
                self._change(
                    outcome=event.outcome,
                    stop_reason=event.stop_reason,
                    code=event.code,
                    message=event.message,
                    ended=record.at,
                )
                self.open, self._calls = "", {}
            case _:
                pass

    def _change(self, **changes: object) -> None:
        if self.open:
            self.turns[self.open] = replace(self.turns[self.open], **changes)

    def _deny(self, call_id: str, why: str, *, halted: bool) -> None:
        call = self._calls.get(call_id)
        if call is not None and self.open:
            denial = Denial(call=call.id, tool=call.name, args=call.args, why=why, halted=halted)
            self._change(denials=(*self.turns[self.open].denials, denial))
