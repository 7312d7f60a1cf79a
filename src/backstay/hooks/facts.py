"""What the handlers of a hook event are told about it: facts that the folds of the session know."""

from collections.abc import Mapping

import msgspec

from backstay.logic.state.calls import EndedCall
from backstay.runtime.services import Services, whole_text
from backstay.vocab.events.tools import HookStarted
from backstay.vocab.messages import Text, TextRef, ToolCall, ToolResult

Facts = dict[str, object]


async def hook_facts(started: HookStarted, world: Services) -> Facts:
    """The facts of one event, under the names that people's scripts know."""
    return {**_common(world), **await _particular(started, world)}


def _common(world: Services) -> Facts:
    state = world.state
    facts: Facts = {
        "session_id": world.session,
        "transcript_path": "",
        "cwd": world.cwd,
        "permission_mode": world.mode,
    }
    if state.meta.parent:
        facts |= {"agent_id": world.session, "agent_type": world.policy().agent or "general-purpose"}
    return facts


async def _particular(started: HookStarted, world: Services) -> Mapping[str, object]:
    state, subject = world.state, started.subject
    match started.event:
        case "PreToolUse" | "PermissionRequest" | "PermissionDenied":
            return _about_call(started, world)
        case "PostToolUse" | "PostToolUseFailure":
            ended = next(call for call in state.progress.ended if call.id == subject)
            return await _about_result(started.event, ended, world)
        case "PostToolBatch":
            calls = [await _about_result("PostToolUse", call, world) for call in state.progress.ended]
            kept = ("tool_name", "tool_input", "tool_use_id", "tool_response")
            return {"tool_calls": [{name: call[name] for name in kept} for call in calls]}
        case "UserPromptSubmit":
            if raw := state.results.inputs.raw.get(subject):
                return {"prompt": raw, "source": "user"}
            parts = state.results.inputs.parts.get(subject, ())
            texts = tuple(part for part in parts if isinstance(part, Text | TextRef))
            return {"prompt": await whole_text(texts, world.store.blob), "source": "user"}
        case "SessionStart":
            return {"source": state.progress.hooks.source, "model": state.progress.model}
        case "SessionEnd":
            return {"reason": world.in_force.ending}
        case "Stop" | "StopFailure":
            return _about_end(started, world)
        case "PreCompact" | "PostCompact":
            return {"trigger": "manual" if state.progress.turn is None else "auto"}
        case "SubagentStart" | "SubagentStop":
            return {"agent_id": subject, "agent_type": "general-purpose"}
        case "PreModelSwitch" | "PostModelSwitch":
            return {"from_model": state.progress.model, "to_model": subject}
        case "Notification":
            return {"message": "A call waits for a decision.", "notification_type": "permission_prompt"}
        case _:
            return {}


def _about_call(started: HookStarted, world: Services) -> Facts:
    subject = started.subject.partition("~")[0]
    call = next((call for call in world.state.progress.calls if call.id == subject), None)
    if call is None and subject in world.included:
        return _called(subject, *world.included[subject])
    if call is None:  # a refused call has its result in the step that tells of it
        facts = _of_the_past(subject, world)
        return {**facts, "reason": "denied"} if started.event == "PermissionDenied" else facts
    facts = _called(call.id, call.name, call.args)
    if started.event == "PermissionRequest":
        del facts["tool_use_id"]
        facts["permission_suggestions"] = [{"rule": offer} for offer in call.offers]
    return facts


def _of_the_past(call: str, world: Services) -> Facts:
    """A call as the model wrote it, from the conversation."""
    for message in reversed(world.state.transcript.messages):
        for part in message.content:
            if isinstance(part, ToolCall) and part.id == call:
                return _called(part.id, part.name, part.args)
    return {}


async def _about_result(event: str, call: EndedCall, world: Services) -> Facts:
    facts = {**_called(call.id, call.name, call.args), "duration_ms": call.took_ms}
    text = await _result_text(call.id, world)
    if event == "PostToolUseFailure":
        return {**facts, "error": text, "is_interrupt": call.outcome == "interrupted"}
    return {**facts, "tool_response": text}


def _called(id: str, name: str, args: str) -> Facts:
    return {"tool_name": name, "tool_input": msgspec.json.decode(args), "tool_use_id": id}


async def _result_text(call: str, world: Services) -> str:
    for message in reversed(world.state.transcript.messages):
        part = message.content[0]
        if isinstance(part, ToolResult) and part.call == call:
            texts = tuple(each for each in part.content if isinstance(each, Text | TextRef))
            return await whole_text(texts, world.store.blob)
    return ""


def _about_end(started: HookStarted, world: Services) -> Facts:
    state = world.state
    turn = state.progress.turn
    result = state.results.turns.get(turn.id if turn is not None else started.subject)
    said = result.text if result is not None else ""
    held = turn is not None and turn.held > 0
    if started.event == "Stop":
        return {"stop_hook_active": held, "last_assistant_message": said}
    code = result.code if result is not None else ""
    return {"error": code or "unknown", "last_assistant_message": said}
