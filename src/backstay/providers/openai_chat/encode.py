"""Writes a request: the messages spliced from what was written before, the rest said in the server's words."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from backstay.ports import ModelRequest
from backstay.providers.format import Encoder, HttpRequest
from backstay.providers.openai_chat.dialect import dialect_of
from backstay.providers.openai_chat.messages import MessageWriter
from backstay.providers.prefix import Prefix
from backstay.vocab.messages import Message
from backstay.vocab.specs import ModelFacts, ToolSpec

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
            options["tools"] = msgspec.Raw(self._encoded_tools(request.tools))
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

    def _encoded_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
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
    """The schema with its name, strict where its shape allows it. Given as it is, or as `{"schema": ..., "name": ...}`."""
    inner = said.get("schema")
    wrapper: Mapping[str, object] = said if isinstance(inner, dict) else {"schema": said}
    described = {"description": wrapper["description"]} if "description" in wrapper else {}
    schema = wrapper["schema"]
    return {"name": wrapper.get("name") or "answer", **described, "schema": schema, "strict": _is_strict(schema)}


def _is_strict(schema: object) -> bool:
    """Whether every object of a schema requires all its properties and allows no others: a server refuses the rest as strict."""
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
    """`options` with what the caller wants as it is; null takes a field away."""
    if not isinstance(extra, dict):
        return options
    return {name: value for name, value in {**options, **extra}.items() if value is not None}


if TYPE_CHECKING:
    _: Encoder = ChatEncoder("", ModelFacts())
