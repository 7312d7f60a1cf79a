"""The tool `WebSearch`: what a search engine finds. Without an engine there is no such tool."""

import re
from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import urlsplit

import anyio
from msgspec import Meta

from backstay.logic.text.framing import frame
from backstay.logic.text.lines import one_line
from backstay.ports import Tool, ToolOutput
from backstay.tools.define import tool
from backstay.tools.web.fetch import STRANGERS, WARNING
from backstay.tools.web.ports import Found, SearchEngine, Unfetched

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


def _chosen(found: Sequence[Found], allowed: Sequence[str], blocked: Sequence[str]) -> list[Found]:
    """The results of domains that are wanted, each address once: an engine may not know how to choose."""
    chosen: dict[str, Found] = {}
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


def _told(engine: str, query: str, found: Sequence[Found]) -> str:
    if not found:
        return f"{engine} found nothing for {query!r}. Try other words."
    rows = "\n".join(
        f"{place}. {one_line(each.title, 300) or '(no title)'}\n   {one_line(each.url, 2000)}{_told_of(each)}"
        for place, each in enumerate(found, 1)
    )
    return f"{engine} found for {query!r}. {WARNING}\n{frame('search_results', rows)}"


def _told_of(each: Found) -> str:
    snippet = one_line(re.sub(r"</?\w[^>]{0,100}>", "", each.snippet), SNIPPET)
    return f"\n   {snippet}" if snippet else ""
