"""A web server on a free port of this machine that does as it is told, and name servers that lie.

async with Site({"/": page("Hello.")}) as site:
    async with site.egress().client() as client:
        response = await client.get(site.url("/"))
"""

import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import anyio
import httpx
import pytest
from anyio.abc import ByteStream
from anyio.streams.tls import TLSListener

from backstay.system.guarded_http import Egress, Resolve
from backstay.vocab.errors import EgressRefused

Send = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True)
class Page:
    """What is answered under one path."""

    body: bytes | Callable[[Send], Awaitable[None]] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bool = False
    """Whether `body` is the whole answer, with its head."""


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


def page(text: str, content_type: str = "text/plain; charset=utf-8", **headers: str) -> Page:
    """A page with a text."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Page(text.encode(), headers={"content-type": content_type, **named})


def leads_to(location: str, status: int = 302) -> Page:
    """A redirect."""
    return Page(b"moved", status=status, headers={"location": location})


async def for_ever(send: Send) -> None:
    """A body that does not end."""
    while True:
        await send(b"x" * 65536)


async def in_silence(send: Send) -> None:
    """A body that does not come."""
    await send(b"x")
    await anyio.sleep_forever()


async def in_drops(send: Send) -> None:
    """A body that comes byte by byte and does not end."""
    while True:
        await send(b"x")
        await anyio.sleep(0.01)


class Site:
    """The server. A path that it does not know is answered with 404."""

    def __init__(self, pages: Mapping[str, Page] | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.pages = dict(pages or {})
        self.asked: list[Asked] = []
        self.connections = 0
        self.port = 0
        self._tls = tls
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Listen."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = listener.extra(anyio.abc.SocketAttribute.local_port)
        serving: Any = TLSListener(listener, self._tls, standard_compatible=False) if self._tls else listener
        self._stack.push_async_callback(serving.aclose)
        tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._stack.callback(tasks.cancel_scope.cancel)
        tasks.start_soon(serving.serve, self._serve)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self._stack.aclose()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """The address of a path."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def egress(self, **rest: Any) -> Egress:
        """A guard that lets requests through to this server, by its address."""
        return Egress(**{"allow_private": {f"127.0.0.1:{self.port}"}, **rest})

    async def _serve(self, stream: ByteStream) -> None:
        self.connections += 1
        async with stream:
            try:
                while (asked := await _read_request(stream)) is not None:
                    self.asked.append(asked)
                    await _answer(stream, self.pages.get(asked.target.partition("?")[0], Page(b"not here", 404)))
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
                return


async def _read_request(stream: ByteStream) -> Asked | None:
    came = b""
    while b"\r\n\r\n" not in came:
        try:
            came += await stream.receive()
        except anyio.EndOfStream:
            return None
    head, _, body = came.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive()
    method, target, _ = first.split(" ")
    return Asked(method, target, headers, body)


async def _answer(stream: ByteStream, found: Page) -> None:
    if found.raw:
        assert isinstance(found.body, bytes)
        await stream.send(found.body)
        return
    headers = dict(found.headers)
    if isinstance(found.body, bytes):
        headers.setdefault("content-length", str(len(found.body)))
    lines = [f"HTTP/1.1 {found.status} Whatever", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    head = "\r\n".join(lines).encode("latin-1")
    if isinstance(found.body, bytes):
        await stream.send(head + found.body)
        return
    await stream.send(head)
    await found.body(stream.send)
    await stream.aclose()


async def get(egress: Egress, url: str, *, follow_redirects: bool = False, **rest: Any) -> httpx.Response:
    """Ask for an address through a guard."""
    async with egress.client(follow_redirects=follow_redirects) as client:
        return await client.get(url, **rest)


async def refusal(egress: Egress, url: str, *, follow_redirects: bool = False, **rest: Any) -> EgressRefused:
    """The refusal of an address, which must come."""
    with pytest.raises(EgressRefused) as refused:
        await get(egress, url, follow_redirects=follow_redirects, **rest)
    return refused.value


def always(*answers: str) -> Resolve:
    """A resolver for which every name has the same addresses."""
    return _scripted([answers], [])


def rebinding(*turns: Sequence[str], asked: list[str]) -> Resolve:
    """A resolver that answers differently each time; the last answer stays. Notes whom it was asked for."""
    return _scripted(list(turns), asked)


def _scripted(turns: list[Sequence[str]], asked: list[str]) -> Resolve:
    async def resolve(name: str) -> Sequence[str]:
        asked.append(name)
        return turns.pop(0) if len(turns) > 1 else turns[0]

    return resolve


def certificate_for(name: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server called `name` shows, and what a client needs to believe it."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    named = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-days", "2"]
    subprocess.run([*command, *named, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return server, ssl.create_default_context(cafile=str(certificate))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
