"""What one judgement looks at: the call, its site, the rules, mode and scope."""

import msgspec

from backstay.permissions.call_site import CallSite
from backstay.permissions.paths import ResolvedPath, locate
from backstay.permissions.rule_index import RuleIndex
from backstay.permissions.tool_kinds import Call, Form
from backstay.vocab.specs import FsScope, Mode


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
