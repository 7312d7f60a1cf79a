"""The outline of a session: what a list shows of it, as a fold over every event. Stores keep it in the transaction of the events."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from holdfast.vocab.events import (
    Closed,
    Exported,
    InputReceived,
    ModeChanged,
    ModelChanged,
    ModelReplied,
    Opened,
    Recorded,
    Renamed,
    Started,
    StoreChanged,
    TurnCompleted,
    TurnStarted,
)
from holdfast.vocab.messages import text_of
from holdfast.vocab.specs import SessionMeta

PREVIEW: Final = 160
"""Characters of a prompt or an answer that a list shows."""
HEARS: Final = frozenset(
    (
        Started,
        Opened,
        Closed,
        Renamed,
        ModeChanged,
        ModelChanged,
        StoreChanged,
        Exported,
        InputReceived,
        TurnStarted,
        TurnCompleted,
        ModelReplied,
    )
)
"""The events that change more than the place and the time."""


def project(meta: SessionMeta, records: Iterable[Recorded]) -> SessionMeta:
    """`meta` after `records`."""
    changed: dict[str, object] = {}
    turns, sent, received = meta.turns, meta.input_tokens, meta.output_tokens
    prompt = meta.prompt
    replies: list[ModelReplied] = []
    for record in records:
        event = record.event
        changed["seq"], changed["updated"] = record.seq, record.at
        if type(event) not in HEARS:
            continue
        match event:
            case InputReceived() if not prompt:
                changed["prompt"] = prompt = preview(event.display or text_of(event.parts)) or "(media)"
            case ModelReplied():
                replies.append(event)
                if event.usage is not None:
                    sent, received = sent + event.usage.input, received + event.usage.output
            case TurnStarted():
                changed["open_turn"] = True
            case TurnCompleted():
                changed["open_turn"] = False
                turns += event.outcome == "completed"
            case Renamed():
                changed["name"] = event.name
            case ModeChanged():
                changed["mode"] = event.mode
            case ModelChanged():
                changed["model"] = event.model
            case StoreChanged():
                changed["store"] = event.store
            case Exported():
                changed["exported"] = True
            case Opened():
                changed["closed"] = False
            case Closed():
                changed["closed"] = True
            case Started():
                changed |= _beginning(record.at, event)
            case _:
                pass
    answers = (preview(text_of(reply.parts)) for reply in reversed(replies))
    changed["answer"] = next(filter(None, answers), meta.answer)
    return replace(meta, **changed, turns=turns, input_tokens=sent, output_tokens=received)


def preview(text: str) -> str:
    """The first words of `text` on one line."""
    flat = " ".join(text[: PREVIEW * 4].split())
    return flat if len(flat) <= PREVIEW else flat[: PREVIEW - 1] + "…"


def _beginning(at: int, event: Started) -> dict[str, object]:
    return {
        "created": at,
        "name": event.name,
        "project": event.project,
        "cwd": event.context.working_dir,
        "model": event.model,
        "mode": event.mode,
        "store": event.store,
        "origin": event.origin.session if event.origin else "",
        "parent": event.parent,
    }
