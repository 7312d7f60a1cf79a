"""Find sessions, and search what was said in them: the same in every store."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from backstay.logic.stored_content import searchable_text
from backstay.ports import SearchHit, SessionQuery
from backstay.vocab.errors import NoSession
from backstay.vocab.event import Recorded
from backstay.vocab.specs import SessionMeta

AROUND: Final = 80
"""Characters of a snippet on either side of the hit."""
_WORD: Final = re.compile(r"[^\W_]+")


def select(metas: Iterable[SessionMeta], query: SessionQuery) -> tuple[SessionMeta, ...]:
    """Return the sessions that `query` asks for, newest first."""
    chosen = (
        meta
        for meta in metas
        if (query.project is None or meta.project == query.project)
        and (query.name is None or meta.name == query.name)
        and (query.include_empty or not meta.empty)
        and (query.include_children or not meta.parent)
    )
    return tuple(sorted(chosen, key=lambda meta: (meta.updated, meta.created, meta.id), reverse=True)[: query.limit])


def words_of(text: str) -> tuple[str, ...]:
    """Return the words that a search for `text` looks for."""
    return tuple(_WORD.findall(_fold_letters(text)))


def find(meta: SessionMeta, records: Iterable[Recorded], words: Sequence[str]) -> Iterator[tuple[int, SearchHit]]:
    """Yield the events of a session in which some word begins with each of `words`, with their times.

    No words find nothing.
    """
    patterns = [re.compile(rf"(?<![^\W_]){word}") for word in words]
    for record in records if patterns else ():
        text = searchable_text(record.event)
        folded = _fold_letters(text)
        places = [found.start() for pattern in patterns if (found := pattern.search(folded))]
        if len(places) == len(patterns):
            snippet = _snippet(text, places[0] * len(text) // len(folded))
            yield record.at, SearchHit(session=meta.id, seq=record.seq, snippet=snippet, meta=meta)


def newest(hits: Iterable[tuple[int, SearchHit]], limit: int) -> tuple[SearchHit, ...]:
    """Return the `limit` newest of some hits."""
    ordered = sorted(hits, key=lambda hit: (hit[0], hit[1].seq), reverse=True)
    return tuple(hit for _, hit in ordered[: max(0, limit)])


def no_session(session: str) -> NoSession:
    """Return the error for a session that is not there."""
    return NoSession(f"There is no session {session!r} in this store. `backstay sessions list` shows what there is.")


def _fold_letters(text: str) -> str:
    """Return `text` in small letters, without accents."""
    if text.isascii():
        return text.lower()
    return "".join(char for char in unicodedata.normalize("NFD", text.casefold()) if unicodedata.category(char) != "Mn")


def _snippet(text: str, place: int) -> str:
    start, end = max(0, place - AROUND), place + AROUND
    flat = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{flat}{'…' if end < len(text) else ''}"
