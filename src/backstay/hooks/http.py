"""Run a hook that is an address: post the input, and read the response as a program's output would be read."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx
import msgspec

from backstay.hooks.run_context import HandlerOutcome, HookInput, RunContext
from backstay.hooks.spec import HookSpec, HttpHook
from backstay.system.guarded_http import Egress
from backstay.vocab.env_keys import without_keys
from backstay.vocab.errors import BackstayError

LONGEST: Final = 1_000_000
"""Bytes that an answer may have."""

_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)


async def post(spec: HookSpec, handler: HttpHook, payload: HookInput, context: RunContext) -> HandlerOutcome:
    """Post the input. Only an empty body or a JSON object with a 2xx status is an answer; redirects are not followed."""
    client = context.http_client
    if client is None:
        return HandlerOutcome(failed="there is no client to post with")
    headers = _headers(handler, context.environment if context.headers is None else context.headers)
    if wrong := next((name for name, value in headers.items() if not _sendable(value)), ""):
        return HandlerOutcome(failed=f"the header {wrong!r} has characters that no header can have")
    try:
        async with client(spec) as http:
            return await _exchange(http, handler.url, msgspec.json.encode(payload), headers)
    except (httpx.HTTPError, httpx.InvalidURL, BackstayError) as exc:
        return HandlerOutcome(failed=f"it could not be reached: {str(exc) or type(exc).__name__}")


async def _exchange(http: httpx.AsyncClient, url: str, content: bytes, headers: Mapping[str, str]) -> HandlerOutcome:
    sent = {"content-type": "application/json", **headers}
    async with http.stream("POST", url, content=content, headers=sent, follow_redirects=False, timeout=None) as answer:
        if not answer.is_success:
            return HandlerOutcome(failed=f"it answered with the status {answer.status_code}")
        body = bytearray()
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > LONGEST:
                return HandlerOutcome(failed=f"its answer is longer than {LONGEST:,} bytes")
    text = body.decode("utf-8", "replace").strip().removeprefix("\ufeff")
    if text and not text.startswith("{"):
        return HandlerOutcome(failed="its answer is not a JSON object")
    return HandlerOutcome(exit_code=0, stdout=text)


def _headers(handler: HttpHook, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the variables that the hook lists; any other variable is empty, a provider's key included."""
    known = {name: value for name, value in without_keys(environment).items() if name in handler.env_names}

    def value(found: "re.Match[str]") -> str:
        return known.get(found[1] or found[2], "")

    return {name: _VARIABLE.sub(value, text).strip() for name, text in handler.headers}


def _sendable(value: str) -> bool:
    return value.isascii() and value.isprintable()


def make_client(spec: HookSpec) -> httpx.AsyncClient:
    """Make the client of one hook.

    A hook of the person or of managed settings may name an address of this machine or of a private network, and any port. A hook of a
    workspace or a plugin reaches public addresses by the usual ports only.
    """
    if not isinstance(spec.handler, HttpHook) or spec.source not in ("managed", "person", "flag"):
        return Egress().client()
    parts = urlsplit(spec.handler.url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Egress(allow_hosts=(host,), allow_private=(named,), allow_ports=(port,)).client()
