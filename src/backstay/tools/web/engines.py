"""Search engines that can be asked over HTTP: SearXNG, Brave and Tavily."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import msgspec

from backstay.tools.web.ports import Clients, Found, SearchEngine, Unfetched
from backstay.vocab.errors import EgressRefused, UserError

if TYPE_CHECKING:
    import httpx  # it takes a while to load: only who searches does

ENGINES: Final[Mapping[str, str]] = {"searxng": "SEARXNG_URL", "brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}
"""The engines, and the variable of the environment that each needs."""
BRAVE: Final = "https://api.search.brave.com"
TAVILY: Final = "https://api.tavily.com"


def find_engine(name: str, clients: Clients, environment: Mapping[str, str], *, url: str = "") -> SearchEngine | None:
    """The engine called `name`; for an empty name the first that the environment has a key or an address for; else none.

    `url` is the address of the engine, where it is not the usual one. Raise `UserError` for an engine that cannot be used.
    """
    if not name:
        name = next((known for known, variable in ENGINES.items() if environment.get(variable)), "")
        if not name:
            return None
    if name not in ENGINES:
        raise UserError(f"There is no search engine {name!r}. Use one of {', '.join(map(repr, ENGINES))}.")
    needed = environment.get(ENGINES[name], "").strip()
    if name == "searxng":
        url = url or needed
        if urlsplit(url).scheme not in ("http", "https"):
            raise UserError(
                f"SearXNG needs its address: set {ENGINES[name]} to one such as https://search.example.org."
            )
        return Searxng(clients, url)
    if not needed:
        raise UserError(f"The search engine {name!r} needs a key: set {ENGINES[name]}.")
    return Brave(clients, needed, url or BRAVE) if name == "brave" else Tavily(clients, needed, url or TAVILY)


class Searxng:
    """An instance of SearXNG, one's own as a rule. Its settings must allow the format `json`."""

    name = "SearXNG"

    def __init__(self, clients: Clients, url: str) -> None:
        self._clients = clients
        self._url = url.rstrip("/")

    async def search(
        self, query: str, *, limit: int, allowed: Sequence[str] = (), blocked: Sequence[str] = ()
    ) -> Sequence[Found]:
        """Find pages."""
        asked = {"q": narrowed(query, allowed, blocked), "format": "json"}
        body = await _ask(self._clients, "GET", f"{self._url}/search", engine=self.name, params=asked)
        return _found(body, ("results",), "content")[:limit]


class Brave:
    """Brave Search. `key` goes to it and to nobody else."""

    name = "Brave Search"

    def __init__(self, clients: Clients, key: str, url: str = BRAVE) -> None:
        self._clients = clients
        self._key = key
        self._url = url.rstrip("/")

    async def search(
        self, query: str, *, limit: int, allowed: Sequence[str] = (), blocked: Sequence[str] = ()
    ) -> Sequence[Found]:
        """Find pages."""
        asked = {"q": narrowed(query, allowed, blocked)[:400], "count": str(limit), "text_decorations": "false"}
        headers = {"x-subscription-token": self._key, "accept": "application/json"}
        address = f"{self._url}/res/v1/web/search"
        body = await _ask(self._clients, "GET", address, engine=self.name, params=asked, headers=headers)
        return _found(body, ("web", "results"), "description")[:limit]


class Tavily:
    """Tavily. `key` goes to it and to nobody else."""

    name = "Tavily"

    def __init__(self, clients: Clients, key: str, url: str = TAVILY) -> None:
        self._clients = clients
        self._key = key
        self._url = url.rstrip("/")

    async def search(
        self, query: str, *, limit: int, allowed: Sequence[str] = (), blocked: Sequence[str] = ()
    ) -> Sequence[Found]:
        """Find pages."""
        asked: dict[str, object] = {"query": query, "max_results": limit}
        if allowed:
            asked["include_domains"] = list(allowed)
        if blocked:
            asked["exclude_domains"] = list(blocked)
        headers = {"authorization": f"Bearer {self._key}"}
        body = await _ask(self._clients, "POST", f"{self._url}/search", engine=self.name, json=asked, headers=headers)
        return _found(body, ("results",), "content")[:limit]


def narrowed(query: str, allowed: Sequence[str], blocked: Sequence[str]) -> str:
    """`query` with the words that most engines take for a choice of domains."""
    wanted = " OR ".join(f"site:{domain}" for domain in allowed)
    unwanted = " ".join(f"-site:{domain}" for domain in blocked)
    wanted = f"({wanted})" if len(allowed) > 1 else wanted
    return " ".join(filter(None, (query, wanted, unwanted)))


async def _ask(
    clients: Clients,
    method: str,
    url: str,
    *,
    engine: str,
    params: Mapping[str, str] | None = None,
    json: object = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    import httpx  # noqa: PLC0415 - only who searches needs it

    from backstay.tools.web.fetching import named  # noqa: PLC0415 - likewise

    try:
        async with clients() as client:
            asked = {"params": params, "headers": headers} | ({} if json is None else {"json": json})
            response = await client.request(method, url, **asked, follow_redirects=False)  # type: ignore[arg-type]  # made just above
    except EgressRefused as exc:
        raise Unfetched("refused", f"{engine} cannot be asked: {exc}") from exc
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as exc:
        raise named(exc, url) from exc
    if not response.is_success:
        raise Unfetched("status", f"{engine} answered {response.status_code}.{_advice(response)}")
    return response.content


def _advice(response: "httpx.Response") -> str:
    match response.status_code:
        case 401 | 403:
            return " Its key is missing or wrong, or it does not allow this kind of answer. The person must mend that."
        case 429:
            return " It wants fewer requests. Wait, or do without."
        case _:
            return ""


def _found(body: bytes, way: Sequence[str], snippet: str) -> list[Found]:
    """The results in an answer. What is not as it should be is left out; an answer that is none at all is a failure."""
    try:
        value: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Unfetched("broken", f"The search engine's answer is not JSON: {exc}.") from exc
    for key in way:
        value = value.get(key) if isinstance(value, dict) else None
    rows = value if isinstance(value, list) else []
    return [
        Found(title=str(row.get("title") or ""), url=row["url"], snippet=str(row.get(snippet) or ""))
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("url"), str)
    ]


if TYPE_CHECKING:
    _clients: Clients = cast("Clients", None)
    _engines: tuple[SearchEngine, ...] = (Searxng(_clients, ""), Brave(_clients, ""), Tavily(_clients, ""))
