"""Runs inside the peers' environment: `client_work.py '{"task": NAME, "given": {...}}'` prints measurements as JSON.

The official clients of openai and anthropic, given requests that Backstay wrote, as the lists and dicts that their users keep.
"""

import asyncio
import gc
import hashlib
import json
import resource
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2

Json = dict[str, Any]
Measured = dict[str, list[float]]
HISTORY = {"anthropic": "messages", "openai-responses": "input", "openai-chat": "messages"}
NOWHERE = "http://127.0.0.1:9/v1"


def build_requests(path: str, format: str, lengths: list[int], sent: str) -> Measured:
    """Wall and CPU from the call to the bytes of the request, for each length of the conversation; the first is the process's first."""
    measured, digests = asyncio.run(_build_requests(Path(path), format, lengths))
    Path(sent).write_text(json.dumps(digests), encoding="utf-8")
    return measured


async def _build_requests(path: Path, format: str, lengths: list[int]) -> tuple[Measured, list[str]]:
    seen: list[tuple[float, float, bytes]] = []

    def transport(request: httpx2.Request) -> httpx2.Response:
        seen.append((time.perf_counter(), time.thread_time(), request.content))
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"")

    ask = _client(format, NOWHERE, httpx2.MockTransport(transport))
    measured: Measured = {"wall": [], "cpu": []}
    digests = []
    for body in _bodies(path, format, lengths):
        gc.collect()
        start, busy = time.perf_counter(), time.thread_time()
        stream = await ask(body)
        there, spent, content = seen.pop()
        await stream.close()
        measured["wall"].append((there - start) * 1000)
        measured["cpu"].append((spent - busy) * 1000)
        digests.append(digest(json.loads(content)))
    return measured, digests


def first_delta(path: str, format: str, url: str, length: int, times: int) -> Measured:
    """From the call to the first piece of text, streamed by a server on this machine."""
    return asyncio.run(_first_delta(Path(path), format, url, length, times))


async def _first_delta(path: Path, format: str, url: str, length: int, times: int) -> Measured:
    ask = _client(format, url, None)
    (body,) = _bodies(path, format, [length])
    taken = []
    for number in range(times + 1):
        start, first = time.perf_counter(), 0.0
        async for _ in _texts(format, await ask(body)):
            first = first or time.perf_counter()
        if number:  # the first one opens the connection
            taken.append((first - start) * 1000)
    return {"wall": taken}


def memory(path: str, format: str, length: int, traced: bool) -> Measured:
    """Bytes that a conversation takes as a list of dicts, after one request for it was made."""
    return asyncio.run(_memory(Path(path), format, length, traced))


async def _memory(path: Path, format: str, length: int, traced: bool) -> Measured:
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"")
    ask = _client(format, NOWHERE, httpx2.MockTransport(lambda request: answer))
    (small,) = _bodies(path, format, [5])
    await (await ask(small)).close()
    gc.collect()
    before = resident()
    if traced:
        tracemalloc.start()
    (body,) = _bodies(path, format, [length])
    gc.collect()
    if traced:
        tracemalloc.reset_peak()
    await (await ask(body)).close()
    gc.collect()
    if not traced:
        return {"resident": [float(resident() - before)]}
    kept, peak = tracemalloc.get_traced_memory()
    return {"kept": [float(kept)], "peak": [float(peak)]}


def digest(body: Json) -> str:
    """The same for every way to write the same JSON."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def resident() -> int:
    """Bytes of memory in use now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def _client(format: str, url: str, transport: httpx2.AsyncBaseTransport | None) -> Callable[[Json], Any]:
    """What takes a request and gives its stream."""
    if format == "anthropic":
        import anthropic  # noqa: PLC0415  # each takes seconds to import, and only one is measured

        http: Any = anthropic.DefaultAsyncHttpxClient(transport=transport) if transport else None
        claude = anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0, http_client=http)
        return lambda body: claude.messages.create(**body)
    import openai  # noqa: PLC0415

    http = openai.DefaultAsyncHttpxClient(transport=transport) if transport else None
    client = openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0, http_client=http)
    endpoint = client.responses if format == "openai-responses" else client.chat.completions
    return lambda body: endpoint.create(**body)


def _bodies(path: Path, format: str, lengths: list[int]) -> Iterator[Json]:
    """The request at each length, as a program has it that keeps one list and adds to it."""
    whole: Json = json.loads(path.read_text(encoding="utf-8"))
    history = whole.pop(HISTORY[format])
    for length in lengths:
        messages = history[:length]
        if format == "anthropic":
            _mark(messages)
        yield {**whole, HISTORY[format]: messages}


def _mark(messages: list[Json]) -> None:
    """Ask for the conversation to be remembered up to its newest two messages of the user."""
    users = [at for at, message in enumerate(messages) if message["role"] == "user"]
    for at in users[-2:]:
        *blocks, last = messages[at]["content"]
        marked = [*blocks, {**last, "cache_control": {"type": "ephemeral"}}]
        messages[at] = {**messages[at], "content": marked}


async def _texts(format: str, stream: Any) -> AsyncIterator[str]:
    async for event in stream:
        if format == "openai-chat":
            if event.choices and event.choices[0].delta.content:
                yield event.choices[0].delta.content
        elif event.type == "response.output_text.delta":
            yield event.delta
        elif event.type == "content_block_delta":
            yield event.delta.text


TASKS = {task.__name__: task for task in (build_requests, first_delta, memory)}

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps(TASKS[request["task"]](**request["given"])))
