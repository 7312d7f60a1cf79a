r"""Transports: reach a session from outside its process. `LinesTransport` is a small one, JSON lines over two streams.

A transport is attached to a session (`session.attach_transport(transport)`), started and stopped. It uses the public library only. The
session goes on when its transport goes away.

`LinesTransport` writes every item of the native stream (`docs/events.md`) and reads one JSON object a line:

    {"type":"submit","prompt","display"?,"raw"?,"input_id"?,"delivery"?:"queue"|"steer","replaces"?:true}
                                             -> {"type":"accepted","input_id"}
    {"type":"abort","reason"?}               {"type":"cancel-queue"}
    {"type":"get-executing"}                 -> {"type":"executing","executing":true}
    {"type":"get-pending"}                   -> {"type":"pending","pending":[text, ...]}
    {"type":"get-messages"}                  -> {"type":"messages","messages":[...]}
    {"type":"get-context"}                   -> {"type":"context","context":{"used","max","percentage","exact"}}

What cannot be understood or done is answered with `{"type":"protocol_error","message"}`, and reading goes on.
"""

from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, ByteSendStream

from backstay.session.session import Session
from backstay.vocab.deltas import Lagged
from backstay.vocab.errors import BackstayError, UserError
from backstay.vocab.event import Delivery
from backstay.wire import stream

LONGEST_LINE: Final = 1_048_576
"""Bytes of one line; a longer one is refused."""


class TransportError(UserError):
    """A transport was used in the wrong order."""

    code = "transport-error"


class NotAttached(TransportError):
    """The transport has no session yet."""

    code = "not-attached"


class AlreadyStarted(TransportError):
    """The transport runs: it can neither be started nor be given another session."""

    code = "already-started"


class Transport(Protocol):
    """A way to a session."""

    @property
    def name(self) -> str:
        """The name in messages and settings."""

    def attach(self, session: Session) -> None:
        """Set the session to serve. Raise `AlreadyStarted` when it runs."""

    async def start(self) -> None:
        """Serve until the other side is done, the session ends, or `stop` is called. Raise `NotAttached` or `AlreadyStarted`."""

    async def stop(self) -> None:
        """Stop serving and return when it has ended; do nothing when it does not run."""


class LinesTransport:
    """JSON lines over two streams, which the caller opens and closes."""

    def __init__(self, source: ByteReceiveStream, sink: ByteSendStream, *, name: str = "lines") -> None:
        self._source, self._sink = source, sink
        self._name = name
        self._session: Session | None = None
        self._scope: anyio.CancelScope | None = None
        self._ended = anyio.Event()
        self._writing = anyio.Lock()

    @property
    def name(self) -> str:
        """The name in messages."""
        return self._name

    def attach(self, session: Session) -> None:
        """Set the session to serve."""
        self._refuse_when_running()
        self._session = session

    async def start(self) -> None:
        """Serve until the input ends and its prompts are answered, the session ends, or `stop` is called."""
        if self._session is None:
            raise NotAttached(
                f"The transport {self.name!r} has no session. Call session.attach_transport(transport) first."
            )
        self._refuse_when_running()
        self._ended = anyio.Event()
        try:
            with anyio.CancelScope() as self._scope:
                await self._serve(self._session)
        finally:
            self._scope = None
            self._ended.set()

    async def stop(self) -> None:
        """Stop serving and return when it has ended."""
        if self._scope is not None:
            self._scope.cancel()
            await self._ended.wait()

    def _refuse_when_running(self) -> None:
        if self._scope is not None:
            raise AlreadyStarted(f"The transport {self.name!r} runs already. Stop it first.")

    async def _serve(self, session: Session) -> None:
        subscription = session.subscribe()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, session, subscription.end)
                async for item in subscription:
                    if not isinstance(item, Lagged):
                        await self._write(stream.line(session.id, item))
                        continue
                    for record in await session.events(item.after):  # what it was too slow for
                        subscription.mark_read(record.seq)
                        await self._write(stream.line(session.id, record))
                tasks.cancel_scope.cancel()
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client is gone; the session goes on without it
        finally:
            subscription.close()

    async def _read(self, session: Session, end: Callable[[], None]) -> None:
        async for line in _lines(self._source):
            try:
                answer = await self._handle(session, _parse(line))
            except BackstayError as exc:
                answer = {"type": "protocol_error", "message": str(exc)}
            if answer is not None:
                await self._write(msgspec.json.encode(answer))
        await session.until_idle()
        end()

    async def _handle(self, session: Session, line: "_Line") -> dict[str, object] | None:
        match line:
            case _Submit():
                given = {name: getattr(line, name) for name in _Submit.__struct_fields__ if name != "prompt"}
                return {"type": "accepted", "input_id": await session.submit(line.prompt, **given)}
            case _Abort():
                await session.abort(line.reason)
            case _CancelQueue():
                await session.drop_queued()
            case _GetExecuting():
                return {"type": "executing", "executing": session.is_executing}
            case _GetPending():
                return {"type": "pending", "pending": session.pending_prompts}
            case _GetMessages():
                return {"type": "messages", "messages": session.messages}
            case _GetContext():
                return {"type": "context", "context": session.context_state}
        return None

    async def _write(self, line: bytes) -> None:
        async with self._writing:
            await self._sink.send(line + b"\n")


class _Submit(msgspec.Struct, tag="submit", forbid_unknown_fields=True):
    prompt: str
    delivery: Delivery = "queue"
    input_id: str | None = None
    display: str = ""
    raw: str = ""
    replaces: bool = False


class _Abort(msgspec.Struct, tag="abort"):
    reason: str = ""


class _CancelQueue(msgspec.Struct, tag="cancel-queue"):
    pass


class _GetExecuting(msgspec.Struct, tag="get-executing"):
    pass


class _GetPending(msgspec.Struct, tag="get-pending"):
    pass


class _GetMessages(msgspec.Struct, tag="get-messages"):
    pass


class _GetContext(msgspec.Struct, tag="get-context"):
    pass


_Line = _Submit | _Abort | _CancelQueue | _GetExecuting | _GetPending | _GetMessages | _GetContext


def _parse(line: bytes) -> _Line:
    if not line:
        raise UserError(f"A line has more than {LONGEST_LINE} bytes. Send less at once.")
    try:
        found: _Line = msgspec.json.decode(line, type=_Line)
        return found
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise UserError(f"{line[:80].decode('utf-8', 'replace')!r} cannot be understood: {exc}.") from exc


async def _lines(source: ByteReceiveStream) -> AsyncIterator[bytes]:
    """Yield the lines of a stream that are not blank, and an empty one for each that is too long."""
    held, too_long = bytearray(), False
    while True:
        try:
            piece = await source.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            break
        *ended, rest = piece.split(b"\n")
        for end in ended:
            line = bytes(held + end).strip()
            if too_long or len(line) > LONGEST_LINE:
                yield b""
            elif line:
                yield line
            held, too_long = bytearray(), False
        held += rest
        if len(held) > LONGEST_LINE:
            held, too_long = bytearray(), True
    if held.strip() and not too_long:
        yield bytes(held).strip()
