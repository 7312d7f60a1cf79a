"""What a store can do whose past can be changed."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from backstay.logic.secrets.rewrite import Change
from backstay.vocab.event import Recorded
from backstay.vocab.specs import Lease


class ChangedPast(Struct, frozen=True, kw_only=True):
    """What takes the place of a part of a session's past."""

    changed: Sequence[Recorded]
    """These stand in the place of the events with their numbers."""
    added: Recorded
    """This stands behind the last event."""
    blobs: Mapping[str, bytes]
    gone: Collection[str]
    """The blobs that no event cites any more."""


@runtime_checkable
class Rewritable(Protocol):
    """A store whose past can be changed, which is done for one reason only: a secret was written down.

    What was there before is on no disk any more when `scour` has returned. A process that dies in between leaves a log that is the old
    one or the new one, and a store that is not `clean`; to do it again finishes it.
    """

    async def rewrite(self, lease: Lease, past: ChangedPast) -> None:
        """Put `past` in the place of what a session's log says."""

    async def aside(self, session: str) -> tuple[str, ...]:
        """What repairs put aside of a session."""

    async def change_aside(self, session: str, change: Change) -> int:
        """Change what repairs put aside of a session; return how many pieces of it are different now."""

    async def is_clean(self) -> bool:
        """Whether nothing is left of what was replaced."""

    async def scour(self) -> None:
        """Remove from the files whatever is not part of a log any more."""
