"""A call before the policy: what is asked for, where, and under which rules."""

import msgspec

from backstay.permissions.call_site import CallSite
from backstay.permissions.paths import ResolvedPath, locate
from backstay.permissions.rule_index import RuleIndex
from backstay.permissions.tool_kinds import Call, Form
from backstay.vocab.specs import FsScope, Mode


class JudgeContext(msgspec.Struct, frozen=True):
    """All that the parts of the policy look at."""

    call: Call
    form: Form
    ground: CallSite
    book: RuleIndex
    mode: Mode
    scope: FsScope
    spots: dict[str, ResolvedPath] = {}

    def locate(self, path: str) -> ResolvedPath:
        """Where a path of the call is; found once."""
        spot = self.spots.get(path)
        if spot is None:
            spot = self.spots[path] = locate(path, self.ground)
        return spot
