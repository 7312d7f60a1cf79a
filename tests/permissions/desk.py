"""Asks the policy about one call, in few words."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from backstay.hooks.merge import HookVerdict
from backstay.permissions import Call, Verdict, fingerprint, judge_call, paths_to_resolve, spec_of
from backstay.permissions.call_site import CallSite
from backstay.testing.permission_cases import DescribedFiles
from backstay.vocab.rules import Rule, RuleSource
from backstay.vocab.specs import FsScope, Mode, Taint, ToolSpec

MAIN = {
    "Bash": "command",
    "Shell": "command",
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
    "Grep": "path",
    "Glob": "path",
    "LS": "path",
    "WebFetch": "url",
    "WebSearch": "query",
    "Agent": "subagent_type",
    "Task": "subagent_type",
    "Skill": "skill",
    "apply_patch": "patch",
}
"""The argument that a plain text stands for."""


def rules(
    *,
    allow: Sequence[str] = (),
    ask: Sequence[str] = (),
    deny: Sequence[str] = (),
    source: RuleSource = "flag",
    root: str = "",
) -> tuple[Rule, ...]:
    """Rules as people write them."""
    return (
        *(Rule.parse("allow", text, source=source, root=root) for text in allow),
        *(Rule.parse("ask", text, source=source, root=root) for text in ask),
        *(Rule.parse("deny", text, source=source, root=root) for text in deny),
    )


def arguments(tool: str, args: str | Mapping[str, object]) -> dict[str, object]:
    """The arguments of a call; a text is the main one."""
    return {MAIN[tool]: args} if isinstance(args, str) else dict(args)


def weighed(
    tool: str | ToolSpec,
    args: str | Mapping[str, object],
    *,
    allow: Sequence[str] = (),
    ask: Sequence[str] = (),
    deny: Sequence[str] = (),
    mode: Mode = "default",
    scope: FsScope = "project",
    source: RuleSource = "flag",
    root: str = "",
    cwd: str = "/repo",
    home: str = "/home/u",
    roots: tuple[str, ...] = (),
    os: Literal["linux", "darwin", "windows"] = "linux",
    trusted: bool = True,
    files: Mapping[str, object] | None = None,
    hook: HookVerdict | None = None,
    taint: frozenset[Taint] = frozenset(),
    granted: Sequence[str] = (),
    grants: bool = False,
    approved: bool = False,
) -> Verdict:
    """What the policy says. `files` is a file system that is only described."""
    spec = spec_of(tool) if isinstance(tool, str) else tool
    call = Call(spec, arguments(spec.name, args))
    held = rules(allow=allow, ask=ask, deny=deny, source=source, root=root)
    call_site = CallSite(cwd=cwd, home=home, roots=roots, os=os, trusted=trusted, described=files is None)
    if files is not None:
        there = DescribedFiles(files, cwd, home, os)
        paths, globs = paths_to_resolve(call, call_site, held)
        call_site = msgspec.structs.replace(
            call_site,
            links=there.links(paths),
            globs={each: there.match(each) for each in globs},
        )
    mark = fingerprint(spec.name, msgspec.json.encode(call.args).decode())
    return judge_call(
        call,
        call_site,
        held,
        mode=mode,
        scope=scope,
        hook=hook,
        taint=taint,
        granted=rules(allow=granted, source="session"),
        grants=frozenset((mark,)) if grants else frozenset(),
        approved=mark if approved else "",
    )
