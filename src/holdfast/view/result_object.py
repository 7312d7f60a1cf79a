"""The one object that `--output-format json` prints, and the last line of `stream-json`."""

import uuid
from typing import Final

import msgspec

from holdfast.logic.results import Denial, TurnResult
from holdfast.view.account import CEILINGS, Ended
from holdfast.vocab.specs import Usage

_NAMES: Final = uuid.UUID("0b5b5f0e-3f0a-5e0c-9d5e-8a4d6a1c7f21")
_STOPS: Final = {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "filter": "refusal"}


def result_object(session: str, ended: Ended) -> dict[str, object]:
    """A turn that is over, in the shape that programs know."""
    result, account = ended.result, ended.account
    over = subtype(result)
    return {
        "type": "result",
        "subtype": over,
        "is_error": over != "success",
        "duration_ms": max(0, result.ended - result.started) // 1000,
        "duration_api_ms": account.model_us // 1000,
        "num_turns": result.rounds,
        "result": ended.text,
        "stop_reason": stop_reason(result.stop_reason),
        "session_id": session,
        "total_cost_usd": cost(account.by_model),
        "usage": usage_object(result.usage),
        "modelUsage": {model: _model_usage(model, usage) for model, usage in account.by_model.items()},
        "permission_denials": [_denial(denial) for denial in result.denials],
        "errors": [result.message] if over != "success" and result.message else [],
        "uuid": stable_uuid(session, result.turn, "result"),
    }


def subtype(result: TurnResult) -> str:
    """How the turn ended, in the convention's words."""
    if result.outcome == "completed":
        return "success"
    return "error_max_turns" if result.code in CEILINGS else "error_during_execution"


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


def cost(by_model: dict[str, Usage]) -> float | None:
    """What the models cost in dollars: a script costs nothing, of others no price is known yet."""
    return 0.0 if all(model.startswith("scripted:") for model in by_model) else None


def stable_uuid(*names: str) -> str:
    """The same id for the same names, in every process."""
    return str(uuid.uuid5(_NAMES, "\n".join(names)))


def _model_usage(model: str, usage: Usage) -> dict[str, object]:
    return {
        "inputTokens": max(0, usage.input - usage.cache_read - usage.cache_write),
        "outputTokens": usage.output,
        "cacheReadInputTokens": usage.cache_read,
        "cacheCreationInputTokens": usage.cache_write,
        "webSearchRequests": 0,
        "costUSD": cost({model: usage}),
    }


def _denial(denial: Denial) -> dict[str, object]:
    return {"tool_name": denial.tool, "tool_use_id": denial.call, "tool_input": arguments(denial.args)}


def arguments(text: str) -> object:
    """A call's arguments as an object; text that is not JSON stays text."""
    try:
        found: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    return found
