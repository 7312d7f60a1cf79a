"""Finds private keys: in PEM, and the base64 of PEM, which configurations of Kubernetes and of CI systems hold."""

import re
from collections.abc import Iterator
from typing import Final

from holdfast.logic.redact_shapes import BLOCK_BEGINS, Found, decoded

LONGEST_BLOCK: Final = 20_000
"""Characters of a private key from its first line to its last."""


def find_blocks(text: str) -> Iterator[Found]:
    """The private keys in `text`."""
    if BLOCK_BEGINS[0] in text:
        yield from _find_plain(text)
    if BLOCK_BEGINS[1] in text:
        for match in _ENCODED.finditer(text):
            if b"PRIVATE KEY" in decoded(re.sub(r"[^A-Za-z0-9+/]", "", match[0][:200])[:88]):
                yield Found(*match.span(), "the base64 of a private key")


def open_block(text: str) -> int:
    """Where a block begins that goes on behind the end of `text`, or may do so; the length of `text` when none does."""
    start = max(text.rfind(BLOCK_BEGINS[0]), text.rfind(BLOCK_BEGINS[1]))
    if start < 0 or len(text) - start > LONGEST_BLOCK:
        return len(text)
    if text.startswith(BLOCK_BEGINS[1], start):
        whole = _ENCODED.match(text, start)
        return start if whole is None or whole.end() >= len(text.rstrip()) else len(text)
    if _LAST.search(text, start) or not (_FIRST.match(text, start) or _UNFINISHED.fullmatch(text, start)):
        return len(text)
    return start


def _find_plain(text: str) -> Iterator[Found]:
    at, last = 0, _LAST.search(text)
    while first := _FIRST.search(text, at):
        if last is not None and last.start() < first.end():
            last = _LAST.search(text, first.end())
        if last is not None and last.end() - first.start() <= LONGEST_BLOCK:
            at = last.end()
        else:
            body = _BODY.match(text, first.end())
            at = body.end() if body else first.end()
        yield Found(first.start(), at, "a private key")


_KEY: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_FIRST: Final = re.compile(f"-----BEGIN {_KEY}")
_LAST: Final = re.compile(f"-----END {_KEY}")
_UNFINISHED: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,60}-{0,5}")
_BODY: Final = re.compile(r"(?:[A-Za-z0-9+/=:,.\s-]++|\\[nr])++")
_ENCODED: Final = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/]*+=*+(?:(?:\s|\\[nr])++[A-Za-z0-9+/]{16,}+=*+)*+")
