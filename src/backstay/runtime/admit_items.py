"""Admit inbox items to the next step: check each against the state at commit time, since a turn may have begun after it was posted.

An item that cannot be written now fails alone, and its sender gets the error.
"""

import msgspec
from msgspec.structs import replace

from backstay.logic.state.session_state import State
from backstay.logic.stored_content import as_stored_event
from backstay.runtime.inbox import InboxItem
from backstay.runtime.mask_events import Mask
from backstay.vocab import events
from backstay.vocab.errors import BackstayError, IllegalTransition, InputConflict, UserError
from backstay.vocab.event import By, Draft, Event
from backstay.vocab.messages import InputPart

BETWEEN_TURNS = (
    *(events.Rewound, events.HistoryCleared, events.MessageInjected, events.CompactionStarted, events.CompactionUndone),
    *(events.RestoreStarted, events.CheckpointsPurged, events.ChildStarted),
)
"""Events that change the history, or the files, of an open turn. A `ChildStarted` in the inbox is a skill of a person."""


_ALONE = (events.CompactionStarted, events.RestoreStarted, events.ChildStarted)
"""Events of which one step begins only one."""


def admit_items(items: list[InboxItem], state: State, mask: Mask, *, opening: bool = False) -> list[InboxItem]:
    """Return the items that may be written now, without the input that is there already; answer the others with their error.

    What `mask` knows is not in them.

    While the `opening` is not written, what the dead process was doing is still in the state, and no performer runs.
    """
    received: dict[str, tuple[InputPart, ...]] = {}
    admitted: list[InboxItem] = []
    begun: set[type[Event]] = set()
    for item in items:
        error = (
            _make_storable(item, mask)
            or _too_late(item, state, opening=opening)
            or _overtaken(item, begun)
            or _refusal(item, state, received, opening=opening)
        )
        if error is None:
            begun.update(type(draft.event) for draft in item.drafts)
            item.drafts = tuple(draft for draft in item.drafts if not _repeats(draft, state, received))
            admitted.append(item)
        elif item.committed is None:  # no caller waits for the error
            item.drafts = (
                Draft(
                    event=events.FaultCaught(
                        where="what was to be written", kind=type(error).__name__, message=str(error)
                    )
                ),
            )
            admitted.append(item)
        else:
            item.answer(error)
    return admitted


def as_stored(draft: Draft) -> Draft:
    """Return `draft` as it will be read back. Raise `UserError` when it could not be."""
    try:
        msgspec.convert(draft.by, By)
        msgspec.convert(draft.cause, str)
    except msgspec.ValidationError as exc:
        raise UserError(f"Nothing can be written down as said by {draft.by!r}: {exc}.") from exc
    return replace(draft, event=as_stored_event(draft.event))


def _make_storable(item: InboxItem, mask: Mask) -> BackstayError | None:
    """Give the drafts of an item the form in which they are stored, without known secrets; return the error where one has none."""
    try:
        item.drafts = tuple(map(as_stored, item.drafts))
        mask.mask_item(item)
    except UserError as exc:
        return exc
    return None


def _too_late(item: InboxItem, state: State, *, opening: bool) -> BackstayError | None:
    """Refuse awaited items after `Closed`."""
    said = [draft for draft in item.drafts if not isinstance(draft.event, events.Closed)]
    if said and item.committed is not None and state.progress.closed and not opening:
        return IllegalTransition(f"Session {state.progress.session!r} is closed.")
    return None


def _overtaken(item: InboxItem, begun: set[type[Event]]) -> BackstayError | None:
    """Refuse what another item of the same step begins."""
    if any(isinstance(draft.event, _ALONE) and type(draft.event) in begun for draft in item.drafts):
        return IllegalTransition("The same has just been started elsewhere. Wait for it.")
    return None


def _refusal(
    item: InboxItem, state: State, received: dict[str, tuple[InputPart, ...]], *, opening: bool
) -> BackstayError | None:
    for draft in item.drafts:
        event = draft.event
        if isinstance(event, BETWEEN_TURNS) and state.progress.turn is not None:
            session = state.progress.session
            return IllegalTransition(
                f"A turn of session {session!r} is going on. Wait for it, abort it, or finish it first."
            )
        if isinstance(event, events.CompactionStarted) and state.progress.compacting and not opening:
            return IllegalTransition(f"Session {state.progress.session!r} is being compacted already.")
        if isinstance(event, events.RestoreStarted | events.CheckpointsPurged) and state.progress.restore is not None:
            return IllegalTransition(f"Files of session {state.progress.session!r} are being put back already.")
        if isinstance(event, events.ChildStarted) and state.progress.skill is not None:
            return IllegalTransition(f"A skill of session {state.progress.session!r} is running already. Wait for it.")
        if isinstance(event, events.InputReceived):
            known = received.get(event.input, state.results.inputs.parts.get(event.input))
            if known is not None and known != event.parts:
                return InputConflict(f"The input id {event.input!r} was used for another text in this session.")
    return None


def _repeats(draft: Draft, state: State, received: dict[str, tuple[InputPart, ...]]) -> bool:
    event = draft.event
    if not isinstance(event, events.InputReceived):
        return False
    if event.input in received or event.input in state.results.inputs.parts:
        return True
    received[event.input] = event.parts
    return False
