"""Group sessions with those that they started, and search all of a group for the secrets that one of them names."""

from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from backstay.logic.secrets.erase import Eraser
from backstay.ports import EventStore
from backstay.secrets.scan import SecretScan, scan
from backstay.vocab.specs import SessionMeta


class SessionFamily(Struct, frozen=True):
    """A session, those that it started and those that these started; `selected` are the ones that a command works on."""

    selected: tuple[SessionMeta, ...]
    members: tuple[SessionMeta, ...]

    async def collect_secrets(self, store: EventStore, eraser: Eraser) -> Eraser:
        """Add the secrets that any member names to `eraser`. A family of one needs no pass: its scan finds them."""
        for each in self.members if len(self.members) > 1 else ():
            await SecretScan(store, each.id, eraser).learn()
        return eraser

    async def with_secrets(self, store: EventStore, eraser: Eraser) -> "SessionFamily":
        """Return the family with only those selected sessions that have secrets."""
        eraser = await self.collect_secrets(store, eraser)
        return replace(
            self, selected=tuple([each for each in self.selected if (await scan(store, each, eraser)).spots])
        )

    async def find_left_out(self, store: EventStore, eraser: Eraser) -> tuple[SessionMeta, ...]:
        """Return the members with secrets that are not selected."""
        eraser = await self.collect_secrets(store, eraser)
        others = [each for each in self.members if each not in self.selected]
        return tuple([each for each in others if (await scan(store, each, eraser)).spots])


def group_families(metas: Iterable[SessionMeta], selected: Collection[str]) -> tuple[SessionFamily, ...]:
    """Group the sessions of a store, and return the families that have one of `selected`, a collection of ids."""
    by_id = {each.id: each for each in metas}
    grouped: dict[str, list[SessionMeta]] = {}
    for each in by_id.values():
        grouped.setdefault(_root(each, by_id), []).append(each)
    found = (
        SessionFamily(tuple(each for each in some if each.id in selected), tuple(some)) for some in grouped.values()
    )
    return tuple(family for family in found if family.selected)


def _root(meta: SessionMeta, by_id: dict[str, SessionMeta]) -> str:
    seen = {meta.id}
    while meta.parent in by_id and meta.parent not in seen:
        meta = by_id[meta.parent]
        seen.add(meta.id)
    return meta.parent or meta.id  # the children of a deleted parent still belong together
