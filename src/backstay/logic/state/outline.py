"""Fold the events of a session into `SessionMeta`, which lists of sessions show.

Stores keep it up to date in the transaction that appends the events.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from backstay.logic.text import shorten_to_line
from backstay.vocab import events
from backstay.vocab.event import Event, Recorded
from backstay.vocab.messages import text_of
from backstay.vocab.specs import SessionMeta

PREVIEW: Final = 160
"""Characters of a prompt or an answer that a list shows."""


def project(meta: SessionMeta, records: Iterable[Recorded]) -> SessionMeta:
    """Return `meta` as it is after `records`."""
    changed: dict[str, object] = {}
    turns, sent, received = meta.turns, meta.input_tokens, meta.output_tokens
    prompt = meta.prompt
    replies: list[events.ModelReplied] = []
    for record in records:
        event = record.event
        changed["seq"] = record.seq
        if not isinstance(
            event, events.Exported | events.SecretsErased
        ):  # reading or cleaning a session is not using it
            changed["updated"] = record.at
        if change := _CHANGES.get(type(event)):
            changed |= change(record, event)
        if isinstance(event, events.ModelReplied | events.ModelFailed):
            replies += [event] if isinstance(event, events.ModelReplied) else []
            if event.usage is not None:
                sent, received = sent + event.usage.input, received + event.usage.output
        elif isinstance(event, events.TurnCompleted):
            turns += event.outcome == "completed"
        elif isinstance(event, events.InputReceived) and not prompt:
            changed["prompt"] = prompt = preview(event.display or text_of(event.parts)) or "(media)"
    answers = (preview(text_of(reply.parts)) for reply in reversed(replies))
    changed["answer"] = next(filter(None, answers), meta.answer)
    return replace(meta, **changed, turns=turns, input_tokens=sent, output_tokens=received)


def preview(text: str) -> str:
    """Return the first words of `text` on one line."""
    return shorten_to_line(text, PREVIEW)


def _beginning(record: Recorded, event: events.Started) -> dict[str, object]:
    return {
        "created": record.at,
        "name": event.name,
        "project": event.project,
        "cwd": event.context.working_dir,
        "model": event.model,
        "mode": event.mode,
        "store": event.store,
        "origin": event.origin.session if event.origin else "",
        "parent": event.parent,
    }


_CHANGES: Final[dict[type[Event], Callable[[Recorded, Any], dict[str, object]]]] = {  # Any: each takes its own event
    events.Started: _beginning,
    events.Opened: lambda r, e: {"closed": False},
    events.Closed: lambda r, e: {"closed": True},
    events.Renamed: lambda r, e: {"name": e.name},
    events.ModeChanged: lambda r, e: {"mode": e.mode},
    events.ModelChanged: lambda r, e: {"model": e.model},
    events.StoreChanged: lambda r, e: {"store": e.store},
    events.Exported: lambda r, e: {"exported": True},
    events.TurnStarted: lambda r, e: {"open_turn": True},
    events.TurnCompleted: lambda r, e: {"open_turn": False},
    events.ChildStarted: lambda r, e: {"open_turn": True},  # a child's parent has an open turn, or runs a skill
    events.ChildFinished: lambda r, e: {"open_turn": False} if e.skill else {},
}
