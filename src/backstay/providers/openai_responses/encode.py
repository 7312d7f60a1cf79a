"""Encode the requests of a conversation for the Responses API of OpenAI."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from backstay.ports import ModelRequest
from backstay.providers.format import Encoder, HttpRequest, stand_in, tool_name
from backstay.providers.http.loose_json import Fields, object_text
from backstay.providers.http.prefix_cache import Prefix
from backstay.providers.openai_responses.native import custom_calls, without_reasoning
from backstay.vocab.messages import (
    InFlightPart,
    InlineMedia,
    MediaLink,
    Message,
    Reasoning,
    Role,
    ServerBlock,
    SignedReasoning,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
)
from backstay.vocab.specs import ModelFacts, ToolSpec

_STRICT_WORDS: Final = frozenset(
    (
        "type properties required additionalProperties items enum const anyOf $ref $defs definitions description title"
    ).split()
)
"""The words of JSON Schema that the provider's strict mode takes wherever it exists."""
_DEEPEST: Final = 5
"""Levels of objects in one another that strict mode takes."""


def settings_of(request: ModelRequest, facts: ModelFacts) -> Fields:
    """Return the fields of a request's body, without its input. The API has no words for `seed` and `stop`."""
    asked = request.parameters
    reasons = "reasoning" in facts.abilities
    tools = [_tool(spec) for spec in request.tools]
    if asked.get("web_search") and "web_search" in facts.abilities:
        tools.append({"type": "web_search"})
    fields: Fields = {
        "model": request.model,
        "instructions": request.instructions or None,
        "tools": tools or None,
        "tool_choice": _choice(asked.get("tool_choice")) if tools else None,
        "max_output_tokens": asked.get("max_output"),
        "temperature": asked.get("temperature"),
        "top_p": asked.get("top_p"),
        "reasoning": _reasoning(asked.get("effort"), facts) or None,
        "text": _text_parameters(asked.get("schema")),
        "include": ["reasoning.encrypted_content"] if reasons else None,
        "store": False,
        "stream": True,
    }
    said = {key: value for key, value in fields.items() if value is not None}
    extra = asked.get("extra")
    return {**said, **extra} if isinstance(extra, dict) else said


def fits_strict(schema: object, depth: int = 0) -> bool:
    """Return whether strict mode takes `schema`: closed objects, every property required, and only the words it knows."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST or not _STRICT_WORDS.issuperset(schema):
        return False
    properties = schema.get("properties")
    names = set(properties) if isinstance(properties, Mapping) else set()
    if schema.get("type") == "object" or names:
        required = schema.get("required")
        needed = set(required) if isinstance(required, list) else set()
        if schema.get("additionalProperties") is not False or needed != names:
            return False
    return all(fits_strict(inner, depth + 1) for inner in _inner(schema))


def _inner(schema: Mapping[str, object]) -> Sequence[object]:
    inner: list[object] = [schema["items"]] if "items" in schema else []
    for key in ("properties", "$defs", "definitions"):
        group = schema.get(key)
        inner += group.values() if isinstance(group, Mapping) else ()
    choices = schema.get("anyOf")
    return [*inner, *(choices if isinstance(choices, list) else ())]


def _tool(spec: ToolSpec) -> Fields:
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.schema,
        "strict": False,  # left out it means true, and then most schemas are refused
    }


def _choice(asked: object) -> object:
    if asked in (None, "auto", "none", "required"):
        return asked
    return {"type": "function", "name": asked}


def _reasoning(effort: object, facts: ModelFacts) -> Fields:
    reasoning: Fields = {}
    if effort and facts.abilities & {"effort", "reasoning"}:
        reasoning["effort"] = effort
    if "reasoning" in facts.abilities:
        reasoning["summary"] = "auto"
    return reasoning


def _text_parameters(asked: object) -> Fields | None:
    if not isinstance(asked, dict):
        return None
    inner = asked.get("schema")
    wrapped = isinstance(inner, dict) and not {"type", "properties", "$ref"} & asked.keys()
    schema = inner if wrapped and isinstance(inner, dict) else asked
    wanted = (asked.get("name") if wrapped else None) or schema.get("title") or "answer"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", str(wanted))[:64]
    strict = schema.get("type") == "object" and fits_strict(schema)
    form: Fields = {"type": "json_schema", "name": name, "schema": schema, "strict": strict}
    if wrapped and (description := asked.get("description")):
        form["description"] = description
    return {"format": form}


_IMAGES: Final = frozenset(("image/png", "image/jpeg", "image/jpg", "image/webp", "image/gif"))
_DOCUMENTS: Final = tuple(
    (
        "text/ application/pdf application/json application/xml application/rtf application/csv application/msword "
        "application/vnd."
    ).split()
)
"""The beginnings of the media types that go as files."""
_EXTENSIONS: Final = {"text/plain": "txt", "text/markdown": "md", "application/msword": "doc"}
_FILE_NAMES: Final = (".pdf", ".txt", ".md", ".csv", ".json", ".docx", ".xlsx", ".pptx", ".html", ".xml")
_FILE: Final = "file:"

Piece = InFlightPart | TextRef


def input_content(parts: Iterable[Piece]) -> list[Fields]:
    """Return what a user or a tool says, as content of an input item."""
    return [content for part in parts if (content := _input(part)) is not None]


def output_content(parts: Iterable[Piece]) -> list[Fields]:
    """Return what the assistant said. It cannot be given media: they are named in their place."""
    return [{"type": "output_text", "text": text} for part in parts if (text := _text(part) or stand_in(part))]


def result_output(result: ToolResult) -> str | list[Fields]:
    """Return what a call gave back: a text, or a list when media are in it. The format has no field for errors, so words say it."""
    text = "\n".join(filter(None, map(_text, result.content)))
    said = f"Error: {text or '(no output)'}" if result.is_error and not _says_error(text) else text
    media = input_content(part for part in result.content if not isinstance(part, Text | TextRef))
    if not media:
        return said
    return [{"type": "input_text", "text": said}, *media] if said else media


def _input(part: Piece) -> Fields | None:
    if isinstance(part, Text | TextRef):
        return {"type": "input_text", "text": _text(part)}
    if (carried := _encode_medium(part)) is not None:
        return carried
    return {"type": "input_text", "text": words} if (words := stand_in(part)) else None


def _text(part: Piece) -> str:
    match part:
        case Text():
            return part.text
        case TextRef():
            return part.head
        case _:
            return ""


def _encode_medium(part: Piece) -> Fields | None:
    match part:
        case InlineMedia():
            return _inline(part)
        case MediaLink():
            return _encode_link(part)
        case _:
            return None


def _inline(media: InlineMedia) -> Fields | None:
    kind = media.media_type.partition(";")[0].strip().lower()
    if kind not in _IMAGES and not kind.startswith(_DOCUMENTS):
        return None
    address = f"data:{kind};base64,{b64encode(media.content).decode()}"
    if kind in _IMAGES:
        return {"type": "input_image", "image_url": address, "detail": "auto"}
    name = media.name or f"document.{_EXTENSIONS.get(kind) or kind.rpartition('/')[2]}"
    return {"type": "input_file", "filename": name, "file_data": address}


def _encode_link(link: MediaLink) -> Fields | None:
    if link.media_type.startswith(("audio/", "video/")):
        return None
    place = link.url.removeprefix(_FILE)
    image = link.media_type.startswith("image/") or (not link.media_type and not _names_document(link.url))
    if link.url.startswith(_FILE):
        at: Fields = {"file_id": place}
    else:
        at = {"image_url" if image else "file_url": place}
    return {"type": "input_image", **at, "detail": "auto"} if image else {"type": "input_file", **at}


def _names_document(url: str) -> bool:
    return url.startswith(_FILE) or urlsplit(url).path.lower().endswith(_FILE_NAMES)


def _says_error(text: str) -> bool:
    return text.lstrip("[(* ").lower().startswith("error")


PATH: Final = "/responses"
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


class ResponsesEncoder:
    """Encodes the requests of one conversation, one after the other. Encoded messages are kept for the next request."""

    def __init__(self, provider: str, facts: ModelFacts) -> None:
        self._provider = provider
        self._facts = facts
        self._prefix = Prefix(self._write, lambda one, other: False)
        self._wire_ids: dict[str, str] = {}
        """Our id of a call to its id on the wire."""
        self._custom: set[str] = set()
        """The calls, by our id, whose results need the form of custom tools."""

    def encode(self, request: ModelRequest) -> HttpRequest:
        """Encode one request."""
        settings = settings_of(request, self._facts)
        head = msgspec.json.encode(settings)
        if "input" in settings:
            return HttpRequest(path=PATH, body=head)
        chunks = [chunk for chunk in self._prefix.chunks(request.messages) if chunk] or [b""]
        chunks[0] = head[:-1] + b',"input":[' + chunks[0]  # one join for all: the history may have megabytes
        chunks[-1] += b"]}"
        return HttpRequest(path=PATH, body=b",".join(chunks))

    def _write(self, group: Sequence[Message]) -> bytes:
        return b",".join(filter(None, map(self._message, group)))

    def _message(self, message: Message) -> bytes:
        if message.opaque and message.provider == self._provider:
            return self._replay(message)
        return b",".join(map(msgspec.json.encode, self._items(message)))

    def _replay(self, message: Message) -> bytes:
        """Return the reply as its provider wrote it."""
        custom = custom_calls(message.opaque)
        for part in message.parts:
            if isinstance(part, ToolCall):
                self._wire_ids[part.id] = part.provider_id
                if part.provider_id in custom:
                    self._custom.add(part.id)
        reasons = "reasoning" in self._facts.abilities or not self._facts.known
        native = message.opaque if reasons else without_reasoning(message.opaque)
        return native.strip()[1:-1]

    def _items(self, message: Message) -> Iterator[Fields]:
        said: list[InFlightPart] = []
        for part in message.parts:
            match part:
                case ToolCall() | ToolResult():
                    yield from _encode_message(message.role, said)
                    said = []
                    yield self._call(part) if isinstance(part, ToolCall) else self._result(part)
                case Reasoning() | SignedReasoning() | ServerBlock():
                    pass  # without their opaque form they mean nothing to the provider
                case _:
                    said.append(part)
        yield from _encode_message(message.role, said)

    def _call(self, call: ToolCall) -> Fields:
        wire_id = self._wire_ids[call.id] = _fit(call.id or call.provider_id)
        self._custom.discard(call.id)
        name, args = tool_name(call.name), object_text(call.args)
        return {"type": "function_call", "call_id": wire_id, "name": name, "arguments": args}

    def _result(self, result: ToolResult) -> Fields:
        kind = "custom_tool_call_output" if result.call in self._custom else "function_call_output"
        wire_id = self._wire_ids.get(result.call) or _fit(result.call)
        return {"type": kind, "call_id": wire_id, "output": result_output(result)}


def _encode_message(role: Role, parts: Sequence[InFlightPart]) -> Iterator[Fields]:
    content = output_content(parts) if role == "assistant" else input_content(parts)
    if content:
        yield {"type": "message", "role": "user" if role == "tool" else role, "content": content}


def _fit(call: str) -> str:
    """Return the id of a call with only the characters that the API accepts; different ids stay different."""
    return _UNFIT.sub(lambda found: "_" if found[0] == "." else f"_{ord(found[0]):x}_", call)


if TYPE_CHECKING:
    _: Encoder = ResponsesEncoder("", ModelFacts())
