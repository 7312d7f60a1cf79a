"""The search engines that `WebSearch` can ask: their interfaces, their keys, and how their answers are read."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from backstay.tools.web.interfaces import ClientFactory, FetchFailed, SearchEngine, SearchResult
from backstay.vocab.errors import EgressRefused, UserError

BRAVE: Final = "https://api.search.brave.com"
TAVILY: Final = "https://api.tavily.com"


class EngineApi(Struct, frozen=True, kw_only=True):
    """The interface of one search engine."""

    name: str
    variable: str
    """The environment variable that holds the key; the address where there is no usual one."""
    address: str = ""
    """The usual address; empty where each person has an own one, which needs no key."""
    path: str
    method: Literal["GET", "POST"] = "GET"
    key_header: tuple[str, str] = ("", "")
    """The header that carries the key, and what stands before the key in it."""
    question: Callable[[str, int, Sequence[str], Sequence[str]], dict[str, object]]
    """Makes the query parameters, or the JSON body, of a query, a limit, and the allowed and blocked domains."""
    rows: tuple[str, ...]
    """The keys that lead to the list of results in the answer."""
    snippet: str
    """The field of a result that holds some of its text."""


def _ask_tavily(query: str, limit: int, allowed: Sequence[str], blocked: Sequence[str]) -> dict[str, object]:
    domains = {"include_domains": list(allowed), "exclude_domains": list(blocked)}
    return {"query": query, "max_results": limit} | {name: value for name, value in domains.items() if value}


ENGINES: Final[Mapping[str, EngineApi]] = {
    "searxng": EngineApi(  # its settings must allow the format `json`
        name="SearXNG",
        variable="SEARXNG_URL",
        path="/search",
        question=lambda query, _, allowed, blocked: {"q": narrow(query, allowed, blocked), "format": "json"},
        rows=("results",),
        snippet="content",
    ),
    "brave": EngineApi(
        name="Brave Search",
        variable="BRAVE_API_KEY",
        address=BRAVE,
        path="/res/v1/web/search",
        key_header=("x-subscription-token", ""),
        question=lambda query, limit, allowed, blocked: {
            "q": narrow(query, allowed, blocked)[:400],
            "count": str(limit),
            "text_decorations": "false",
        },
        rows=("web", "results"),
        snippet="description",
    ),
    "tavily": EngineApi(
        name="Tavily",
        variable="TAVILY_API_KEY",
        address=TAVILY,
        path="/search",
        method="POST",
        key_header=("authorization", "Bearer "),
        question=_ask_tavily,
        rows=("results",),
        snippet="content",
    ),
}
"""The engines by the names that settings use. A session has the first whose variable is set."""


def find_engine(name: str, clients: ClientFactory, environment: Mapping[str, str], *, url: str = "") -> SearchEngine:
    """Return the engine called `name`; `url` is its address, where it is not the usual one.

    Raise `UserError` for an engine that cannot be used.
    """
    api = ENGINES.get(name)
    if api is None:
        raise UserError(f"There is no search engine {name!r}. Use one of {', '.join(map(repr, ENGINES))}.")
    needed = environment.get(api.variable, "").strip()
    if api.address:
        if not needed:
            raise UserError(f"The search engine {name!r} needs a key: set {api.variable}.")
        return WebEngine(clients, api, url or api.address, needed)
    url = url or needed
    if urlsplit(url).scheme not in ("http", "https"):
        raise UserError(f"{api.name} needs its address: set {api.variable} to one such as https://search.example.org.")
    return WebEngine(clients, api, url)


class WebEngine:
    """A search engine at an address. Its key goes to it and to nothing else."""

    def __init__(self, clients: ClientFactory, api: EngineApi, url: str, key: str = "") -> None:
        self.name = api.name
        self._clients = clients
        self._api = api
        self._url = url.rstrip("/") + api.path
        header, prefix = api.key_header
        self._headers = {"accept": "application/json"} | ({header: prefix + key} if header else {})

    async def search(
        self, query: str, *, limit: int, allowed: Sequence[str] = (), blocked: Sequence[str] = ()
    ) -> Sequence[SearchResult]:
        """Find pages."""
        import httpx  # noqa: PLC0415 - only a search needs it

        from backstay.tools.web.download import explain_failure  # noqa: PLC0415 - likewise

        api, question = self._api, self._api.question(query, limit, allowed, blocked)
        sent: dict[str, Any] = {
            "params" if api.method == "GET" else "json": question
        }  # Any: as httpx types its options
        try:
            async with self._clients() as client:
                response = await client.request(
                    api.method, self._url, headers=self._headers, follow_redirects=False, **sent
                )
        except EgressRefused as exc:
            raise FetchFailed("refused", f"{api.name} cannot be asked: {exc}") from exc
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as exc:
            raise explain_failure(exc, self._url) from exc
        if not response.is_success:
            raise FetchFailed("status", f"{api.name} answered {response.status_code}.{_advice(response.status_code)}")
        return _read_results(response.content, api)[:limit]


def narrow(query: str, allowed: Sequence[str], blocked: Sequence[str]) -> str:
    """Return `query` with the words by which most engines choose domains."""
    wanted = " OR ".join(f"site:{domain}" for domain in allowed)
    unwanted = " ".join(f"-site:{domain}" for domain in blocked)
    wanted = f"({wanted})" if len(allowed) > 1 else wanted
    return " ".join(filter(None, (query, wanted, unwanted)))


def _advice(status: int) -> str:
    match status:
        case 401 | 403:
            return " Its key is missing or wrong, or it does not allow this kind of answer. The person must mend that."
        case 429:
            return " It wants fewer requests. Wait, or do without."
        case _:
            return ""


def _read_results(body: bytes, api: EngineApi) -> list[SearchResult]:
    """Read the results in an answer. Leave out what is malformed; raise `FetchFailed` for an answer that is no JSON."""
    try:
        value: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise FetchFailed("broken", f"The search engine's answer is not JSON: {exc}.") from exc
    for key in api.rows:
        value = value.get(key) if isinstance(value, dict) else None
    rows = value if isinstance(value, list) else []
    return [
        SearchResult(title=str(row.get("title") or ""), url=row["url"], snippet=str(row.get(api.snippet) or ""))
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("url"), str)
    ]


if TYPE_CHECKING:
    _: SearchEngine = cast("WebEngine", None)
