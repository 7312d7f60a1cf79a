"""Searching a JSONL store: a scan of the files. Blocks."""

from itertools import islice

from holdfast.ports import SearchHit
from holdfast.stores.disk import read_regular
from holdfast.stores.jsonl_claims import names_in
from holdfast.stores.jsonl_known import Knowledge
from holdfast.stores.jsonl_log import name_of
from holdfast.stores.memory import find, newest, words_of


def search(knowledge: Knowledge, text: str, limit: int) -> tuple[SearchHit, ...]:
    """Where every word of `text` was said or shown, newest first."""
    words = words_of(text)
    hits: list[tuple[int, SearchHit]] = []
    if not words or limit <= 0:
        return ()
    for known in sorted(knowledge.everything(), key=lambda known: known.meta.updated, reverse=True):
        if len(hits) >= limit and known.meta.updated < hits[limit - 1][0]:
            break
        session = known.meta.id
        if _may_hold(knowledge, session, words):
            records = knowledge.look(session, trust=False).reading.records
            hits += islice(find(known.meta, reversed(records), words), limit)
            hits.sort(key=lambda hit: hit[0], reverse=True)
    return newest(hits, limit)


def _may_hold(knowledge: Knowledge, session: str, words: tuple[str, ...]) -> bool:
    """Whether it is worth decoding a log.

    Only plain ASCII can be judged by its bytes: accents and case fold together elsewhere.
    """
    folder = knowledge.folder(session)
    missing = {word.encode() for word in words}
    try:
        for token in names_in(folder).segments:
            content = read_regular(folder / name_of(token))
            if not content.isascii():
                return True
            small = content.lower()
            missing = {word for word in missing if word not in small}
    except OSError:
        return False  # deleted a moment ago, or closed to us: it must not hide the others
    return not missing
