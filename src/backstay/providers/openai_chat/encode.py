"""Encode requests for Chat Completions, from cached messages and in the dialect of the server."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from backstay.ports import ModelRequest
from backstay.providers.format import Encoder, HttpRequest, stand_in, tool_name
from backstay.providers.http.loose_json import object_text
from backstay.providers.http.prefix_cache import Prefix
from backstay.vocab.messages import (
    InFlightPart,
    InlineMedia,
    MediaLink,
    MediaRef,
    Message,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
)
from backstay.vocab.specs import ModelFacts, ToolSpec


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """The peculiarities of one server that neither its answers nor the model's facts tell."""

    limit: Literal["max_tokens", "max_completion_tokens"] | None = None
    """The name of the ceiling for the answer. Unless said: the newer one for models that can be told how much to think, which came
    with that name and of which OpenAI's own refuse the older one; the older one, which every server knows, for the others."""
    seed: Literal["seed", "random_seed"] = "seed"
    asks_usage: bool = True
    """Whether usage must be asked for in a stream; the others send it unasked and refuse the question."""
    short_ids: bool = False
    """Whether the id of a call must be nine letters and digits."""


def dialect_of(provider: str) -> Dialect:
    """Return what is peculiar to `provider`; a server that is not listed gets what most of them take."""
    return _DIALECTS.get(provider.partition("@")[0], _COMMON)


_COMMON: Final = Dialect()
_DIALECTS: Final = {
    "openai": Dialect(limit="max_completion_tokens"),
    "mistral": Dialect(limit="max_tokens", seed="random_seed", asks_usage=False, short_ids=True),
    "databricks": Dialect(asks_usage=False),
}

Content = str | list[dict[str, object]]

IMAGES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_SOUNDS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
}
_TEXTS: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml")


def content_of(parts: Iterable[InFlightPart | TextRef]) -> Content:
    """Return the content that `parts` make: one text when all of them are texts, which every server takes, else a list."""
    written = [each for part in parts if (each := content_part(part))]
    if all(part["type"] == "text" for part in written):
        return join_texts([str(part["text"]) for part in written])
    return [part for part in written if part.get("text") != ""]


def text_of(parts: Iterable[InFlightPart | TextRef]) -> str:
    """Return `parts` as text, for a place where only text may stand: media are named."""
    texts = [
        part.text if isinstance(part, Text) else part.head if isinstance(part, TextRef) else stand_in(part)
        for part in parts
    ]
    return join_texts(texts)


def join_texts(texts: Sequence[str]) -> str:
    """Texts that were said apart, as one."""
    return "\n\n".join(filter(None, texts))


def content_part(part: InFlightPart | TextRef) -> dict[str, object]:
    """Return one text or medium; empty for what is neither."""
    match part:
        case Text():
            return _text(part.text)
        case TextRef():
            return _text(part.head)
        case InlineMedia():
            return _inline(part)
        case MediaLink():
            return _link(part)
        case MediaRef():
            return _text(stand_in(part))
        case _:
            return {}


def _inline(media: InlineMedia) -> dict[str, object]:
    kind = media.media_type.partition(";")[0].strip().lower()
    if kind in IMAGES:
        return {"type": "image_url", "image_url": {"url": _data_url(kind, media.content)}}
    if kind in _SOUNDS:
        return {"type": "input_audio", "input_audio": {"data": _base64(media.content), "format": _SOUNDS[kind]}}
    if kind == "application/pdf":
        file = {"filename": media.name or "document.pdf", "file_data": _data_url(kind, media.content)}
        return {"type": "file", "file": file}
    if kind.startswith(_TEXTS):
        return _text(join_texts([media.name and f"{media.name}:", media.content.decode("utf-8", "replace")]))
    return _text(stand_in(media))


def _link(media: MediaLink) -> dict[str, object]:
    if media.url.startswith("file:"):
        return {"type": "file", "file": {"file_id": media.url.removeprefix("file:")}}
    if media.media_type.startswith("image/") or not media.media_type:
        return {"type": "image_url", "image_url": {"url": media.url}}
    return _text(stand_in(media))


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _data_url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{_base64(content)}"


def _base64(content: bytes) -> str:
    return b64encode(content).decode()


LONGEST_ID: Final = 40
"""Characters that the id of a call may have."""


class MessageWriter:
    """Writes groups of neighbouring messages. Remembers under which id each call was sent, for its result."""

    def __init__(self, provider: str, dialect: Dialect, *, shows_images: bool) -> None:
        self._provider = provider
        self._dialect = dialect
        self._shows_images = shows_images
        self._ids: dict[str, str] = {}

    def write(self, group: Sequence[Message]) -> bytes:
        """Return the messages of one group, separated by commas."""
        return b",".join(map(msgspec.json.encode, self._natives(group)))

    def _natives(self, group: Sequence[Message]) -> Iterator[dict[str, object]]:
        match group[0].role:
            case "assistant":
                for message in group:
                    yield from self._assistant(message)
            case "tool":
                spoken = [part for message in group if message.role != "tool" for part in message.parts]
                yield from self._results(
                    [part for message in group if message.role == "tool" for part in message.parts], spoken
                )
            case role:
                parts = [part for message in group for part in message.parts]
                if parts:
                    yield {"role": role, "content": content_of(parts)}

    def _assistant(self, message: Message) -> Iterator[dict[str, object]]:
        own = _native(message.opaque) if message.opaque and message.provider == self._provider else {}
        said = [part for part in message.parts if not isinstance(part, ToolCall)]
        text = text_of(said) or None
        native: dict[str, object] = {"role": "assistant", "content": text, **own}
        native["content"] = native["content"] or text
        native.pop("tool_calls", None)
        if calls := [part for part in message.parts if isinstance(part, ToolCall)]:
            native["tool_calls"] = self._calls(calls, own)
        if len(native) > 2 or native["content"]:
            yield native

    def _calls(self, calls: Sequence[ToolCall], own: dict[str, object]) -> list[dict[str, object]]:
        sent = own.get("tool_calls")
        if not isinstance(sent, list) or len(sent) != len(calls):
            sent = [{} for _ in calls]
        return [self._call(call, each, own=bool(own)) for call, each in zip(calls, sent, strict=True)]

    def _call(self, call: ToolCall, sent: dict[str, object], *, own: bool) -> dict[str, object]:
        id = call.provider_id if own and call.provider_id else self._wire_id(call.id)
        self._ids[call.id] = id
        function = {"name": tool_name(call.name), "arguments": object_text(call.args)}
        return {**sent, "id": id, "type": "function", "function": function}

    def _results(self, parts: Sequence[InFlightPart], spoken: Sequence[InFlightPart]) -> Iterator[dict[str, object]]:
        """Yield a message for each result. What they cannot hold begins the message of the user that has what is `spoken` after them."""
        shown: list[dict[str, object]] = []
        for part in parts:
            if not isinstance(part, ToolResult):
                continue
            id = self._ids.get(part.call) or self._wire_id(part.call)
            content: Sequence[InFlightPart | TextRef] = part.content
            images = [each for each in content if self._shows_images and _is_image(each)]
            text = text_of([each for each in content if each not in images])
            text = _mark_failure(text) if part.is_error else text
            if images:
                shown += [{"type": "text", "text": f"[The image of the result {id}:]"}, *map(content_part, images)]
            yield {"role": "tool", "tool_call_id": id, "content": text or _nothing(images)}
        if shown:
            yield {"role": "user", "content": [*shown, *filter(None, map(content_part, spoken))]}
        elif spoken:
            yield {"role": "user", "content": content_of(spoken)}

    def _wire_id(self, id: str) -> str:
        if self._dialect.short_ids:
            return _digest(id)[:9]
        wire = id.replace(".", "_")
        return wire if len(wire) <= LONGEST_ID and _PLAIN_ID.fullmatch(wire) else _digest(id)[:LONGEST_ID]


_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_-]+")


def _native(opaque: bytes) -> dict[str, object]:
    try:
        said = msgspec.json.decode(opaque)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _is_image(part: InFlightPart | TextRef) -> bool:
    return isinstance(part, InlineMedia) and part.media_type in IMAGES


def _nothing(images: Sequence[object]) -> str:
    return "(an image, shown below)" if images else "(no output)"


def _mark_failure(text: str) -> str:
    """Return a failed result: the format has no field that says so."""
    return text if text.lower().startswith("error") else f"Error: {text or '(no output)'}"


def _digest(id: str) -> str:
    """Letters and digits that stand for `id`, always the same."""
    return b64encode(hashlib.sha256(id.encode()).digest(), b"ab").decode().rstrip("=")


PATH: Final = "/chat/completions"


class ChatEncoder:
    """Writes the requests of one conversation."""

    def __init__(self, provider: str, facts: ModelFacts) -> None:
        self._dialect = dialect_of(provider)
        self._facts = facts
        writer = MessageWriter(provider, self._dialect, shows_images="images" in facts.abilities)
        self._prefix = Prefix(writer.write, _joins)
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"[]")

    def encode(self, request: ModelRequest) -> HttpRequest:
        """Write one request. Always asks for a stream."""
        options = self._options(request)
        if "messages" in options:
            return HttpRequest(path=PATH, body=msgspec.json.encode(options))
        system = _system(request.instructions)
        pieces = [piece for piece in (system, *self._prefix.chunks(request.messages)) if piece]
        pieces[:1] = [b'{"messages":[' + (pieces[0] if pieces else b"")]
        pieces[-1] += b"]," + msgspec.json.encode(options)[1:]  # at the last piece: a long history is copied once
        return HttpRequest(path=PATH, body=b",".join(pieces))

    def _options(self, request: ModelRequest) -> dict[str, object]:
        said = request.parameters
        options: dict[str, object] = {"model": request.model, "stream": True}
        if self._dialect.asks_usage:
            options["stream_options"] = {"include_usage": True}
        if request.tools:
            options["tools"] = msgspec.Raw(self._encode_tools(request.tools))
            options |= _tool_choice(said.get("tool_choice"))
        thinks = "effort" in self._facts.abilities
        limit = self._dialect.limit or ("max_completion_tokens" if thinks else "max_tokens")
        names = {"max_output": limit, "seed": self._dialect.seed, **_SAME}
        options |= {names[name]: value for name, value in said.items() if name in names and value is not None}
        if said.get("effort") and self._facts.abilities & {"effort", "reasoning"}:
            options["reasoning_effort"] = said["effort"]
        if said.get("web_search") and "web_search" in self._facts.abilities:
            options["web_search_options"] = {}
        if isinstance(schema := said.get("schema"), dict):
            options["response_format"] = {"type": "json_schema", "json_schema": _json_schema(schema)}
        return _overridden(options, said.get("extra"))

    def _encode_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        if self._tools[0] is not tools and self._tools[0] != tools:
            self._tools = (tools, msgspec.json.encode([_tool(tool) for tool in tools]))
        return self._tools[1]


_SAME: Final = {"temperature": "temperature", "top_p": "top_p", "stop": "stop"}


_LOOSE: Final = frozenset(("default", "allOf", "oneOf", "not", "if", "patternProperties", "dependentRequired"))
"""Words of a schema that no server takes as strict."""


def _joins(one: Message, other: Message) -> bool:
    """Neighbours of the user are one message, for servers that want turns; so is what results show and what the user says then."""
    return (one.role, other.role) in (("user", "user"), ("tool", "tool"), ("tool", "user"))


def _system(instructions: str) -> bytes:
    return msgspec.json.encode({"role": "system", "content": instructions}) if instructions else b""


def _tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def _tool_choice(choice: object) -> dict[str, object]:
    if not isinstance(choice, str) or not choice:
        return {}
    if choice in ("auto", "none", "required"):
        return {"tool_choice": choice}
    return {"tool_choice": {"type": "function", "function": {"name": choice}}}


def _json_schema(said: dict[str, object]) -> dict[str, object]:
    """Return the schema with its name, strict where its shape allows it. Given as it is, or as `{"schema": ..., "name": ...}`."""
    inner = said.get("schema")
    wrapper: Mapping[str, object] = said if isinstance(inner, dict) else {"schema": said}
    described = {"description": wrapper["description"]} if "description" in wrapper else {}
    schema = wrapper["schema"]
    return {"name": wrapper.get("name") or "answer", **described, "schema": schema, "strict": _is_strict(schema)}


def _is_strict(schema: object) -> bool:
    """Return whether every object of a schema requires all its properties and allows no others: a server refuses the rest as strict."""
    match schema:
        case dict():
            properties = schema.get("properties")
            if schema.get("type") == "object" or isinstance(properties, dict):
                named = set(properties) if isinstance(properties, dict) else set()
                required = schema.get("required")
                if schema.get("additionalProperties") is not False or named - set(
                    required if isinstance(required, list) else ()
                ):
                    return False
            return not _LOOSE & schema.keys() and all(map(_is_strict, schema.values()))
        case list():
            return all(map(_is_strict, schema))
        case _:
            return True


def _overridden(options: dict[str, object], extra: object) -> dict[str, object]:
    """Return `options` with the fields that the caller sets; null removes a field."""
    if not isinstance(extra, dict):
        return options
    return {name: value for name, value in {**options, **extra}.items() if value is not None}


if TYPE_CHECKING:
    _: Encoder = ChatEncoder("", ModelFacts())
