"""A call before the policy: what is asked for, where, and under which rules."""

import msgspec

from backstay.permissions.call_site import Ground
from backstay.permissions.paths import Spot, locate
from backstay.permissions.rule_index import Book
from backstay.permissions.tool_kinds import Call, Form
from backstay.vocab.specs import FsScope, Mode


class Case(msgspec.Struct, frozen=True):
    """All that the parts of the policy look at."""

    call: Call
    form: Form
    ground: Ground
    book: Book
    mode: Mode
    scope: FsScope
    spots: dict[str, Spot] = {}

    def locate(self, path: str) -> Spot:
        """Where a path of the call is; found once."""
        spot = self.spots.get(path)
        if spot is None:
            spot = self.spots[path] = locate(path, self.ground)
        return spot
