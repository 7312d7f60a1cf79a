"""What a hook's end means: exit codes, JSON, plain text, and failures, which are never a yes."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.hooks.events import EVENTS
from backstay.hooks.merge import HookAnswer
from backstay.hooks.spec import HookSpec, PromptHook
from backstay.logic.secrets.known_values import repeated_name
from backstay.vocab.event import Decision

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


CONTEXT: Final = 10_000
"""Characters of context, and of a reason, that one hook may add."""
NOTE: Final = 2_000
"""Characters of what a person is told."""

_DECIDING: Final = frozenset(("decision", "permissionDecision", "hookSpecificOutput", "continue"))
_FIRST_BRACE: Final = re.compile(r"^[^{\n]*\{", re.MULTILINE)
_MOST_BRACES: Final = 1_000
"""Lines in which an answer is looked for."""
_DECODER: Final = json.JSONDecoder()
_FENCE: Final = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_KNOWN_EXITS: Final = {126: " (it cannot be executed)", 127: " (it was not found)"}


def read_answer(
    event: str,
    *,
    spec: HookSpec,
    exit_code: int = 0,
    stdout: str = "",
    stderr: str = "",
    timed_out: bool = False,
    failed: str = "",
    cut: bool = False,
) -> HookAnswer:
    """What a hook said, by how it ended. `cut`: it wrote more than was kept.

    Exit 2 refuses, whatever the output says. With any other code JSON decides; without JSON, 0 means no objection, and the rest are
    failures. A failure refuses or not, as the hook's `on_failure` says; a refusal that was understood stands in any case.
    """
    if timed_out:
        return _failure(spec, f"it took longer than {spec.timeout:g} seconds")
    if failed:
        return _failure(spec, failed)
    said, plain = _read_output(event, stdout, cut=cut)
    if exit_code == 2:
        return _exit_2(spec, said, stderr)
    if said is None:
        if exit_code != 0:
            return _failure(spec, _ended(exit_code, stderr))
        added = plain if EVENTS[event].text else ""
        return HookAnswer(hook=spec.id, event=event, label=spec.label, context=shorten(added))
    if exit_code < 0:
        said.problems.append(_ended(exit_code, stderr))
    return _spoken(spec, said)


def read_ok(event: str, text: str, *, spec: HookSpec) -> HookAnswer:
    """What a model said that was asked: `{"ok": true}`, or `{"ok": false, "reason": "..."}`."""
    fenced = _FENCE.fullmatch(text)
    content = _object(fenced[1] if fenced else text.strip())
    ok = content.get("ok") if content is not None else None
    if content is None or repeated_name(fenced[1] if fenced else text.strip()) or not isinstance(ok, bool):
        return _failure(spec, f'the answer is not like {{"ok": true}}: {shorten(text.strip(), 200)!r}')
    told = content.get("reason")
    if ok or (content.get("impossible") is True and event in ("Stop", "SubagentStop")):
        notes = (shorten(str(told), NOTE),) if not ok and told else ()
        return HookAnswer(hook=spec.id, event=event, label=spec.label, notes=notes)
    reason = shorten(told) if isinstance(told, str) and told.strip() else f"A hook of {event} says no."
    goes_on = isinstance(spec.handler, PromptHook) and spec.handler.goes_on
    ends = not goes_on and EVENTS[event].decides in ("step", "result") and event not in ("Stop", "SubagentStop")
    return _refusal(spec, reason, stops=ends, notes=() if EVENTS[event].decides else (shorten(reason, NOTE),))


def is_ok_form(text: str) -> bool:
    """Whether an answer is in the form of a model's, and decides nothing otherwise."""
    content = _object(text.strip())
    return content is not None and "ok" in content and not (_DECIDING & content.keys())


def shorten(text: str, most: int = CONTEXT) -> str:
    """`text`, cut where it is longer than `most` characters, with a word about it."""
    text = text.strip()
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} characters are left out here]"


def _read_output(event: str, stdout: str, *, cut: bool) -> tuple[Said | None, str]:
    """What was said in JSON, or the plain text."""
    text = stdout.removeprefix("\ufeff").strip()
    content = None if cut or not text.startswith("{") else _object(text)
    if EVENTS[event].decides and (why := _unclear(text, content, cut=cut)):
        return Said(event, problems=[why]), ""
    return (None, text) if content is None else (read_said(event, content), "")


def _unclear(text: str, content: dict[str, object] | None, *, cut: bool) -> str:
    """Why it is not certain what a hook that decides said; empty when it is."""
    if cut:
        return "it wrote too much"
    if content is not None:
        name = repeated_name(text)
        return f"its output says {name!r} twice" if name else ""
    if "\0" in text and any(name in text.replace("\0", "") for name in _DECIDING):
        return "its output is an answer in another encoding than UTF-8"
    return "its output begins like JSON and is none" if text.startswith("{") else _hidden(text)


def _hidden(text: str) -> str:
    """Why plain text of a hook that decides is no plain text: the answer stands in it, behind something else."""
    if not any(name in text for name in _DECIDING):
        return ""
    found = "its output has other text before the JSON"
    for count, brace in enumerate(_FIRST_BRACE.finditer(text)):
        if count >= _MOST_BRACES:
            return found
        try:
            content, _ = _DECODER.raw_decode(text, brace.end() - 1)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, dict) and _DECIDING & content.keys():
            return found
    return ""


def _object(text: str) -> dict[str, object] | None:
    try:
        content = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _spoken(spec: HookSpec, said: Said) -> HookAnswer:
    """The answer that was said; one with mistakes counts as a failure, unless it refuses."""
    if said.problems and not (said.refused or said.stops):
        failure = _failure(spec, "; ".join(each.rstrip(".") for each in said.problems), said.notes)
        asks = said.decision == "ask" and failure.decision is None
        return replace(failure, decision="ask", reason=shorten(said.reason)) if asks else failure
    notes = [*said.notes, *(f"{spec.label}: {problem}" for problem in said.problems)]
    decision, args = said.decision, said.args
    if spec.doubt and (decision == "allow" or args):
        notes.append(f"{spec.label}: it cannot be told what it is for, so it may not allow or change anything.")
        decision, args = None if decision == "allow" else decision, ""
    blocked, context = said.refused, said.context
    if said.stops:
        decision, blocked = _stopped(said.event)
    elif blocked and EVENTS[said.event].decides == "result":
        context = "\n".join(filter(None, (said.reason, context)))
    return HookAnswer(
        hook=spec.id,
        event=said.event,
        label=spec.label,
        decision=decision,
        blocked=blocked,
        reason=shorten(said.reason or (f"A hook of {said.event} refused." if blocked and not context else "")),
        args="" if decision == "deny" else args,
        context=shorten(context) if EVENTS[said.event].context else "",
        output=said.output,
        notes=tuple(shorten(note, NOTE) for note in notes),
        stops=said.stops,
    )


def _stopped(event: str) -> tuple[Decision | None, bool]:
    """Whoever ends the turn refuses the step; at its end there is nothing to refuse."""
    if EVENTS[event].decides == "call":
        return "deny", True
    return None, EVENTS[event].decides == "step" and event not in ("Stop", "SubagentStop")


def _exit_2(spec: HookSpec, said: Said | None, stderr: str) -> HookAnswer:
    """Exit 2: what it refuses, and to whom it says why. JSON may give the reason; it undoes nothing."""
    facts = spec.facts
    reason = shorten((said.reason if said else "") or stderr)
    notes = tuple(shorten(note, NOTE) for note in said.notes) if said else ()
    if said is not None and (said.stops or said.decision == "deny"):
        return _refusal(spec, reason, stops=said.stops, notes=notes)
    if facts.exit_2 in ("blocks", "model"):
        return _refusal(spec, reason, notes=notes)
    told = f"{spec.label}: {shorten(reason, NOTE) or 'it ended with exit 2'}"
    if facts.exit_2 == "ignored":
        told = f"{told} (exit 2 refuses nothing at {spec.event})"
    return HookAnswer(hook=spec.id, event=spec.event, label=spec.label, notes=(*notes, told))


def _refusal(
    spec: HookSpec, reason: str, *, stops: bool = False, notes: tuple[str, ...] = (), failed: str = ""
) -> HookAnswer:
    reason = reason or f"A hook of {spec.event} refused."
    decides = spec.facts.decides
    ends_turn = stops and spec.event in ("Stop", "SubagentStop")
    return HookAnswer(
        hook=spec.id,
        event=spec.event,
        label=spec.label,
        decision="deny" if decides == "call" else None,
        blocked=bool(decides) and not ends_turn and not (stops and decides == "result"),
        reason=reason,
        context=reason if decides == "result" and not stops else "",
        notes=notes,
        stops=stops,
        failed=failed,
    )


def _failure(spec: HookSpec, why: str, notes: list[str] | tuple[str, ...] = ()) -> HookAnswer:
    """A hook that could not answer: refuse, or go on as if it were not there; a person is told in any case."""
    why = shorten(why, NOTE)
    refuses = spec.on_failure == "block" and bool(spec.facts.decides)
    told = (
        "so it was refused; 'onFailure': 'continue' in its settings would let it pass"
        if refuses
        else "and was passed over"
    )
    said = (*notes, f"The hook {spec.label!r} ({spec.event}) failed: {why}, {told}.")
    if refuses:
        return _refusal(
            spec,
            f"The hook {spec.label!r} of {spec.event} failed, and nothing passes without it: {why}.",
            notes=said,
            failed=why,
        )
    return HookAnswer(hook=spec.id, event=spec.event, label=spec.label, notes=said, failed=why)


def _ended(exit_code: int, stderr: str) -> str:
    how = f"it was killed by signal {-exit_code}" if exit_code < 0 else f"it ended with exit {exit_code}"
    words = shorten(stderr, 500)
    return f"{how}{_KNOWN_EXITS.get(exit_code, '')}{f': {words}' if words else ''}"
