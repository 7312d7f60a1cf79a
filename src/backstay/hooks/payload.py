"""Build the input of a hook: one JSON object, with the names that hook scripts know."""

from collections.abc import Mapping
from typing import Final

from backstay.hooks.events import EVENTS
from backstay.vocab.errors import Bug

RESPONSE: Final = 500
"""Characters of the answer that `response` has; `last_assistant_message` has all of it."""

_ALWAYS: Final = ("session_id", "transcript_path", "cwd")
_WHEN_KNOWN: Final = ("prompt_id", "permission_mode", "agent_id", "agent_type", "effort")

_CALL: Final[Mapping[str, object]] = {"tool_name": "", "tool_input": {}}
_ID: Final[Mapping[str, object]] = {"tool_use_id": ""}
_STOP: Final[Mapping[str, object]] = {
    "stop_hook_active": False,
    "last_assistant_message": "",
    "background_tasks": [],
    "session_crons": [],
}
_SWITCH: Final = (
    *("requested_model", "source", "context_tokens", "prompt_cache_warm", "cache_ttl"),
    *("estimated_cache_write_usd", "pricing"),
)

FIELDS: Final[Mapping[str, Mapping[str, object]]] = {
    "PreToolUse": {**_CALL, **_ID},
    "PostToolUse": {**_CALL, **_ID, "tool_response": "", "duration_ms": 0},
    "PostToolUseFailure": {**_CALL, **_ID, "error": "", "is_interrupt": False, "duration_ms": 0},
    "PostToolBatch": {"tool_calls": []},
    "PermissionRequest": {**_CALL, "permission_suggestions": []},
    "PermissionDenied": {**_CALL, **_ID, "reason": ""},
    "UserPromptSubmit": {"prompt": "", "source": "user"},
    "SessionStart": {"source": "startup"},
    "SessionEnd": {"reason": "other"},
    "Stop": _STOP,
    "StopFailure": {"error": ""},
    "SubagentStart": {"agent_id": "", "agent_type": ""},
    "SubagentStop": {**_STOP, "agent_id": "", "agent_type": "", "agent_transcript_path": ""},
    "PreCompact": {"trigger": "manual", "custom_instructions": ""},
    "PostCompact": {"trigger": "manual", "compact_summary": ""},
    "PreModelSwitch": {"from_model": "", "to_model": ""},
    "PostModelSwitch": {"from_model": "", "to_model": ""},
    "Notification": {"message": "", "notification_type": ""},
}
"""The fields of each event that fires, with their values when nothing is known."""

_OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "PreToolUse": ("mcp_server",),
    "PostToolUse": ("mcp_server",),
    "PostToolUseFailure": ("mcp_server",),
    "UserPromptSubmit": ("session_title",),
    "SessionStart": ("model", "session_title"),
    "StopFailure": ("error_details", "last_assistant_message", "stop_hook_active"),
    "SubagentStop": ("reason",),
    "PreModelSwitch": _SWITCH,
    "PostModelSwitch": _SWITCH,
    "Notification": ("title",),
}

_SAMPLES: Final[Mapping[str, object]] = {
    "tool_name": "Bash",
    "tool_input": {"command": "echo hello"},
    "tool_use_id": "call-sample",
    "tool_response": "hello\n",
    "prompt": "hello",
    "error": "unknown",
    "agent_id": "agent-sample",
    "agent_type": "Explore",
    "message": "hello",
    "notification_type": "permission_prompt",
    "last_assistant_message": "hello",
}


def hook_input(event: str, facts: Mapping[str, object]) -> dict[str, object]:
    """Return the input of the hooks of `event`, made of the known facts under their names in the input.

    A fact that the event has no field for is a mistake of the program.
    """
    fields, optional = FIELDS[event], (*_WHEN_KNOWN, *_OPTIONAL.get(event, ()))
    if unknown := facts.keys() - {*_ALWAYS, *fields, *optional}:
        raise Bug(f"{event} has no field for {sorted(unknown)!r}.")
    payload: dict[str, object] = {name: facts.get(name, "") for name in _ALWAYS}
    payload["hook_event_name"] = event
    payload |= {name: facts[name] for name in optional if facts.get(name) is not None}
    payload |= {name: facts.get(name, usual) for name, usual in fields.items()}
    match event:
        case "Stop":
            payload["response"] = str(payload["last_assistant_message"])[:RESPONSE]
        case "StopFailure":
            payload["reason"] = payload["error"]
    return payload


def sample_input(event: str, *, cwd: str) -> dict[str, object]:
    """Return an input to try the hooks of `event` with."""
    facts = {name: _SAMPLES.get(name, usual) for name, usual in FIELDS[event].items()}
    common = {"session_id": "session-sample", "cwd": cwd, "permission_mode": "default"}
    return hook_input(event, {**common, **facts})


def find_matcher_value(event: str, payload: Mapping[str, object]) -> str:
    """Return the value that the matchers of `event` are compared with; empty when there is none."""
    field = EVENTS[event].matcher_field
    value = payload.get(field, "") if field else ""
    return value if isinstance(value, str) else ""
