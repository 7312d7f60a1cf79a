"""What may enter a step. Asked when the step is made, not when somebody called: between the two, a turn may have begun.

A post that cannot be written now fails alone, and whoever sent it is told why.
"""

from msgspec.structs import replace

from holdfast.logic.parts import storable
from holdfast.logic.state import State
from holdfast.runtime.inbox import Post
from holdfast.vocab.errors import HoldfastError, IllegalTransition, InputConflict
from holdfast.vocab.event import Draft
from holdfast.vocab.event_files import CheckpointsPurged, RestoreStarted
from holdfast.vocab.event_limits import CompactionStarted, CompactionUndone
from holdfast.vocab.events import HistoryCleared, InputReceived, MessageInjected, Rewound
from holdfast.vocab.messages import InputPart

BETWEEN_TURNS = (
    *(Rewound, HistoryCleared, MessageInjected, CompactionStarted, CompactionUndone),
    *(RestoreStarted, CheckpointsPurged),
)
"""Events that change the history, or the files, under a turn's feet."""


def admit(posts: list[Post], state: State) -> list[Post]:
    """The posts that may be written now, without the input that is there already; the others are answered with their error."""
    received: dict[str, tuple[InputPart, ...]] = {}
    admitted: list[Post] = []
    for post in posts:
        error = _refusal(post, state, received)
        if error is None:
            post.drafts = tuple(draft for draft in map(_storable, post.drafts) if not _repeats(draft, state, received))
            admitted.append(post)
        else:
            post.answer(error)
    return admitted


def _storable(draft: Draft) -> Draft:
    event = storable(draft.event)
    return draft if event is draft.event else replace(draft, event=event)


def _refusal(post: Post, state: State, received: dict[str, tuple[InputPart, ...]]) -> HoldfastError | None:
    for draft in post.drafts:
        event = draft.event
        if isinstance(event, BETWEEN_TURNS) and state.progress.turn is not None:
            session = state.progress.session
            return IllegalTransition(
                f"A turn of session {session!r} is going on. Wait for it, abort it, or finish it first."
            )
        if isinstance(event, CompactionStarted) and state.progress.compacting:
            return IllegalTransition(f"Session {state.progress.session!r} is being compacted already.")
        if isinstance(event, RestoreStarted | CheckpointsPurged) and state.progress.restore is not None:
            return IllegalTransition(f"Files of session {state.progress.session!r} are being put back already.")
        if isinstance(event, InputReceived):
            known = received.get(event.input, state.results.inputs.parts.get(event.input))
            if known is not None and known != event.parts:
                return InputConflict(f"The input id {event.input!r} was used for another text in this session.")
    return None


def _repeats(draft: Draft, state: State, received: dict[str, tuple[InputPart, ...]]) -> bool:
    event = draft.event
    if not isinstance(event, InputReceived):
        return False
    if event.input in received or event.input in state.results.inputs.parts:
        return True
    received[event.input] = event.parts
    return False
