"""A recorded request of Gemini as a request of ours, and both in one normal form.

`read_request` turns the provider's JSON into our messages and parameters; encoding them must give the recorded request
again, once both went through `normalise`. Its rules:

1. Names in `generationConfig` and in schemas are camel case; an empty `generationConfig` is no `generationConfig`.
2. Schemas: `parameters` and `responseSchema` are the same as `parametersJsonSchema` and `responseJsonSchema` with the names of
   types in lower case.
3. `systemInstruction` has no role, and its texts are one text.
4. The order of `tools` is of no matter.
5. Base64 is the same in both alphabets, with and without padding, but only in `inlineData`.
6. What a call gave is under `output`, also where the client called it `result`.
7. Calls are numbered in order, and a response has the number of the call that its id names, or of the first call
   of its name without a response where it has no id.
8. Summaries of thoughts in a reply without a signature are left out: they are not sent back.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from backstay.ports import ModelRequest
from backstay.vocab.messages import InFlightPart, InlineMedia, Message, Reasoning, Text, ToolCall, ToolResult
from backstay.vocab.specs import Ability, ModelFacts, ToolSpec
from tests.providers.google.bytes64 import from_base64

Json = dict[str, Any]  # recorded JSON, read by hand
ABILITIES: frozenset[Ability] = frozenset(("tools", "web_search"))
FACTS = ModelFacts(abilities=ABILITIES)
_PLAIN = {
    "maxOutputTokens": "max_output",
    "temperature": "temperature",
    "topP": "top_p",
    "seed": "seed",
    "stopSequences": "stop",
}


def read_request(path: str, native: Json) -> ModelRequest:
    """Our request for a recorded one."""
    known = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}
    extra: Json = {name: value for name, value in native.items() if name not in known}
    parameters = _read_config(camel(native.get("generationConfig", {})), extra)
    tools = tuple(_read_tools(native.get("tools", []), parameters, extra))
    _read_choice(native.get("toolConfig", {}), parameters, extra)
    return ModelRequest(
        model="google:" + path.rsplit("/", 1)[-1].partition(":")[0],
        messages=tuple(_read_messages(native["contents"])),
        instructions="".join(part["text"] for part in native.get("systemInstruction", {}).get("parts", [])),
        tools=tools,
        parameters={**parameters, "extra": extra},
    )


def normalise(native: Json) -> Json:
    """The normal form of a request, by the rules of this module."""
    made: Json = dict(native)
    config = camel(made.pop("generationConfig", {}))
    if "responseSchema" in config:
        config["responseJsonSchema"] = json_schema(config.pop("responseSchema"))
    if config:
        made["generationConfig"] = config
    if "systemInstruction" in made:
        made["systemInstruction"] = "".join(part["text"] for part in made["systemInstruction"]["parts"])
    if "tools" in made:
        made["tools"] = sorted((_normal_tool(tool) for tool in made["tools"]), key=json.dumps)
    numbers = _Numbers()
    made["contents"] = [_normal_content(content, numbers) for content in made["contents"]]
    return made


def camel(value: Any) -> Any:
    """`value` with the names of its fields in camel case."""
    if isinstance(value, dict):
        return {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): _inner(name, value[name]) for name in value}
    return [camel(each) for each in value] if isinstance(value, list) else value


def json_schema(schema: Any) -> Any:
    """A schema of the provider's own dialect as JSON Schema."""
    if isinstance(schema, list):
        return [json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made: Json = {}
    for name, value in camel(schema).items():
        if name == "type" and isinstance(value, str):
            made[name] = value.lower()
        elif name == "properties":
            made[name] = {key: json_schema(each) for key, each in value.items()}
        else:
            made[name] = json_schema(value)
    return made


def _inner(name: str, value: Any) -> Any:
    """What a field holds. Names below `properties` are the user's own."""
    return {key: camel(each) for key, each in value.items()} if name == "properties" else camel(value)


# --- reading ---------------------------------------------------------------------------------------------------------


def _read_config(config: Json, extra: Json) -> Json:
    parameters: Json = {}
    for name, value in config.items():
        if name in _PLAIN:
            parameters[_PLAIN[name]] = value
        elif name == "responseSchema":
            parameters["schema"] = json_schema(value)
        elif name != "responseMimeType" or "responseSchema" not in config:
            extra.setdefault("generationConfig", {})[name] = value
    return parameters


def _read_tools(tools: list[Json], parameters: Json, extra: Json) -> Iterator[ToolSpec]:
    if any(tool.keys() - {"functionDeclarations", "googleSearch"} for tool in tools):
        extra["tools"] = tools
        return
    for tool in tools:
        if "googleSearch" in tool:
            parameters["web_search"] = True
        for each in tool.get("functionDeclarations", []):
            schema = json_schema(each["parameters"])
            yield ToolSpec(name=each["name"], description=each.get("description", ""), schema=schema)


def _read_choice(config: Json, parameters: Json, extra: Json) -> None:
    calling = config.get("functionCallingConfig", {})
    names = calling.get("allowedFunctionNames", [])
    if len(names) > 1:
        extra["toolConfig"] = config
    elif calling:
        modes = {"AUTO": "auto", "NONE": "none", "ANY": "required"}
        parameters["tool_choice"] = names[0] if names else modes[calling["mode"]]


def _read_messages(contents: list[Json]) -> Iterator[Message]:
    waiting: list[ToolCall] = []
    for number, content in enumerate(contents):
        if content["role"] == "model":
            message = _read_reply(content["parts"], number)
            waiting = [part for part in message.parts if isinstance(part, ToolCall)]
            yield message
            continue
        spoken = tuple(_read_part(part) for part in content["parts"] if "functionResponse" not in part)
        for part in content["parts"]:
            if "functionResponse" in part:
                yield Message(role="tool", parts=(_read_result(part["functionResponse"], waiting),))
        if spoken:
            yield Message(role="user", parts=spoken)


def _read_reply(parts: list[Json], number: int) -> Message:
    made: list[InFlightPart] = []
    for index, part in enumerate(parts):
        if "functionCall" in part:
            call = part["functionCall"]
            args = json.dumps(call.get("args", {}))
            made.append(ToolCall(id=f"m{number}.{index}", name=call["name"], args=args, provider_id=call.get("id", "")))
        elif part.get("thought"):
            made.append(Reasoning(text=part["text"]))
        else:
            made.append(_read_part(part))
    signed = any("thoughtSignature" in part for part in parts)
    opaque = json.dumps(parts).encode() if signed else b""
    return Message(role="assistant", parts=tuple(made), opaque=opaque, provider="google" if signed else "")


def _read_part(part: Json) -> InFlightPart:
    if "inlineData" in part:
        media = part["inlineData"]
        return InlineMedia(media_type=media["mimeType"], content=from_base64(media["data"]))
    return Text(text=part["text"])


def _read_result(response: Json, waiting: list[ToolCall]) -> ToolResult:
    named = (call for call in waiting if call.name == response["name"] and call.provider_id == response.get("id", ""))
    call = next(named)
    waiting.remove(call)
    ((key, text),) = response["response"].items()
    return ToolResult(call=call.id, content=(Text(text=text),), is_error=key == "error")


# --- the normal form -------------------------------------------------------------------------------------------------


class _Numbers:
    """Calls by their number, and those that still wait for a response."""

    def __init__(self) -> None:
        self.count = 0
        self.waiting: list[tuple[int, Json]] = []

    def call(self, call: Json) -> int:
        self.waiting.append((self.count, call))
        self.count += 1
        return self.count - 1

    def response(self, response: Json) -> int:
        for entry in self.waiting:
            if entry[1]["name"] == response["name"] and entry[1].get("id") == response.get("id"):
                self.waiting.remove(entry)
                return entry[0]
        raise AssertionError(f"a response without its call: {response!r}")


def _normal_content(content: Json, numbers: _Numbers) -> Json:
    parts: list[Json] = content["parts"]
    signed = any("thoughtSignature" in part for part in parts)
    kept = [part for part in parts if signed or not part.get("thought")]
    return {"role": content["role"], "parts": [_normal_part(part, numbers) for part in kept]}


def _normal_part(part: Mapping[str, Any], numbers: _Numbers) -> Json:
    made = dict(part)
    if "inlineData" in made:
        made["inlineData"] = {**made["inlineData"], "data": from_base64(made["inlineData"]["data"])}
    if "functionCall" in made:
        made["functionCall"] = {**made["functionCall"], "id": numbers.call(made["functionCall"])}
    if "functionResponse" in made:
        response = made["functionResponse"]
        given = {"output" if key == "result" else key: text for key, text in response["response"].items()}
        made["functionResponse"] = {**response, "id": numbers.response(response), "response": given}
    return made


def _normal_tool(tool: Json) -> Json:
    if "functionDeclarations" not in tool:
        return tool
    declared = []
    for each in tool["functionDeclarations"]:
        one = dict(each)
        if "parameters" in one:
            one["parametersJsonSchema"] = json_schema(one.pop("parameters"))
        declared.append(one)
    return {"functionDeclarations": declared}
