"""The HTTP client of the program's own requests: it reaches public addresses by default ports, and others only where a list allows them.

    async with Egress().client() as client:
        response = await client.get("https://example.com/")

A name is resolved here, every address that it has is judged, and the connection goes to one that was judged: a name that means another
address a moment later gains nothing. Proxies of the environment are not used, because they would do the resolving.

Redirects are judged before they are followed, and bodies are counted and unpacked while they come.
"""

import contextlib
import functools
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

import anyio
import anyio.to_thread
import httpcore
import httpx
from msgspec import Struct, field

from backstay.permissions.networks import (
    Address,
    Host,
    Opening,
    judge_address,
    matches,
    plain,
    read_host,
    table,
    why_local,
)
from backstay.permissions.networks import why_refused as why_refused  # noqa: PLC0414 - a part of what this module offers
from backstay.vocab.errors import EgressRefused, UserError

DEFAULT_PORTS: Final = frozenset((80, 443))
ANSWERS: Final = 64
"""Addresses that a name may have."""

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Finds the addresses of a name. Raises `socket.gaierror` when it has none."""


async def resolve_by_system(name: str) -> Sequence[str]:
    """Ask the operating system for the addresses of a name."""
    found = await anyio.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class EgressLimits(Struct, frozen=True, kw_only=True):
    """Limits of time and size of a request. None lifts a limit, for streams that have no end."""

    connect_s: float | None = 10.0
    """Finding the address and making the connection."""
    headers_s: float | None = 30.0
    """Until the last redirect is followed and the answer begins."""
    body_s: float | None = 60.0
    """For the whole body, however it trickles."""
    body_bytes: int | None = 5 * 1024 * 1024
    """Of the body, packed or unpacked."""


class Egress(Struct, frozen=True, kw_only=True, dict=True):
    """The policy of outgoing requests."""

    allow_hosts: Collection[str] | None = None
    """Only these hosts, when it is given: `example.com`, `*.example.com`."""
    allow_ports: Collection[int] = ()
    """Ports besides 80 and 443."""
    allow_private: Collection[str] = ()
    """Hosts, addresses and networks of one's own that may be reached all the same: `localhost:8080`, `10.1.2.3`, `10.1.0.0/16`. A port
    named here need not be in `allow_ports`. Addresses that clouds hand out credentials at must be listed themselves."""
    limits: EgressLimits = field(default_factory=EgressLimits)
    resolve: Resolve = resolve_by_system
    certificates: ssl.SSLContext | None = None
    """Whom to trust about names; those of SSL_CERT_FILE or SSL_CERT_DIR, else the ones that come along."""

    def __post_init__(self) -> None:
        """Find mistakes in the lists before anything relies on them."""
        for text in self.allow_private:
            Opening.parse(text)
        for pattern in self.allow_hosts or ():
            try:
                matches(pattern, "")
            except EgressRefused as exc:
                raise UserError(f"{pattern!r} is not a host that can be allowed: {exc.why}") from exc

    def client(self, *, follow_redirects: bool = False, limits: EgressLimits | None = None) -> httpx.AsyncClient:
        """Make a client all of whose requests are judged. Redirects are handed to the caller unless they are to be followed."""
        limits = limits or self.limits
        transport = GuardedTransport(
            self.judge_url, self.admit, limits=limits, certificates=lambda: self.certificates or _certificates()
        )
        return GuardedClient(transport, limits=limits, follow_redirects=follow_redirects)

    def why_not(self, url: str) -> str:
        """Explain why a request to `url` would be refused as it is written; empty when it depends on what the name resolves to."""
        try:
            self.judge_url(httpx.URL(url))
        except (EgressRefused, httpx.InvalidURL) as exc:
            return str(exc)
        return ""

    def judge_url(self, url: httpx.URL) -> None:
        """Judge an address as it is written. Raise `EgressRefused`."""
        if url.scheme not in ("http", "https"):
            raise EgressRefused("scheme", host=url.host, why=f"{url.scheme!r} is not http or https.")
        if url.userinfo:
            raise EgressRefused("userinfo", host=url.host, why="the address has a user's name in it. Leave that out.")
        port = url.port if url.port is not None else (443 if url.scheme == "https" else 80)
        host = self._judge_host(url.host, port)
        if not isinstance(host, str):
            self._judge_address(url.host, host, host, port, private=True)

    async def admit(self, text: str, port: int, private: bool = True) -> Sequence[str]:
        """Return the addresses of a host that a connection may be made to. Raise `EgressRefused` when any of its addresses is a bad one."""
        host = self._judge_host(text, port)
        if not isinstance(host, str):
            return (self._judge_address(text, host, host, port, private=private),)
        answers = await self._answers(host)
        return tuple(
            self._judge_address(text, host, _parse_address(text, one), port, private=private) for one in answers
        )

    async def _answers(self, name: str) -> Sequence[str]:
        try:
            answers = await self.resolve(name)
            if 0 < len(answers) <= ANSWERS:
                return answers
            raise socket.gaierror(socket.EAI_NONAME, f"it has {len(answers)} addresses")
        except socket.gaierror as exc:
            raise httpx.ConnectError(f"The name {name!r} cannot be resolved: {exc.strerror}.") from exc

    def _judge_host(self, text: str, port: int) -> Host:
        host = read_host(text)
        listed = any(opening.names(host) for opening in self._openings)
        if self.allow_hosts is not None and not listed and not any(matches(known, host) for known in self.allow_hosts):
            raise EgressRefused("host", host=text, why="it is not among the hosts that are allowed.")
        if isinstance(host, str) and (why := why_local(host)) and (not listed or host in table().names.metadata):
            raise EgressRefused("host", host=text, why=why)
        named = {opening.port for opening in self._openings if opening.names(host)}
        if port not in DEFAULT_PORTS.union(self.allow_ports, named):
            why = f"port {port} is not a web server's usual one. Allow it in the settings if you mean it."
            raise EgressRefused("port", host=text, why=why)
        return host

    def _judge_address(self, text: str, host: Host, address: Address, port: int, *, private: bool) -> str:
        judged = judge_address(address)
        if judged.why:
            if private and any(each.admits(host, address, port, judged) for each in self._openings):
                return str(plain(address))
            why = f"{address} is {judged.why}."
            raise EgressRefused("address", host=text, address=str(address), why=why)
        if is_this_machine(str(plain(address)), port):
            why = f"{address} is an address of this machine."
            raise EgressRefused("address", host=text, address=str(address), why=why)
        return str(plain(address))

    @functools.cached_property
    def _openings(self) -> tuple[Opening, ...]:
        return tuple(Opening.parse(text) for text in self.allow_private)


def _parse_address(text: str, answer: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(answer)
    except ValueError as exc:
        why = f"its name resolves to {answer!r}, which is not an address."
        raise EgressRefused("address", host=text, address=answer, why=why) from exc


@functools.cache
def _certificates() -> ssl.SSLContext:
    try:
        return httpx.create_ssl_context()
    except OSError as exc:
        named = "the file of SSL_CERT_FILE or the folder of SSL_CERT_DIR"
        raise UserError(f"The certificates cannot be read: {exc}. Check {named}.") from exc


REDIRECTS: Final = 5
"""Redirects that are followed, one after the other."""
DIALLED: Final = 6
"""Addresses of one host that are tried."""
KEPT_S: Final = 30.0
"""Seconds that an unused connection is kept."""

Admit = Callable[[str, int, bool], Awaitable[Sequence[str]]]
"""Gives the addresses that may be dialled for a host and port, or raises `EgressRefused`. The flag says whether private ones may be."""
JudgeUrl = Callable[[httpx.URL], None]
"""Raises `EgressRefused` for an address that is bad as it is written."""

_FOREIGN: Final = "backstay.redirected"
"""Marks a request that another host sent us on."""
_CARRIED: Final = frozenset(("accept", "accept-encoding", "accept-language", "host", "user-agent", "connection"))
"""Headers that go along to another host."""


class GuardedClient(httpx.AsyncClient):
    """A client that follows redirects only where a careful reader would.

    At most five, never from https to http, with a body never to another host, and to another host without the headers that were meant
    for the first one. A host that is private is reached by a redirect only from itself.
    """

    def __init__(self, transport: "GuardedTransport", *, limits: EgressLimits, follow_redirects: bool) -> None:
        super().__init__(
            transport=transport,
            timeout=httpx.Timeout(
                None, connect=limits.connect_s
            ),  # the rest has deadlines that a trickle does not move
            follow_redirects=follow_redirects,
            trust_env=False,
        )
        self._patience = limits.headers_s

    def build_request(self, method: str, url: httpx.URL | str, **rest: Any) -> httpx.Request:  # its types are private
        """Make a request; report an address that cannot be read like any other that is refused."""
        try:
            return super().build_request(method, url, **rest)
        except httpx.InvalidURL as exc:
            raise EgressRefused("url", host=_hide_password(str(url)), why=f"it is not an address: {exc}") from exc

    async def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: Any = httpx.USE_CLIENT_DEFAULT,  # its type is private
        follow_redirects: Any = httpx.USE_CLIENT_DEFAULT,  # likewise
    ) -> httpx.Response:
        """Send a request and, when that is wanted, follow where it leads."""
        follow = self.follow_redirects if follow_redirects is httpx.USE_CLIENT_DEFAULT else bool(follow_redirects)
        with anyio.CancelScope(deadline=_from_now(self._patience)) as limit:
            response = await self._follow(request, auth, follow)
        if limit.cancelled_caught:
            raise httpx.ReadTimeout(
                f"{request.url.host!r} did not answer within {self._patience:g} s.", request=request
            )
        if not stream:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response

    async def _follow(self, request: httpx.Request, auth: Any, follow: bool) -> httpx.Response:
        history: list[httpx.Response] = []
        while True:
            response = await super().send(request, stream=True, auth=auth, follow_redirects=False)
            response.history = list(history)
            following = response.next_request
            if following is None or not follow:
                return response
            await response.aclose()
            history.append(response)
            if len(history) > REDIRECTS:
                raise EgressRefused("redirect", host=request.url.host, why=f"it redirects more than {REDIRECTS} times.")
            if _judge_redirect(request, following):
                auth = None
            request = following


class GuardedTransport(httpx.AsyncBaseTransport):
    """Send requests over connections that `admit` has judged, and take answers within `limits`."""

    def __init__(
        self, judge_url: JudgeUrl, admit: Admit, *, limits: EgressLimits, certificates: Callable[[], ssl.SSLContext]
    ) -> None:
        self._judge_url = judge_url
        self._admit = admit
        self._limits = limits
        self._certificates = certificates
        self._pools: dict[bool, httpcore.AsyncConnectionPool] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        self._judge_url(request.url)
        pool = await self._pool(private=not request.extensions.get(_FOREIGN, False))
        with translate_errors():
            answer = await pool.handle_async_request(_plain(request))
        headers = httpx.Headers(answer.headers)
        try:
            body = self._body(request, headers, answer)
        except EgressRefused:
            await answer.aclose()
            raise
        return httpx.Response(answer.status, headers=headers, stream=body, extensions=answer.extensions)

    async def aclose(self) -> None:
        """Close every connection."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.aclose()

    def _body(self, request: httpx.Request, headers: httpx.Headers, answer: httpcore.Response) -> "BoundedBody":
        host, limit = request.url.host, self._limits.body_bytes
        said = headers.get("content-length", "")
        if limit is not None and said.isdecimal() and int(said[:20]) > limit and request.method != "HEAD":
            raise too_large(host, limit)
        coding = coding_of(headers, host)
        if coding:  # what comes out of here is not packed any more
            del headers["content-encoding"]
            headers.pop("content-length", None)
        source: Any = answer.stream  # iterable in either way, which its type does not say
        return BoundedBody(source, host=host, coding=coding, limits=self._limits)

    async def _pool(self, *, private: bool) -> httpcore.AsyncConnectionPool:
        """Return the connections that may, or may not, lead to private hosts. Read the certificates off the event loop.

        It takes a while.
        """
        if private not in self._pools:
            certificates = await anyio.to_thread.run_sync(self._certificates)
            backend = _JudgingBackend(self._admit, private=private)
            made = httpcore.AsyncConnectionPool(
                certificates, max_keepalive_connections=4, keepalive_expiry=KEPT_S, network_backend=backend
            )
            self._pools.setdefault(private, made)
        return self._pools[private]


def is_this_machine(address: str, port: int) -> bool:
    """Return whether an address is one of this machine's own, though it may be public. Send nothing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address, port))
        return bool(probe.getsockname()[0] == address)
    return False


class _JudgingBackend(httpcore.AsyncNetworkBackend):
    """Dial exactly the addresses that were judged."""

    def __init__(self, admit: Admit, *, private: bool) -> None:
        self._admit = admit
        self._private = private
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the pool calls it so
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,  # its type is private
    ) -> httpcore.AsyncNetworkStream:
        until = _from_now(timeout)
        with anyio.CancelScope(deadline=until) as limit:
            addresses = await self._admit(host, port, self._private)
        if limit.cancelled_caught:
            raise httpcore.ConnectTimeout(f"Looking {host!r} up took more than {timeout:g} seconds.")
        *others, last = addresses[:DIALLED]
        for place, address in enumerate(others):
            share = (until - anyio.current_time()) / (len(others) + 1 - place)
            with contextlib.suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._network.connect_tcp(address, port, timeout=min(share, 60.0))
        return await self._network.connect_tcp(
            last, port, timeout=None if timeout is None else until - anyio.current_time()
        )

    async def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        raise EgressRefused("scheme", host=path, why="requests do not go to sockets of this machine.")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def _plain(request: httpx.Request) -> httpcore.Request:
    """Strip a request of what could send it elsewhere: the host that it names is the host of its address."""
    url = request.url
    headers = httpx.Headers(request.headers)
    headers["host"] = url.netloc.decode("ascii")
    headers["accept-encoding"] = ACCEPTED
    extensions = {"timeout": request.extensions["timeout"]} if "timeout" in request.extensions else {}
    return httpcore.Request(
        method=request.method,
        url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=headers.raw,
        content=request.stream,
        extensions=extensions,
    )


def _judge_redirect(before: httpx.Request, after: httpx.Request) -> bool:
    """Judge a redirect and prepare the request that follows it. Return whether it goes to another host."""
    host = before.url.host
    if before.url.scheme == "https" and after.url.scheme != "https":
        raise EgressRefused("redirect", host=host, why=f"it redirects from https to {after.url.scheme}.")
    ports = (_port(before.url), _port(after.url))
    if host == after.url.host and (ports[0] == ports[1] or ports == (80, 443)):
        return False
    if after.method not in ("GET", "HEAD"):
        raise EgressRefused("redirect", host=host, why=f"it redirects what was sent on to {after.url.host!r}.")
    for name in [name for name in after.headers if name not in _CARRIED]:
        del after.headers[name]
    after.extensions = {**after.extensions, _FOREIGN: True}  # and stays so for all that follow it
    return True


def _hide_password(url: str) -> str:
    """Return an address that could not be read, without the password that may be in it."""
    return re.sub(r"//.*@", "//...@", url, flags=re.DOTALL)[:200]


def _port(url: httpx.URL) -> int | None:
    return url.port or {"http": 80, "https": 443}.get(url.scheme)


def _from_now(seconds: float | None) -> float:
    return float("inf") if seconds is None else anyio.current_time() + seconds


ACCEPTED: Final = "gzip, deflate"
"""The codings that are asked for: those that are unpacked here, in bounded steps."""
STEP: Final = 64 * 1024
"""Bytes that are unpacked at a time."""
MEMBERS: Final = 64
"""Parts that a packed body may be put together of."""


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
        """Yield the bytes, unpacked."""
        patience = self._limits.body_s
        until = float("inf") if patience is None else anyio.current_time() + patience
        chunks = aiter(self._source)
        while (chunk := await self._next(chunks, until)) is not None:
            self._came = self._count(self._came, len(chunk))
            for piece in (chunk,) if self._unpacker is None else self._unpacker.unpack(chunk):
                self._given = self._count(self._given, len(piece))
                yield piece
        if self._unpacker is not None:
            self._unpacker.close()

    async def aclose(self) -> None:
        """Let go of the connection."""
        close = getattr(self._source, "aclose", None)
        if close is not None:
            with translate_errors():
                await close()

    async def _next(self, chunks: AsyncIterator[bytes], until: float) -> bytes | None:
        with translate_errors(), anyio.CancelScope(deadline=until):
            return await anext(chunks, None)
        raise httpx.ReadTimeout(f"The answer of {self._host!r} took more than {self._limits.body_s:g} seconds.")

    def _count(self, before: int, more: int) -> int:
        if self._limits.body_bytes is not None and before + more > self._limits.body_bytes:
            raise too_large(self._host, self._limits.body_bytes)
        return before + more


def coding_of(headers: httpx.Headers, host: str) -> str:
    """Return the one coding of a body; empty for none. Raise `EgressRefused` for one that was not asked for."""
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
    """Make the error for a body with too many bytes."""
    return EgressRefused("too_large", host=host, why=f"its answer is larger than {limit:,} bytes.")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise the errors of the connection under the names that users of the client know; each keeps the name and the cause that it has."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as exc:
        raise getattr(httpx, type(exc).__name__)(str(exc)) from exc


class _Unpacker:
    """Unpack in bounded steps. Several parts after each other are one body, as gzip has it."""

    def __init__(self, coding: str) -> None:
        self._windows = [31] if coding == "gzip" else [zlib.MAX_WBITS, -zlib.MAX_WBITS]
        self._object = zlib.decompressobj(self._windows[0])
        self._members = 0
        self._begun = False

    def unpack(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what `chunk` holds, piece by piece."""
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
