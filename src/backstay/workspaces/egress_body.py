"""The body of an answer, taken within bounds: so many bytes, unpacked or not, in so much time."""

import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import httpcore
import httpx
from msgspec import Struct

from backstay.vocab.errors import EgressRefused

ACCEPTED: Final = "gzip, deflate"
"""The codings that are asked for: those that are unpacked here, in bounded steps."""
STEP: Final = 64 * 1024
"""Bytes that are unpacked at a time."""
MEMBERS: Final = 64
"""Parts that a packed body may be put together of."""


class EgressLimits(Struct, frozen=True, kw_only=True):
    """How long a request may take and how much it may bring. None lifts a limit, for streams that have no end."""

    connect_s: float | None = 10.0
    """Finding the address and making the connection."""
    headers_s: float | None = 30.0
    """Until the last redirect is followed and the answer begins."""
    body_s: float | None = 60.0
    """For the whole body, however it trickles."""
    body_bytes: int | None = 5 * 1024 * 1024
    """Of the body, packed or unpacked."""


class BoundedBody(httpx.AsyncByteStream):
    """A body that is counted and unpacked while it comes."""

    def __init__(self, source: AsyncIterable[bytes], *, host: str, coding: str, limits: EgressLimits) -> None:
        self._source = source
        self._host = host
        self._unpacker = _Unpacker(coding) if coding else None
        self._limits = limits
        self._came = 0
        self._given = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The bytes, unpacked."""
        patience = self._limits.body_s
        until = float("inf") if patience is None else anyio.current_time() + patience
        chunks = aiter(self._source)
        while (chunk := await self._next(chunks, until)) is not None:
            self._came = self._counted(self._came, len(chunk))
            for piece in (chunk,) if self._unpacker is None else self._unpacker.unpack(chunk):
                self._given = self._counted(self._given, len(piece))
                yield piece
        if self._unpacker is not None:
            self._unpacker.close()

    async def aclose(self) -> None:
        """Let go of the connection."""
        close = getattr(self._source, "aclose", None)
        if close is not None:
            with named_errors():
                await close()

    async def _next(self, chunks: AsyncIterator[bytes], until: float) -> bytes | None:
        with named_errors(), anyio.CancelScope(deadline=until):
            return await anext(chunks, None)
        raise httpx.ReadTimeout(f"The answer of {self._host!r} took more than {self._limits.body_s:g} seconds.")

    def _counted(self, before: int, more: int) -> int:
        if self._limits.body_bytes is not None and before + more > self._limits.body_bytes:
            raise too_large(self._host, self._limits.body_bytes)
        return before + more


def coding_of(headers: httpx.Headers, host: str) -> str:
    """The one coding that a body has; empty for none. Raise `EgressRefused` for one that was not asked for."""
    said: str = headers.get("content-encoding", "")
    named = [word.strip().lower() for word in said.split(",")]
    codings = [word.removeprefix("x-") for word in named if word not in ("", "identity")]
    if not codings:
        return ""
    if len(codings) > 1 or codings[0] not in ("gzip", "deflate"):
        why = f"its answer is packed as {', '.join(codings)[:80]!r}, which was not asked for."
        raise EgressRefused("encoding", host=host, why=why)
    return codings[0]


def too_large(host: str, limit: int) -> EgressRefused:
    """The error for a body with too many bytes."""
    return EgressRefused("too_large", host=host, why=f"its answer is larger than {limit:,} bytes.")


@contextmanager
def named_errors() -> Iterator[None]:
    """Raise the errors of the connection under the names that users of the client know; each keeps the name and the cause that it has."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as exc:
        raise getattr(httpx, type(exc).__name__)(str(exc)) from exc


class _Unpacker:
    """Unpacks in bounded steps. Several parts after each other are one body, as gzip has it."""

    def __init__(self, coding: str) -> None:
        self._windows = [31] if coding == "gzip" else [zlib.MAX_WBITS, -zlib.MAX_WBITS]
        self._object = zlib.decompressobj(self._windows[0])
        self._members = 0
        self._begun = False

    def unpack(self, chunk: bytes) -> Iterator[bytes]:
        """What `chunk` holds, piece by piece."""
        while chunk:
            if self._object.eof:
                self._next_member()
            piece = self._step(chunk)
            self._begun = True
            chunk = self._object.unconsumed_tail or self._object.unused_data
            if piece:
                yield piece
            if not piece and not self._object.eof:
                return

    def close(self) -> None:
        """Raise when the body ended in the middle. A body that never began is none."""
        if self._begun and not self._object.eof:
            raise httpx.DecodingError("The packed answer ended too early.")

    def _step(self, chunk: bytes) -> bytes:
        try:
            return self._object.decompress(chunk, STEP)
        except zlib.error as exc:
            if self._begun or len(self._windows) == 1:
                raise httpx.DecodingError(f"The packed answer cannot be unpacked: {exc}.") from exc
            self._windows.pop(0)  # some servers leave out the frame that `deflate` should have
            self._object = zlib.decompressobj(self._windows[0])
            return self._step(chunk)

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MEMBERS:
            raise httpx.DecodingError(f"The packed answer has more than {MEMBERS} parts.")
        self._object = zlib.decompressobj(self._windows[0])
