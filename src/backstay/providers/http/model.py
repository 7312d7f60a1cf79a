"""A model behind an HTTP address, in any wire format."""

import functools
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx
from msgspec.structs import replace

from backstay.ports import Model, ModelReply, ModelRequest
from backstay.providers.format import Encoder, Format, HttpRequest
from backstay.providers.http.errors import CONNECT_S, name_server, problem_of, refuse_redirect
from backstay.providers.http.response import HttpAnswer
from backstay.providers.http.tap import Trail
from backstay.system.machine import is_loopback
from backstay.version import VERSION
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import ProviderError
from backstay.vocab.specs import ModelFacts

ALIVE: Final = Delta()
"""A sign of life: bytes have come that show nothing. Whoever waits may wait on; there is nothing to stream."""
LAST_WORDS_S: Final = 10.0
"""How long a server may keep the connection open in silence after its answer is whole; then we hang up."""
FAILURE_S: Final = 10.0
"""How long the explanation of a failure may take. The status alone is enough."""
FAILURE_BYTES: Final = 1024 * 1024
"""A longer explanation is cut."""
CONVERSATIONS: Final = 4
"""Conversations whose encoded history is kept: a session and its children often share a model."""
IDLE_S: Final = 60.0
"""How long an unused connection is kept."""


class HttpModel:
    """Asks over HTTP: one request, one streamed answer, no retries of its own.

    The key is asked for at each question and is never kept, shown, traced or put into an error. Redirects are not followed. Proxies and
    certificates come from the environment (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE, SSL_CERT_DIR), except that an
    address on this machine is never asked through a proxy.

    There is no timeout between bytes: whoever asks sets one. Bytes that show nothing, such as a `ping`, come through as `ALIVE`. Leaving
    the stream, by cancellation or otherwise, closes the connection.

    Connections stay open between questions until `aclose`, or until the event loop ends.
    """

    def __init__(
        self,
        name: str,
        *,
        format: Format,
        base_url: str,
        key: str | Callable[[], str] = "",
        facts: ModelFacts | None = None,
        model: str = "",
    ) -> None:
        """`name` is `provider:model`, as the log has it; `model` is what the provider calls it, the last part of `name` unless given."""
        self._name = name
        self._provider, _, rest = name.partition(":")
        self._model = model or rest
        self._format = format
        self._base = base_url.rstrip("/")
        self._reader = f"{self._provider}@{self._base}"
        """Who can read the opaque state of its replies: the same provider under another address is somebody else."""
        self._key: Callable[[], str] = (lambda: key) if isinstance(key, str) else key
        self._facts = facts or ModelFacts()
        self._encoders: dict[int, Encoder] = {}
        self._client: _Held | None = None

    def __repr__(self) -> str:
        return f"HttpModel({self._name!r}, base_url={self._base!r})"

    @property
    def name(self) -> str:
        """As it is written in the log."""
        return self._name

    @property
    def format(self) -> str:
        """The wire format that it speaks."""
        return self._format.name

    @property
    def facts(self) -> ModelFacts:
        """What is known of it."""
        return self._facts

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Answer one request."""
        key = _usable(self._key(), self._name)
        trail = Trail(request.tap, key)
        posted = self._encoder(request).encode(replace(request, model=self._model))
        response = await self._send(posted, key, trail)
        answer = HttpAnswer(self._format, response.headers.get("content-type", ""), trail.watch)
        problem: ProviderError | None = None
        try:
            if not response.is_success:
                raise await self._failure(response, trail)
            chunks = response.aiter_bytes()
            over = False
            while (chunk := await self._next(chunks, answer, over)) is not None:
                shown = answer.feed(chunk)
                for delta in shown or (ALIVE,):
                    yield delta
                over = not shown and answer.is_finished()
            for delta in answer.close(whole=_has_length(response)):
                yield delta
            reply = answer.reply()
        except ProviderError as exc:
            problem = exc
        finally:
            await response.aclose()
        if problem is not None:
            if response.is_success:
                trail.report_failure(response.status_code, response.headers, problem)
            raise trail.without_key(
                problem
            ) from problem.__cause__  # outside the handler, which would keep the words with the key
        trail.report_answer(response.status_code, response.headers, reply, answer.size, answer.payloads)
        yield replace(reply, provider=self._reader)

    async def aclose(self) -> None:
        """Close the connections. The model may be asked again: it opens new ones."""
        held, self._client = self._client, None
        if held is not None:
            await held.aclose()

    def _encoder(self, request: ModelRequest) -> Encoder:
        """Return the writer of the conversation that `request` belongs to, which is told by its first message."""
        first = id(request.messages[0]) if request.messages else 0
        encoder = self._encoders.pop(first, None) or self._format.encoder(self._reader, self._facts)
        self._encoders[first] = encoder
        if len(self._encoders) > CONVERSATIONS:
            del self._encoders[next(iter(self._encoders))]
        return encoder

    async def _send(self, posted: HttpRequest, key: str, trail: Trail) -> httpx.Response:
        url = self._base + posted.path
        headers = {**_HEADERS, **self._format.headers(key), **posted.headers}
        trail.report_request("POST", url, headers, posted.body)
        client = await self._open_client()
        try:
            request = client.build_request("POST", url, content=posted.body, headers=headers)
            return await client.send(request, stream=True)
        except (httpx.RequestError, OSError) as exc:
            raise problem_of(exc, self._base) from exc
        except (httpx.InvalidURL, ValueError) as exc:
            raise ProviderError("bad_request", f"{url!r} is not an address: {exc}") from exc

    async def _next(self, chunks: AsyncIterator[bytes], answer: HttpAnswer, over: bool) -> bytes | None:
        """Return the next bytes; None at the end. When the answer is `over`, a connection that stays open or breaks changes nothing."""
        try:
            if not over:
                return await anext(chunks, None)
            with anyio.move_on_after(LAST_WORDS_S):
                return await anext(chunks, None)
            return None
        except (httpx.RequestError, OSError) as exc:
            if answer.is_finished():
                return None
            raise problem_of(exc, self._base) from exc

    async def _failure(self, response: httpx.Response, trail: Trail) -> ProviderError:
        body = await _explanation(response)
        if response.is_redirect:
            problem = refuse_redirect(response.status_code, response.headers.get("location", ""), self._base)
        else:
            problem = name_server(
                self._format.failure(response.status_code, response.headers, body), response, self._base
            )
        trail.report_failure(response.status_code, response.headers, problem, body)
        return problem

    async def _open_client(self) -> httpx.AsyncClient:
        """Return the client of this event loop, made when it is first needed: reading the certificates takes a while."""
        loop = anyio.lowlevel.current_token()
        if self._client is None or self._client.loop != loop:
            made = await anyio.to_thread.run_sync(_make_client, self._base)
            if self._client is not None and self._client.loop == loop:
                await made.aclose()  # another question was quicker
            else:
                self._client = _Held(self, loop, made)
                await self._client.begin()
        return self._client.client


class _Held:
    """The client of one event loop, for as long as its owner or the loop lives."""

    def __init__(self, owner: object, loop: object, client: httpx.AsyncClient) -> None:
        self.loop = loop
        self.client = client
        self._holder = _hold(client)
        # the finalizer, not the owner, keeps the holder: an owner in a cycle would take its open connections down with it
        self._finalizer = weakref.finalize(owner, _forget, self._holder)
        self._finalizer.atexit = False

    async def begin(self) -> None:
        await anext(self._holder)  # does not wait

    async def aclose(self) -> None:
        self._finalizer.detach()
        await self._holder.aclose()


async def _hold(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    """Close the client when this is closed. An event loop closes its generators when it ends, or when nothing refers to them any more."""
    try:
        yield
    finally:
        await client.aclose()


def _forget(_: object) -> None:
    """Do nothing: it is enough that nothing refers to a holder any more."""


def _make_client(base_url: str) -> httpx.AsyncClient:
    here = is_loopback(urlsplit(base_url).hostname or "")
    trusted = _certificates() if base_url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return httpx.AsyncClient(
            verify=trusted,
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=IDLE_S),
            follow_redirects=False,
            trust_env=not here,
        )
    except (ImportError, ValueError, httpx.InvalidURL) as exc:
        hint = "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"
        raise ProviderError("bad_request", f"The proxy of the environment cannot be used: {exc} {hint}.") from exc


@functools.cache
def _certificates() -> ssl.SSLContext:
    try:
        return httpx.create_ssl_context()
    except OSError as exc:
        settings = "the file of SSL_CERT_FILE or the folder of SSL_CERT_DIR"
        raise ProviderError("bad_request", f"The certificates cannot be read: {exc}. Check {settings}.") from exc


async def _explanation(response: httpx.Response) -> bytes:
    """Return the body of a failure, or as much of it as comes."""
    body = b""
    with anyio.move_on_after(FAILURE_S):
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) >= FAILURE_BYTES:
                    break
        except (httpx.RequestError, OSError):
            return body  # the status says what matters
    return body[:FAILURE_BYTES]


def _usable(key: str, name: str) -> str:
    key = key.strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ProviderError("auth", f"The key for {name!r} has characters that no key has. Was something else pasted?")
    return key


def _has_length(response: httpx.Response) -> bool:
    """Return whether the response says how long it is, so that its end is an end and not a cut."""
    return "content-length" in response.headers or "chunked" in response.headers.get("transfer-encoding", "").lower()


_HEADERS: Final[Mapping[str, str]] = {
    "content-type": "application/json",
    "accept": "text/event-stream, application/json",
    "accept-encoding": "identity",  # a compressor holds back what it has until a block is full
    "user-agent": f"backstay/{VERSION}",
}

if TYPE_CHECKING:
    _: Model = HttpModel("", format=cast("Format", None), base_url="")
