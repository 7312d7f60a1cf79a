"""The transport to a server that is a program: messages are lines on its input and output.

The official client has such a transport too. This one starts programs the way Backstay does, bounds what it reads, keeps the complaints
for the error message, and answers for a server whose reply is no message, so that the request does not wait for ever.
"""

import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO, Final

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from backstay.mcp.dependencies import Noise, Programs

LARGEST: Final = 32 * 1024 * 1024
"""Bytes of one message."""
MOST_NONSENSE: Final = 1_000
"""Lines that are no messages, after which a server is given up."""
MOST_ASKED: Final = 1_000
"""Requests of a server that wait for their answers, after which it is given up: it asks and does not read."""
_PIECE: Final = 65_536
_FLUSH_S: Final = 0.5

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def open_pipes(process: "subprocess.Popen[bytes]", programs: Programs, noise: Noise) -> AsyncIterator[Streams]:
    """Open the two message streams of a running program. It is ended when they are closed."""
    pipes = _Pipes(process, noise)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipes.read)
            tasks.start_soon(pipes.read_errors)
            tasks.start_soon(pipes.write)
            yield pipes.incoming, pipes.outgoing
            pipes.outgoing.close()
            with anyio.move_on_after(_FLUSH_S):
                await pipes.flushed.wait()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            pipes.close_input()
            await programs.end(process)
        pipes.close()


class _Pipes:
    """The three pipes of a program."""

    def __init__(self, process: "subprocess.Popen[bytes]", noise: Noise) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)
        self._noise = noise
        self._malformed = self._asked = 0
        self._arrived, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.outgoing, self._leaving = anyio.create_memory_object_stream[SessionMessage](0)
        self.flushed = anyio.Event()

    async def read(self) -> None:
        """Pass on messages until the server sends nothing more, or too much."""
        line = bytearray()
        async with self._arrived:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while piece := await _next(self._stdout):
                    head, *rest = piece.split(b"\n")
                    line += head
                    for each in rest:
                        await self._hand_on(bytes(line))
                        line = bytearray(each)
                    if self._asked > MOST_ASKED:
                        self._noise.add_nonsense(b"(requests without end, whose answers it does not read)")
                        return
                    if len(line) > LARGEST or self._malformed > MOST_NONSENSE:
                        self._noise.add_nonsense(bytes(line[:400]) or b"(too many such lines)")
                        return

    async def read_errors(self) -> None:
        """Keep the end of the error stream."""
        while piece := await _next(self._stderr):
            self._noise.add_complaint(piece)

    async def write(self) -> None:
        """Write messages to the server until none is left, or it does not read."""
        try:
            async with self._leaving:
                async for each in self._leaving:
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await _put(self._stdin, text.encode("utf-8", "replace") + b"\n")
                    self._asked -= isinstance(each.message, JSONRPCResponse | JSONRPCError)
        except OSError:
            await self._arrived.aclose()  # it may live on, but cannot be reached any more
        finally:
            self.flushed.set()

    def close_input(self) -> None:
        """Close the input: most servers end then."""
        with contextlib.suppress(OSError):
            self._stdin.close()

    def close(self) -> None:
        """Close the output, the error stream and the message streams; `close_input` has closed the input."""
        for pipe in (self._stdout, self._stderr):
            pipe.close()
        for stream in (self._arrived, self.incoming, self.outgoing, self._leaving):
            stream.close()

    async def _hand_on(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            self._malformed += 1
            self._noise.add_nonsense(line)
            answered = _find_answered_id(line)
            if answered is None:
                return
            error = ErrorData(code=PARSE_ERROR, message="the answer is no message of the protocol")
            message = SessionMessage(JSONRPCError(jsonrpc="2.0", id=answered, error=error))
        self._asked += isinstance(message.message, JSONRPCRequest)
        await self._arrived.send(message)


class _LooseMessage(msgspec.Struct):
    id: int | str
    method: object = None


def _find_answered_id(line: bytes) -> int | str | None:
    """Return the id of the request that a line answers although it is no message; None when it answers none."""
    try:
        found = msgspec.json.decode(line, type=_LooseMessage)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found.id if found.method is None else None


async def _next(pipe: "IO[bytes]") -> bytes:
    """Read the next bytes; none at the end."""
    while True:
        await anyio.wait_readable(pipe)
        try:
            return os.read(pipe.fileno(), _PIECE)
        except BlockingIOError:
            continue
        except OSError:
            return b""


async def _put(pipe: "IO[bytes]", content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        await anyio.wait_writable(pipe)
        with contextlib.suppress(BlockingIOError):
            rest = rest[os.write(pipe.fileno(), rest[:_PIECE]) :]
