"""Summarise the end of a turn: its totals, its exit code, and the result object of `json` and `stream-json`."""

import shlex
import uuid
from collections.abc import Iterable, Mapping
from typing import Final, assert_never

import msgspec
from msgspec import Struct, field

from backstay.logic.budget import DOLLAR, add
from backstay.logic.json_checks import strip_fence
from backstay.logic.secrets.redact import PLAIN
from backstay.logic.state.file_diffs import arguments
from backstay.logic.state.results import Denial, TurnResult
from backstay.logic.text import show_invisible
from backstay.vocab import events
from backstay.vocab.event import Recorded
from backstay.vocab.messages import DurablePart
from backstay.vocab.specs import ModelFacts, Usage

DONE: Final = 0
COULD_NOT_START: Final = 1
USAGE: Final = 2
HALTED: Final = 3
FAILED: Final = 4
INTERRUPTED: Final = 130

LIMIT_CODES: Final = frozenset({"turn_limit", "budget"})
"""Codes of turns that reached a limit of the caller."""


class ModelSpending(Struct, frozen=True):
    """The tokens and the cost of one model."""

    usage: Usage = field(default_factory=Usage)
    cost: int | None = None
    """Micro-cents of the calls that have a price; None when none has."""

    def plus(self, usage: Usage, cost: int | None) -> "ModelSpending":
        """Return the spending with one more call."""
        return ModelSpending(add(self.usage, usage), self.cost if cost is None else (self.cost or 0) + cost)


class TurnTotals:
    """The last reply of a turn, and the time, tokens and cost of its model calls; a fold outcome its events."""

    def __init__(self, records: Iterable[Recorded] = ()) -> None:
        self.reply: tuple[DurablePart, ...] = ()
        self.model_us = 0
        self.by_model: dict[str, ModelSpending] = {}
        self.last = 0
        """The time of the newest event."""
        self.structured = False
        """Whether the answer had to fit a schema."""
        self._asked = 0
        self._model = ""
        for record in records:
            self.apply(record)

    def apply(self, record: Recorded) -> None:
        """Fold one event."""
        event = record.event
        self.last = record.at
        match event:
            case events.ModelAsked():
                self._asked, self._model = record.at, event.model
                self.structured = "schema" in event.parameters
            case events.ModelReplied():
                self.reply = event.parts
                self._end_call(record.at)
                self._spend(self._model or event.model, event.usage or Usage(), event.cost)
            case events.ModelFailed():
                self._end_call(record.at)
                self._spend(self._model, event.usage, event.cost)
            case events.Compacted():
                self._spend(event.model, event.usage, event.cost)
            case _:
                pass

    def _end_call(self, at: int) -> None:
        self.model_us += max(0, at - self._asked) if self._asked else 0
        self._asked = 0

    def _spend(self, model: str, usage: Usage | None, cost: int | None) -> None:
        if usage is not None:
            self.by_model[model] = self.by_model.get(model, ModelSpending()).plus(usage, cost)


class SessionSummary(Struct, frozen=True, kw_only=True):
    """The tools, commands, agents and servers of a session when it is opened."""

    cwd: str
    tools: tuple[str, ...]
    model: str
    mode: str
    seq: int
    commands: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    plugins: tuple[tuple[str, str], ...] = ()
    """Names and folders."""
    servers: tuple[tuple[str, str, str], ...] = ()
    """Names, states and the scope that each was configured in."""


class FinishedCommand(Struct, frozen=True, kw_only=True):
    """A slash command that is over and that called no model of the session."""

    name: str
    message: str
    success: bool
    content: Mapping[str, object]
    """The data of the command, for programs."""
    key: str
    """A unique word for the `uuid` of its line."""
    seq: int
    took_us: int = 0
    cost: int = 0
    """Micro-cents; only a skill in a subagent costs any."""


class EndedTurn(Struct, frozen=True, kw_only=True):
    """A turn that is over."""

    result: TurnResult
    key: str
    """A unique word for the `uuid` of its line: the turn, if there was one."""
    totals: TurnTotals
    text: str
    """The final text, in full."""
    facts: Mapping[str, ModelFacts] = field(default_factory=dict)
    """The facts of the models that may have ended."""


def records_of_turn(log: Iterable[Recorded], turn: str) -> list[Recorded]:
    """Return the events of one turn, from its beginning to its end."""
    found: list[Recorded] = []
    for record in log:
        if found or (isinstance(record.event, events.TurnStarted) and record.id == turn):
            found.append(record)
        if isinstance(record.event, events.TurnCompleted) and record.event.turn == turn:
            break
    return found


def exit_code(result: TurnResult) -> int:
    """Return the exit code for a turn."""
    match result.outcome:
        case "completed":
            return HALTED if any(denial.halted for denial in result.denials) else DONE
        case "failed":
            return HALTED if result.code in LIMIT_CODES else FAILED
        case None:  # it is paused: the budget is spent
            return HALTED
        case _:
            return INTERRUPTED


def denial_in_words(denial: Denial, *, answerable: bool) -> str:
    """Return a line about a call that was not run, with what to type when no person could approve it."""
    start = f"{denial.tool}{_excerpt(denial.args)} was not run:"
    flags = " ".join(f"--allow {shlex.quote(rule)}" for rule in denial.offers or denial.remedies)
    match denial.by:
        case "policy" | "person" | "hook":
            return f"{start} {denial.why.rstrip('.')}."
        case "mode":
            advice = f" Allow it with {flags}." if flags else " No rule is offered for it."
            return f"{start} {denial.why.rstrip('.')}.{advice}"
        case "nobody" if answerable:
            return f"{start} it needs an approval, and the input ended without an answer."
        case "nobody" if denial.tool == "AskUserQuestion":
            return f"{start} nobody was there to answer. Answer with --input-format stream-json."
        case "nobody":
            advice = f"Allow it with {flags}, or answer" if flags else "No rule is offered for it. Answer"
            why = f"{start} it needs an approval, and nobody could be asked ({denial.why.rstrip('.')})."
            return f"{why} {advice} with --input-format stream-json."
        case _:
            assert_never(denial.by)


def _excerpt(text: str) -> str:
    """Return the beginning of the argument that says most about a call, on one line, without secrets; empty if it has none."""
    args = arguments(text)
    about = next((args[name] for name in _MAIN_ARGUMENTS if isinstance(args.get(name), str)), "")
    line = show_invisible(" ".join(PLAIN.text(str(about)).split()), keep="")
    return f" ({line if len(line) <= _EXCERPT else f'{line[:_EXCERPT]}...'})" if line else ""


_MAIN_ARGUMENTS: Final = ("command", "file_path", "notebook_path", "path", "url", "query", "pattern")
"""Arguments that say what a call is about."""
_EXCERPT: Final = 60

_NAMES: Final = uuid.UUID("0b5b5f0e-3f0a-5e0c-9d5e-8a4d6a1c7f21")
_SUBTYPES: Final = {
    "turn_limit": "error_max_turns",
    "budget": "error_max_budget_usd",
    "schema": "error_max_structured_output_retries",
}
"""The convention's names for our codes; every other code is `error_during_execution`."""
_STOPS: Final = {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "filter": "refusal"}


def result_object(session: str, ended: EndedTurn) -> dict[str, object]:
    """Return a turn that is over or paused in the convention's shape."""
    result, totals = ended.result, ended.totals
    outcome = subtype(result)
    found: dict[str, object] = {
        "type": "result",
        "subtype": outcome,
        "is_error": outcome != "success",
        "duration_ms": max(0, (result.ended or totals.last) - result.started) // 1000,
        "duration_api_ms": totals.model_us // 1000,
        "num_turns": result.rounds,
        "result": ended.text,
        "stop_reason": stop_reason(result.stop_reason),
        "session_id": session,
        "total_cost_usd": usd(None if result.unpriced and not result.priced else result.cost),
        "usage": usage_object(result.usage),
        "modelUsage": {
            model: _model_usage(spent, ended.facts.get(model, ModelFacts())) for model, spent in totals.by_model.items()
        },
        "permission_denials": [_denial(denial) for denial in result.denials],
        "errors": [result.message] if outcome != "success" and result.message else [],
        "uuid": stable_uuid(session, ended.key, "result"),
    }
    if outcome == "success" and totals.structured:
        found["structured_output"] = call_arguments(strip_fence(ended.text))
    return found


def command_object(session: str, ended: FinishedCommand) -> dict[str, object]:
    """Return a command that called no model in the shape of a turn: its message is the result."""
    outcome = "success" if ended.success else "error_during_execution"
    return {
        "type": "result",
        "subtype": outcome,
        "is_error": not ended.success,
        "duration_ms": ended.took_us // 1000,
        "duration_api_ms": 0,
        "num_turns": 0,
        "result": ended.message,
        "stop_reason": None,
        "session_id": session,
        "total_cost_usd": usd(ended.cost),
        "usage": usage_object(Usage()),
        "modelUsage": {},
        "permission_denials": [],
        "errors": [] if ended.success else [ended.message],
        "command": ended.name,
        "command_data": dict(ended.content),
        "uuid": stable_uuid(session, ended.key, "command"),
    }


def subtype(result: TurnResult) -> str:
    """Return how a turn ended, in the convention's words."""
    if result.outcome == "completed":
        return "success"
    if result.outcome is None:
        return "error_max_budget_usd"
    return _SUBTYPES.get(result.code, "error_during_execution")


def stop_reason(ours: str) -> str | None:
    """Return why a model stopped, in the convention's words; None when that is unknown."""
    return _STOPS.get(ours, ours) or None


def usage_object(usage: Usage) -> dict[str, object]:
    """Return tokens in the convention's words: its input leaves out cached tokens."""
    return {
        "input_tokens": max(0, usage.input - usage.cache_read - usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }


def usd(microcents: int | None) -> float | None:
    """Return an amount in dollars; None when it is unknown."""
    return None if microcents is None else microcents / DOLLAR


def stable_uuid(*names: str) -> str:
    """Return the same id for the same names in every process."""
    return str(uuid.uuid5(_NAMES, "\n".join(names)))


def _model_usage(spent: ModelSpending, facts: ModelFacts) -> dict[str, object]:
    usage = spent.usage
    return {
        "inputTokens": max(0, usage.input - usage.cache_read - usage.cache_write),
        "outputTokens": usage.output,
        "cacheReadInputTokens": usage.cache_read,
        "cacheCreationInputTokens": usage.cache_write,
        "webSearchRequests": 0,
        "costUSD": usd(spent.cost),
        "contextWindow": facts.window,
        "maxOutputTokens": facts.max_output,
    }


def _denial(denial: Denial) -> dict[str, object]:
    return {
        "tool_name": denial.tool,
        "tool_use_id": denial.call,
        "tool_input": call_arguments(denial.args),
        "reason": {"kind": denial.reason, "detail": denial.why},
        "denied_by": denial.by,
        "offers": denial.offers,
        "remedies": denial.remedies,
    }


def call_arguments(text: str) -> object:
    """Decode the arguments of a call; return text that is not JSON as it is."""
    try:
        found: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    return found
