"""The interfaces that the web tools call, and the values that they exchange with them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from backstay.vocab.messages import InlineMedia

if TYPE_CHECKING:
    import httpx  # it takes a while to load: only a request needs it

ClientFactory = Callable[[], "httpx.AsyncClient"]
"""Makes a client for one call. It raises `EgressRefused` for a request to an address that is not allowed."""

Summarise = Callable[[str, str], Awaitable[str]]
"""Answers a question about a page: takes the framed page and the question. The model that answers has no tools."""


class Page(Struct, frozen=True):
    """A web page in a form that a model can read."""

    url: str
    kind: str
    """Its kind, in a word for people: HTML, JSON, PDF, text, image/png."""
    title: str = ""
    text: str = ""
    media: tuple[InlineMedia, ...] = ()


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a search."""

    title: str
    url: str
    snippet: str = ""


class SearchEngine(Protocol):
    """A service that finds pages of the web."""

    @property
    def name(self) -> str:
        """As people know it."""

    async def search(
        self, query: str, *, limit: int, allowed: Sequence[str] = (), blocked: Sequence[str] = ()
    ) -> Sequence[SearchResult]:
        """Find at most `limit` pages, best first, of the domains that are allowed. Raise `FetchFailed` when it cannot.

        An engine that cannot narrow by domain ignores the lists: the tool filters its results afterwards.
        """


class FetchFailed(Exception):
    """A request of a web tool failed; `code` says why in one word, the message in a sentence for the model."""

    def __init__(self, code: str, message: str, *, answer: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.answer = answer
        """The text with which the server answered."""
