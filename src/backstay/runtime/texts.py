"""Texts that are kept as blobs, whole again."""

from collections.abc import Awaitable, Callable, Iterable

from backstay.vocab.messages import DurablePart, Text, TextRef

Fetch = Callable[[str], Awaitable[bytes]]
"""Gets a blob by its hash."""


async def whole_text(parts: Iterable[DurablePart], fetch: Fetch) -> str:
    """The plain text of `parts`, long texts included."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, TextRef):
            found.append((await fetch(part.sha256)).decode("utf-8", "replace"))
        elif isinstance(part, Text):
            found.append(part.text)
    return "".join(found)
