"""The one object that `--output-format json` prints, and the last line of `stream-json`."""

import uuid
from typing import Final

import msgspec

from backstay.logic.fits import unfenced
from backstay.logic.pricing import DOLLAR
from backstay.logic.results import Denial, TurnResult
from backstay.view.account import Answered, Ended, Spent
from backstay.vocab.specs import ModelFacts, Usage

_NAMES: Final = uuid.UUID("0b5b5f0e-3f0a-5e0c-9d5e-8a4d6a1c7f21")
_SUBTYPES: Final = {
    "turn_limit": "error_max_turns",
    "budget": "error_max_budget_usd",
    "schema": "error_max_structured_output_retries",
}
"""What a turn's code is called in the convention; the others are `error_during_execution`."""
_STOPS: Final = {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "filter": "refusal"}


def result_object(session: str, ended: Ended) -> dict[str, object]:
    """A turn that is over or paused, in the shape that programs know."""
    result, account = ended.result, ended.account
    over = subtype(result)
    found: dict[str, object] = {
        "type": "result",
        "subtype": over,
        "is_error": over != "success",
        "duration_ms": max(0, (result.ended or account.last) - result.started) // 1000,
        "duration_api_ms": account.model_us // 1000,
        "num_turns": result.rounds,
        "result": ended.text,
        "stop_reason": stop_reason(result.stop_reason),
        "session_id": session,
        "total_cost_usd": usd(None if result.unpriced and not result.priced else result.cost),
        "usage": usage_object(result.usage),
        "modelUsage": {
            model: _model_usage(spent, ended.facts.get(model, ModelFacts()))
            for model, spent in account.by_model.items()
        },
        "permission_denials": [_denial(denial) for denial in result.denials],
        "errors": [result.message] if over != "success" and result.message else [],
        "uuid": stable_uuid(session, ended.key, "result"),
    }
    if over == "success" and account.structured:
        found["structured_output"] = arguments(unfenced(ended.text))
    return found


def command_object(session: str, answered: Answered) -> dict[str, object]:
    """A command that spoke to no model, in the shape of a turn: what it said is the result."""
    over = "success" if answered.success else "error_during_execution"
    return {
        "type": "result",
        "subtype": over,
        "is_error": not answered.success,
        "duration_ms": answered.took_us // 1000,
        "duration_api_ms": 0,
        "num_turns": 0,
        "result": answered.message,
        "stop_reason": None,
        "session_id": session,
        "total_cost_usd": usd(answered.cost),
        "usage": usage_object(Usage()),
        "modelUsage": {},
        "permission_denials": [],
        "errors": [] if answered.success else [answered.message],
        "command": answered.name,
        "command_data": dict(answered.content),
        "uuid": stable_uuid(session, answered.key, "command"),
    }


def subtype(result: TurnResult) -> str:
    """How the turn ended, in the convention's words."""
    if result.outcome == "completed":
        return "success"
    if result.outcome is None:
        return "error_max_budget_usd"
    return _SUBTYPES.get(result.code, "error_during_execution")


def stop_reason(ours: str) -> str | None:
    """Why a model stopped, in the convention's words; None when that is not known."""
    return _STOPS.get(ours, ours) or None


def usage_object(usage: Usage) -> dict[str, object]:
    """Tokens in the convention's words: there, the input does not count what was cached."""
    return {
        "input_tokens": max(0, usage.input - usage.cache_read - usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }


def usd(microcents: int | None) -> float | None:
    """An amount in dollars; None when it is not known."""
    return None if microcents is None else microcents / DOLLAR


def stable_uuid(*names: str) -> str:
    """The same id for the same names, in every process."""
    return str(uuid.uuid5(_NAMES, "\n".join(names)))


def _model_usage(spent: Spent, facts: ModelFacts) -> dict[str, object]:
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
        "tool_input": arguments(denial.args),
        "reason": {"kind": denial.reason, "detail": denial.why},
        "denied_by": denial.by,
        "offers": denial.offers,
        "remedies": denial.remedies,
    }


def arguments(text: str) -> object:
    """A call's arguments as an object; text that is not JSON stays text."""
    try:
        found: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    return found
