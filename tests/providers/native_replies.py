"""Answers at random, as each provider writes them, read by the real decoders.

Whatever only its provider can read is marked `state-of-PROVIDER-`, so that it can be recognised in a request.
"""

import json
import random
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from backstay.ports import ModelReply
from backstay.providers.format import Format
from backstay.providers.http.sse import SseEvent

Native = dict[str, Any]  # Any: JSON

WORDS: Final = ("yes", "no", "a longer answer. " * 12, "käse", " \n", "{}", "a\x00b", "[Context Summary]")
NAMES: Final = ("look", "look", "look", "pay", "put", "stumble", "photo", "forbidden", "delegate", "gone")
"""Tools to call: some that there are, one that is refused, one that is not there."""
LOOSE_NAMES: Final = (*NAMES, "a.b c", "")
"""What servers call that do not hold their models to the tools that were declared."""
PNG: Final = b"\x89PNG\r\n\x1a\nnot much of a picture"


@dataclass
class Answers:
    """Makes the answers of one provider."""

    format: Format
    provider: str
    model: str
    dice: random.Random
    count: int = 0

    def reply(self, *, may_call: bool) -> ModelReply:
        """One answer, as the real decoder reads it."""
        decoder = self.format.decoder()
        make: Callable[[Answers, bool], object] = _MAKE[self.format.name]
        made = make(self, may_call)
        if isinstance(made, list):
            for event in made:
                decoder.event(SseEvent(name="", data=json.dumps(event).encode()))
        else:
            decoder.body(json.dumps(made).encode())
        return decoder.reply()

    def state(self) -> str:
        """Something that only the provider can read."""
        return f"state-of-{self.provider}-{self.number()}"

    def number(self) -> int:
        """A number that was not there before."""
        self.count += 1
        return self.count

    def pieces(self, may_call: bool) -> list[str]:
        """What the answer is made of, in order; calls stand last."""
        kinds = self.dice.choices(
            ("text", "thought", "server", "novelty", "picture"),
            (6, 4, 1, 0.3, 0.5),
            k=self.dice.choice((0, 1, 1, 2, 3)),
        )
        calls = self.dice.choice((0, 1, 1, 2, 4)) if may_call and self.dice.random() < 0.7 else 0
        return kinds + ["call"] * calls

    def text(self) -> str:
        """Some words."""
        return self.dice.choice(WORDS)

    def name(self) -> str:
        """A tool's name, or something like it."""
        return self.dice.choice(LOOSE_NAMES if self.format.name == "openai-chat" else NAMES)

    def args(self, name: str) -> str:
        """Arguments, most of them well formed."""
        if self.dice.random() < 0.3:
            return self.dice.choice(('{"m": 2}', "{}", '{"n": ', "[1]", ""))
        return '{"prompt": "What do you think?"}' if name == "delegate" else f'{{"n": {self.dice.randint(1, 3)}}}'

    def id(self, prefix: str) -> str:
        """An id; of servers that number the calls of each reply anew, now and then the same as before."""
        again = self.format.name in ("openai-chat", "google") and self.dice.random() < 0.05
        return f"{prefix}_same" if again else f"{prefix}_{self.model}_{self.number()}"


def _anthropic(answers: Answers, may_call: bool) -> list[Native]:
    """A stream: only there can arguments be malformed."""
    pieces = answers.pieces(may_call)
    blocks = [block for piece in pieces for block in _anthropic_blocks(answers, piece)]
    reasons = ("end_turn", "max_tokens", "pause_turn", "refusal") if answers.dice.random() < 0.3 else ("end_turn",)
    stop = "tool_use" if "call" in pieces else answers.dice.choice(reasons)
    events: list[Native] = [{"type": "message_start", "message": {"id": "m", "model": "fake", "usage": _COUNTED}}]
    for index, (start, delta) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta}] if delta else []
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}})
    return [*events, {"type": "message_stop"}]


_COUNTED: Final = {"input_tokens": 90, "output_tokens": 9}


def _anthropic_blocks(answers: Answers, piece: str) -> Iterator[tuple[Native, Native]]:
    match piece:
        case "text":
            yield {"type": "text", "text": ""}, {"type": "text_delta", "text": answers.text()}
        case "thought" if answers.dice.random() < 0.3:
            yield {"type": "redacted_thinking", "data": answers.state()}, {}
        case "thought":
            signed = {"type": "thinking", "thinking": answers.dice.choice(("hm", "")), "signature": answers.state()}
            yield signed, {}
        case "server":
            id = f"srvtoolu_{answers.number()}"
            yield {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "news"}}, {}
            if answers.dice.random() < 0.8:
                found = [
                    {"type": "web_search_result", "encrypted_content": answers.state(), "url": "https://a.example"}
                ]
                yield {"type": "web_search_tool_result", "tool_use_id": id, "content": found}, {}
        case "novelty":
            yield {"type": "novel_block", "what": answers.state()}, {}
        case "call":
            name = answers.name()
            start = {"type": "tool_use", "id": answers.id("toolu"), "name": name, "input": {}}
            yield start, {"type": "input_json_delta", "partial_json": answers.args(name)}
        case _:
            return


def _responses(answers: Answers, may_call: bool) -> Native:
    pieces = answers.pieces(may_call)
    output = [item for piece in pieces for item in _response_items(answers, piece)]
    cut = answers.dice.random() < 0.1
    return {
        "id": "resp",
        "model": "fake",
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": output,
        "usage": {**_COUNTED, "input_tokens_details": {"cached_tokens": 5}},
    }


def _response_items(answers: Answers, piece: str) -> Iterator[Native]:
    match piece:
        case "text":
            said = {"type": "output_text", "text": answers.text(), "annotations": []}
            yield {"type": "message", "id": f"msg_{answers.number()}", "role": "assistant", "content": [said]}
        case "thought":
            carried = {"encrypted_content": answers.state()} if answers.dice.random() < 0.8 else {}
            summary = [{"type": "summary_text", "text": "hm"}] if answers.dice.random() < 0.7 else []
            yield {"type": "reasoning", "id": f"rs_{answers.number()}", "summary": summary, **carried}
        case "server":
            action = {"type": "search", "query": answers.state()}
            yield {"type": "web_search_call", "id": f"ws_{answers.number()}", "status": "completed", "action": action}
        case "novelty":
            yield {"type": "novel_item", "id": f"nv_{answers.number()}", "what": answers.state()}
        case "picture":
            drawn = b64encode(PNG).decode()
            yield {
                "type": "image_generation_call",
                "id": f"ig_{answers.number()}",
                "status": "completed",
                "result": drawn,
            }
        case "call" if answers.dice.random() < 0.1:
            yield {"type": "custom_tool_call", "call_id": answers.id("call"), "name": "look", "input": answers.text()}
        case "call":
            name = answers.name()
            yield {
                "type": "function_call",
                "id": f"fc_{answers.number()}",
                "call_id": answers.id("call"),
                "name": name,
                "arguments": answers.args(name),
            }
        case _:
            return


def _chat(answers: Answers, may_call: bool) -> Native:
    pieces = answers.pieces(may_call)
    message: Native = {"role": "assistant", "content": "".join(answers.text() for each in pieces if each == "text")}
    if "thought" in pieces:
        message |= answers.dice.choice(
            (
                {"reasoning_content": answers.state()},
                {"reasoning_details": [{"type": "reasoning.encrypted", "data": answers.state(), "index": 0}]},
            )
        )
    if "server" in pieces:
        message["annotations"] = [{"type": "url_citation", "url_citation": {"url": "https://a.example"}}]
    if "novelty" in pieces:
        message["content"] = [{"type": "text", "text": answers.text()}, {"type": "novel", "what": answers.state()}]
    if "picture" in pieces:
        address = f"data:image/png;base64,{b64encode(PNG).decode()}"
        message["images"] = [{"type": "image_url", "image_url": {"url": address}}]
    if calls := [_chat_call(answers) for each in pieces if each == "call"]:
        message["tool_calls"] = calls
    finish = "tool_calls" if calls else answers.dice.choice(("stop", "stop", "length", "content_filter"))
    usage = {"prompt_tokens": 90, "completion_tokens": 9}
    return {"model": "fake", "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}


def _chat_call(answers: Answers) -> Native:
    bound = {"extra_content": {"signature": answers.state()}} if answers.dice.random() < 0.2 else {}
    id = "" if answers.dice.random() < 0.05 else answers.id("call")
    name = answers.name()
    return {"id": id, "type": "function", "function": {"name": name, "arguments": answers.args(name)}, **bound}


def _google(answers: Answers, may_call: bool) -> Native:
    parts = [part for piece in answers.pieces(may_call) for part in _google_parts(answers, piece)]
    finish = "STOP" if answers.dice.random() < 0.9 else "MAX_TOKENS"
    usage = {"promptTokenCount": 90, "candidatesTokenCount": 9}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": finish}
    if answers.dice.random() < 0.1:
        candidate["groundingMetadata"] = {"webSearchQueries": ["news"]}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake"}


def _google_parts(answers: Answers, piece: str) -> Iterator[Native]:
    signed = {"thoughtSignature": answers.state()} if answers.dice.random() < 0.4 else {}
    match piece:
        case "text":
            yield {"text": answers.text(), **signed}
            if answers.dice.random() < 0.1:
                yield {"text": "", "thoughtSignature": answers.state()}
        case "thought":
            yield {"text": "hm", "thought": True}
        case "server":
            yield {"executableCode": {"language": "PYTHON", "code": "print(1)"}, **signed}
            yield {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
        case "novelty":
            yield {"novelty": {"what": answers.state()}}
        case "picture":
            yield {"inlineData": {"mimeType": "image/png", "data": b64encode(PNG).decode()}}
        case "call":
            id = {"id": answers.id("fc")} if answers.dice.random() < 0.6 else {}
            name = answers.name()
            args = {"prompt": "What do you think?"} if name == "delegate" else {"n": 1} if signed else {}
            yield {"functionCall": {**id, "name": name, "args": args}, **signed}
        case _:
            return


_MAKE: Final[dict[str, Callable[[Answers, bool], object]]] = {
    "anthropic": _anthropic,
    "openai-responses": _responses,
    "openai-chat": _chat,
    "google": _google,
}
