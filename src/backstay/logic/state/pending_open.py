"""The opening of a session that was there before, from the moment it is decided on until it is written."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from backstay.logic.state.lifecycle import Lifecycle, move
from backstay.logic.state.progress import Progress
from backstay.vocab.event import Draft, Event
from backstay.vocab.events import ModeChanged, ModelChanged, Opened, Renamed
from backstay.vocab.events.limits import BudgetSet
from backstay.vocab.events.tools import ScopeChanged

SETTINGS: Final = (Renamed, ModeChanged, ModelChanged, ScopeChanged, BudgetSet)
"""What an opening may set, and a person later."""


class PendingOpen(Struct, frozen=True):
    """The events of an opening that are not in the log yet: `Opened`, what children spent meanwhile, and settings of this opening.

    Opening a session again takes its lease and reads its log, and writes nothing: a session that is only looked at does not move to the
    top of every list, and a full disk or a read-only store keeps nobody from reading. `prepare` in `session/open.py` decides on the
    events; the runner writes them.

    1. *When.* They go in front of the first step that goes on with the session: a prompt, an answer, `finish()`. A step that changes
       something and goes on with nothing (a new name, a note) is written without them, and they stay pending.
    2. *Until then* the state is the one that the last process left: its turn, its calls and its compaction look open and nobody performs
       them, or it looks closed. So the session does not count as running or compacting, `decide` is not asked, and admission takes posts
       behind `Closed` and lets another compaction begin. What changes the history of an open turn is refused as ever.
    3. *Settings* of the opening count at once. Whoever asks for model, mode, scope, name or lifecycle gets the state with them on top:
       `progress_with`, `name_after`, `life_with`.
    4. *A setting that is changed meanwhile* is newer than the same setting of the opening, which is dropped: see `after`.
    5. `Opened` in the log ends it: everything pending was written in the same step.

    A new session has nothing pending: its `Started` is written when it is opened.
    """

    drafts: tuple[Draft, ...] = ()

    def __bool__(self) -> bool:
        """Whether the opening is still to be written."""
        return bool(self.drafts)

    def masked(self, mask: Callable[[tuple[Draft, ...]], tuple[Draft, ...]]) -> "PendingOpen":
        """Return the opening with its events as `mask` gives them."""
        return PendingOpen(mask(self.drafts))

    def after(self, event: Event) -> "PendingOpen":
        """Return what is pending once `event` is in the log."""
        if isinstance(event, Opened):
            return PendingOpen()
        if isinstance(event, SETTINGS):
            return PendingOpen(tuple(draft for draft in self.drafts if type(draft.event) is not type(event)))
        return self

    def progress_with(self, progress: Progress) -> Progress:
        """Return `progress` with the model, mode and scope of the opening."""
        for draft in self.drafts:
            match draft.event:
                case ModelChanged(model=model):
                    progress = replace(progress, model=model)
                case ModeChanged(mode=mode):
                    progress = replace(progress, mode=mode)
                case ScopeChanged(scope=scope, implied=implied):
                    progress = replace(progress, scope=scope, scope_implied=implied)
                case _:
                    pass
        return progress

    def name_after(self, name: str) -> str:
        """Return the name of the session that is called `name` in the log."""
        names = [draft.event.name for draft in self.drafts if isinstance(draft.event, Renamed)]
        return names[-1] if names else name

    def life_with(self, life: Lifecycle) -> Lifecycle:
        """Return the lifecycle with the resume in it."""
        return move(life, "resume")[0] if self.drafts else life
