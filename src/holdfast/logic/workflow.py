"""A session as a workflow: a straight chain with one agent node for each completed turn, and the transcript beside it.

Deterministic: the same log gives the same document, without a clock or chance. What a person must still add (models, branches, loops) is
left out on purpose; the document is a scaffold to review.
"""

import re
from itertools import pairwise
from typing import Final

import msgspec

from holdfast.logic.redact import PLAIN
from holdfast.logic.state import State
from holdfast.logic.turns import Turn, segment
from holdfast.vocab.messages import SessionMessage, iso

FALLBACK_ID: Final = "exported-session"
AGENT: Final = "holdfast"
"""The agent of a session that names none."""

Document = dict[str, object]


def scaffold(state: State, agent: str = "") -> Document:
    """The workflow of a session, without its secrets."""
    slug = agent or AGENT
    title = PLAIN.text(state.meta.name or state.meta.prompt)
    turns = [turn for turn in segment(state.transcript) if turn.completed]
    nodes = [_node(number, turn, slug) for number, turn in enumerate(turns, start=1)]
    ids = ["input", *(str(node["id"]) for node in nodes), "output"]
    document: Document = {
        "id": slug_of(title),
        "nodes": [{"id": "input", "type": "input"}, *nodes, {"id": "output", "type": "output"}],
        "edges": [{"from": one, "to": other} for one, other in pairwise(ids)],
        "metadata": {"holdfastExport": _origin(state, slug, title)},
    }
    return {key: PLAIN.value(part) for key, part in document.items()}


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


def _origin(state: State, agent: str, title: str) -> Document:
    origin: Document = {
        "source": "session",
        "sessionId": state.meta.id,
        "agentSlug": agent,
        "createdAt": iso(state.meta.created),
        "updatedAt": iso(state.meta.updated),
        "messages": [_message(message) for _, message in state.transcript.spoken() if message is not None],
    }
    return origin | ({"title": title} if title else {})


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
