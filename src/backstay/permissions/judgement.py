"""What a judgement looks at, the findings that it makes, and the verdict that they come to."""

from typing import Final, Literal

import msgspec

from backstay.permissions.call_site import CallSite
from backstay.permissions.paths import ResolvedPath, locate
from backstay.permissions.rule_index import RuleIndex
from backstay.permissions.tool_kinds import Call, Form
from backstay.vocab.event import Decision
from backstay.vocab.specs import FsScope, Mode, Taint


class JudgeContext(msgspec.Struct, frozen=True):
    """The arguments that all parts of the policy share."""

    call: Call
    form: Form
    call_site: CallSite
    rules: RuleIndex
    mode: Mode
    scope: FsScope
    resolved_paths: dict[str, ResolvedPath] = {}

    def locate(self, path: str) -> ResolvedPath:
        """Return where a path of the call is; found once."""
        resolved = self.resolved_paths.get(path)
        if resolved is None:
            resolved = self.resolved_paths[path] = locate(path, self.call_site)
        return resolved


Reason = Literal[
    "rule",
    "mode",
    "tool",
    "grant",
    "hook",
    "path",
    "protected",
    "sensitive",
    "critical",
    "shell",
    "trust",
    "taint",
    "network",
    "arguments",
]
"""Why a call may run, must be asked for, or may not run."""

Hold = Literal["soft", "firm", "hard"]
"""How firmly a question stands. `soft`: the mode, a hook or a grant may answer it. `firm`: bypassing or a grant of this very call may.
`hard`: only a person who looks at this call may."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One command, file or host of a call, and what the policy says about it alone."""

    what: str
    decision: Decision
    reason: Reason
    detail: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy says about a call, and why."""

    decision: Decision
    reason: Reason
    detail: str
    """A sentence for a person: it names the rule, the path or the part."""
    parts: tuple[Part, ...] = ()
    offers: tuple[str, ...] = ()
    """Rules that would have allowed the call, as narrow as what was asked for; none when nothing may be granted."""
    remedies: tuple[str, ...] = ()
    """Where nothing is offered: rules that would have allowed the call if the person had written them. No answer grants them."""
    taints: tuple[Taint, ...] = ()
    """What the call brings into the session."""
    unasked: bool = False
    """Whether it is denied only because the mode never asks."""
    needs_person: bool = False
    """Only a person can give what the call is for: an answer, not a permission."""


class Finding(msgspec.Struct, frozen=True, gc=False):
    """What was found about one part of a call, before mode, hook and grants have their say."""

    what: str
    decision: Decision
    reason: Reason
    detail: str
    hold: Hold = "soft"
    offers: tuple[str, ...] = ()
    """Rules of which any one would have allowed this part."""

    @property
    def part(self) -> Part:
        """As people see it."""
        return Part(what=self.what, decision=self.decision, reason=self.reason, detail=self.detail)


_WEIGHT = {"allow": 0, "ask": 1, "deny": 2}
_FIRMNESS = {"soft": 0, "firm": 1, "hard": 2}


ONLY_READS: Final = "it only reads"


def strictest(findings: "list[Finding]") -> Finding:
    """Return the finding that decides: deny beats ask beats allow, a harder question beats a softer one, the first of equals.

    Where all is allowed, what does something says why, before what only reads.
    """
    return max(findings, key=lambda each: (_WEIGHT[each.decision], _FIRMNESS[each.hold], each.detail != ONLY_READS))
