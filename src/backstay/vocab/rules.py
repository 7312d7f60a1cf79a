"""Permission rules as people write them: `Bash`, `Read(src/**)`."""

import re
from typing import Final, Literal

import msgspec

from backstay.vocab.errors import UserError

_RULE: Final = re.compile(r"([A-Za-z_*][\w*.-]*)(?:\((.*)\))?", re.DOTALL)


RuleSource = Literal["managed", "flag", "person", "project", "local", "plugin", "session", "grant", "default"]
"""Where a rule comes from; a `grant` is what a person allowed for longer than a session.

Those of `project` and `local` allow nothing in a workspace that is not trusted.
"""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with the calls of a tool. Deny beats ask beats allow."""

    decision: Literal["allow", "ask", "deny"]
    tool: str
    pattern: str | None = None
    """What the call's main argument must look like; None means any call."""
    source: RuleSource = "flag"
    """Who wrote it."""
    root: str = ""
    """The folder that a pattern beginning with `/` starts at: that of the settings file. Empty: the working folder."""

    @classmethod
    def parse(
        cls,
        decision: Literal["allow", "ask", "deny"],
        text: str,
        *,
        source: RuleSource = "flag",
        root: str = "",
    ) -> "Rule":
        """Read `Tool` or `Tool(pattern)`. Raise `UserError` when it is neither.

        `Tool(*)` is every call. Empty parentheses forbid every call too, and cannot allow anything.
        """
        found = _RULE.fullmatch(text.strip())
        if not found:
            raise UserError(f"{text!r} is not a permission rule. Write a tool name, or Tool(pattern).")
        pattern = found[2]
        if pattern is not None and not pattern.strip():
            if decision == "allow":
                raise UserError(
                    f"{text!r} allows nothing. Write {found[1]!r} to allow every call, or a pattern between the parentheses."
                )
            pattern = None
        return cls(
            decision=decision, tool=found[1], pattern=None if pattern == "*" else pattern, source=source, root=root
        )

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"
