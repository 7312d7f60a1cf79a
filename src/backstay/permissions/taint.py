"""What a call brings into a session: words of strangers, private data, a way out. The three must not meet without a person."""

from collections.abc import Iterable, Mapping
from typing import Final

from backstay.permissions.bounds import beyond
from backstay.permissions.call_site import Access, Command, Script
from backstay.permissions.case import JudgeContext
from backstay.permissions.path_rules import literal_end, path_pattern
from backstay.permissions.paths import FREE_TO_READ
from backstay.permissions.searches import read_by, search_of
from backstay.permissions.sensitive_paths import glob_meets, sensitive
from backstay.permissions.tool_kinds import file_accesses
from backstay.vocab.specs import Taint


def brought(case: JudgeContext, script: Script | None) -> dict[Taint, str]:
    """The taints of one call, and what brings each, in words."""
    tool = case.call.tool
    found: dict[Taint, str] = dict.fromkeys(tool.taints, f"the tool {tool.name}")
    kind = case.form.kind
    if kind == "mcp":
        found["untrusted"] = f"the tool {tool.name}"
        if tool.effect != "pure":
            found["outside"] = f"the tool {tool.name}"
    if kind in ("fetch", "lookup"):
        found["untrusted"] = found["outside"] = f"the tool {tool.name}"
    if not case.ground.trusted and kind in ("read", "search", "shell"):
        found["untrusted"] = "a workspace that is not trusted"
    if script is not None:
        for command in dict.fromkeys(script.commands):
            found |= _touched(case, command.accesses, command)
        if reaching := [command for command in script.commands if command.network]:
            found["untrusted"] = found["outside"] = f"{_named(reaching[0])} uses the network"
    elif kind in ("read", "edit", "patch", "search") and not beyond(case.call, case.form):
        accesses = file_accesses(case.call, case.form, case.ground) or ()
        found |= _touched(case, accesses, None)
        shows = [each for each in accesses if each.kind == "read" and kind == "search" and _shows_named(case, each)]
        if shows:
            found["private"] = f"files below {shows[0].path!r}"
    return found


def meeting(now: Mapping[Taint, str]) -> str:
    """Say that the three would meet, and what brings each; what the call does not bring, the session has met before."""
    words, private, out = (now.get(each, _BEFORE) for each in ("untrusted", "private", "outside"))
    return f"words of strangers ({words}), private data ({private}) and a way out ({out}) would meet in this session"


_BEFORE: Final = "met before in this session"


def _named(command: Command) -> str:
    words = command.layers[-1].words if command.layers else ()
    return repr(words[0]) if words and words[0] else "a command"


def _shows_named(case: JudgeContext, access: Access) -> bool:
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


def _touched(case: JudgeContext, accesses: Iterable[Access], command: Command | None) -> dict[Taint, str]:
    found: dict[Taint, str] = {}
    for access in accesses:
        if not access.known:
            continue
        spot = case.locate(access.path)
        changes = access.kind in ("write", "remove")
        if changes and not spot.inside and spot.lexical not in FREE_TO_READ:
            found["outside"] = f"{access.path!r} lies outside the workspace"
        if access.kind == "read" and (sensitive(spot.all, case.ground) or _shows_sensitive(case, access, command)):
            found["private"] = f"{access.path!r}"
    return found


def _shows_sensitive(case: JudgeContext, access: Access, command: Command | None) -> bool:
    """Whether a command reads something sensitive that it does not name, or may."""
    search = search_of(access, command, case.ground)
    below = read_by(search, case.ground) if search is not None else ()
    named = case.ground.globs.get(access.path) if access.glob else ()
    if below is None or below or any(sensitive(case.locate(path).all, case.ground) for path in named or ()):
        return True
    looked = case.ground.described or named is not None
    return access.glob and not named and glob_meets("sensitive", access.path, case.ground, looked=looked)
