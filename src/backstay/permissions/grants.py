"""Fold the grants and the taint of a session from the whole log; no rewind takes taint back."""

from typing import Final

import msgspec
from msgspec.structs import replace

from backstay.logic.state.calls import Calls, fingerprint_seen
from backstay.vocab import events
from backstay.vocab.event import Event, Recorded
from backstay.vocab.specs import Taint

FOLDS_ON: Final[frozenset[type[Event]]] = frozenset(
    (
        events.PermissionAnswered,
        events.GrantsCleared,
        events.ToolStarted,
        events.ChildStarted,
        events.Started,
        events.ChildFinished,
        events.TaintMet,
    )
)
"""The events that change it."""


class Grants(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What people said yes to for longer than one call, and the taint of the session."""

    grants: frozenset[str] = frozenset()
    """Calls that may run again, as they were seen."""
    rules: tuple[str, ...] = ()
    """Rules that were granted, as people write them."""
    taint: frozenset[Taint] = frozenset()


def fold_grants(held: Grants, record: Recorded, calls: Calls) -> Grants:
    """Fold `record` into the grants and the taint; `calls` are those that were open before it."""
    match record.event:
        case events.PermissionAnswered(allowed=True, call=call, grant=grant, rules=rules, args=args) if grant != "once":
            if rules:
                return replace(held, rules=(*held.rules, *(each for each in rules if each not in held.rules)))
            mine = {fingerprint_seen(c.name, args or c.args, None if args else c.facts) for c in calls if c.id == call}
            return replace(held, grants=held.grants | mine)
        case events.GrantsCleared():
            return replace(held, grants=frozenset(), rules=())
        case events.ToolStarted(call=call) | events.ChildStarted(call=call):
            met = {taint for c in calls if c.id == call for taint in c.taints}
            return replace(held, taint=held.taint | met) if not met <= held.taint else held
        case events.Started(taint=taint) | events.ChildFinished(taint=taint) | events.TaintMet(taints=taint) if taint:
            return replace(held, taint=held.taint | set(taint))
        case _:
            return held
