"""Sessions that belong together: one, and those that it started. What one of them tells to be secret is looked for in all."""

from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from backstay.logic.secrets.erase import Eraser
from backstay.ports import EventStore
from backstay.secrets.scan import SecretScan, scan
from backstay.vocab.specs import SessionMeta


class Family(Struct, frozen=True):
    """Some sessions of a family, in the order in which they were given, and all that belong to it."""

    meant: tuple[SessionMeta, ...]
    members: tuple[SessionMeta, ...]

    async def teach(self, store: EventStore, eraser: Eraser) -> Eraser:
        """Let an eraser learn what any of them tells. Alone, a session is learned from when it is looked at."""
        for each in self.members if len(self.members) > 1 else ():
            await SecretScan(store, each.id, eraser).learn()
        return eraser

    async def with_secrets(self, store: EventStore, eraser: Eraser) -> "Family":
        """Return the same with only those that have secrets."""
        eraser = await self.teach(store, eraser)
        return replace(self, meant=tuple([each for each in self.meant if (await scan(store, each, eraser)).spots]))

    async def find_left_out(self, store: EventStore, eraser: Eraser) -> tuple[SessionMeta, ...]:
        """Return those with secrets that belong to the family and are not meant."""
        eraser = await self.teach(store, eraser)
        others = [each for each in self.members if each not in self.meant]
        return tuple([each for each in others if (await scan(store, each, eraser)).spots])


def families(metas: Iterable[SessionMeta], meant: Collection[str]) -> tuple[Family, ...]:
    """Return the families of sessions of a store to which one of `meant` belongs."""
    by_id = {each.id: each for each in metas}
    grouped: dict[str, list[SessionMeta]] = {}
    for each in by_id.values():
        grouped.setdefault(_root(each, by_id), []).append(each)
    found = (Family(tuple(each for each in some if each.id in meant), tuple(some)) for some in grouped.values())
    return tuple(family for family in found if family.meant)


def _root(meta: SessionMeta, by_id: dict[str, SessionMeta]) -> str:
    seen = {meta.id}
    while meta.parent in by_id and meta.parent not in seen:
        meta = by_id[meta.parent]
        seen.add(meta.id)
    return meta.parent or meta.id  # of a parent that is gone, all children still belong together
