"""Write a session as a workflow: a chain with one agent node for each completed turn, and the transcript.

The same log gives the same document. Models, branches and loops are left out on purpose: the document is a scaffold to review.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain, islice, pairwise
from typing import Final

import msgspec

from backstay.catalog.paged_log import PagedLog
from backstay.logic.secrets.redact import PLAIN, Redactor
from backstay.logic.state.conversation import Conversation, ConversationFold
from backstay.logic.state.outline import project
from backstay.logic.state.transcript import NodeMessage, Turn, segments
from backstay.system.yaml import read_yaml
from backstay.vocab import events
from backstay.vocab.errors import Bug
from backstay.vocab.messages import SessionMessage, iso
from backstay.vocab.specs import SessionMeta

FALLBACK_ID: Final = "exported-session"
AGENT: Final = "backstay"
"""The agent of a session that names none."""

Document = dict[str, object]


def scaffold(meta: SessionMeta, conversation: Conversation, agent: str = "", redactor: Redactor = PLAIN) -> Document:
    """Return the workflow of a session, without its secrets. Lists that grow with the session are iterators."""
    slug = agent or AGENT
    title = redactor.text(meta.name or meta.prompt)
    count = sum(1 for _ in _turns(conversation))
    ids = ("input", *(f"turn-{number}" for number in range(1, count + 1)), "output")
    return {
        "id": slug_of(title),
        "nodes": _nodes(conversation, slug, redactor),
        "edges": ({"from": one, "to": other} for one, other in pairwise(ids)),
        "metadata": {"backstayExport": _origin(meta, conversation, slug, title, redactor)},
    }


def _nodes(conversation: Conversation, slug: str, redactor: Redactor) -> Iterator[object]:
    yield {"id": "input", "type": "input"}
    for number, turn in enumerate(_turns(conversation), start=1):
        yield redactor.value(_node(number, turn, slug))
    yield {"id": "output", "type": "output"}


def _turns(conversation: Conversation) -> Iterator[Turn]:
    return (turn for turn in segments(_messages_after(conversation, conversation.cleared)) if turn.completed)


def _messages_after(conversation: Conversation, after: int = 0) -> Iterator[NodeMessage]:
    return (node for turn in conversation.transcripts() for node in turn.walk_nodes() if node[0].seq > after)


def slug_of(title: str) -> str:
    """Return `title` as an id: ASCII letters and digits, joined by hyphens."""
    words = re.findall(r"[a-z0-9]+", title.lower().encode("ascii", "ignore").decode())
    return "-".join(words)[:64].strip("-") or FALLBACK_ID


def escape_templates(text: str) -> str:
    """Return `text` with nothing in it that a workflow would interpolate."""
    return text.replace("{{", "{\u200b{").replace("${", "$\u200b{")


def _node(number: int, turn: Turn, agent: str) -> Document:
    node: Document = {"id": f"turn-{number}", "type": "agent", "agent_ref": agent}
    if asked := escape_templates(turn.asked):
        node["prompt_template"] = asked
    if turn.tools:
        node["tools"] = list(turn.tools)
    return node


def _origin(meta: SessionMeta, conversation: Conversation, agent: str, title: str, redactor: Redactor) -> Document:
    origin = {
        "source": "session",
        "sessionId": meta.id,
        "agentSlug": agent,
        "createdAt": iso(meta.created),
        "updatedAt": iso(meta.updated),
    } | ({"title": title} if title else {})
    messages = (
        redactor.value(_message(message)) for _, message in _messages_after(conversation) if message is not None
    )
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


_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_/-]*(?: [A-Za-z0-9_/-]+)*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


def to_yaml(value: object) -> str:
    """Return `value` (maps, lists, strings, numbers, booleans, None) as YAML 1.2."""
    return "".join(yaml_lines(value))


def yaml_lines(value: object) -> Iterator[str]:
    """Yield `value` as YAML 1.2, a line at a time. An iterator in a map is a list."""
    return (f"{line}\n" for line in _lines(value, ""))


def _lines(value: object, indent: str) -> Iterator[str]:
    if isinstance(value, Iterator):
        for item in value:
            yield from _entry(item, indent)
    elif isinstance(value, dict) and value:
        for key in sorted(value):
            yield from _item(f"{indent}{_scalar(key)}:", value[key], indent + "  ")
    elif isinstance(value, list | tuple) and value:
        for item in value:
            yield from _entry(item, indent)
    else:
        yield indent + _scalar(value)


def _item(head: str, value: object, indent: str) -> Iterator[str]:
    if isinstance(value, Iterator):
        first = list(islice(value, 1))
        value = chain(first, value) if first else ()
    if isinstance(value, dict | list | tuple | Iterator) and value:
        yield head
        yield from _lines(value, indent)
    else:
        yield f"{head} {_scalar(value)}"


def _entry(value: object, indent: str) -> Iterator[str]:
    lines = list(_lines(value, indent + "  "))
    yield f"{indent}- {lines[0].lstrip(' ')}"
    yield from lines[1:]


def _scalar(value: object) -> str:
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else _UNPRINTABLE.sub(_escape, json.dumps(value, ensure_ascii=False))
    if isinstance(value, dict | list | tuple):
        return "{}" if isinstance(value, dict) else "[]"
    return json.dumps(value)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def workflow_text(log: PagedLog, redactor: Redactor = PLAIN) -> Iterator[str]:
    """Yield the scaffold of a session as YAML. Each part is parsed again and compared."""
    meta, fold, agent = SessionMeta(id=log.session), ConversationFold(), ""
    for records in log.pages():
        meta = project(meta, records)
        for record in records:
            fold.apply(record)
            if record.seq == 1 and isinstance(record.event, events.Started):
                agent = record.event.agent
    document = scaffold(meta, fold.over(log, log.session), agent, redactor)
    return yaml_lines(_check_roundtrip(document, log.session))


def _check_roundtrip(value: object, session: str) -> object:
    """Return `value`, which reads back from YAML; an item of an iterator is checked when it is written."""
    if isinstance(value, Iterator):
        return (_check_roundtrip(item, session) for item in value)
    if isinstance(value, dict) and any(isinstance(part, dict | Iterator) for part in value.values()):
        return {key: _check_roundtrip(part, session) for key, part in value.items()}
    if read_yaml(to_yaml(value)) != value:
        raise Bug(f"The export of {session!r} does not read back as it was written.")
    return value
