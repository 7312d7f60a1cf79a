"""Judge the files that a call would touch.

Every access is judged: of a file tool, a redirect, an operand of a program. Allowing a command does not allow what it
writes to.
"""

import re
from collections.abc import Collection
from typing import Final

import msgspec

from backstay.permissions.bulk_changes import carries, describe_loss, is_picked, literal_folder, may_pick, programs_of
from backstay.permissions.call_site import Access, Command
from backstay.permissions.command_rules import Allowance
from backstay.permissions.judgement import Finding, Hold, JudgeContext, Reason, strictest
from backstay.permissions.path_rules import allows, forbids, literal_end, path_pattern
from backstay.permissions.paths import FREE, FREE_TO_READ, ResolvedPath
from backstay.permissions.rule_index import Side
from backstay.permissions.searches import (
    find_taken_files,
    from_the_root,
    glob_of_handed_files,
    lookup_of_names,
    match_rules,
    read_by,
    search_of,
)
from backstay.permissions.sensitive_paths import (
    critical,
    device,
    find_protected,
    glob_meets,
    holds_protected,
    sensitive,
)
from backstay.permissions.suggested_rules import path_offers
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
    allowance: Allowance = "no"
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


def judge_access(context: JudgeContext, file: FileAccess) -> Finding:
    """Return what the policy says about one access."""
    access = file.access
    if not access.known:
        return _unknown(context, file)
    if access.glob:
        return _judge_glob(context, file)
    resolved = context.locate(access.path)
    if resolved.lexical in _free(file) and "\x00" not in access.path:
        return _allow(file, "path", f"{resolved.lexical} may be used by anybody")
    return strictest([_judge_path(context, file, resolved), *_elsewhere(context, file)])


def _elsewhere(context: JudgeContext, file: FileAccess) -> list[Finding]:
    """Return the file that `git show REVISION:path` means when the working folder is not the root of the repository."""
    if file.command is None:
        return []
    meant = from_the_root(file.access, file.command, context.call_site)
    found = context.call_site.globs.get(meant) if meant else ()
    if found is None and not context.call_site.described:
        return [Finding(file.what, "ask", "path", "nobody can say which folder git takes it from", "firm")]
    return [_judge_path(context, file, context.locate(path)) for path in found or ()]


def _free(file: FileAccess) -> Collection[str]:
    """Return the devices that anybody may use. Those of a tool that reads files would be our own."""
    if file.by_tool:
        return ("/dev/null",)
    return FREE if file.changes else FREE_TO_READ


def _judge_path(context: JudgeContext, file: FileAccess, resolved: ResolvedPath) -> Finding:
    """Judge one path: denials, critical removals, plan, questions, special places, permissions, the mode; in this order."""
    if "\x00" in file.access.path:
        return Finding(file.what, "deny", "arguments", "a path with a NUL byte in it names no file: leave it out")
    if denied := _find_rule(context.rules.deny, context, file, resolved):
        if file.changes and file.access.deep:  # as for what it reads below a folder
            detail = f"it puts something at {resolved.lexical!r}, which the rule {str(denied)!r} denies"
            return Finding(file.what, "ask", "rule", detail, "hard")
        if file.access.perhaps:
            detail = f"it may {'remove' if file.changes else 'read'} {resolved.lexical!r}, which the rule {str(denied)!r} denies"
            return Finding(file.what, "ask", "rule", detail, "hard")
        return Finding(file.what, "deny", "rule", f"{resolved.lexical!r} is denied by the rule {str(denied)!r}")
    if (
        file.access.kind == "remove"
        and (lost := critical(resolved, context.call_site))
        and not is_picked(file.command, resolved, context)
    ):
        return Finding(file.what, "deny", "critical", f"this would remove {lost}, {resolved.lexical!r}")
    if file.changes and device(resolved):
        return Finding(file.what, "deny", "critical", f"{resolved.lexical!r} is a disk or memory, not a file")
    if context.mode == "plan" and file.changes:
        return Finding(file.what, "deny", "mode", f"the mode is plan: {resolved.lexical!r} is not changed")
    if asked := _find_rule(context.rules.ask, context, file, resolved):
        return Finding(file.what, "ask", "rule", f"the rule {str(asked)!r} asks about {resolved.lexical!r}", "hard")
    return _special(context, file, resolved) or _usual(context, file, resolved)


def _special(context: JudgeContext, file: FileAccess, resolved: ResolvedPath) -> Finding | None:
    if not file.access.glob and (met := _reaches_denied(context, file)):
        return met
    place = find_protected(resolved, context.call_site) if file.changes or file.access.rewrites else ""
    if not place and file.access.kind == "write" and any(carries(*each) for each in programs_of(file.command)):
        place = holds_protected(resolved, context.call_site)
    if place:
        return Finding(
            file.what,
            "ask",
            "protected",
            f"{resolved.lexical!r} is protected ({place}): it decides what runs, or what an agent does",
            "firm",
        )
    if (
        file.access.kind != "list"
        and (place := sensitive(resolved.all, context.call_site))
        and not _is_named_by_rule(context, file, resolved)
    ):
        return Finding(file.what, "ask", "sensitive", f"{resolved.lexical!r} may hold secrets ({place})", "firm")
    if file.command is not None and resolved.real in context.call_site.globs.get(
        lookup_of_names(file.access, file.command), ()
    ):
        detail = (
            f"{resolved.lexical!r} has another name, which may be outside the workspace: what is written changes both"
        )
        return Finding(file.what, "ask", "path", detail, "firm")
    if resolved.odd:
        return Finding(file.what, "ask", "path", f"{file.access.path!r} cannot be judged: {resolved.odd}", "firm")
    return None if file.access.glob else _reaches_sensitive(context, file)


def _usual(context: JudgeContext, file: FileAccess, resolved: ResolvedPath) -> Finding:
    side = context.rules.allow
    changes = file.changes or (bool(file.access.rewrites) and not resolved.inside)
    rule = allows(side.edits if changes else (*side.reads, *side.edits), resolved, context.call_site)
    if rule is None and resolved.inside and file.by_tool:
        rule = _own_rule(context, file)
    if rule is None and resolved.inside and file.changes and file.access.redirect:
        rule = side.edit_all
    if rule is not None:
        return _allow(file, "rule", f"{resolved.lexical!r} is allowed by the rule {str(rule)!r}")
    if not resolved.inside:
        return _outside(context, file, resolved)
    if not file.changes:
        return _allow(file, "mode", f"{resolved.lexical!r} is in the workspace")
    if context.mode in ("acceptEdits", "bypassPermissions"):
        return _allow(file, "mode", f"the mode accepts edits, and {resolved.lexical!r} is in the workspace")
    if file.allowance in ("whole", "bare") or (file.allowance != "no" and not file.access.redirect):
        return _allow(file, "rule", "the rule that allows the command covers files of the workspace")
    if file.command is not None and file.command.does == "edits" and not file.access.redirect:
        return _allow(file, "mode", "the command is asked for")
    return Finding(
        file.what,
        "ask",
        "mode",
        f"{resolved.lexical!r} would be changed",
        "soft",
        path_offers("Edit", resolved, context.call_site),
    )


def _outside(context: JudgeContext, file: FileAccess, resolved: ResolvedPath) -> Finding:
    changes = file.changes or bool(file.access.rewrites)
    if not changes:
        if context.scope == "full":
            return _allow(file, "mode", "the scope is full: reading is free")
        runs = file.command is not None and file.command.does == "runs" and not file.access.redirect
        if file.allowance in ("whole", "bare") or (file.allowance == "rule" and runs):
            return _allow(file, "rule", "the rule that allows the command covers what it reads")
    away = (
        resolved.lexical
        if resolved.lexical == resolved.real
        else f"{resolved.lexical} (which leads to {resolved.real})"
    )
    name = "Edit" if changes else "Read"
    return Finding(
        file.what,
        "ask",
        "path",
        f"{away!r} is outside the workspace",
        "soft",
        path_offers(name, resolved, context.call_site),
    )


def _unknown(context: JudgeContext, file: FileAccess) -> Finding:
    access, command = file.access, file.command
    guarded = _path_rules(context)
    if access.kind == "remove":
        detail = "what it removes is not known before it runs: it may be everything"
        return Finding(file.what, "ask", "critical", detail, "hard")
    if file.changes and context.mode == "plan":
        return Finding(file.what, "deny", "mode", "the mode is plan: nothing is changed")
    runs = command is not None and command.does == "runs" and not access.redirect
    if not file.changes and ((runs and not _is_fed(file)) or file.allowance in ("whole", "bare")) and not guarded:
        return _allow(file, "rule", "which file it reads is up to the command")
    held: Hold = "hard" if guarded else "soft"
    return Finding(file.what, "ask", "path", f"{file.what}: which one is not known before it runs", held)


def _is_fed(file: FileAccess) -> bool:
    """Return whether `xargs` gives the program its operands: a rule for the program does not cover files that are not named."""
    return file.command is not None and any((layer.words[0] or "").endswith("xargs") for layer in file.command.layers)


def _judge_glob(context: JudgeContext, file: FileAccess) -> Finding:
    """Return a pattern that the shell expands: every file that it matched, or what it could match."""
    access = file.access
    seen = context.call_site.globs.get(access.path, context.call_site.globs.get(glob_of_handed_files(access)))
    found = seen or ()
    aimed = access.kind == "write" and not found and not _WILD.isdisjoint(access.written)
    if (access.redirect and file.changes) or aimed:
        return Finding(file.what, "ask", "path", f"{access.written!r} stands for files that are not known yet", "soft")
    if access.kind == "remove" and (lost := describe_loss(context, access.path)):
        return Finding(file.what, "deny", "critical", f"this would remove {lost}")
    if access.split and any(_PARTED.search(path) for path in found):
        detail = f"{access.written!r} stands for a name with blanks, which would be taken for several"
        return Finding(file.what, "ask", "path", detail, "soft")
    if "/" not in access.written and any(path.rpartition("/")[2].startswith("-") for path in found):
        detail = f"{access.written!r} stands for a name that a program may take for an option"
        return Finding(file.what, "ask", "path", detail, "soft")
    below = [each for each in (_reaches_denied(context, file), _reaches_sensitive(context, file)) if each is not None]
    if found:
        return strictest([*(_judge_path(context, file, context.locate(path)) for path in found), *below])
    if seen is None and not context.call_site.described:
        return strictest([_unseen(context, file), _could_match(context, file), *below])
    if _WILD.isdisjoint(access.path) and seen is not None:
        return _allow(file, "path", f"there is no file {access.written!r}")
    return strictest([_could_match(context, file), *below])


def _unseen(context: JudgeContext, file: FileAccess) -> Finding:
    """Judge a pattern that was not looked up: what it matches may be a link to anywhere."""
    held: Hold = "hard" if _path_rules(context) else "firm"
    detail = f"what {file.access.written!r} stands for is too much to be looked at, or not read alike by every shell"
    return Finding(file.what, "ask", "path", detail, held)


def _could_match(context: JudgeContext, file: FileAccess) -> Finding:
    start = literal_folder(file.access.path)
    led = context.locate(f"{start}/_").real.removesuffix("/_") + file.access.path[len(start) :]
    found = [_could_be(context, file, path) for path in dict.fromkeys((file.access.path, led))]
    return next((each for each in found if each is not None), None) or _behind(context, file, start)


def _could_be(context: JudgeContext, file: FileAccess, path: str) -> Finding | None:
    for side, name in ((context.rules.deny, "denies"), (context.rules.ask, "asks about")):
        for rule in _about(side, file):
            if rule.pattern is not None and path_pattern(rule, context.call_site).may_cover(path):
                detail = f"{file.access.written!r} could stand for a file that the rule {str(rule)!r} {name}"
                return Finding(file.what, "ask", "rule", detail, "hard")
    looked = context.call_site.described or file.access.path in context.call_site.globs
    if file.access.kind != "list" and glob_meets("sensitive", path, context.call_site, looked=looked):
        return Finding(
            file.what, "ask", "sensitive", f"{file.access.written!r} could stand for a file with secrets", "firm"
        )
    if file.changes and glob_meets("protected", path, context.call_site):
        return Finding(
            file.what, "ask", "protected", f"{file.access.written!r} could stand for a protected file", "firm"
        )
    return None


def _behind(context: JudgeContext, file: FileAccess, start: str) -> Finding:
    if any(map(may_climb, file.access.path[len(start) :].split("/"))):
        return Finding(file.what, "ask", "path", f"{file.access.written!r} leads nobody knows where", "firm")
    return _judge_path(context, file, context.locate(f"{start}/_"))


def _reaches_denied(context: JudgeContext, file: FileAccess) -> Finding | None:
    """Return a command that reads, takes away or replaces all of a folder in which something is denied.

    The search tools leave that out by themselves.
    """
    access, command, rules = file.access, file.command, context.rules.deny
    if command is None:
        return None
    reads = search_of(access, command, context.call_site), rules.reads, "goes through"
    takes = find_taken_files(access, command, context.call_site), rules.edits, "changes all of"
    for search, denied, does in (reads, takes):
        if search is None:
            continue
        met = match_rules(search, denied, context.call_site)
        if search.place.which == "taken" and met is not None:
            met = [(path, rule) for path, rule in met if may_pick(command, path, rule.pattern or "")]
        if met is None or met:
            what = f"rule {str(met[0][1])!r} denies {met[0][0]!r}" if met else "rules may deny more than can be told"
            detail = f"it {does} {access.written or search.place.folder!r}, where the {what}"
            detail += ", now or in the past" if search.place.past else ""
            return Finding(file.what, "ask", "rule", detail, "hard")
    return None


def _reaches_sensitive(context: JudgeContext, file: FileAccess) -> Finding | None:
    """Return a command that reads all of a folder in which something sensitive is; the search tools leave that out by themselves."""
    if file.command is None:
        return None
    search = search_of(file.access, file.command, context.call_site)
    found = read_by(search, context.call_site) if search is not None else ()
    if found is None:
        detail = f"{file.access.written!r} may hold files with secrets: not all of it could be looked through"
        return Finding(file.what, "ask", "sensitive", detail, "firm")
    kept = [path for path in found if _is_kept(context, file, context.locate(path))]
    if not kept:
        return None
    more = f" and {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else ""
    detail = f"it would read {', '.join(map(repr, kept[:_SHOWN]))}{more}, which may hold secrets"
    return Finding(file.what, "ask", "sensitive", detail, "firm")


def _is_kept(context: JudgeContext, file: FileAccess, resolved: ResolvedPath) -> bool:
    """Return whether no rule of the person names a file that was found. A link that leads to a sensitive one is named by none."""
    return not (sensitive(resolved.all, context.call_site) and _is_named_by_rule(context, file, resolved))


def _find_rule(side: Side, context: JudgeContext, file: FileAccess, resolved: ResolvedPath) -> Rule | None:
    """Return the rule that forbids an access or asks about it. One about reading a file is about writing it too."""
    rules = _about(side, file)
    found = forbids(rules, resolved, context.call_site) if rules else None
    if found is not None or file.by_tool or file.access.kind == "list":
        return found
    if file.changes and file.access.redirect and side.write_all:
        return side.write_all
    return side.edit_all if file.changes and side.edit_all else side.read_all


def _about(side: Side, file: FileAccess) -> tuple[Rule, ...]:
    rules = (*side.reads, *side.edits) if file.changes or file.access.rewrites else side.reads
    program = file.command.layers[-1].words[:1] if file.command is not None and file.command.layers else ()
    return (*rules, *side.cd) if program in (("cd",), ("pushd",)) else rules


def _path_rules(context: JudgeContext) -> bool:
    sides = (context.rules.deny, context.rules.ask)
    return any(side.reads or side.edits or side.read_all or side.edit_all or side.write_all for side in sides)


def _own_rule(context: JudgeContext, file: FileAccess) -> Rule | None:
    side = context.rules.allow
    names = context.form.names
    bare = side.edit_all if file.changes else side.read_all
    return bare or next((rule for rule in side.every if rule.pattern is None and rule.tool in (*names, "*")), None)


def _is_named_by_rule(context: JudgeContext, file: FileAccess, resolved: ResolvedPath) -> bool:
    """Return whether the person's own rules allow a sensitive file by naming it; a wide pattern does not."""
    side = context.rules.allow
    rules = side.edits if file.changes else (*side.reads, *side.edits)
    naming = [
        rule for rule in rules if rule.source not in ("project", "local", "plugin") and _names_secret(rule, context)
    ]
    if not naming:
        return False
    wide = [rule for rule in rules if rule not in naming]
    return all(
        allows(naming, _only(path, resolved), context.call_site)
        or (
            not sensitive((path,), context.call_site)
            and (allows(wide, _only(path, resolved), context.call_site) or resolved.inside)
        )
        for path in resolved.both
    )


def _names_secret(rule: Rule, context: JudgeContext) -> bool:
    named = literal_end(rule, context.call_site)
    return bool(named) and bool(sensitive((named,), context.call_site))


def _only(path: str, resolved: ResolvedPath) -> ResolvedPath:
    return ResolvedPath(resolved.written, path, path, (path,), resolved.inside)


def _allow(file: FileAccess, reason: Reason, detail: str) -> Finding:
    return Finding(file.what, "allow", reason, detail)
