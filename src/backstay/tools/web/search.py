"""The tool `WebSearch`: what a search engine finds. Without an engine there is no such tool."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, cast
from urllib.parse import urlsplit

import anyio
import msgspec
from msgspec import Meta

from backstay.logic.text import frame, one_line
from backstay.ports import Tool, ToolOutput
from backstay.tools.define import tool
from backstay.tools.web.fetch import STRANGERS, WARNING
from backstay.tools.web.ports import Clients, SearchEngine, SearchResult, Unfetched
from backstay.vocab.errors import EgressRefused, UserError

if TYPE_CHECKING:
    import httpx  # it takes a while to load: only who searches does

RESULTS: Final = 10
"""Results when the call does not say how many."""
MOST: Final = 20
SNIPPET: Final = 500
"""Characters of a result's text."""
PATIENCE_S: Final = 15.0
"""How long an engine may take."""


def make_web_search(engine: SearchEngine, *, patience_s: float = PATIENCE_S) -> Tool:
    """Make the tool. Like `WebFetch` it counts as `pure`: to search twice is to read twice."""

    @tool(name="WebSearch", effect="pure", touches="web", taints=STRANGERS)
    async def web_search(
        query: Annotated[str, Meta(min_length=2, max_length=1000, description="What to search for.")],
        allowed_domains: Annotated[list[str] | None, "Only results of these domains and what is below them."] = None,
        blocked_domains: Annotated[list[str] | None, "No results of these domains."] = None,
        limit: Annotated[int, Meta(ge=1, le=MOST, description="How many results.")] = RESULTS,
    ) -> ToolOutput:
        """Search the web. Gives titles, addresses and a few words of each result; read a page with WebFetch."""
        try:
            allowed, blocked = _domains(allowed_domains), _domains(blocked_domains)
            if allowed and blocked:
                raise Unfetched("bad_arguments", "Give allowed_domains or blocked_domains, not both.")
            with anyio.fail_after(patience_s):
                found = await engine.search(query, limit=limit, allowed=allowed, blocked=blocked)
        except Unfetched as exc:
            return ToolOutput(text=str(exc), failed=True, code=exc.code)
        except TimeoutError:
            text = f"{engine.name} did not answer within {patience_s:g} seconds."
            return ToolOutput(text=text, failed=True, code="timeout")
        return ToolOutput(text=_told(engine.name, query, _chosen(found, allowed, blocked)[:limit]))

    return web_search


def _domains(given: Sequence[str] | None) -> tuple[str, ...]:
    """Domains as they compare; people and models write addresses and wildcards too."""
    cleaned = []
    for text in given or ():
        bare = re.sub(r"^(?:https?://)?(?:\*\.)?", "", text.strip().lower()).partition("/")[0].strip(".")
        if not re.fullmatch(r"[\w-]+(?:\.[\w-]+)*", bare):
            raise Unfetched("bad_arguments", f"{text!r} is not a domain. Write one such as 'example.com'.")
        cleaned.append(bare)
    return tuple(dict.fromkeys(cleaned))


def _chosen(found: Sequence[SearchResult], allowed: Sequence[str], blocked: Sequence[str]) -> list[SearchResult]:
    """The results of domains that are wanted, each address once: an engine may not know how to choose."""
    chosen: dict[str, SearchResult] = {}
    for each in found:
        try:
            split = urlsplit(each.url)
            host = (split.hostname or "").rstrip(".")
        except ValueError:
            continue
        wanted = not allowed or any(_below(host, domain) for domain in allowed)
        if (
            split.scheme in ("http", "https")
            and host
            and wanted
            and not any(_below(host, domain) for domain in blocked)
        ):
            chosen.setdefault(each.url, each)
    return list(chosen.values())


def _below(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")


def _told(engine: str, query: str, found: Sequence[SearchResult]) -> str:
    if not found:
        return f"{engine} found nothing for {query!r}. Try other words."
    rows = "\n".join(
        f"{place}. {one_line(each.title, 300) or '(no title)'}\n   {one_line(each.url, 2000)}{_told_of(each)}"
        for place, each in enumerate(found, 1)
    )
    return f"{engine} found for {query!r}. {WARNING}\n{frame('search_results', rows)}"


def _told_of(each: SearchResult) -> str:
    snippet = one_line(re.sub(r"</?\w[^>]{0,100}>", "", each.snippet), SNIPPET)
    return f"\n   {snippet}" if snippet else ""


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
    ) -> Sequence[SearchResult]:
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
    ) -> Sequence[SearchResult]:
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
    ) -> Sequence[SearchResult]:
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

    from backstay.tools.web.download import named  # noqa: PLC0415 - likewise

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


def _found(body: bytes, way: Sequence[str], snippet: str) -> list[SearchResult]:
    """The results in an answer. What is not as it should be is left out; an answer that is none at all is a failure."""
    try:
        value: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Unfetched("broken", f"The search engine's answer is not JSON: {exc}.") from exc
    for key in way:
        value = value.get(key) if isinstance(value, dict) else None
    rows = value if isinstance(value, list) else []
    return [
        SearchResult(title=str(row.get("title") or ""), url=row["url"], snippet=str(row.get(snippet) or ""))
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("url"), str)
    ]


if TYPE_CHECKING:
    _clients: Clients = cast("Clients", None)
    _engines: tuple[SearchEngine, ...] = (Searxng(_clients, ""), Brave(_clients, ""), Tavily(_clients, ""))
