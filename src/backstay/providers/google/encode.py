"""Encode the requests of a conversation for the Gemini API."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from backstay.ports import ModelRequest
from backstay.providers.format import Encoder, HttpRequest, stand_in, tool_name
from backstay.providers.http.loose_json import object_text
from backstay.providers.http.prefix_cache import Prefix
from backstay.vocab.messages import InlineMedia, MediaLink, MediaRef, Message, Text, TextRef, ToolCall, ToolResult
from backstay.vocab.specs import ModelFacts, ToolSpec

_PLAIN: Final = {
    "max_output": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "seed": "seed",
    "stop": "stopSequences",
}
_BUDGETS: Final = {"low": 1024, "medium": 8192, "high": 24576}
"""Tokens of thought for each effort: the provider's own equivalents."""
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def generation_config(parameters: Mapping[str, object], facts: ModelFacts) -> dict[str, object]:
    """Say the parameters in the provider's words."""
    config = {theirs: parameters[ours] for ours, theirs in _PLAIN.items() if parameters.get(ours) is not None}
    schema = _answer_schema(parameters.get("schema"))
    if schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    thinking = _thinking(parameters.get("effort"), facts)
    if thinking:
        config["thinkingConfig"] = thinking
    return config


def declare_tools(tools: Sequence[ToolSpec], *, search: bool) -> list[dict[str, object]]:
    """Declare our tools, and the provider's own search.

    `parametersJsonSchema` takes JSON Schema as it is; the older `parameters` refuses keywords such as
    `additionalProperties`.
    """
    declared: list[dict[str, object]] = []
    if tools:
        declared.append({"functionDeclarations": [_declaration(tool) for tool in tools]})
    if search:
        declared.append({"googleSearch": {}})
    return declared


def tool_config(choice: object, tools: Sequence[ToolSpec], *, search: bool) -> dict[str, object]:
    """Say which tools the model may or must call."""
    config: dict[str, object] = {}
    if tools and isinstance(choice, str) and choice:
        named: dict[str, object] = {"mode": "ANY", "allowedFunctionNames": [choice]}
        config["functionCallingConfig"] = {"mode": _MODES[choice]} if choice in _MODES else named
    if tools and search:  # without it the provider refuses its own tools beside ours
        config["includeServerSideToolInvocations"] = True
    return config


def merge_extra(body: dict[str, object], extra: object) -> dict[str, object]:
    """Put `extra` over `body`. Objects of both are merged: most settings of this provider live one level down."""
    for name, value in extra.items() if isinstance(extra, Mapping) else ():
        ours = body.get(name)
        body[name] = {**ours, **value} if isinstance(ours, dict) and isinstance(value, Mapping) else value
    return body


def _declaration(tool: ToolSpec) -> dict[str, object]:
    declaration: dict[str, object] = {"name": tool.name, "description": tool.description}
    if tool.schema:
        declaration["parametersJsonSchema"] = _without_dialect(tool.schema)
    return declaration


def _answer_schema(schema: object) -> object:
    """Return the schema itself, also where it comes with a name: `{"schema": {...}, "name": ...}`."""
    if not isinstance(schema, Mapping):
        return None
    inner = schema.get("schema")
    wrapped = isinstance(inner, Mapping) and schema.keys() <= {"schema", "name", "description", "strict"}
    return _without_dialect(inner if wrapped and isinstance(inner, Mapping) else schema)


def _without_dialect(schema: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in schema.items() if name != "$schema"}


def _thinking(effort: object, facts: ModelFacts) -> dict[str, object]:
    """Models with the ability `effort` take a level; those that only have `reasoning` take a budget, and refuse a level."""
    if not facts.abilities & {"reasoning", "effort"}:
        return {}
    thinking: dict[str, object] = {"includeThoughts": True}
    if isinstance(effort, str) and effort:
        if "effort" in facts.abilities:
            thinking["thinkingLevel"] = effort.upper()
        elif effort in _BUDGETS:
            thinking["thinkingBudget"] = _BUDGETS[effort]
    return thinking


_CARRIED: Final = frozenset(
    ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf", "application/json")
)
_CARRIED_KINDS: Final = ("audio/", "video/", "text/")
_NOTHING: Final = Text(text="")
_FILES: Final = "https://generativelanguage.googleapis.com/v1beta/files/"
_UNSIGNED: Final = "skip_thought_signature_validator"
"""Stands in for the signature of a call that another model made. Models with levels of thought refuse one without any."""


class GoogleEncoder:
    """Writes the requests of one conversation.

    Results of calls are the user's, as the provider has it, and stand first in their message. What a call gave is
    `{"output": text}`, or `{"error": text}` when it failed: these are the keys that the provider documents, and a text that
    happens to be JSON is wrapped like any other, so that its own keys are never taken for them.
    """

    def __init__(self, provider: str, facts: ModelFacts) -> None:
        self._provider = provider
        self._facts = facts
        self._prefix = Prefix(self._content, _same_side)
        self._calls: dict[str, tuple[str, str]] = {}
        """The name and the wire id of each call that was written: a result needs both."""
        self._declared: tuple[tuple[ToolSpec, ...], bool, msgspec.Raw] | None = None
        """The tools of the last request, and how they were written."""

    def encode(self, request: ModelRequest) -> HttpRequest:
        """Write one request."""
        parameters = request.parameters
        search = parameters.get("web_search") is True and "web_search" in self._facts.abilities
        body: dict[str, object] = {}
        if request.instructions:
            body["systemInstruction"] = {"parts": [{"text": request.instructions}]}
        if request.tools or search:
            body["tools"] = self._declare(request.tools, search)
        if chosen := tool_config(parameters.get("tool_choice"), request.tools, search=search):
            body["toolConfig"] = chosen
        if config := generation_config(parameters, self._facts):
            body["generationConfig"] = config
        merge_extra(body, parameters.get("extra"))
        return HttpRequest(path=_path(request.model), body=_join(self._prefix.chunks(request.messages), body))

    def _declare(self, tools: tuple[ToolSpec, ...], search: bool) -> msgspec.Raw:
        if self._declared is None or self._declared[0] is not tools or self._declared[1] is not search:
            written = msgspec.json.encode(declare_tools(tools, search=search))
            self._declared = (tools, search, msgspec.Raw(written))
        return self._declared[2]

    def _content(self, messages: Sequence[Message]) -> bytes:
        parts: list[bytes] = []
        for message in messages:
            parts.extend(self._model_parts(message) if message.role == "assistant" else self._user_parts(message))
        if not parts:
            return b""
        parts.sort(key=_is_no_response)
        role = b"model" if messages[0].role == "assistant" else b"user"
        return b'{"role":"' + role + b'","parts":[' + b",".join(parts) + b"]}"

    def _model_parts(self, message: Message) -> Iterator[bytes]:
        native = _native(message) if message.provider == self._provider else None
        if native is not None:
            self._calls |= {c.id: (c.name, c.provider_id) for c in message.parts if isinstance(c, ToolCall)}
            if native:
                yield native
            return
        signature = _UNSIGNED if "effort" in self._facts.abilities else ""
        for part in message.parts:
            if isinstance(part, ToolCall):
                wire = _wire_id(part.id)
                self._calls[part.id] = (tool_name(part.name), wire)
                yield _call(part, wire, signature)
                signature = ""
            elif part != _NOTHING:
                yield from _encode_common(part)

    def _user_parts(self, message: Message) -> Iterator[bytes]:
        for part in message.parts:
            if isinstance(part, ToolResult):
                yield from self._result(part)
            else:
                yield from _encode_common(part)

    def _result(self, result: ToolResult) -> Iterator[bytes]:
        name, wire = self._calls.get(result.call, ("unknown_tool", _wire_id(result.call)))
        key = "error" if result.is_error else "output"
        response: dict[str, object] = {"id": wire} if wire else {}
        response |= {"name": name, "response": {key: "\n".join(_texts(result.content))}}
        yield msgspec.json.encode({"functionResponse": response})
        media = [part for part in result.content if isinstance(part, InlineMedia | MediaRef)]
        if media:
            yield _text(f"[what the call of {name!r} gave besides its text]")
        for part in media:
            yield from _encode_common(part)


def _path(model: str) -> str:
    name = model.partition(":")[2] or model
    whole = name if name.startswith(("models/", "tunedModels/")) else f"models/{name}"
    return f"/v1beta/{quote(whole, safe='/')}:streamGenerateContent?alt=sse"


def _join(contents: Sequence[bytes], rest: Mapping[str, object]) -> bytes:
    """Return the body of a request. A long conversation is copied only once; `rest` may bring contents of its own."""
    written = msgspec.json.encode(rest)
    if "contents" in rest:
        return written
    pieces = [content for content in contents if content] or [b""]
    pieces[0] = b'{"contents":[' + pieces[0]
    pieces[-1] += b"]," + written[1:] if rest else b"]}"
    return b",".join(pieces)


def _same_side(one: Message, other: Message) -> bool:
    return (one.role == "assistant") is (other.role == "assistant")


def _is_no_response(part: bytes) -> bool:
    return not part.startswith(b'{"functionResponse":')


def _native(message: Message) -> bytes | None:
    """Return the parts of a reply as the provider wrote them, without the brackets of their array."""
    written = message.opaque.strip()
    return written[1:-1].strip() if written.startswith(b"[") and written.endswith(b"]") else None


def _wire_id(id: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: "_" if found[0] == "." else f"_{ord(found[0]):x}_", id)


def _call(call: ToolCall, wire: str, signature: str) -> bytes:
    args = msgspec.Raw(object_text(call.args).encode())
    part: dict[str, object] = {"functionCall": {"id": wire, "name": tool_name(call.name), "args": args}}
    if signature:
        part["thoughtSignature"] = signature
    return msgspec.json.encode(part)


def _encode_common(part: object) -> Iterator[bytes]:
    """Yield what both sides may say. Reasoning and server blocks are not among it: only a reply's own bytes carry them."""
    match part:
        case Text(text=text) | TextRef(head=text):
            yield _text(text)
        case InlineMedia() if _carries(part.media_type):
            content = b64encode(part.content).decode()
            yield msgspec.json.encode({"inlineData": {"mimeType": part.media_type, "data": content}})
        case InlineMedia():
            yield _text(stand_in(part))
        case MediaRef():
            yield _text(stand_in(part))
        case MediaLink():
            kind = {"mimeType": part.media_type} if part.media_type else {}
            yield msgspec.json.encode({"fileData": {**kind, "fileUri": _address(part.url)}})


def _texts(content: Iterable[object]) -> Iterator[str]:
    for part in content:
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, TextRef):
            yield part.head


def _text(text: str) -> bytes:
    return msgspec.json.encode({"text": text})


def _carries(media_type: str) -> bool:
    plain = media_type.partition(";")[0].strip().lower()
    return plain in _CARRIED or plain.startswith(_CARRIED_KINDS)


def _address(url: str) -> str:
    if not url.startswith("file:"):
        return url
    name = url.removeprefix("file:")
    return name if "://" in name else _FILES + name.removeprefix("files/")


if TYPE_CHECKING:
    _: Encoder = GoogleEncoder("google", ModelFacts())
