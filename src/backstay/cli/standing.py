"""How it stands with each session of a list: at work, at rest, left in the middle of a turn, or damaged."""

from collections.abc import Sequence
from typing import Final, Literal

from backstay.ports import EventStore
from backstay.vocab.errors import BackstayError, NeedsUpgrade, NoSession
from backstay.vocab.specs import SessionMeta

Standing = Literal["idle", "running", "unfinished", "damaged", "newer"]

READ: Final = 20_000
"""Events that a list reads to find damage, newest sessions first; of the others it looks at the end alone."""
WORDS: Final[dict[Standing, str]] = {
    "idle": "",
    "running": "(running)",
    "unfinished": "(left in a turn)",
    "damaged": "(damaged)",
    "newer": "(of a newer Backstay)",
}
"""What a person is shown of it."""


async def standings(store: EventStore, metas: Sequence[SessionMeta]) -> list[Standing]:
    """How it stands with each of `metas`."""
    found: list[Standing] = []
    left = READ
    for meta in metas:
        left -= meta.seq
        found.append(await _standing(store, meta, 0 if left >= 0 else max(0, meta.seq - 1)))
    return found


async def _standing(store: EventStore, meta: SessionMeta, after: int) -> Standing:
    try:
        trouble = (await store.read(meta.id, after)).trouble
        held = await store.holder(meta.id) is not None
    except NeedsUpgrade:
        return "newer"
    except NoSession:  # somebody deleted it just now
        return "idle"
    except BackstayError:
        return "damaged"
    if trouble is not None:
        return trouble.kind
    if held:
        return "running"
    return "unfinished" if meta.open_turn else "idle"
