"""Answer `/memory`, for the person and for a model.

    list | show TOPIC | add [type/topic] TEXT | pending | approve ID | reject ID [why] | used

A model may list, show, add and ask what was used; what it adds is a proposal. It never sees the other doors: it cannot approve or reject.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from backstay.config.person import who_runs
from backstay.memory.entry import GENERAL, KINDS
from backstay.memory.folder import INDEX
from backstay.memory.memory import WHOLE_INDEX, Memory, MemoryAnswer, Window, refuse
from backstay.vocab.errors import UserError
from backstay.vocab.event import By
from backstay.vocab.specs import Mode


class Subcommand(Struct, frozen=True, kw_only=True):
    """One subcommand."""

    usage: str
    does: str
    for_model: bool = False
    """Whether a model may use it."""
    writes: bool = False
    """Whether it changes files: a model may not in plan mode."""


SUBCOMMANDS: Final[Mapping[str, Subcommand]] = {
    "list": Subcommand(usage="list", does="Show the index and the names of the topics.", for_model=True),
    "show": Subcommand(usage="show TOPIC", does="Show one topic.", for_model=True),
    "add": Subcommand(
        usage="add [type/topic] TEXT",
        does="Remember one line; types: user, feedback, project, reference. What a model adds waits for the person.",
        for_model=True,
        writes=True,
    ),
    "pending": Subcommand(usage="pending", does="Show what waits for the person."),
    "approve": Subcommand(usage="approve ID", does="Keep what was proposed.", writes=True),
    "reject": Subcommand(usage="reject ID [why]", does="Turn a proposal down.", writes=True),
    "used": Subcommand(usage="used", does="Show what of the memory was used in this session.", for_model=True),
}
"""The grammar of the command."""
_PLACE: Final = re.compile(rf"[\[(]?({'|'.join(KINDS)})/([^\s/()\[\]]{{1,200}})[\])]?\s+")


def memory_command(
    memory: Memory, args: str, by: By, *, turn: str = "", mode: Mode = "default", used: Sequence[str] = ()
) -> MemoryAnswer:
    """Answer `/memory ARGS`. May block on files; the caller writes the answer's events into the session's log.

    In a program of a session, the person's request counts as one of that session's model or hook.
    """
    by = who_runs() if by == "user" else by
    name, _, rest = args.strip().partition(" ")
    name, rest = name or "list", rest.strip()
    found = SUBCOMMANDS.get(name)
    if found is None or (by != "user" and not found.for_model):
        return _refuse_subcommand(name, by)
    if by != "user" and found.writes and mode == "plan":
        return refuse("Nothing is written in plan mode, and a memory neither. Propose it after the plan.")
    try:
        return _ANSWERS[name](_MemoryRequest(memory, rest, by, turn, used))
    except UserError as exc:
        return refuse(str(exc))


def writes(args: str) -> bool:
    """Return whether `/memory ARGS` changes files: the policy needs it for a model's call."""
    found = SUBCOMMANDS.get((args.split(maxsplit=1) or ["list"])[0])
    return found is not None and found.writes


def usage(by: By) -> str:
    """Return the grammar, one line each, for the person or for a model."""
    return "\n".join(f"{each.usage}: {each.does}" for each in SUBCOMMANDS.values() if by == "user" or each.for_model)


class _MemoryRequest(Struct, frozen=True):
    memory: Memory
    rest: str
    by: By
    turn: str
    used: Sequence[str]

    @property
    def model(self) -> bool:
        return self.by != "user"


def _list(asked: _MemoryRequest) -> MemoryAnswer:
    seen, topics, entries = asked.memory.index(), asked.memory.topics(), asked.memory.entries()
    if not seen.text.strip() and not topics:
        return MemoryAnswer(message="Nothing is remembered here.", data={"entries": (), "topics": ()})
    whole = Window(f"{seen.text}\n\nTopics: {', '.join(topics) or 'none'}", seen.cut)
    more = f"\n\nThere is more than is shown here: {asked.memory.path / INDEX}" if seen.cut else ""
    return MemoryAnswer(
        message=asked.memory.frame_window(whole, "the topics") if asked.model else f"{whole.text.strip()}{more}",
        data={"entries": entries, "topics": topics, "cut": seen.cut},
        noted=(asked.memory.use(WHOLE_INDEX, origin=_origin(asked)),) if asked.model else (),
    )


def _show(asked: _MemoryRequest) -> MemoryAnswer:
    if not asked.rest:
        return refuse("Say which topic: /memory show TOPIC")
    found = asked.memory.topic(asked.rest)
    if found is None:
        return refuse(f"There is no topic {asked.rest[:80]!r}. The topics are in: /memory list")
    name, seen, entries = found
    text = asked.memory.frame_window(seen, "the file") if asked.model else seen.text
    event = asked.memory.use(f"topic:{name}", topic=name, origin=_origin(asked))
    return MemoryAnswer(
        message=text or "There is nothing in it.",
        data={"topic": name, "text": seen.text, "entries": entries, "cut": seen.cut},
        noted=(event,) if asked.model else (),
    )


def _add(asked: _MemoryRequest) -> MemoryAnswer:
    place = _PLACE.match(asked.rest)
    kind, topic = place.groups() if place else ("project", GENERAL)
    text = asked.rest[place.end() :] if place else asked.rest
    if not text.strip():
        return refuse("Say what to remember: /memory add [type/topic] TEXT")
    return asked.memory.add(text, by=asked.by, kind=kind, topic=topic, turn=asked.turn)


def _pending(asked: _MemoryRequest) -> MemoryAnswer:
    found = asked.memory.pending()
    lines = [f"{each.id}  ({each.kind}/{each.topic}) {each.text}  [{each.by}]" for each in found.waiting]
    words = "\n".join(lines) or "Nothing waits."
    return MemoryAnswer(
        message="\n".join((words, *found.problems)), data={"waiting": found.waiting, "problems": found.problems}
    )


def _approve(asked: _MemoryRequest) -> MemoryAnswer:
    if not asked.rest:
        return refuse("Say which one: /memory approve ID. See: /memory pending")
    return asked.memory.approve(asked.rest, by=asked.by)


def _reject(asked: _MemoryRequest) -> MemoryAnswer:
    memory, _, why = asked.rest.partition(" ")
    if not memory:
        return refuse("Say which one: /memory reject ID [why]. See: /memory pending")
    return asked.memory.reject(memory, by=asked.by, why=why)


def _show_used(asked: _MemoryRequest) -> MemoryAnswer:
    names = tuple(asked.used)
    return MemoryAnswer(
        message=f"Used in this session: {', '.join(names)}." if names else "Nothing was used in this session.",
        data={"used": names},
    )


_ANSWERS: Final[Mapping[str, Callable[[_MemoryRequest], MemoryAnswer]]] = {
    "list": _list,
    "show": _show,
    "add": _add,
    "pending": _pending,
    "approve": _approve,
    "reject": _reject,
    "used": _show_used,
}


def _refuse_subcommand(name: str, by: By) -> MemoryAnswer:
    if name in SUBCOMMANDS:
        what = "see pending" if name == "pending" else name
        return refuse(f"Only the person can {what} memories. You may: list, show, add, used.")
    known = ", ".join(known for known, each in SUBCOMMANDS.items() if by == "user" or each.for_model)
    return refuse(f"There is no /memory {name[:40]!r}. There is: {known}.")


def _origin(asked: _MemoryRequest) -> str:
    return " ".join(filter(None, (asked.by, asked.turn)))
