"""What a call brings into a session: words of strangers, private data, a way out. The three must not meet without a person."""

from collections.abc import Iterable

from holdfast.logic.acts import Access, Command, Script
from holdfast.logic.permissions.bounds import beyond
from holdfast.logic.permissions.calls import file_accesses
from holdfast.logic.permissions.case import Case
from holdfast.logic.permissions.path_rules import literal_end, path_pattern
from holdfast.logic.permissions.paths import FREE_TO_READ
from holdfast.logic.permissions.places import glob_meets, sensitive
from holdfast.logic.permissions.searches import read_by, search_of
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
        for command in dict.fromkeys(script.commands):
            found |= _touched(case, command.accesses, command)
    elif kind in ("read", "edit", "patch", "search") and not beyond(case.call, case.form):
        accesses = file_accesses(case.call, case.form, case.ground) or ()
        found |= _touched(case, accesses, None)
        if kind == "search" and any(each.kind == "read" and _shows_named(case, each) for each in accesses):
            found.add("private")
    return frozenset(found)


def _shows_named(case: Case, access: Access) -> bool:
    """Whether a search would show a sensitive file below a folder because a rule of the person names it."""
    folder, side = case.locate(access.path).lexical, case.book.allow
    looks_at_hidden = bool(case.call.args.get("hidden") or case.call.args.get("glob"))
    rules = [rule for rule in (*side.reads, *side.edits) if rule.source not in ("project", "local", "default")]
    return any(
        sensitive((named,), case.ground)
        and path_pattern(rule, case.ground).may_reach_below(folder)
        and (looks_at_hidden or "/." not in named.removeprefix(folder))
        for rule in rules
        if (named := literal_end(rule, case.ground))
    )


def _touched(case: Case, accesses: Iterable[Access], command: Command | None) -> set[Taint]:
    found: set[Taint] = set()
    for access in accesses:
        if not access.known:
            continue
        spot = case.locate(access.path)
        changes = access.kind in ("write", "remove")
        if changes and not spot.inside and spot.lexical not in FREE_TO_READ:
            found.add("outside")
        if access.kind == "read" and (sensitive(spot.all, case.ground) or _shows_sensitive(case, access, command)):
            found.add("private")
    return found


def _shows_sensitive(case: Case, access: Access, command: Command | None) -> bool:
    """Whether a command reads something sensitive that it does not name, or may."""
    search = search_of(access, command, case.ground)
    below = read_by(search, case.ground) if search is not None else ()
    named = case.ground.globs.get(access.path) if access.glob else ()
    if below is None or below or any(sensitive(case.locate(path).all, case.ground) for path in named or ()):
        return True
    looked = case.ground.described or named is not None
    return access.glob and not named and glob_meets("sensitive", access.path, case.ground, looked=looked)
