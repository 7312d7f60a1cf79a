"""The JSON that a hook answers with: every field that decides something is checked, and what is wrong is never a yes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct, field

from holdfast.logic.hooks.events import EVENTS
from holdfast.vocab.event import Decision

_CALL_FIELDS: Final = ("permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext")
_BEHAVIOUR: Final[Mapping[str, Decision]] = {"allow": "allow", "deny": "deny"}
_PERMISSION: Final[Mapping[str, Decision]] = {"allow": "allow", "deny": "deny", "ask": "ask", "defer": "ask"}
_MISPLACED: Final[Mapping[str, Sequence[str]]] = {
    "": ("continue", "decision", "hookSpecificOutput"),
    "PreToolUse": ("permissionDecision", "updatedInput"),
    "PermissionRequest": ("decision",),
}
"""What decides, by where it stands: in the answer itself, and in what is specific to an event."""
_UNUSED: Final = (
    *("sessionTitle", "initialUserMessage", "watchPaths", "reloadSkills", "classifierContext", "updatedPermissions"),
)
"""Fields that are understood and have no effect: a hook adds to what is said, it does not grant or rename."""


class Said(Struct):
    """What was found in an answer so far."""

    event: str
    decision: Decision | None = None
    refused: bool = False
    reason: str = ""
    args: str = ""
    context: str = ""
    output: str | None = None
    notes: list[str] = field(default_factory=list)
    stops: bool = False
    problems: list[str] = field(default_factory=list)

    def decide(self, decision: Decision) -> None:
        """Take a decision, unless a stricter one was found."""
        order = ("deny", "ask", "allow")
        if self.decision is None or order.index(decision) < order.index(self.decision):
            self.decision = decision
        self.refused = self.refused or decision == "deny"


def read_said(event: str, content: Mapping[str, object]) -> Said:
    """Read an answer. What is wrong with it is listed, and what was understood stands beside it."""
    said = Said(event)
    if EVENTS[event].decides:
        said.problems.extend(_misplaced(event, content))
    _universal(said, content)
    _top_level(said, content)
    own = content.get("hookSpecificOutput")
    if own is None:
        return said
    if not isinstance(own, dict):
        said.problems.append(f"hookSpecificOutput: {own!r} is not an object.")
        return said
    named = own.get("hookEventName")
    if named is not None and named != event:
        said.problems.append(f"hookEventName: it answers {named!r}, and {event} was asked.")
        return said
    said.notes.extend(f"{name} has no effect here." for name in _UNUSED if own.get(name) is not None)
    said.context = _text(said, own, "additionalContext")
    if reader := _SPECIFIC.get(event):
        reader(said, own)
    return said


def _misplaced(event: str, content: Mapping[str, object]) -> Iterator[str]:
    """Words that decide, spelled otherwise or in another place than where they are read."""
    own = content.get("hookSpecificOutput")
    names = {_plainly(name): name for known in _MISPLACED.values() for name in known}
    for place, known in ((content, _MISPLACED[""]), (own, _MISPLACED.get(event, ()))):
        for name in place if isinstance(place, Mapping) else ():
            meant = names.get(_plainly(name))
            if meant is not None and name not in known and (place is own or name not in _CALL_FIELDS):
                yield f"{name}: it decides nothing here."


def _plainly(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _universal(said: Said, content: Mapping[str, object]) -> None:
    goes_on = content.get("continue")
    if goes_on is False:
        said.stops = True
        said.reason = _text(said, content, "stopReason")
    elif goes_on is not None and goes_on is not True:
        said.problems.append(f"continue: {goes_on!r} is neither true nor false.")
    if message := _text(said, content, "systemMessage"):
        said.notes.append(message)


def _top_level(said: Said, content: Mapping[str, object]) -> None:
    match content.get("decision"):
        case None:
            pass
        case "block" if EVENTS[said.event].decides:
            said.refused = True
            said.reason = said.reason or _text(said, content, "reason")
            if EVENTS[said.event].decides == "call":
                said.decide("deny")
        case "block":
            said.notes.append(f"Nothing can be blocked at {said.event}.")
        case "approve":
            if said.event == "PreToolUse":
                said.decide("allow")
                said.reason = said.reason or _text(said, content, "reason")
        case other:
            said.problems.append(f"decision: {other!r} is neither 'block' nor 'approve'.")
    if said.event == "PreToolUse" and (lost := [name for name in _CALL_FIELDS if name in content]):
        said.problems.append(f"{', '.join(lost)} must stand in hookSpecificOutput.")
        if content.get("permissionDecision") == "deny":
            said.decide("deny")
            said.reason = said.reason or _text(said, content, "permissionDecisionReason")


def _about_call(said: Said, own: Mapping[str, object]) -> None:
    value = own.get("permissionDecision")
    if value is not None:
        decision = _PERMISSION.get(value) if isinstance(value, str) else None
        if decision is None:
            said.problems.append(f"permissionDecision: {value!r} is none of allow, deny, ask and defer.")
        else:
            said.decide(decision)
        if value == "defer":
            said.notes.append("It wants the call to wait; a person is asked instead.")
        said.reason = said.reason or _text(said, own, "permissionDecisionReason")
    _arguments(said, own)


def _about_request(said: Said, own: Mapping[str, object]) -> None:
    value = own.get("decision")
    if value is None:
        return
    behaviour = value.get("behavior") if isinstance(value, dict) else value
    decision = _BEHAVIOUR.get(behaviour) if isinstance(behaviour, str) else None
    if not isinstance(value, dict) or decision is None:
        said.problems.append(f"decision.behavior: {behaviour!r} is neither 'allow' nor 'deny'.")
        return
    said.decide(decision)
    said.reason = said.reason or _text(said, value, "message")
    if value.get("updatedPermissions"):
        said.notes.append("updatedPermissions has no effect here: only a person grants more than the call.")
    if decision == "deny":
        said.stops = said.stops or value.get("interrupt") is True
    else:
        _arguments(said, value)


def _about_result(said: Said, own: Mapping[str, object]) -> None:
    for name in ("updatedToolOutput", "updatedMCPToolOutput"):
        value = own.get(name)
        if value is not None:
            said.output = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            return


def _about_stop(said: Said, own: Mapping[str, object]) -> None:
    said.refused = said.refused or bool(said.context)  # what is added there is what the turn goes on about


def _about_denial(said: Said, own: Mapping[str, object]) -> None:
    if own.get("retry") is True:
        said.context = "\n".join(filter(None, (said.context, "A hook says that this call may be tried again.")))


_SPECIFIC: Final[Mapping[str, Callable[[Said, Mapping[str, object]], None]]] = {
    "PreToolUse": _about_call,
    "PermissionRequest": _about_request,
    "PostToolUse": _about_result,
    "Stop": _about_stop,
    "SubagentStop": _about_stop,
    "PermissionDenied": _about_denial,
}


def _arguments(said: Said, own: Mapping[str, object]) -> None:
    value = own.get("updatedInput")
    if value is None:
        return
    if not isinstance(value, dict):
        said.problems.append(f"updatedInput: {value!r} is not an object of arguments.")
        return
    said.args = msgspec.json.encode(value).decode()


def _text(said: Said, content: Mapping[str, object], name: str) -> str:
    value = content.get(name)
    if value is not None and not isinstance(value, str):
        said.problems.append(f"{name}: {value!r} is not a text.")
        return ""
    return value or ""
