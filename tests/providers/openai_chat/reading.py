"""Native requests turned into ours, and a form in which a native request and what we write can be compared."""

import json
from base64 import b64decode
from typing import Any  # Any: native JSON

from backstay.ports import ModelRequest
from backstay.vocab.messages import InFlightPart, InlineMedia, MediaLink, Message, Text, ToolCall, ToolResult
from backstay.vocab.specs import ToolSpec

PROVIDER = "recorded"
SPOKEN = ("temperature", "top_p", "seed", "stop")
ENVELOPE = ("model", "messages", "tools", "tool_choice", "stream", "stream_options", "max_tokens", *SPOKEN)


def read_request(native: dict[str, Any]) -> ModelRequest:
    """`native` as one of our requests; fields that shape no conversation travel as `extra`."""
    messages = native["messages"]
    instructions = messages[0]["content"] if messages[0]["role"] == "system" else ""
    parameters: dict[str, object] = {name: native[name] for name in SPOKEN if name in native}
    if "max_tokens" in native:
        parameters["max_output"] = native["max_tokens"]
    if "tool_choice" in native:
        choice = native["tool_choice"]
        parameters["tool_choice"] = choice if isinstance(choice, str) else choice["function"]["name"]
    extra = {name: value for name, value in native.items() if name not in ENVELOPE}
    wanted = extra.get("response_format", {})
    if wanted.get("type") == "json_schema":
        parameters["schema"] = {key: value for key, value in wanted["json_schema"].items() if key != "strict"}
        del extra["response_format"]
    return ModelRequest(
        model=native["model"],
        instructions=instructions,
        messages=tuple(_message(each) for each in messages[1 if instructions else 0 :]),
        tools=tuple(_tool(tool["function"]) for tool in native.get("tools", ())),
        parameters={**parameters, "extra": extra},
    )


def normalise(native: dict[str, Any]) -> dict[str, Any]:
    """`native` without what says the same in another way.

    - the order of keys does not count;
    - a list of text parts is those texts, joined by an empty line, the empty ones left out: some servers take only a text;
    - an assistant's content that is missing is null;
    - an empty list of annotations is none;
    - ids of calls are numbered in the order in which they appear;
    - the arguments of a call are compared as the object that they say;
    - `strict` of a tool, which our tools do not have, and `detail` of an image, which is always `auto`, are left out;
    - `stream` and `stream_options` are left out: we always ask for a stream.
    """
    ids: dict[str, str] = {}
    messages = [_normal_message(message, ids) for message in native["messages"]]
    rest = {name: value for name, value in native.items() if name not in ("messages", "stream", "stream_options")}
    if "tools" in rest:
        rest["tools"] = [_without(tool["function"], "strict") for tool in rest["tools"]]
    return {**rest, "messages": messages}


def _message(native: dict[str, Any]) -> Message:
    match native["role"]:
        case "tool":
            result = ToolResult(call=native["tool_call_id"], content=(Text(text=native["content"]),))
            return Message(role="tool", parts=(result,))
        case "assistant":
            calls = tuple(_call(call) for call in native.get("tool_calls") or ())
            bound = "reasoning_content" in native
            opaque = {"content": native.get("content"), **native} if bound else None
            return Message(
                role="assistant",
                parts=(*_parts(native.get("content")), *calls),
                opaque=json.dumps(opaque).encode() if opaque else b"",
                provider=PROVIDER if opaque else "",
            )
        case role:
            return Message(role=role, parts=_parts(native["content"]))


def _call(native: dict[str, Any]) -> ToolCall:
    function = native["function"]
    return ToolCall(id=native["id"], name=function["name"], args=function["arguments"], provider_id=native["id"])


def _parts(content: Any) -> tuple[InFlightPart, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(text=content),)
    return tuple(_part(part) for part in content)


def _part(part: dict[str, Any]) -> InFlightPart:
    match part["type"]:
        case "text":
            return Text(text=part["text"])
        case "image_url":
            url = part["image_url"]["url"]
            return _inline(url) if url.startswith("data:") else MediaLink(url=url, media_type="image/png")
        case "file":
            return _inline(part["file"]["file_data"], part["file"]["filename"])
        case "input_audio":
            sound = part["input_audio"]
            return InlineMedia(media_type=f"audio/{sound['format']}", content=b64decode(sound["data"]))
        case kind:
            raise ValueError(f"a part {kind!r}")


def _inline(url: str, name: str = "") -> InlineMedia:
    head, _, content = url.removeprefix("data:").partition(";base64,")
    return InlineMedia(media_type=head, content=b64decode(content), name=name)


def _tool(function: dict[str, Any]) -> ToolSpec:
    return ToolSpec(name=function["name"], description=function["description"], schema=function["parameters"])


def _normal_message(native: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    message = {"content": None, **native}
    if not message.get("annotations"):
        message.pop("annotations", None)
    content = message["content"]
    if isinstance(content, list):
        parts = [_normal_part(part) for part in content]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        message["content"] = "\n\n".join(filter(None, texts)) if len(texts) == len(parts) else parts
    if "tool_call_id" in message:
        message["tool_call_id"] = ids[message["tool_call_id"]]
    if message.get("tool_calls"):
        message["tool_calls"] = [_normal_call(call, ids) for call in message["tool_calls"]]
    return message


def _normal_part(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "image_url": _without(part["image_url"], "detail")} if part["type"] == "image_url" else part


def _normal_call(call: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    function = {**call["function"], "arguments": json.loads(call["function"]["arguments"])}
    return {**call, "id": ids.setdefault(call["id"], f"call {len(ids)}"), "function": function}


def _without(native: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in native.items() if name != key}
