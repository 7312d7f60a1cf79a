"""Files that a call would touch: may it?

Every access is judged, whoever makes it: a file tool, a redirect, an operand of a program. Allowing a command does not allow what it
writes to.
"""

import re
from collections.abc import Collection
from typing import Final

import msgspec

from backstay.permissions.bulk_changes import carries, programs_of
from backstay.permissions.call_site import Access, Command
from backstay.permissions.case import JudgeContext
from backstay.permissions.command_rules import Vouch
from backstay.permissions.mass_removal import is_picked, literal_folder, lost_by, may_pick
from backstay.permissions.path_rules import allows, forbids, literal_end, path_pattern
from backstay.permissions.paths import FREE, FREE_TO_READ, ResolvedPath
from backstay.permissions.rule_index import Side
from backstay.permissions.searches import from_the_root, handed_over, met_by, read_by, search_of, taken_by
from backstay.permissions.sensitive_paths import critical, device, glob_meets, holds_protected, protected, sensitive
from backstay.permissions.suggested_rules import path_offers
from backstay.permissions.verdict import Finding, Hold, Reason, strictest
from backstay.permissions.wildcards import may_climb
from backstay.vocab.rules import Rule

_DOES: Final = {"read": "reads", "write": "writes", "remove": "removes", "list": "looks into"}
_CHANGES: Final = ("write", "remove")
_WILD: Final = frozenset("*?[")
_SHOWN: Final = 3
"""Sensitive files that a sentence names."""
_PARTED: Final = re.compile(r"[\s'\"\\]")
"""What `xargs` parts names at, or takes out of them."""


class FileAccess(msgspec.Struct, frozen=True):
    """An access and the command that makes it, if it is one of a shell script."""

    access: Access
    command: Command | None = None
    vouch: Vouch = "no"
    """What the rules say for the command."""

    @property
    def changes(self) -> bool:
        """Whether it changes something."""
        return self.access.kind in _CHANGES

    @property
    def by_tool(self) -> bool:
        """Whether a file tool makes it."""
        return self.command is None

    @property
    def what(self) -> str:
        """In words."""
        does = "changes" if self.access.rewrites else _DOES[self.access.kind]
        return f"{does} {self.access.written or self.access.path or 'a file that is not known yet'}"


def weigh_touch(case: JudgeContext, touch: FileAccess) -> Finding:
    """What the policy says about one access."""
    access = touch.access
    if not access.known:
        return _unknown(case, touch)
    if access.glob:
        return _expanded(case, touch)
    spot = case.locate(access.path)
    if spot.lexical in _free(touch) and "\x00" not in access.path:
        return _allow(touch, "path", f"{spot.lexical} may be used by anybody")
    return strictest([_placed(case, touch, spot), *_elsewhere(case, touch)])


def _elsewhere(case: JudgeContext, touch: FileAccess) -> list[Finding]:
    """The file that `git show REVISION:path` means when the working folder is not the root of the repository."""
    meant = from_the_root(touch.access, touch.command, case.ground)
    found = case.ground.globs.get(meant) if meant else ()
    if found is None and not case.ground.described:
        return [Finding(touch.what, "ask", "path", "nobody can say which folder git takes it from", "firm")]
    return [_placed(case, touch, case.locate(path)) for path in found or ()]


def _free(touch: FileAccess) -> Collection[str]:
    """The devices that anybody may use. Those of a tool that reads files would be our own."""
    if touch.by_tool:
        return ("/dev/null",)
    return FREE if touch.changes else FREE_TO_READ


def _placed(case: JudgeContext, touch: FileAccess, spot: ResolvedPath) -> Finding:
    """Deny, what is critical, plan, ask, what is sensitive, protected or odd, allow, the mode: in this order."""
    if "\x00" in touch.access.path:
        return Finding(touch.what, "deny", "arguments", "a path with a NUL byte in it names no file: leave it out")
    if denied := _ruled(case.book.deny, case, touch, spot):
        if touch.changes and touch.access.deep:  # as for what it reads below a folder
            detail = f"it puts something at {spot.lexical!r}, which the rule {str(denied)!r} denies"
            return Finding(touch.what, "ask", "rule", detail, "hard")
        if touch.access.perhaps:
            detail = f"it may {'remove' if touch.changes else 'read'} {spot.lexical!r}, which the rule {str(denied)!r} denies"
            return Finding(touch.what, "ask", "rule", detail, "hard")
        return Finding(touch.what, "deny", "rule", f"{spot.lexical!r} is denied by the rule {str(denied)!r}")
    if (
        touch.access.kind == "remove"
        and (lost := critical(spot, case.ground))
        and not is_picked(touch.command, spot, case)
    ):
        return Finding(touch.what, "deny", "critical", f"this would remove {lost}, {spot.lexical!r}")
    if touch.changes and device(spot):
        return Finding(touch.what, "deny", "critical", f"{spot.lexical!r} is a disk or memory, not a file")
    if case.mode == "plan" and touch.changes:
        return Finding(touch.what, "deny", "mode", f"the mode is plan: {spot.lexical!r} is not changed")
    if asked := _ruled(case.book.ask, case, touch, spot):
        return Finding(touch.what, "ask", "rule", f"the rule {str(asked)!r} asks about {spot.lexical!r}", "hard")
    return _special(case, touch, spot) or _usual(case, touch, spot)


def _special(case: JudgeContext, touch: FileAccess, spot: ResolvedPath) -> Finding | None:
    if not touch.access.glob and (met := _reaches_denied(case, touch)):
        return met
    place = protected(spot, case.ground) if touch.changes or touch.access.rewrites else ""
    if not place and touch.access.kind == "write" and any(carries(*each) for each in programs_of(touch.command)):
        place = holds_protected(spot, case.ground)
    if place:
        return Finding(
            touch.what,
            "ask",
            "protected",
            f"{spot.lexical!r} is protected ({place}): it decides what runs, or what an agent does",
            "firm",
        )
    if touch.access.kind != "list" and (place := sensitive(spot.all, case.ground)) and not _named(case, touch, spot):
        return Finding(touch.what, "ask", "sensitive", f"{spot.lexical!r} may hold secrets ({place})", "firm")
    if spot.odd:
        return Finding(touch.what, "ask", "path", f"{touch.access.path!r} cannot be judged: {spot.odd}", "firm")
    return None if touch.access.glob else _reaches_sensitive(case, touch)


def _usual(case: JudgeContext, touch: FileAccess, spot: ResolvedPath) -> Finding:
    side = case.book.allow
    changes = touch.changes or (bool(touch.access.rewrites) and not spot.inside)
    rule = allows(side.edits if changes else (*side.reads, *side.edits), spot, case.ground)
    if rule is None and spot.inside and touch.by_tool:
        rule = _own_rule(case, touch)
    if rule is None and spot.inside and touch.changes and touch.access.redirect:
        rule = side.edit_all
    if rule is not None:
        return _allow(touch, "rule", f"{spot.lexical!r} is allowed by the rule {str(rule)!r}")
    if not spot.inside:
        return _outside(case, touch, spot)
    if not touch.changes:
        return _allow(touch, "mode", f"{spot.lexical!r} is in the workspace")
    if case.mode in ("acceptEdits", "bypassPermissions"):
        return _allow(touch, "mode", f"the mode accepts edits, and {spot.lexical!r} is in the workspace")
    if touch.vouch in ("whole", "bare") or (touch.vouch != "no" and not touch.access.redirect):
        return _allow(touch, "rule", "the rule that allows the command covers files of the workspace")
    if touch.command is not None and touch.command.does == "edits" and not touch.access.redirect:
        return _allow(touch, "mode", "the command is asked for")
    return Finding(
        touch.what, "ask", "mode", f"{spot.lexical!r} would be changed", "soft", path_offers("Edit", spot, case.ground)
    )


def _outside(case: JudgeContext, touch: FileAccess, spot: ResolvedPath) -> Finding:
    changes = touch.changes or bool(touch.access.rewrites)
    if not changes:
        if case.scope == "full":
            return _allow(touch, "mode", "the scope is full: reading is free")
        runs = touch.command is not None and touch.command.does == "runs" and not touch.access.redirect
        if touch.vouch in ("whole", "bare") or (touch.vouch == "rule" and runs):
            return _allow(touch, "rule", "the rule that allows the command covers what it reads")
    away = spot.lexical if spot.lexical == spot.real else f"{spot.lexical} (which leads to {spot.real})"
    name = "Edit" if changes else "Read"
    return Finding(
        touch.what, "ask", "path", f"{away!r} is outside the workspace", "soft", path_offers(name, spot, case.ground)
    )


def _unknown(case: JudgeContext, touch: FileAccess) -> Finding:
    access, command = touch.access, touch.command
    guarded = _path_rules(case)
    if access.kind == "remove":
        detail = "what it removes is not known before it runs: it may be everything"
        return Finding(touch.what, "ask", "critical", detail, "hard")
    if touch.changes and case.mode == "plan":
        return Finding(touch.what, "deny", "mode", "the mode is plan: nothing is changed")
    runs = command is not None and command.does == "runs" and not access.redirect
    if not touch.changes and ((runs and not _is_fed(touch)) or touch.vouch in ("whole", "bare")) and not guarded:
        return _allow(touch, "rule", "which file it reads is up to the command")
    held: Hold = "hard" if guarded else "soft"
    return Finding(touch.what, "ask", "path", f"{touch.what}: which one is not known before it runs", held)


def _is_fed(touch: FileAccess) -> bool:
    """Whether `xargs` gives the program its operands: a rule for the program says nothing about files that nobody has seen."""
    return touch.command is not None and any((layer.words[0] or "").endswith("xargs") for layer in touch.command.layers)


def _expanded(case: JudgeContext, touch: FileAccess) -> Finding:
    """A pattern that the shell expands: every file that it matched, or what it could match."""
    access = touch.access
    seen = case.ground.globs.get(access.path, case.ground.globs.get(handed_over(access)))
    found = seen or ()
    aimed = access.kind == "write" and not found and not _WILD.isdisjoint(access.written)
    if (access.redirect and touch.changes) or aimed:
        return Finding(touch.what, "ask", "path", f"{access.written!r} stands for files that are not known yet", "soft")
    if access.kind == "remove" and (lost := lost_by(case, access.path)):
        return Finding(touch.what, "deny", "critical", f"this would remove {lost}")
    if access.split and any(_PARTED.search(path) for path in found):
        detail = f"{access.written!r} stands for a name with blanks, which would be taken for several"
        return Finding(touch.what, "ask", "path", detail, "soft")
    if "/" not in access.written and any(path.rpartition("/")[2].startswith("-") for path in found):
        detail = f"{access.written!r} stands for a name that a program may take for an option"
        return Finding(touch.what, "ask", "path", detail, "soft")
    below = [each for each in (_reaches_denied(case, touch), _reaches_sensitive(case, touch)) if each is not None]
    if found:
        return strictest([*(_placed(case, touch, case.locate(path)) for path in found), *below])
    if seen is None and not case.ground.described:
        return strictest([_unseen(case, touch), _could_match(case, touch), *below])
    if _WILD.isdisjoint(access.path) and seen is not None:
        return _allow(touch, "path", f"there is no file {access.written!r}")
    return strictest([_could_match(case, touch), *below])


def _unseen(case: JudgeContext, touch: FileAccess) -> Finding:
    """A pattern that nobody could look up: a link may be among what it matches, to anywhere."""
    held: Hold = "hard" if _path_rules(case) else "firm"
    detail = f"what {touch.access.written!r} stands for is too much to be looked at, or not read alike by every shell"
    return Finding(touch.what, "ask", "path", detail, held)


def _could_match(case: JudgeContext, touch: FileAccess) -> Finding:
    start = literal_folder(touch.access.path)
    led = case.locate(f"{start}/_").real.removesuffix("/_") + touch.access.path[len(start) :]
    found = [_could_be(case, touch, path) for path in dict.fromkeys((touch.access.path, led))]
    return next((each for each in found if each is not None), None) or _behind(case, touch, start)


def _could_be(case: JudgeContext, touch: FileAccess, path: str) -> Finding | None:
    for side, name in ((case.book.deny, "denies"), (case.book.ask, "asks about")):
        for rule in _about(side, touch):
            if rule.pattern is not None and path_pattern(rule, case.ground).may_cover(path):
                detail = f"{touch.access.written!r} could stand for a file that the rule {str(rule)!r} {name}"
                return Finding(touch.what, "ask", "rule", detail, "hard")
    looked = case.ground.described or touch.access.path in case.ground.globs
    if touch.access.kind != "list" and glob_meets("sensitive", path, case.ground, looked=looked):
        return Finding(
            touch.what, "ask", "sensitive", f"{touch.access.written!r} could stand for a file with secrets", "firm"
        )
    if touch.changes and glob_meets("protected", path, case.ground):
        return Finding(
            touch.what, "ask", "protected", f"{touch.access.written!r} could stand for a protected file", "firm"
        )
    return None


def _behind(case: JudgeContext, touch: FileAccess, start: str) -> Finding:
    if any(map(may_climb, touch.access.path[len(start) :].split("/"))):
        return Finding(touch.what, "ask", "path", f"{touch.access.written!r} leads nobody knows where", "firm")
    return _placed(case, touch, case.locate(f"{start}/_"))


def _reaches_denied(case: JudgeContext, touch: FileAccess) -> Finding | None:
    """A command that reads, takes away or replaces all of a folder in which something is denied.

    The search tools leave that out by themselves.
    """
    access, command, rules = touch.access, touch.command, case.book.deny
    reads = search_of(access, command, case.ground), rules.reads, "goes through"
    takes = taken_by(access, command, case.ground), rules.edits, "changes all of"
    for search, denied, does in (reads, takes):
        if search is None:
            continue
        met = met_by(search, denied, case.ground)
        if search.place.which == "taken" and met is not None:
            met = [(path, rule) for path, rule in met if may_pick(command, path, rule.pattern or "")]
        if met is None or met:
            what = f"rule {str(met[0][1])!r} denies {met[0][0]!r}" if met else "rules may deny more than can be told"
            detail = f"it {does} {access.written or search.place.folder!r}, where the {what}"
            detail += ", now or in the past" if search.place.past else ""
            return Finding(touch.what, "ask", "rule", detail, "hard")
    return None


def _reaches_sensitive(case: JudgeContext, touch: FileAccess) -> Finding | None:
    """A command that reads all of a folder in which something sensitive is; the search tools leave that out by themselves."""
    search = search_of(touch.access, touch.command, case.ground)
    found = read_by(search, case.ground) if search is not None else ()
    if found is None:
        detail = f"{touch.access.written!r} may hold files with secrets: not all of it could be looked through"
        return Finding(touch.what, "ask", "sensitive", detail, "firm")
    kept = [path for path in found if _is_kept(case, touch, case.locate(path))]
    if not kept:
        return None
    more = f" and {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else ""
    detail = f"it would read {', '.join(map(repr, kept[:_SHOWN]))}{more}, which may hold secrets"
    return Finding(touch.what, "ask", "sensitive", detail, "firm")


def _is_kept(case: JudgeContext, touch: FileAccess, spot: ResolvedPath) -> bool:
    """Whether no rule of the person names a file that was found. A link that leads to a sensitive one is named by none."""
    return not (sensitive(spot.all, case.ground) and _named(case, touch, spot))


def _ruled(side: Side, case: JudgeContext, touch: FileAccess, spot: ResolvedPath) -> Rule | None:
    """The rule that forbids an access or asks about it. One about reading a file is about writing it too."""
    rules = _about(side, touch)
    found = forbids(rules, spot, case.ground) if rules else None
    if found is not None or touch.by_tool or touch.access.kind == "list":
        return found
    if touch.changes and touch.access.redirect and side.write_all:
        return side.write_all
    return side.edit_all if touch.changes and side.edit_all else side.read_all


def _about(side: Side, touch: FileAccess) -> tuple[Rule, ...]:
    rules = (*side.reads, *side.edits) if touch.changes or touch.access.rewrites else side.reads
    program = touch.command.layers[-1].words[:1] if touch.command is not None and touch.command.layers else ()
    return (*rules, *side.cd) if program in (("cd",), ("pushd",)) else rules


def _path_rules(case: JudgeContext) -> bool:
    sides = (case.book.deny, case.book.ask)
    return any(side.reads or side.edits or side.read_all or side.edit_all or side.write_all for side in sides)


def _own_rule(case: JudgeContext, touch: FileAccess) -> Rule | None:
    side = case.book.allow
    names = case.form.names
    bare = side.edit_all if touch.changes else side.read_all
    return bare or next((rule for rule in side.every if rule.pattern is None and rule.tool in (*names, "*")), None)


def _named(case: JudgeContext, touch: FileAccess, spot: ResolvedPath) -> bool:
    """Whether the person's own rules allow a sensitive file by naming it; a wide pattern does not."""
    side = case.book.allow
    rules = side.edits if touch.changes else (*side.reads, *side.edits)
    naming = [rule for rule in rules if rule.source not in ("project", "local", "plugin") and _names_secret(rule, case)]
    if not naming:
        return False
    wide = [rule for rule in rules if rule not in naming]
    return all(
        allows(naming, _only(path, spot), case.ground)
        or (not sensitive((path,), case.ground) and (allows(wide, _only(path, spot), case.ground) or spot.inside))
        for path in spot.both
    )


def _names_secret(rule: Rule, case: JudgeContext) -> bool:
    named = literal_end(rule, case.ground)
    return bool(named) and bool(sensitive((named,), case.ground))


def _only(path: str, spot: ResolvedPath) -> ResolvedPath:
    return ResolvedPath(spot.written, path, path, (path,), spot.inside)


def _allow(touch: FileAccess, reason: Reason, detail: str) -> Finding:
    return Finding(touch.what, "allow", reason, detail)
