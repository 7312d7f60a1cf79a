"""Recorded requests of the Messages API, read back into our own words."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from backstay.ports import ModelRequest
from backstay.vocab.messages import InFlightPart, InlineMedia, MediaLink, Message, Text, ToolCall, ToolResult
from backstay.vocab.specs import ToolSpec

Json = Any  # recorded JSON has no shape that we could promise

_SPOKEN = ("model", "messages", "system", "stream", "max_tokens", "temperature", "top_p", "stop_sequences")


def read_request(native: dict[str, Json]) -> ModelRequest:
    """Say a native request in our words; fields that have none go to `extra`."""
    rest = {key: value for key, value in native.items() if key not in _SPOKEN}
    parameters: dict[str, object] = {"max_output": native["max_tokens"]}
    parameters |= {key: native[key] for key in ("temperature", "top_p") if key in native}
    if "stop_sequences" in native:
        parameters["stop"] = native["stop_sequences"]
    config = rest.pop("output_config", None) or {"format": rest.pop("output_format", None)}
    if config.get("format"):
        parameters["schema"] = {"schema": config["format"]["schema"]}
    tools = _tools(rest, parameters)
    if "tools" not in rest and set(rest.get("tool_choice", {"": ""})) <= {"type", "name"}:
        choice = rest.pop("tool_choice")
        parameters["tool_choice"] = {"any": "required", "tool": choice.get("name")}.get(choice["type"], choice["type"])
    return ModelRequest(
        model=native["model"],
        messages=tuple(Reader().messages(native["messages"])),
        instructions="".join(block["text"] for block in _blocks(native.get("system", []))),
        tools=tools,
        parameters={**parameters, "extra": rest},
    )


class Reader:
    """Reads messages and gives each call an id of ours."""

    def __init__(self) -> None:
        self._ours: dict[str, str] = {}

    def messages(self, native: list[Json]) -> Iterator[Message]:
        """Our messages: a result is one of its own."""
        for message in native:
            blocks = _blocks(message["content"])
            if message["role"] == "assistant":
                yield self._assistant(blocks)
                continue
            waiting: list[InFlightPart] = []
            for block in blocks:
                if block["type"] != "tool_result":
                    waiting.append(_part(block))
                    continue
                if waiting:
                    yield Message(role="user", parts=tuple(waiting))
                    waiting = []
                yield Message(role="tool", parts=(self._result(block),))
            if waiting:
                yield Message(role="user", parts=tuple(waiting))

    def _assistant(self, blocks: list[Json]) -> Message:
        parts: list[InFlightPart] = []
        for block in blocks:
            if block["type"] == "tool_use":
                ours = self._ours.setdefault(block["id"], f"ask{len(self._ours)}.0")
                args = json.dumps(block["input"])
                parts.append(ToolCall(id=ours, name=block["name"], args=args, provider_id=block["id"]))
            elif block["type"] == "text":
                parts.append(Text(text=block["text"]))
        plain = all(block["type"] in ("text", "tool_use") and not block.get("citations") for block in blocks)
        if plain:
            return Message(role="assistant", parts=tuple(parts))
        return Message(role="assistant", parts=tuple(parts), opaque=json.dumps(blocks).encode(), provider="anthropic")

    def _result(self, block: Json) -> ToolResult:
        content: Any = tuple(_part(each) for each in _blocks(block.get("content", [])))
        return ToolResult(call=self._ours[block["tool_use_id"]], content=content, is_error=block.get("is_error", False))


def normalise(native: dict[str, Json]) -> dict[str, Json]:
    """Take out of a request what makes no difference.

    1. The order of keys (dicts compare without it).
    2. A text in place of content, instructions or a result is the same as one block of text.
    3. Marks for the cache are taken away.
    4. `stream` is taken away: we always stream.
    5. Fields that are null, and `is_error: false`, are taken away.
    6. Ids of calls are numbered in the order in which they come.
    7. `output_format` is the older name of `output_config.format`.
    8. Neighbouring messages of one role are one.
    9. An empty list of tools is none.
    """
    request = _without(native, ("cache_control", "stream"))
    if "output_format" in request:
        request["output_config"] = {"format": request.pop("output_format")}
    if not request.get("tools", True):
        del request["tools"]
    if "system" in request:
        request["system"] = _blocks(request["system"])
    merged: list[Json] = []
    for message in request.pop("messages"):
        content = [_result_as_blocks(block) for block in _blocks(message["content"])]
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] += content
        else:
            merged.append({"role": message["role"], "content": content})
    return {**request, "messages": _renumbered(merged)}


def _tools(rest: dict[str, Json], parameters: dict[str, object]) -> tuple[ToolSpec, ...]:
    """Tools of ours, when all of them are; the search of the provider by its parameter; else they stay in `rest`."""
    native = [_without(tool, ("cache_control",)) for tool in rest.get("tools", [])]
    search = {"type": "web_search_20250305", "name": "web_search"}
    ours = [tool for tool in native if tool != search]
    if any(set(tool) != {"name", "description", "input_schema"} for tool in ours):
        return ()
    rest.pop("tools", None)
    if len(ours) != len(native):
        parameters["web_search"] = True
    return tuple(
        ToolSpec(name=tool["name"], description=tool["description"], schema=tool["input_schema"]) for tool in ours
    )


def _part(block: Json) -> InFlightPart:
    if block["type"] == "text":
        return Text(text=block["text"])
    source, name = block["source"], block.get("title", "")
    match source["type"]:
        case "base64":
            return InlineMedia(media_type=source["media_type"], content=base64.b64decode(source["data"]), name=name)
        case "text":
            return InlineMedia(media_type="text/plain", content=source["data"].encode(), name=name)
        case "file":
            return MediaLink(url=f"file:{source['file_id']}", media_type="application/pdf", name=name)
        case _:
            media_type = "image/png" if block["type"] == "image" else "application/pdf"
            return MediaLink(url=source["url"], media_type=media_type, name=name)


def _blocks(content: Json) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _result_as_blocks(block: Json) -> Json:
    return {**block, "content": _blocks(block["content"])} if block["type"] == "tool_result" else block


def _without(value: Json, keys: tuple[str, ...]) -> Json:
    if isinstance(value, list):
        return [_without(each, keys) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without(each, keys)
        for key, each in value.items()
        if key not in keys and each is not None and not (key == "is_error" and each is False)
    }


def _renumbered(messages: list[Json]) -> list[Json]:
    ids: dict[str, str] = {}
    for message in messages:
        for block in message["content"]:
            if block["type"] == "tool_use":
                block["id"] = ids.setdefault(block["id"], f"call-{len(ids)}")
            elif block["type"] == "tool_result":
                block["tool_use_id"] = ids.get(block["tool_use_id"], block["tool_use_id"])
    return messages
