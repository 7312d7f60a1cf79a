"""Recorded requests as our own: what a native request says, in messages; and how two requests are compared."""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from backstay.ports import ModelRequest
from backstay.vocab.messages import InFlightPart, InlineMedia, MediaLink, Message, Text, ToolCall, ToolResult
from backstay.vocab.specs import Ability, ModelFacts, ToolSpec

Native = dict[str, Any]
_SYSTEM = ("system", "developer")
_EXTRA = ("service_tier", "prompt_cache_key", "parallel_tool_calls", "metadata", "truncation", "user")
_PLAIN = ("message", "function_call")


def read_request(native: Native) -> tuple[ModelRequest, ModelFacts]:
    """Our request for a recorded one, and the facts of a model that can do what it asks for."""
    items = _items(native["input"])
    system = [_text(item["content"]) for item in items if item.get("role") in _SYSTEM]
    tools = native.get("tools", [])
    request = ModelRequest(
        model=native["model"],
        messages=tuple(_messages([item for item in items if item.get("role") not in _SYSTEM])),
        instructions="\n\n".join(filter(None, (native.get("instructions"), *system))),
        tools=tuple(_tool(tool) for tool in tools if tool["type"] == "function"),
        parameters=_parameters(native),
    )
    abilities: set[Ability] = {"tools"}
    if native.get("reasoning") or native.get("include"):
        abilities |= {"reasoning", "effort"}
    if any(tool["type"] == "web_search" for tool in tools):
        abilities.add("web_search")
    return request, ModelFacts(abilities=frozenset(abilities))


def normalise(native: Native) -> Native:
    """A request in the one form that both sides are brought to.

    - `stream` and `store` are left out: we always stream and never store.
    - `include` is left out, and `summary` in `reasoning`: ours follow what the model can do.
    - System and developer messages become the `instructions`, joined by empty lines; the recorded ones send them as items.
    - An input that is a text is one user message; a content that is a text is a list of one text.
    - A message has the type `message`; a plain one (not beside reasoning or a server's tool) loses `id` and `status`, and its texts
      lose `annotations` and `logprobs`; a plain function call loses `id` and `status`.
    - `strict` of tools is left out; of a `json_schema` it stays. A missing description is an empty one.
    """
    left_out = ("stream", "store", "include", "input", "instructions", "tools", "reasoning")
    items = _items(native["input"])
    system = [_text(item["content"]) for item in items if item.get("role") in _SYSTEM]
    reasoning = {key: value for key, value in (native.get("reasoning") or {}).items() if key != "summary"}
    form: Native = {
        **{key: value for key, value in native.items() if key not in left_out},
        "instructions": "\n\n".join(filter(None, (native.get("instructions"), *system))),
        "tools": [_plain_tool(tool) for tool in native.get("tools") or []],
        "reasoning": reasoning,
        "input": [_plain_item(item, items) for item in items if item.get("role") not in _SYSTEM],
    }
    return {key: value for key, value in form.items() if value not in ("", [], {})}


# --- reading ---------------------------------------------------------------------------------------------------------


def _items(sent: str | list[Native]) -> list[Native]:
    return [{"role": "user", "content": sent}] if isinstance(sent, str) else sent


def _text(content: str | list[Native]) -> str:
    return content if isinstance(content, str) else "".join(piece["text"] for piece in content)


def _messages(items: list[Native]) -> Iterator[Message]:
    reply: list[Native] = []
    for item in items:
        spoken = item.get("role") == "assistant"
        if spoken or item.get("type", "message") not in ("message", "function_call_output"):
            if reply and spoken and all(each["type"] in _PLAIN for each in reply):
                yield _reply(reply)
                reply = []
            reply.append({"type": "message", **item})
            continue
        if reply:
            yield _reply(reply)
            reply = []
        yield _result(item) if item.get("type") == "function_call_output" else _user(item)
    if reply:
        yield _reply(reply)


def _reply(items: list[Native]) -> Message:
    parts: list[InFlightPart] = []
    for item in items:
        if item["type"] == "message":
            parts += [Text(text=piece["text"]) for piece in _pieces(item)]
        elif item["type"] == "function_call":
            call = item["call_id"]
            parts.append(ToolCall(id=call, name=item["name"], args=item["arguments"], provider_id=call))
    plain = all(item["type"] in _PLAIN for item in items)
    opaque = b"" if plain else msgspec.json.encode(items)
    return Message(role="assistant", parts=tuple(parts), opaque=opaque, provider="" if plain else "openai")


def _user(item: Native) -> Message:
    return Message(role="user", parts=tuple(map(_input, _pieces(item))))


def _input(piece: Native) -> InFlightPart:
    if piece["type"] == "input_text":
        return Text(text=piece["text"])
    if piece["type"] == "input_image":
        return _media(piece["image_url"], "", "image/*")
    return _media(piece.get("file_data") or piece["file_url"], piece.get("filename", ""), "application/pdf")


def _media(address: str, name: str, kind: str) -> InFlightPart:
    if not address.startswith("data:"):
        return MediaLink(url=address, media_type=kind)
    media_type, _, content = address.removeprefix("data:").partition(";base64,")
    return InlineMedia(media_type=media_type, content=b64decode(content), name=name)


def _result(item: Native) -> Message:
    return Message(role="tool", parts=(ToolResult(call=item["call_id"], content=(Text(text=item["output"]),)),))


def _tool(tool: Native) -> ToolSpec:
    return ToolSpec(name=tool["name"], description=tool.get("description") or "", schema=tool["parameters"])


def _parameters(native: Native) -> dict[str, object]:
    named = {"max_output": "max_output_tokens", "temperature": "temperature", "top_p": "top_p"}
    found: dict[str, object] = {ours: native[theirs] for ours, theirs in named.items() if theirs in native}
    extra: dict[str, object] = {key: native[key] for key in _EXTRA if key in native}
    if effort := (native.get("reasoning") or {}).get("effort"):
        found["effort"] = effort
    if any(tool["type"] == "web_search" for tool in native.get("tools", [])):
        found["web_search"] = True
    form = (native.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        found["schema"] = {key: value for key, value in form.items() if key in ("schema", "name", "description")}
    elif form:
        extra["text"] = native["text"]
    choice = native.get("tool_choice")
    if isinstance(choice, dict) and choice["type"] != "function":
        extra["tool_choice"] = choice
    elif choice:
        found["tool_choice"] = choice["name"] if isinstance(choice, dict) else choice
    return {**found, "extra": extra}


# --- comparing -------------------------------------------------------------------------------------------------------


def _pieces(item: Native) -> list[Native]:
    content = item["content"]
    kind = "output_text" if item.get("role") == "assistant" else "input_text"
    return [{"type": kind, "text": content}] if isinstance(content, str) else cast("list[Native]", content)


def _plain_tool(tool: Native) -> Native:
    if tool["type"] != "function":
        return tool
    return {"description": "", **{key: value for key, value in tool.items() if key != "strict" and value is not None}}


def _plain_item(item: Native, beside: list[Native]) -> Native:
    plain = all(each.get("type", "message") in (*_PLAIN, "function_call_output") for each in beside)
    item = {"type": "message", **item}
    if item["type"] == "message":
        item["content"] = [_plain_piece(piece) if plain else piece for piece in _pieces(item)]
    if plain and item["type"] in _PLAIN:
        item = {key: value for key, value in item.items() if key not in ("id", "status")}
    return item


def _plain_piece(piece: Native) -> Native:
    return {key: value for key, value in piece.items() if key not in ("annotations", "logprobs")}
