"""The tool `WebSearch`: ask a search engine. A session without an engine does not have the tool."""

import re
from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import urlsplit

import anyio
from msgspec import Meta

from backstay.logic.text import frame, one_line
from backstay.ports import Tool, ToolOutput
from backstay.tools.define import tool
from backstay.tools.web.fetch import WARNING, WEB_TAINTS
from backstay.tools.web.interfaces import FetchFailed, SearchEngine, SearchResult

RESULTS: Final = 10
"""Results when the call does not say how many."""
MOST: Final = 20
SNIPPET: Final = 500
"""Characters of a result's text."""
PATIENCE_S: Final = 15.0
"""Seconds that an engine may take."""


def make_web_search(engine: SearchEngine, *, patience_s: float = PATIENCE_S) -> Tool:
    """Make the tool. Like `WebFetch` it counts as `pure`: to search twice is to read twice."""

    @tool(name="WebSearch", effect="pure", touches="web", taints=WEB_TAINTS)
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
                raise FetchFailed("bad_arguments", "Give allowed_domains or blocked_domains, not both.")
            with anyio.fail_after(patience_s):
                found = await engine.search(query, limit=limit, allowed=allowed, blocked=blocked)
        except FetchFailed as exc:
            return ToolOutput(text=str(exc), failed=True, code=exc.code)
        except TimeoutError:
            text = f"{engine.name} did not answer within {patience_s:g} seconds."
            return ToolOutput(text=text, failed=True, code="timeout")
        return ToolOutput(text=_format(engine.name, query, _select(found, allowed, blocked)[:limit]))

    return web_search


def _domains(given: Sequence[str] | None) -> tuple[str, ...]:
    """Normalise domains for comparison; people and models write addresses and wildcards too."""
    cleaned = []
    for text in given or ():
        bare = re.sub(r"^(?:https?://)?(?:\*\.)?", "", text.strip().lower()).partition("/")[0].strip(".")
        if not re.fullmatch(r"[\w-]+(?:\.[\w-]+)*", bare):
            raise FetchFailed("bad_arguments", f"{text!r} is not a domain. Write one such as 'example.com'.")
        cleaned.append(bare)
    return tuple(dict.fromkeys(cleaned))


def _select(found: Sequence[SearchResult], allowed: Sequence[str], blocked: Sequence[str]) -> list[SearchResult]:
    """Return the results of the wanted domains, each address once: an engine may not know how to choose."""
    chosen: dict[str, SearchResult] = {}
    for each in found:
        try:
            split = urlsplit(each.url)
            host = (split.hostname or "").rstrip(".")
        except ValueError:
            continue
        wanted = (not allowed or _is_below(host, allowed)) and not _is_below(host, blocked)
        if split.scheme in ("http", "https") and host and wanted:
            chosen.setdefault(each.url, each)
    return list(chosen.values())


def _is_below(host: str, domains: Sequence[str]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _format(engine: str, query: str, found: Sequence[SearchResult]) -> str:
    if not found:
        return f"{engine} found nothing for {query!r}. Try other words."
    rows: list[str] = []
    for place, each in enumerate(found, 1):
        rows += [f"{place}. {one_line(each.title, 300) or '(no title)'}", f"   {one_line(each.url, 2000)}"]
        if snippet := one_line(re.sub(r"</?\w[^>]{0,100}>", "", each.snippet), SNIPPET):
            rows.append(f"   {snippet}")
    text = "\n".join(rows)
    return f"{engine} found for {query!r}. {WARNING}\n{frame('search_results', text)}"
