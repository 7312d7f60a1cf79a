"""Read what a hook answered: exit codes, JSON, plain text, and failures, which are never a yes."""

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
from backstay.logic.json_checks import find_repeated_name
from backstay.logic.text import count_seconds
from backstay.vocab.event import Decision

_CALL_FIELDS: Final = ("permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext")
_BEHAVIOUR: Final[Mapping[str, Decision]] = {"allow": "allow", "deny": "deny"}
_PERMISSION: Final[Mapping[str, Decision]] = {"allow": "allow", "deny": "deny", "ask": "ask", "defer": "ask"}
_PLACES: Final[Mapping[str, Sequence[str]]] = {
    "": ("continue", "decision", "hookSpecificOutput"),
    "PreToolUse": ("permissionDecision", "updatedInput"),
    "PermissionRequest": ("decision",),
}
"""The keys that decide, by where they stand: in the answer itself, and in what is specific to an event."""
_UNUSED: Final = (
    *("sessionTitle", "initialUserMessage", "watchPaths", "reloadSkills", "classifierContext", "updatedPermissions"),
)
"""Fields that are known and have no effect: a hook adds to the conversation, it does not grant or rename."""


class ParsedOutput(Struct):
    """The parsed output of a hook."""

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
        """Take a decision unless a stricter one was found."""
        order = ("deny", "ask", "allow")
        if self.decision is None or order.index(decision) < order.index(self.decision):
            self.decision = decision
        self.refused = self.refused or decision == "deny"


def read_json(event: str, content: Mapping[str, object]) -> ParsedOutput:
    """Read a JSON answer. What is wrong with it is listed in `problems`; what was understood stands beside it."""
    parsed = ParsedOutput(event)
    if EVENTS[event].decides:
        parsed.problems.extend(_find_misplaced(event, content))
    _read_common(parsed, content)
    _read_top_level(parsed, content)
    own = content.get("hookSpecificOutput")
    if own is None:
        return parsed
    if not isinstance(own, dict):
        parsed.problems.append(f"hookSpecificOutput: {own!r} is not an object.")
        return parsed
    named = own.get("hookEventName")
    if named is not None and named != event:
        parsed.problems.append(f"hookEventName: it answers {named!r}, and {event} was asked.")
        return parsed
    parsed.notes.extend(f"{name} has no effect here." for name in _UNUSED if own.get(name) is not None)
    parsed.context = _text(parsed, own, "additionalContext")
    if reader := _SPECIFIC.get(event):
        reader(parsed, own)
    return parsed


def _find_misplaced(event: str, content: Mapping[str, object]) -> Iterator[str]:
    """Find keys that would decide but are spelled otherwise or stand in another place."""
    own = content.get("hookSpecificOutput")
    names = {_fold_name(name): name for known in _PLACES.values() for name in known}
    for place, known in ((content, _PLACES[""]), (own, _PLACES.get(event, ()))):
        for name in place if isinstance(place, Mapping) else ():
            meant = names.get(_fold_name(name))
            if meant is not None and name not in known and (place is own or name not in _CALL_FIELDS):
                yield f"{name}: it decides nothing here."


def _fold_name(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _read_common(parsed: ParsedOutput, content: Mapping[str, object]) -> None:
    continues = content.get("continue")
    if continues is False:
        parsed.stops = True
        parsed.reason = _text(parsed, content, "stopReason")
    elif continues is not None and continues is not True:
        parsed.problems.append(f"continue: {continues!r} is neither true nor false.")
    if message := _text(parsed, content, "systemMessage"):
        parsed.notes.append(message)


def _read_top_level(parsed: ParsedOutput, content: Mapping[str, object]) -> None:
    match content.get("decision"):
        case None:
            pass
        case "block" if EVENTS[parsed.event].decides:
            parsed.refused = True
            parsed.reason = parsed.reason or _text(parsed, content, "reason")
            if EVENTS[parsed.event].decides == "call":
                parsed.decide("deny")
        case "block":
            parsed.notes.append(f"Nothing can be blocked at {parsed.event}.")
        case "approve":
            if parsed.event == "PreToolUse":
                parsed.decide("allow")
                parsed.reason = parsed.reason or _text(parsed, content, "reason")
        case other:
            parsed.problems.append(f"decision: {other!r} is neither 'block' nor 'approve'.")
    if parsed.event == "PreToolUse" and (lost := [name for name in _CALL_FIELDS if name in content]):
        parsed.problems.append(f"{', '.join(lost)} must stand in hookSpecificOutput.")
        if content.get("permissionDecision") == "deny":
            parsed.decide("deny")
            parsed.reason = parsed.reason or _text(parsed, content, "permissionDecisionReason")


def _read_call_output(parsed: ParsedOutput, own: Mapping[str, object]) -> None:
    value = own.get("permissionDecision")
    if value is not None:
        decision = _PERMISSION.get(value) if isinstance(value, str) else None
        if decision is None:
            parsed.problems.append(f"permissionDecision: {value!r} is none of allow, deny, ask and defer.")
        else:
            parsed.decide(decision)
        if value == "defer":
            parsed.notes.append("It wants the call to wait; a person is asked instead.")
        parsed.reason = parsed.reason or _text(parsed, own, "permissionDecisionReason")
    _read_arguments(parsed, own)


def _read_request_output(parsed: ParsedOutput, own: Mapping[str, object]) -> None:
    value = own.get("decision")
    if value is None:
        return
    behaviour = value.get("behavior") if isinstance(value, dict) else value
    decision = _BEHAVIOUR.get(behaviour) if isinstance(behaviour, str) else None
    if not isinstance(value, dict) or decision is None:
        parsed.problems.append(f"decision.behavior: {behaviour!r} is neither 'allow' nor 'deny'.")
        return
    parsed.decide(decision)
    parsed.reason = parsed.reason or _text(parsed, value, "message")
    if value.get("updatedPermissions"):
        parsed.notes.append("updatedPermissions has no effect here: only a person grants more than the call.")
    if decision == "deny":
        parsed.stops = parsed.stops or value.get("interrupt") is True
    else:
        _read_arguments(parsed, value)


def _read_result_output(parsed: ParsedOutput, own: Mapping[str, object]) -> None:
    for name in ("updatedToolOutput", "updatedMCPToolOutput"):
        value = own.get(name)
        if value is not None:
            parsed.output = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            return


def _read_stop_output(parsed: ParsedOutput, own: Mapping[str, object]) -> None:
    parsed.refused = parsed.refused or bool(parsed.context)  # what is added there is what the turn goes on about


def _read_denial_output(parsed: ParsedOutput, own: Mapping[str, object]) -> None:
    if own.get("retry") is True:
        parsed.context = "\n".join(filter(None, (parsed.context, "A hook says that this call may be tried again.")))


_SPECIFIC: Final[Mapping[str, Callable[[ParsedOutput, Mapping[str, object]], None]]] = {
    "PreToolUse": _read_call_output,
    "PermissionRequest": _read_request_output,
    "PostToolUse": _read_result_output,
    "Stop": _read_stop_output,
    "SubagentStop": _read_stop_output,
    "PermissionDenied": _read_denial_output,
}


def _read_arguments(parsed: ParsedOutput, own: Mapping[str, object]) -> None:
    value = own.get("updatedInput")
    if value is None:
        return
    if not isinstance(value, dict):
        parsed.problems.append(f"updatedInput: {value!r} is not an object of arguments.")
        return
    parsed.args = msgspec.json.encode(value).decode()


def _text(parsed: ParsedOutput, content: Mapping[str, object], name: str) -> str:
    value = content.get(name)
    if value is not None and not isinstance(value, str):
        parsed.problems.append(f"{name}: {value!r} is not a text.")
        return ""
    return value or ""


CONTEXT: Final = 10_000
"""Characters of context, and of a reason, that one hook may add."""
NOTE: Final = 2_000
"""Characters of a note for the person."""

_DECIDING: Final = frozenset(("decision", "permissionDecision", "hookSpecificOutput", "continue"))
_FIRST_BRACE: Final = re.compile(r"^[^{\n]*\{", re.MULTILINE)
_MOST_BRACES: Final = 1_000
"""Lines that are searched for an answer."""
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
    """Return the answer of a hook that ended. `cut`: its output was longer than its kept part.

    Exit 2 refuses, whatever the output says. With any other code JSON decides; without JSON, 0 means no objection, and the rest are
    failures. A failure refuses or not, as the hook's `on_failure` says; a refusal that was understood stands in any case.
    """
    if timed_out:
        return _failure(spec, f"it took longer than {count_seconds(spec.timeout)}")
    if failed:
        return _failure(spec, failed)
    parsed, plain = _read_output(event, stdout, cut=cut)
    if exit_code == 2:
        return _exit_2(spec, parsed, stderr)
    if parsed is None:
        if exit_code != 0:
            return _failure(spec, _describe_exit(exit_code, stderr))
        added = plain if EVENTS[event].text else ""
        return HookAnswer(hook=spec.id, event=event, label=spec.label, context=cut_with_note(added))
    if exit_code < 0:
        parsed.problems.append(_describe_exit(exit_code, stderr))
    return _answer_of_output(spec, parsed)


def read_ok(event: str, text: str, *, spec: HookSpec) -> HookAnswer:
    """Return the answer of a model that was asked: `{"ok": true}`, or `{"ok": false, "reason": "..."}`."""
    fenced = _FENCE.fullmatch(text)
    content = _object(fenced[1] if fenced else text.strip())
    ok = content.get("ok") if content is not None else None
    if content is None or find_repeated_name(fenced[1] if fenced else text.strip()) or not isinstance(ok, bool):
        return _failure(spec, f'the answer is not like {{"ok": true}}: {cut_with_note(text.strip(), 200)!r}')
    why = content.get("reason")
    if ok or (content.get("impossible") is True and event in ("Stop", "SubagentStop")):
        notes = (cut_with_note(str(why), NOTE),) if not ok and why else ()
        return HookAnswer(hook=spec.id, event=event, label=spec.label, notes=notes)
    reason = cut_with_note(why) if isinstance(why, str) and why.strip() else f"A hook of {event} says no."
    continues = isinstance(spec.handler, PromptHook) and spec.handler.continues
    ends = not continues and EVENTS[event].decides in ("step", "result") and event not in ("Stop", "SubagentStop")
    return _refusal(spec, reason, stops=ends, notes=() if EVENTS[event].decides else (cut_with_note(reason, NOTE),))


def is_ok_form(text: str) -> bool:
    """Return whether an answer has the form of a model's, and decides nothing otherwise."""
    content = _object(text.strip())
    return content is not None and "ok" in content and not (_DECIDING & content.keys())


def cut_with_note(text: str, most: int = CONTEXT) -> str:
    """Cut `text` to at most `most` characters, and say how many are left out."""
    text = text.strip()
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} characters are left out here]"


def _read_output(event: str, stdout: str, *, cut: bool) -> tuple[ParsedOutput | None, str]:
    """Return the parsed JSON, or the plain text."""
    text = stdout.removeprefix("\ufeff").strip()
    content = None if cut or not text.startswith("{") else _object(text)
    if EVENTS[event].decides and (why := _why_unclear(text, content, cut=cut)):
        return ParsedOutput(event, problems=[why]), ""
    return (None, text) if content is None else (read_json(event, content), "")


def _why_unclear(text: str, content: dict[str, object] | None, *, cut: bool) -> str:
    """Return why it is not certain what a deciding hook answered; empty when it is."""
    if cut:
        return "it wrote too much"
    if content is not None:
        name = find_repeated_name(text)
        return f"its output says {name!r} twice" if name else ""
    if "\0" in text and any(name in text.replace("\0", "") for name in _DECIDING):
        return "its output is an answer in another encoding than UTF-8"
    return "its output begins like JSON and is none" if text.startswith("{") else _find_hidden_answer(text)


def _find_hidden_answer(text: str) -> str:
    """Return why the plain text of a deciding hook is not plain: an answer stands in it, behind other text."""
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


def _answer_of_output(spec: HookSpec, parsed: ParsedOutput) -> HookAnswer:
    """Return the answer of parsed output; one with mistakes is a failure, unless it refuses."""
    if parsed.problems and not (parsed.refused or parsed.stops):
        failure = _failure(spec, "; ".join(each.rstrip(".") for each in parsed.problems), parsed.notes)
        asks = parsed.decision == "ask" and failure.decision is None
        return replace(failure, decision="ask", reason=cut_with_note(parsed.reason)) if asks else failure
    notes = [*parsed.notes, *(f"{spec.label}: {problem}" for problem in parsed.problems)]
    decision, args = parsed.decision, parsed.args
    if spec.doubt and (decision == "allow" or args):
        notes.append(f"{spec.label}: it cannot be told what it is for, so it may not allow or change anything.")
        decision, args = None if decision == "allow" else decision, ""
    blocked, context = parsed.refused, parsed.context
    if parsed.stops:
        decision, blocked = _decision_of_stop(parsed.event)
    elif blocked and EVENTS[parsed.event].decides == "result":
        context = "\n".join(filter(None, (parsed.reason, context)))
    return HookAnswer(
        hook=spec.id,
        event=parsed.event,
        label=spec.label,
        decision=decision,
        blocked=blocked,
        reason=cut_with_note(
            parsed.reason or (f"A hook of {parsed.event} refused." if blocked and not context else "")
        ),
        args="" if decision == "deny" else args,
        context=cut_with_note(context) if EVENTS[parsed.event].context else "",
        output=parsed.output,
        notes=tuple(cut_with_note(note, NOTE) for note in notes),
        stops=parsed.stops,
    )


def _decision_of_stop(event: str) -> tuple[Decision | None, bool]:
    """Return the decision of a hook that ends the turn: it refuses the step, but for the end of a turn itself."""
    if EVENTS[event].decides == "call":
        return "deny", True
    return None, EVENTS[event].decides == "step" and event not in ("Stop", "SubagentStop")


def _exit_2(spec: HookSpec, parsed: ParsedOutput | None, stderr: str) -> HookAnswer:
    """Return the answer of exit 2. JSON may give the reason; it takes no refusal back."""
    facts = spec.facts
    reason = cut_with_note((parsed.reason if parsed else "") or stderr)
    notes = tuple(cut_with_note(note, NOTE) for note in parsed.notes) if parsed else ()
    if parsed is not None and (parsed.stops or parsed.decision == "deny"):
        return _refusal(spec, reason, stops=parsed.stops, notes=notes)
    if facts.exit_2 in ("blocks", "model"):
        return _refusal(spec, reason, notes=notes)
    text = f"{spec.label}: {cut_with_note(reason, NOTE) or 'it ended with exit 2'}"
    if facts.exit_2 == "ignored":
        text = f"{text} (exit 2 refuses nothing at {spec.event})"
    return HookAnswer(hook=spec.id, event=spec.event, label=spec.label, notes=(*notes, text))


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
    """Return the answer of a hook that failed: refuse, or go on as if it were not there; a note tells the person in any case."""
    why = cut_with_note(why, NOTE)
    refuses = spec.on_failure == "block" and bool(spec.facts.decides)
    text = (
        "so it was refused; 'onFailure': 'continue' in its settings would let it pass"
        if refuses
        else "and was passed over"
    )
    parsed = (*notes, f"The hook {spec.label!r} ({spec.event}) failed: {why}, {text}.")
    if refuses:
        return _refusal(
            spec,
            f"The hook {spec.label!r} of {spec.event} failed, and nothing passes without it: {why}.",
            notes=parsed,
            failed=why,
        )
    return HookAnswer(hook=spec.id, event=spec.event, label=spec.label, notes=parsed, failed=why)


def _describe_exit(exit_code: int, stderr: str) -> str:
    how = f"it was killed by signal {-exit_code}" if exit_code < 0 else f"it ended with exit {exit_code}"
    words = cut_with_note(stderr, 500)
    return f"{how}{_KNOWN_EXITS.get(exit_code, '')}{f': {words}' if words else ''}"
