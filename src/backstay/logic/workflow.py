"""A session as a workflow: a straight chain with one agent node for each completed turn, and the transcript beside it.

Deterministic: the same log gives the same document, without a clock or chance. What a person must still add (models, branches, loops) is
left out on purpose; the document is a scaffold to review.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import msgspec

from backstay.logic.conversation import Conversation
from backstay.logic.redact import PLAIN, Redactor
from backstay.logic.turns import Spoken, Turn, segments
from backstay.vocab.messages import SessionMessage, iso
from backstay.vocab.specs import SessionMeta

FALLBACK_ID: Final = "exported-session"
AGENT: Final = "backstay"
"""The agent of a session that names none."""

Document = dict[str, object]


def scaffold(meta: SessionMeta, told: Conversation, agent: str = "", redactor: Redactor = PLAIN) -> Document:
    """The workflow of a session, without its secrets. What grows with the session is an iterator in the place of a list."""
    slug = agent or AGENT
    title = redactor.text(meta.name or meta.prompt)
    count = sum(1 for _ in _completed(told))
    ids = ("input", *(f"turn-{number}" for number in range(1, count + 1)), "output")
    return {
        "id": slug_of(title),
        "nodes": _nodes(told, slug, redactor),
        "edges": ({"from": one, "to": other} for one, other in pairwise(ids)),
        "metadata": {"backstayExport": _origin(meta, told, slug, title, redactor)},
    }


def _nodes(told: Conversation, slug: str, redactor: Redactor) -> Iterator[object]:
    yield {"id": "input", "type": "input"}
    for number, turn in enumerate(_completed(told), start=1):
        yield redactor.value(_node(number, turn, slug))
    yield {"id": "output", "type": "output"}


def _completed(told: Conversation) -> Iterator[Turn]:
    return (turn for turn in segments(_spoken(told, told.cleared)) if turn.completed)


def _spoken(told: Conversation, after: int = 0) -> Iterator[Spoken]:
    return (said for turn in told.transcripts() for said in turn.spoken() if said[0].seq > after)


def slug_of(title: str) -> str:
    """`title` as an id: ASCII letters and digits, joined by hyphens."""
    words = re.findall(r"[a-z0-9]+", title.lower().encode("ascii", "ignore").decode())
    return "-".join(words)[:64].strip("-") or FALLBACK_ID


def neutralised(text: str) -> str:
    """`text` in which nothing is interpolated when the workflow runs."""
    return text.replace("{{", "{\u200b{").replace("${", "$\u200b{")


def _node(number: int, turn: Turn, agent: str) -> Document:
    node: Document = {"id": f"turn-{number}", "type": "agent", "agent_ref": agent}
    if asked := neutralised(turn.asked):
        node["prompt_template"] = asked
    if turn.tools:
        node["tools"] = list(turn.tools)
    return node


def _origin(meta: SessionMeta, told: Conversation, agent: str, title: str, redactor: Redactor) -> Document:
    origin = {
        "source": "session",
        "sessionId": meta.id,
        "agentSlug": agent,
        "createdAt": iso(meta.created),
        "updatedAt": iso(meta.updated),
    } | ({"title": title} if title else {})
    messages = (redactor.value(_message(message)) for _, message in _spoken(told) if message is not None)
    return {key: redactor.value(value) for key, value in origin.items()} | {"messages": messages}


def _message(message: SessionMessage) -> Document:
    plain: Document = {
        "id": message.id,
        "sessionId": message.session,
        "sequenceNumber": message.number,
        "role": message.role,
        "content": msgspec.json.decode(msgspec.json.encode(message.content)),
        "timestamp": message.timestamp,
    }
    return plain | ({"modelId": message.model} if message.model else {})
