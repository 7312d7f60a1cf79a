"""Download one page: check its address, follow redirects within one host, and name each failure."""

import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult, urlsplit

import anyio
import anyio.to_thread
import httpx
from msgspec import Struct

from backstay.tools.web.interfaces import ClientFactory, FetchFailed, Page
from backstay.tools.web.page_content import EXPLANATION, is_pdf, read_explanation, read_page, read_pdf_page
from backstay.version import VERSION
from backstay.vocab.errors import EgressRefused

REDIRECTS: Final = 5
"""Redirects within one host that are followed."""
URL_CHARS: Final = 4000
"""Characters of an address."""
HEADERS: Final = {
    "user-agent": f"backstay/{VERSION}",
    "accept": "text/markdown, text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5",
}
READING_S: Final = 60.0
"""Seconds that reading the body of a page may take."""


class OtherHost(Struct, frozen=True):
    """The page is said to be at another host, which is not judged yet."""

    location: str


def normalise_url(url: str) -> str:
    """Return the address to request. Raise `FetchFailed` when two readers could take `url` for different places.

    `http` becomes `https`: a page that others on the way can rewrite cannot be trusted. There is no way back when
    https fails; to use http, name its port, as in `http://example.com:80/`.
    """
    url = url.strip()
    split = _split(url)
    if split.scheme.lower() not in ("http", "https"):
        raise FetchFailed("bad_url", f"{url[:200]!r} is not a web address. Write one that begins with https://.")
    if split.scheme.lower() == "http" and split.port is None:
        return "https" + url[4:]
    return url


async def download(clients: ClientFactory, url: str) -> Page | OtherHost:
    """Get a page. Raise `FetchFailed` for anything but an answer that can be read; cancellation is cancellation."""
    try:
        async with clients() as client:
            came = await _follow(client, url)
    except EgressRefused as exc:
        raise FetchFailed(_REFUSALS.get(exc.kind, "refused"), f"{str(exc).rstrip('.')}.") from exc
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as exc:
        raise explain_failure(exc, url) from exc
    if isinstance(came, OtherHost):
        return came
    if is_pdf(came[2]):
        return await read_pdf_page(came[0], came[2])
    left = threading.Event()
    try:
        with anyio.move_on_after(READING_S):
            return await anyio.to_thread.run_sync(read_page, *came, left.is_set, abandon_on_cancel=True)
    finally:
        left.set()  # the thread goes on by itself: it looks whether the caller still waits
    raise FetchFailed("not_text", f"{url!r} cannot be read: making sense of it took more than {READING_S:g} seconds.")


def explain_failure(exc: Exception, url: str) -> FetchFailed:
    """Name a failure of the connection by its cause: the libraries in between hide it, at times twice."""
    host = urlsplit(url).hostname or url
    behind = list(_behind(exc))
    if isinstance(exc, httpx.TimeoutException) or any(isinstance(each, TimeoutError) for each in behind):
        return FetchFailed("timeout", f"{host!r} took too long: {exc} Try again, or another page.")
    if any(isinstance(each, socket.gaierror) for each in behind):
        return FetchFailed("dns", f"There is no host {host!r}: its name cannot be resolved. Check the spelling.")
    if any(isinstance(each, ssl.SSLError) for each in behind):
        return FetchFailed("tls", f"{host!r} cannot be reached safely: {exc}.{_insist(url)}")
    if isinstance(exc, httpx.InvalidURL):
        return FetchFailed("bad_url", f"{url[:200]!r} is not an address: {exc}")
    if isinstance(exc, httpx.ConnectError):
        return FetchFailed("connect", f"{host!r} does not take connections: {exc}.{_insist(url)}")
    return FetchFailed("broken", f"The answer of {host!r} broke off or cannot be read: {exc}.")


_Answer = tuple[str, str, bytes]
"""The final address of a page, its content type, and its bytes."""
_REFUSALS: Final = {"too_large": "too_large", "redirect": "redirect", "url": "bad_url", "encoding": "not_text"}


def _insist(url: str) -> str:
    hint = " Every http address is asked for over https; who means http names its port, as in http://example.com:80/."
    return hint if url.startswith("https:") else ""


def _split(url: str) -> SplitResult:
    if not url or len(url) > URL_CHARS:
        raise FetchFailed("bad_url", f"An address has 1 to {URL_CHARS} characters, not {len(url)}.")
    if any(ord(char) <= 32 or char in '\\<>"^`{}|' or char == "\x7f" for char in url):
        raise FetchFailed("bad_url", f"{url[:200]!r} has characters that an address must not have. Escape them with %.")
    try:
        split = urlsplit(url)
        host, _ = split.hostname, split.port
        parsed = httpx.URL(url)
    except (ValueError, httpx.InvalidURL) as exc:
        raise FetchFailed("bad_url", f"{url[:200]!r} is not an address: {exc}") from exc
    if "@" in split.netloc:
        raise FetchFailed("refused", "The address has a user's name in it. Leave out everything before the '@'.")
    if host and host.isascii() and host != parsed.host.lower():
        raise FetchFailed("bad_url", f"{url[:200]!r} can be read in two ways. Write the host plainly.")
    return split


async def _follow(client: httpx.AsyncClient, url: str) -> _Answer | OtherHost:
    for _ in range(REDIRECTS + 1):
        request = client.build_request("GET", url, headers=HEADERS)
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            location = response.headers.get("location", "")
            if not (300 <= response.status_code < 400 and location):
                return await _read_answer(response)
        finally:
            await response.aclose()
        following = response.url.join(location)
        if following.host != response.url.host:
            return OtherHost(str(following)[:URL_CHARS])
        if response.url.scheme == "https" and following.scheme != "https":
            raise FetchFailed("redirect", f"{url!r} redirects from https to {following.scheme}. That is not followed.")
        url = str(following)
    raise FetchFailed("redirect", f"{url!r} redirects in circles: more than {REDIRECTS} times.")


async def _read_answer(response: httpx.Response) -> _Answer:
    if response.is_success:
        body = await response.aread()
        return str(response.url), response.headers.get("content-type", ""), body
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > EXPLANATION * 4:
            break
    raise _explain_status(response, body)


def _explain_status(response: httpx.Response, body: bytes) -> FetchFailed:
    status, reason = response.status_code, response.reason_phrase
    words = (
        f"{response.url} answered {status}{' ' + reason if reason else ''}.{_HINTS.get(status, '')}{_later(response)}"
    )
    return FetchFailed("status", words, answer=read_explanation(response.headers.get("content-type", ""), body))


_HINTS: Final = {
    401: " It wants a login, which this tool does not have.",
    403: " It does not show this page to programs, or not to us.",
    404: " There is no such page. Search for the right address.",
    410: " The page is gone.",
    429: " It wants fewer requests.",
}


def _later(response: httpx.Response) -> str:
    after = response.headers.get("retry-after", "")
    return f" It says to try again after {after[:40]!r}." if after else ""


def _behind(exc: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    todo: list[BaseException | None] = [exc]
    while todo:
        each = todo.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            todo += [each.__cause__, each.__context__]
