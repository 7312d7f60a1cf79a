"""Guarded HTTP clients of MCP servers.

The guard uses one HTTP package and the official MCP client another, so requests and responses are carried over.
"""

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

import httpx
import httpx2

from backstay.mcp.dependencies import Noise
from backstay.mcp.spec import ServerSpec
from backstay.system.guarded_http import Egress, EgressLimits
from backstay.system.machine import is_loopback
from backstay.vocab.errors import BackstayError

LARGEST_ANSWER: Final = 32 * 1024 * 1024
"""Bytes of an answer that is no stream of events; of those, each event has its own bound."""


def make_client(spec: ServerSpec, noise: Noise) -> httpx2.AsyncClient:
    """Make a client of the kind that the official package wants, all of whose requests are judged."""
    carrier = _Carrier(egress_for(spec).client(), noise)
    return httpx2.AsyncClient(
        transport=carrier, headers=dict(spec.headers), timeout=None, follow_redirects=False, trust_env=False
    )


def egress_for(spec: ServerSpec) -> Egress:
    """Limit where the requests of one server may go: to its own host.

    An address of one's own network is reached when the person wrote it down. One that came with a workspace or a plugin reaches public
    hosts and this very machine, nothing in between.
    """
    parts = urlsplit(spec.url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Egress(
        allow_hosts=(host,),
        allow_ports=(port,),
        allow_private=(named,) if spec.vouched or is_loopback(host) else (),
        limits=EgressLimits(headers_s=None, body_s=None, body_bytes=None),
    )


class _Carrier(httpx2.AsyncBaseTransport):
    """Sends requests of one package by the other."""

    def __init__(self, client: httpx.AsyncClient, noise: Noise) -> None:
        self._client = client
        self._noise = noise

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request."""
        content = await request.aread()
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"host"]
        try:
            sent = self._client.build_request(request.method, str(request.url), headers=headers, content=content)
            answer = await self._client.send(sent, stream=True, follow_redirects=False)
        except BackstayError as exc:
            self._noise.refused = str(exc)
            raise httpx2.ConnectError(str(exc), request=request) from exc
        except httpx.HTTPError as exc:
            raise httpx2.ConnectError(str(exc) or type(exc).__name__, request=request) from exc
        if request.method == "POST":
            self._noise.status = answer.status_code if answer.status_code >= 400 else 0
        streams = answer.headers.get("content-type", "").startswith("text/event-stream")
        body = _Body(answer, None if streams else LARGEST_ANSWER)
        return httpx2.Response(answer.status_code, headers=answer.headers.raw, stream=body, request=request)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()


class _Body(httpx2.AsyncByteStream):
    """The counted bytes of an answer."""

    def __init__(self, answer: httpx.Response, most: int | None) -> None:
        self._answer = answer
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        came = 0
        try:
            async for piece in self._answer.aiter_raw():
                came += len(piece)
                if self._most is not None and came > self._most:
                    raise httpx2.ReadError(f"The answer has more than {self._most:,} bytes.")
                yield piece
        except (httpx.HTTPError, BackstayError) as exc:
            raise httpx2.ReadError(str(exc) or type(exc).__name__) from exc

    async def aclose(self) -> None:
        await self._answer.aclose()
