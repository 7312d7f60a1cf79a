"""A provider on this machine that answers every request at once with the same streamed text: `python -m benchmarks.loopback`.

Prints its port, then serves until its input ends. It runs in a process of its own, so that its work is nobody else's.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

PIECES: Final = 20
"""In how many pieces the text comes. The first is sent alone, the others follow together."""
PATHS: Final = {"/v1/messages": "anthropic", "/v1/responses": "openai-responses", "/v1/chat/completions": "openai-chat"}
BASES: Final = {"anthropic": "", "openai-responses": "/v1", "openai-chat": "/v1"}
"""The path of a client's address."""
MARKS: Final = {
    "anthropic": "text_delta",
    "openai-responses": '"type": "response.output_text.delta"',
    "openai-chat": '"content": "word',
}
"""What the line of a piece of text has in it, and no other line."""


@contextmanager
def serving() -> Iterator[int]:
    """Serve while the block runs; gives the port."""
    command = [sys.executable, "-m", "benchmarks.loopback"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())


def events(format: str) -> tuple[bytes, bytes]:
    """An answer up to its first piece of text, and the rest."""
    before, pieces, after = _EVENTS[format]()
    return b"".join([*before, pieces[0]]), b"".join([*pieces[1:], *after])


async def _serve() -> None:
    answers = {path.encode(): events(format) for path, format in PATHS.items()}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.split(b"\r\n")
                sizes = (line.partition(b":")[2] for line in lines if line.lower().startswith(b"content-length:"))
                await reader.readexactly(int(next(sizes)))
                begin, rest = answers[first.split(b" ")[1].partition(b"?")[0]]
                writer.write(_HEAD + _chunk(begin))
                await writer.drain()
                writer.write(_chunk(rest) + b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # the client went away
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_TEXT: Final = ["word " for _ in range(PIECES)]
Parts = tuple[list[bytes], list[bytes], list[bytes]]


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def _frame(content: dict[str, Any]) -> bytes:  # Any: an event is JSON
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def _named(type: str, **content: Any) -> bytes:  # Any: likewise
    return f"event: {type}\n".encode() + _frame({"type": type, **content})


def _anthropic() -> Parts:
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "a-model", "content": []}
    usage = {"input_tokens": 10, "output_tokens": 1}
    start = {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}
    before = [
        _named("message_start", message=start),
        _named("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    ]
    pieces = [_named("content_block_delta", index=0, delta={"type": "text_delta", "text": text}) for text in _TEXT]
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    ended = _named("message_delta", delta=stop, usage={"output_tokens": PIECES})
    return before, pieces, [_named("content_block_stop", index=0), ended, _named("message_stop")]


def _responses() -> Parts:
    text = {"type": "output_text", "text": "".join(_TEXT), "annotations": []}
    item = {"type": "message", "id": "i1", "role": "assistant", "status": "completed", "content": [text]}
    usage = {"input_tokens": 10, "output_tokens": PIECES, "total_tokens": PIECES + 10}
    response = {"id": "r1", "object": "response", "status": "completed", "model": "a-model", "output": [item]}
    place = {"item_id": "i1", "output_index": 0, "content_index": 0}
    before = [
        _named("response.created", response={**response, "status": "in_progress", "output": []}),
        _named("response.output_item.added", output_index=0, item={**item, "content": [], "status": "in_progress"}),
        _named("response.content_part.added", **place, part={"type": "output_text", "text": "", "annotations": []}),
    ]
    pieces = [_named("response.output_text.delta", **place, delta=text, logprobs=[]) for text in _TEXT]
    after = [
        _named("response.output_text.done", **place, text="".join(_TEXT)),
        _named("response.output_item.done", output_index=0, item=item),
        _named("response.completed", response={**response, "usage": usage}),
    ]
    return before, pieces, after


def _chat() -> Parts:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "a-model"}

    def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
        return _frame({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    usage = {"prompt_tokens": 10, "completion_tokens": PIECES, "total_tokens": PIECES + 10}
    after = [chunk({}, "stop"), _frame({**head, "choices": [], "usage": usage}), b"data: [DONE]\n\n"]
    return [chunk({"role": "assistant", "content": ""})], [chunk({"content": text}) for text in _TEXT], after


_EVENTS: Final = {"anthropic": _anthropic, "openai-responses": _responses, "openai-chat": _chat}

if __name__ == "__main__":
    asyncio.run(_serve())
