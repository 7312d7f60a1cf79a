"""Roles that the web tools need filled from outside, and the values that they exchange."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from backstay.vocab.messages import InlineMedia

if TYPE_CHECKING:
    import httpx  # it takes a while to load: only a request needs it

Clients = Callable[[], "httpx.AsyncClient"]
"""Makes a client for one call. Its requests are judged: where they may not go it raises `EgressRefused`."""

Summarise = Callable[[str, str], Awaitable[str]]
"""Answers a question about a page: takes the framed page and the question. The model that answers has no tools."""


class Page(Struct, frozen=True):
    """A page as it can be shown."""

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
        """Find at most `limit` pages, best first, of the domains that are allowed. Raise `Unfetched` when that cannot be done.

        An engine that cannot narrow by domain ignores the lists: its results are looked through afterwards.
        """


class Unfetched(Exception):
    """A request of a web tool failed; `code` says why in one word, the message in a sentence for the model."""

    def __init__(self, code: str, message: str, *, answer: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.answer = answer
        """What the server had to say about it."""
