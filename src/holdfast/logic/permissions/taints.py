"""What a call brings into a session: words of strangers, private data, a way out. The three must not meet without a person."""

from collections.abc import Iterable

from holdfast.logic.acts import Access, Script
from holdfast.logic.permissions.bounds import beyond
from holdfast.logic.permissions.calls import file_accesses
from holdfast.logic.permissions.case import Case
from holdfast.logic.permissions.paths import FREE_TO_READ
from holdfast.logic.permissions.places import sensitive
from holdfast.vocab.specs import Taint


def brought(case: Case, script: Script | None) -> frozenset[Taint]:
    """The taints of one call."""
    found: set[Taint] = set(case.call.tool.taints)
    kind = case.form.kind
    if kind == "mcp":
        found.add("untrusted")
        if case.call.tool.effect != "pure":
            found.add("outside")
    if kind in ("fetch", "lookup"):
        found |= {"untrusted", "outside"}
    if not case.ground.trusted and kind in ("read", "search", "shell"):
        found.add("untrusted")
    if script is not None:
        if any(command.network for command in script.commands):
            found |= {"untrusted", "outside"}
        found |= _touched(case, (access for command in script.commands for access in command.accesses))
    elif kind in ("read", "edit", "patch", "search") and not beyond(case.call, case.form):
        found |= _touched(case, file_accesses(case.call, case.form, case.ground) or ())
    return frozenset(found)


def _touched(case: Case, accesses: Iterable[Access]) -> set[Taint]:
    found: set[Taint] = set()
    for access in accesses:
        if not access.known:
            continue
        spot = case.locate(access.path)
        changes = access.kind in ("write", "remove")
        if changes and not spot.inside and spot.lexical not in FREE_TO_READ:
            found.add("outside")
        if access.kind == "read" and sensitive(spot.all, case.ground):
            found.add("private")
    return found
