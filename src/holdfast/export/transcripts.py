"""Writes a session out as a page for people: Markdown, or one HTML file."""

from collections.abc import Callable, Iterator
from typing import Final, Literal

import anyio.to_thread

from holdfast.export.dialogue import Dialogue
from holdfast.export.dialogue_calls import Results, long_results
from holdfast.export.dialogue_fold import Material, dialogue_of
from holdfast.export.html_page import html_page
from holdfast.export.markdown_page import markdown_page
from holdfast.export.seen_text import Excerpt, excerpt
from holdfast.logic.branches import NODES
from holdfast.logic.redact import PLAIN, Redactor
from holdfast.logic.state import state_of
from holdfast.ports import EventStore
from holdfast.vocab.errors import BlobMissing
from holdfast.vocab.event_limits import Compacted
from holdfast.vocab.events import InputReceived, MessageInjected, ModelReplied
from holdfast.vocab.messages import TextRef

PageKind = Literal["markdown", "html"]
_PAGES: Final[dict[PageKind, Callable[[Dialogue], Iterator[str]]]] = {"markdown": markdown_page, "html": html_page}


async def page(store: EventStore, session: str, kind: PageKind, *, redactor: Redactor = PLAIN) -> str:
    """The conversation of `session` as a page, without its secrets. Nothing is written."""
    material = await _gather(store, session, redactor)
    return await anyio.to_thread.run_sync(lambda: "".join(_PAGES[kind](dialogue_of(material, redactor))))


async def _gather(store: EventStore, session: str, redactor: Redactor) -> Material:
    """Read what a page is made of. Of a long result only its beginning and its end stay in memory."""
    part = await store.read(session)
    state = await anyio.to_thread.run_sync(state_of, session, part.records)
    path = state.transcript.path()
    nodes = {record.id for record in path}
    told = [record for record in part.records if type(record.event) not in NODES or record.id in nodes]
    results = Results()
    for record in told:
        results.hear(record)
    texts: dict[str, str] = {}
    for record in told:
        for ref in _long_texts(record.event):
            texts[ref.sha256] = await _text(store, ref)
    excerpts: dict[str, Excerpt] = {}
    for sha, ref in long_results(results.ends.values()).items():
        excerpts[sha] = excerpt(redactor.text(await _text(store, ref)))
    trouble = part.trouble.detail if part.trouble is not None and part.trouble.kind != "torn" else ""
    return Material(
        state=state, records=part.records, path=path, texts=texts, excerpts=excerpts, results=results, trouble=trouble
    )


def _long_texts(event: object) -> list[TextRef]:
    match event:
        case InputReceived() | ModelReplied() | MessageInjected():
            return [part for part in event.parts if isinstance(part, TextRef)]
        case Compacted(summary=TextRef() as summary):
            return [summary]
        case _:
            return []


async def _text(store: EventStore, ref: TextRef) -> str:
    try:
        return (await store.blob(ref.sha256)).decode("utf-8", "replace")
    except BlobMissing:
        return f"{ref.head}… [the rest of {ref.chars:,} characters is missing]"
