r"""`--input-format stream-json`: the lines that a program may send to a running session, one JSON object each.

    {"type":"user","message":{"role":"user","content":"text" or [blocks]},"input_id"?,"delivery"?:"queue"|"steer"}
    {"type":"answer","call"?,"allow":true|false,"grant"?:"once"|"session"|"project"|"person","message"?}  call left out: the oldest question
    {"type":"interrupt"}
    {"type":"control_request","request_id","request":{"subtype":"interrupt"|"initialize"|"set_permission_mode","mode"?}}
    {"type":"control_response","response":{"request_id","response":{"behavior":"allow"|"deny","message"?,"updatedInput"?}}}

A line of another type is passed over; `docs/stream-json.md` says what each of these does. Blocks are `{"type":"text","text"}` and
`{"type":"image","source":{"type":"base64","media_type","data"}}`.
"""

import binascii
from base64 import b64decode
from typing import Final, Literal, get_args

import msgspec

from backstay.logic.json_checks import find_repeated_name
from backstay.ports import Answer
from backstay.vocab.errors import UserError
from backstay.vocab.event import Delivery, Grant
from backstay.vocab.messages import InFlightPart, InlineMedia, Text
from backstay.vocab.specs import MODES, Mode


class UserLine(msgspec.Struct, frozen=True, kw_only=True):
    """A message for the model."""

    parts: tuple[InFlightPart, ...]
    input_id: str | None = None
    delivery: Delivery = "queue"


class AnswerLine(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question about a call; without a call, to the oldest one."""

    call: str
    answer: Answer
    changed: dict[str, object] | None = None
    """The arguments that the answer allows, if it names any."""


class InterruptLine(msgspec.Struct, frozen=True, kw_only=True):
    """InterruptLine the running turn."""

    request: str = ""


class SetModeLine(msgspec.Struct, frozen=True, kw_only=True):
    """Change the permission mode."""

    mode: Mode
    request: str = ""


class InitializeLine(msgspec.Struct, frozen=True, kw_only=True):
    """The first request of a client; it only wants a reply."""

    request: str = ""


class RefusedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A control request that cannot be carried out."""

    request: str
    problem: str


class IgnoredLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a type that means nothing here, such as `keep_alive`."""

    kind: str


InputLine = UserLine | AnswerLine | InterruptLine | SetModeLine | InitializeLine | RefusedLine | IgnoredLine


def parse(line: bytes) -> InputLine:
    """Read a line. Raise `UserError` when it is not an object with a type, or has not the fields of its type."""
    try:
        kind = msgspec.json.decode(line, type=_Typed).type
        if kind != "user" and (name := find_repeated_name(line)):
            raise UserError(f"{line.decode('utf-8', 'replace')[:80]!r} cannot be understood: it says {name!r} twice.")
        return _read(msgspec.json.decode(line, type=_Line)) if kind in _KNOWN else IgnoredLine(kind=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error, RecursionError) as exc:
        shown = line.decode("utf-8", "replace")
        grants = f" The grants are {', '.join(get_args(Grant))}." if "`$.grant`" in str(exc) else ""
        raise UserError(f"{shown[:80]!r} cannot be understood: {exc}.{grants}") from exc


class _Typed(msgspec.Struct):
    type: str


class _Source(msgspec.Struct):
    type: Literal["base64"]
    media_type: str
    data: str


class _TextBlock(msgspec.Struct, tag="text"):
    text: str


class _ImageBlock(msgspec.Struct, tag="image"):
    source: _Source


class _Message(msgspec.Struct):
    content: str | list[_TextBlock | _ImageBlock]
    role: Literal["user"] = "user"


class _User(msgspec.Struct, tag="user"):
    message: _Message
    input_id: str | None = None
    delivery: Delivery = "queue"


class _Answered(msgspec.Struct, tag="answer"):
    allow: bool
    call: str = ""
    updated: dict[str, object] | None = msgspec.field(default=None, name="updatedInput")
    grant: Grant = "once"
    rules: tuple[str, ...] = ()
    message: str = ""


class _Interrupt(msgspec.Struct, tag="interrupt"):
    request_id: str = ""


class _Request(msgspec.Struct):
    subtype: str = ""
    mode: object = None


class _ControlRequest(msgspec.Struct, tag="control_request"):
    request_id: str
    request: _Request


class _RuleText(msgspec.Struct):
    tool: str = msgspec.field(name="toolName")
    content: str | None = msgspec.field(default=None, name="ruleContent")

    def __str__(self) -> str:
        return self.tool if self.content is None else f"{self.tool}({self.content})"


class _Update(msgspec.Struct):
    type: str = ""
    rules: tuple[_RuleText, ...] = ()
    behavior: str = ""
    destination: str = "session"


class _Behavior(msgspec.Struct):
    behavior: Literal["allow", "deny"]
    message: str = ""
    permissions: tuple[_Update, ...] = msgspec.field(default=(), name="updatedPermissions")
    updated: dict[str, object] | None = msgspec.field(default=None, name="updatedInput")


class _Response(msgspec.Struct):
    request_id: str
    response: _Behavior | None = None
    error: str = ""


class _ControlResponse(msgspec.Struct, tag="control_response"):
    response: _Response


_Line = _User | _Answered | _Interrupt | _ControlRequest | _ControlResponse
_DESTINATIONS: Final[dict[str, Grant]] = {
    "session": "session",
    "localSettings": "project",
    "projectSettings": "project",
    "userSettings": "person",
}
"""The grant for each destination that the convention has for rules."""
_KNOWN: Final = frozenset(kind.__struct_config__.tag for kind in get_args(_Line))


def _read(line: _Line) -> InputLine:
    match line:
        case _User():
            return UserLine(parts=_parts(line.message.content), input_id=line.input_id, delivery=line.delivery)
        case _Answered():
            answer = Answer(allowed=line.allow, grant=line.grant, rules=line.rules, message=line.message)
            return AnswerLine(call=line.call, answer=answer, changed=line.updated)
        case _Interrupt():
            return InterruptLine(request=line.request_id)
        case _ControlRequest():
            return _control(line.request_id, line.request)
        case _ControlResponse(response=response):
            found = response.response
            allowed = found is not None and found.behavior == "allow"
            message = found.message if found else response.error
            changed = found.updated if found else None
            grant, rules = _grant_of(found.permissions if found else ())
            answer = Answer(allowed=allowed, grant=grant, rules=rules, message=message)
            return AnswerLine(call=response.request_id or "?", answer=answer, changed=changed)


def _grant_of(updates: tuple[_Update, ...]) -> tuple[Grant, tuple[str, ...]]:
    """Return the rules that an answer allows beyond its call, and for how long: the shortest grant among their destinations."""
    adding = [each for each in updates if each.type == "addRules" and each.behavior == "allow" and each.rules]
    if not adding:
        return "once", ()
    grants = {_DESTINATIONS.get(each.destination, "session") for each in adding}
    shortest = next(grant for grant in ("session", "project", "person") if grant in grants)
    return shortest, tuple(str(rule) for each in adding for rule in each.rules)


def _control(name: str, request: _Request) -> InputLine:
    match request.subtype:
        case "interrupt":
            return InterruptLine(request=name)
        case "initialize":
            return InitializeLine(request=name)
        case "set_permission_mode":
            mode = next((mode for mode in MODES if mode == request.mode), None)
            if mode is not None:
                return SetModeLine(mode=mode, request=name)
            choices = ", ".join(MODES)
            return RefusedLine(
                request=name, problem=f"{request.mode!r} is not a permission mode. The modes are {choices}."
            )
        case subtype:
            return RefusedLine(request=name, problem=f"There is no control request {subtype!r} here.")


def _parts(content: str | list[_TextBlock | _ImageBlock]) -> tuple[InFlightPart, ...]:
    if isinstance(content, str):
        return (Text(text=content),)
    return tuple(
        Text(text=block.text)
        if isinstance(block, _TextBlock)
        else InlineMedia(media_type=block.source.media_type, content=b64decode(block.source.data, validate=True))
        for block in content
    )
