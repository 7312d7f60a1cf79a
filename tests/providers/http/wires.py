"""What each provider would send: one thing said, written down in the four formats, by hand and as short as the format allows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

FormatName = Literal["anthropic", "openai-responses", "openai-chat", "google"]
FORMAT_NAMES: Final[tuple[FormatName, ...]] = ("anthropic", "openai-responses", "openai-chat", "google")
PROVIDERS: Final[Mapping[FormatName, str]] = {
    "anthropic": "anthropic",
    "openai-responses": "openai",
    "openai-chat": "openai-chat",
    "google": "google",
}
MODEL: Final = "test-model"
Json = dict[str, Any]  # Any: what a provider sends is JSON


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a model answers."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, object]]] = ()
    input: int = 12
    output: int = 7
    pieces: int = 3
    """In how many deltas the text comes."""

    @property
    def texts(self) -> list[str]:
        """The text in pieces."""
        size = max(1, -(-len(self.text) // self.pieces))
        return [self.text[at : at + size] for at in range(0, len(self.text), size)]


def stream(format: FormatName, said: Said) -> list[bytes]:
    """The events of a streamed answer, the last of them the provider's last word."""
    return _STREAMS[format](said)


def document(format: FormatName, said: Said) -> bytes:
    """The same answer when it is not streamed."""
    return json.dumps(_DOCUMENTS[format](said)).encode()


def error_event(format: FormatName, message: str = "Overloaded") -> bytes:
    """What a provider that fails in the middle of an answer sends."""
    match format:
        case "anthropic":
            return _named("error", error={"type": "overloaded_error", "message": message})
        case "openai-responses":
            return _named("error", code="server_error", message=message, param=None)
        case "openai-chat":
            return _frame({"error": {"message": message, "type": "server_error", "code": 503}})
        case "google":
            return _frame({"error": {"code": 503, "message": message, "status": "UNAVAILABLE"}})


def refusal(format: FormatName, status: int, message: str) -> bytes:
    """The body of a response that is not a success."""
    kind = _KINDS.get(status, "api_error")
    match format:
        case "anthropic":
            return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
        case "openai-responses" | "openai-chat":
            return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}}).encode()
        case "google":
            word = _WORDS.get(status, "UNAVAILABLE")
            return json.dumps({"error": {"code": status, "message": message, "status": word}}).encode()


def ping(format: FormatName) -> bytes:
    """A sign of life that says nothing: an event where the provider has one, else a comment."""
    return _named("ping") if format == "anthropic" else b": still here\n\n"


def paths(format: FormatName) -> str:
    """Where requests go, below the host."""
    match format:
        case "anthropic":
            return "/v1/messages"
        case "openai-responses":
            return "/v1/responses"
        case "openai-chat":
            return "/v1/chat/completions"
        case "google":
            return f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"


def base_path(format: FormatName) -> str:
    """The part of the path that belongs to the address."""
    return "/v1" if format.startswith("openai") else ""


def _frame(content: Json) -> bytes:
    return b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n"


def _named(type: str, **fields: Any) -> bytes:  # Any: as above
    return f"event: {type}\n".encode() + _frame({"type": type, **fields})


def _call_id(number: int) -> str:
    return f"call_{number}"


# --- anthropic -------------------------------------------------------------------------------------------------------------------


def _anthropic_stream(said: Said) -> list[bytes]:
    usage = {"input_tokens": said.input, "output_tokens": 1}
    start = {**_anthropic_document(said), "content": [], "stop_reason": None, "usage": usage}
    events = [_named("message_start", message=start)]
    index = 0
    if said.text:
        events.append(_named("content_block_start", index=0, content_block={"type": "text", "text": ""}))
        for piece in said.texts:
            events.append(_named("content_block_delta", index=0, delta={"type": "text_delta", "text": piece}))
        events.append(_named("content_block_stop", index=0))
        index = 1
    for number, (name, args) in enumerate(said.calls):
        block = {"type": "tool_use", "id": _call_id(number), "name": name, "input": {}}
        events.append(_named("content_block_start", index=index, content_block=block))
        delta = {"type": "input_json_delta", "partial_json": json.dumps(args)}
        events.append(_named("content_block_delta", index=index, delta=delta))
        events.append(_named("content_block_stop", index=index))
        index += 1
    stop = {"stop_reason": "tool_use" if said.calls else "end_turn", "stop_sequence": None}
    events.append(_named("message_delta", delta=stop, usage={"output_tokens": said.output}))
    return [*events, _named("message_stop")]


def _anthropic_document(said: Said) -> Json:
    content: list[Json] = [{"type": "text", "text": said.text}] if said.text else []
    for number, (name, args) in enumerate(said.calls):
        content.append({"type": "tool_use", "id": _call_id(number), "name": name, "input": args})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": "tool_use" if said.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": said.input, "output_tokens": said.output},
    }


# --- openai-responses ------------------------------------------------------------------------------------------------------------


def _responses_stream(said: Said) -> list[bytes]:
    whole = _responses_document(said)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [_named("response.created", response=begun)]
    for index, item in enumerate(whole["output"]):
        empty: Json = {"content": []} if item["type"] == "message" else {"arguments": ""}
        place = {"item_id": item["id"], "output_index": index}
        events.append(
            _named("response.output_item.added", output_index=index, item={**item, **empty, "status": "in_progress"})
        )
        if item["type"] == "message":
            part = {"type": "output_text", "text": "", "annotations": []}
            events.append(_named("response.content_part.added", **place, content_index=0, part=part))
            for piece in said.texts:
                events.append(_named("response.output_text.delta", **place, content_index=0, delta=piece))
            events.append(_named("response.output_text.done", **place, content_index=0, text=said.text))
        else:
            events.append(_named("response.function_call_arguments.delta", **place, delta=item["arguments"]))
            events.append(_named("response.function_call_arguments.done", **place, arguments=item["arguments"]))
        events.append(_named("response.output_item.done", output_index=index, item=item))
    return [*events, _named("response.completed", response=whole)]


def _responses_document(said: Said) -> Json:
    output: list[Json] = []
    if said.text:
        part = {"type": "output_text", "text": said.text, "annotations": []}
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
    for number, (name, args) in enumerate(said.calls):
        call = {"type": "function_call", "id": f"fc_{number}", "call_id": _call_id(number), "status": "completed"}
        output.append({**call, "name": name, "arguments": json.dumps(args)})
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": MODEL,
        "output": output,
        "error": None,
        "incomplete_details": None,
        "usage": {
            "input_tokens": said.input,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": said.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": said.input + said.output,
        },
    }


# --- openai-chat -----------------------------------------------------------------------------------------------------------------


def _chat_stream(said: Said) -> list[bytes]:
    def chunk(delta: Json, finish: str | None = None) -> bytes:
        return _frame({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": piece}) for piece in said.texts]
    for number, (name, args) in enumerate(said.calls):
        call = {
            "index": number,
            "id": _call_id(number),
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        events.append(chunk({"tool_calls": [call]}))
        events.append(chunk({"tool_calls": [{"index": number, "function": {"arguments": json.dumps(args)}}]}))
    events.append(chunk({}, "tool_calls" if said.calls else "stop"))
    events.append(_frame({**head, "choices": [], "usage": _chat_usage(said)}))
    return [*events, b"data: [DONE]\n\n"]


def _chat_document(said: Said) -> Json:
    message: Json = {"role": "assistant", "content": said.text or None}
    if said.calls:
        message["tool_calls"] = [
            {"id": _call_id(number), "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
            for number, (name, args) in enumerate(said.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if said.calls else "stop"}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [choice],
        "usage": _chat_usage(said),
    }


def _chat_usage(said: Said) -> Json:
    return {
        "prompt_tokens": said.input,
        "completion_tokens": said.output,
        "total_tokens": said.input + said.output,
    }


# --- google ----------------------------------------------------------------------------------------------------------------------


def _google_stream(said: Said) -> list[bytes]:
    def chunk(parts: list[Json], **candidate: str) -> bytes:
        content = {"role": "model", "parts": parts}
        return _frame({"candidates": [{"content": content, "index": 0, **candidate}], **_google_rest(said)})

    events = [chunk([{"text": piece}]) for piece in said.texts]
    calls = [{"functionCall": {"name": name, "args": args}} for name, args in said.calls]
    return [*events, chunk(calls or [{"text": ""}], finishReason="STOP")]


def _google_document(said: Said) -> Json:
    parts: list[Json] = [{"text": said.text}] if said.text else []
    parts += [{"functionCall": {"name": name, "args": args}} for name, args in said.calls]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], **_google_rest(said)}


def _google_rest(said: Said) -> Json:
    usage = {
        "promptTokenCount": said.input,
        "candidatesTokenCount": said.output,
        "totalTokenCount": said.input + said.output,
    }
    return {"usageMetadata": usage, "modelVersion": MODEL, "responseId": "r-1"}


_KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}
_WORDS: Final = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}

_STREAMS: Final = {
    "anthropic": _anthropic_stream,
    "openai-responses": _responses_stream,
    "openai-chat": _chat_stream,
    "google": _google_stream,
}
_DOCUMENTS: Final = {
    "anthropic": _anthropic_document,
    "openai-responses": _responses_document,
    "openai-chat": _chat_document,
    "google": _google_document,
}
