"""Fetches what an address has, within bounds. What a stranger's file names reaches public addresses only; what a person typed, any."""

import base64
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio
import httpx

from backstay.providers.local.sources import pip_settings, trust
from backstay.sandbox.egress import Egress
from backstay.sandbox.egress_transport import EgressLimits
from backstay.vocab.errors import UserError

LARGEST: Final = 64 * 1024 * 1024
"""Bytes that one answer may have."""
LARGEST_PAGE: Final = 16 * 1024 * 1024
"""Bytes that an answer that is kept in memory may have."""
_TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0)
_FAILURES: Final = (httpx.HTTPError, httpx.InvalidURL)


class Web:
    """The way out. `guarded`: addresses come from a stranger, so only public ones are asked, and those of `own` hosts."""

    def __init__(self, *, guarded: bool = False, own: Sequence[str] = ()) -> None:
        self.guarded = guarded
        self._own = tuple(own)

    def beside(self, url: str) -> "Web":
        """The way out for addresses that a file at `url` names: public ones, and the file's own host."""
        parts = urlsplit(url)
        own = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        return Web(guarded=True, own=(own,) if parts.hostname and not self.guarded else ())

    async def page(self, url: str, *, accept: str = "*/*", largest: int = LARGEST_PAGE) -> tuple[bytes, str, str]:
        """What an address has, its type, and where it was found in the end."""
        found = bytearray()
        async with self._answer(url, accept) as answer:
            async for piece in answer.aiter_bytes():
                found += piece
                if len(found) > largest:
                    raise UserError(f"{_host(url)} sent more than {largest // 1024**2} MiB. It is refused.")
            return bytes(found), answer.headers.get("content-type", ""), str(answer.url)

    async def download(self, url: str, target: Path, *, sha256: str = "", integrity: str = "") -> str:
        """Bring a file to `target` and return its SHA-256. Raise `UserError`, and keep nothing, when a hash that is given is another.

        `integrity` is written as npm does it: `sha512-` and base64.
        """
        content, _, _ = await self.page(url, largest=LARGEST)
        found = hashlib.sha256(content).hexdigest()
        if sha256 and found != sha256:
            raise UserError(f"What came from {url!r} has the SHA-256 {found}, not {sha256}. It is refused.")
        if integrity and f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}" != integrity:
            raise UserError(f"What came from {url!r} is not what its registry promised (sha512). It is refused.")
        await anyio.Path(target).write_bytes(content)
        return found

    @asynccontextmanager
    async def _answer(self, url: str, accept: str) -> AsyncIterator[httpx.Response]:
        try:
            async with (
                self._client() as client,
                client.stream("GET", url, headers={"accept": accept, "accept-encoding": "identity"}) as answer,
            ):
                if answer.status_code != httpx.codes.OK:
                    raise UserError(f"{_host(url)} answered {answer.status_code} for {url!r}.")
                yield answer
        except _FAILURES as exc:
            raise UserError(f"{url!r} cannot be fetched: {str(exc) or type(exc).__name__}.") from exc

    def _client(self) -> httpx.AsyncClient:
        if self.guarded:
            limits = EgressLimits(body_s=300.0, body_bytes=LARGEST)
            return Egress(limits=limits, allow_private=self._own).client(follow_redirects=True)
        return httpx.AsyncClient(follow_redirects=True, timeout=_TIMEOUT, verify=trust(pip_settings().cert))


async def check_public(url: str) -> None:
    """Raise `UserError` when a repository that a stranger names is at an address that is not public."""
    parts = urlsplit(url) if "://" in url else urlsplit(f"ssh://{url.replace(':', '/', 1)}")
    if parts.scheme == "file" or not parts.hostname:
        return
    try:
        await Egress(allow_ports=(22, parts.port or 22)).admit(parts.hostname, parts.port or 443)
    except httpx.HTTPError as exc:
        raise UserError(f"{url!r} cannot be reached: {exc}") from exc


def _host(url: str) -> str:
    return repr(urlsplit(url).hostname or url)
