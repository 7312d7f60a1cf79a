"""Report the requests and answers of a provider to the trace, without the key."""

from collections.abc import Mapping
from typing import Final

import msgspec

from backstay.logic.stored_content import make_durable
from backstay.ports import ModelReply, Tap
from backstay.providers.http.failures import disclosable
from backstay.providers.http.response import PayloadKind, Watch
from backstay.vocab.errors import ProviderError

REDACTED: Final = "[REDACTED]"
_SECRET: Final = frozenset(("authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie"))
_KEPT: Final = ("content-type", "retry-after", "retry-after-ms", "server", "date")
"""Headers of a response that are told, besides those that name the request or its limits."""
_LONGEST: Final = 64 * 1024
"""Bytes of a failed response's body that are told."""


class Trail:
    """Reports one request and its response. Costs nothing when no trace is kept."""

    def __init__(self, tap: Tap | None, key: str) -> None:
        self._tap = tap
        self._key = key
        self._secret = key.encode()

    @property
    def watch(self) -> Watch | None:
        """The function that sees the payloads; None when there is none."""
        return self._payload if self._tap is not None else None

    def report_request(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Report the request. Its body is the bytes that were sent: who writes them down may know most of them already."""
        if self._tap is not None:
            shown = {name: self._header(name, value) for name, value in headers.items()}
            self._tap("provider_request", {"method": method, "url": url, "headers": shown, "body": self._bytes(body)})

    def report_answer(
        self, status: int, headers: Mapping[str, str], reply: ModelReply, size: int, payloads: int
    ) -> None:
        """Report a response that was read to its end."""
        if self._tap is not None:
            parts, _ = make_durable(reply.parts)
            self._response(status, headers, {"parts": parts, "bytes": size, "payloads": payloads})

    def report_failure(
        self, status: int, headers: Mapping[str, str], problem: ProviderError, body: bytes = b""
    ) -> None:
        """Report a response that is not an answer, or ended before it was one."""
        if self._tap is not None:
            rest: dict[str, object] = {"error": {"kind": problem.kind, "message": self.hide(str(problem))}}
            if body:
                rest["body"] = self._bytes(body[:_LONGEST]).decode("utf-8", "replace")
            self._response(status, headers, rest)

    def hide(self, text: str) -> str:
        """Return `text` without the key."""
        return text.replace(self._key, REDACTED) if self._key else text

    def without_key(self, problem: ProviderError) -> ProviderError:
        """Return `problem` without the key and other secrets, which a server may quote."""
        hidden = ProviderError(problem.kind, self.hide(str(problem)), retry_after_s=problem.retry_after_s)
        return disclosable(hidden)

    def _response(self, status: int, headers: Mapping[str, str], rest: Mapping[str, object]) -> None:
        assert self._tap is not None
        shown = {name: self.hide(value) for name, value in headers.items() if _is_told(name)}
        self._tap("provider_response_raw", {"status": status, "headers": shown, **rest})

    def _payload(self, kind: PayloadKind, name: str, payload: bytes) -> None:
        assert self._tap is not None
        payload = self._bytes(payload)
        content: object
        try:
            content = msgspec.json.decode(payload)
        except ValueError:
            content = payload.decode("utf-8", "replace")
        self._tap("provider_native_raw_payload", {"kind": kind, "name": name, "payload": content})

    def _bytes(self, content: bytes) -> bytes:
        return content.replace(self._secret, REDACTED.encode()) if self._secret else content

    def _header(self, name: str, value: str) -> str:
        return REDACTED if name.lower() in _SECRET else self.hide(value)


def _is_told(name: str) -> bool:
    name = name.lower()
    return name in _KEPT or "request-id" in name or "ratelimit" in name
