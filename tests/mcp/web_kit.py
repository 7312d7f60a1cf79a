"""A website of this machine that answers as a function says, and a server on it that speaks the protocol in JSON."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Self

import anyio
from anyio.abc import ByteStream, TaskGroup


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        """What it says, when it is a message."""
        found: dict[str, Any] = json.loads(self.body or b"{}")
        return found


@dataclass
class Answer:
    """What is answered."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Whether the connection is closed without any answer."""


Reply = Callable[[Asked], Awaitable[Answer]]


class Website:
    """Answers every request by `reply`; each connection takes one."""

    def __init__(self, reply: Reply, port: int = 0) -> None:
        self.reply = reply
        self.port = port
        self.asked: list[Asked] = []
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"http://127.0.0.1:{self.port}/mcp"

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self.port, reuse_port=False)
        self._stack.push_async_callback(listener.aclose)
        self.port = int(listener.extra(anyio.abc.SocketAttribute.local_port))
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._tasks.start_soon(listener.serve, self._serve)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop at once, in the middle of whatever is answered."""
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    async def _serve(self, stream: ByteStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
            async with stream:
                await self._answer(stream)

    async def _answer(self, stream: ByteStream) -> None:
        head, _, body = (await stream.receive()).partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        while len(body) < int(headers.get("content-length", "0")):
            body += await stream.receive()
        method, path, _ = first.split(" ")
        asked = Asked(method, path, headers, body)
        self.asked.append(asked)
        answer = await self.reply(asked)
        if answer.cut:
            return
        given = {"connection": "close", "content-length": str(len(answer.body)), **answer.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        await stream.send(f"HTTP/1.1 {answer.status} x\r\n{lines}\r\n".encode() + answer.body)


def as_json(value: object, **headers: str) -> Answer:
    """An answer in JSON."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(body=json.dumps(value).encode(), headers={"content-type": "application/json", **named})


def speaking(tools: list[object], call: Reply, *, session: str = "one") -> Reply:
    """A server that lists `tools` and answers calls by `call`."""

    async def reply(asked: Asked) -> Answer:
        if asked.method != "POST":
            return Answer(status=405)
        message = asked.message
        if "id" not in message:
            return Answer(status=202)
        if message["method"] != "initialize" and asked.headers.get("mcp-session-id") != session:
            return Answer(status=404)
        match message["method"]:
            case "initialize":
                result: object = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "web", "version": "1"},
                }
            case "tools/list":
                result = {"tools": tools}
            case _:
                return await call(asked)
        return as_json({"jsonrpc": "2.0", "id": message["id"], "result": result}, mcp_session_id=session)

    return reply


async def say_done(asked: Asked) -> Answer:
    """Answer a call with one word."""
    result = {"content": [{"type": "text", "text": "done"}]}
    return as_json({"jsonrpc": "2.0", "id": asked.message["id"], "result": result})
