"""A call before the policy: what is asked for, where, and under which rules."""

import msgspec

from backstay.logic.acts import Ground
from backstay.logic.permissions.book import Book
from backstay.logic.permissions.calls import Call, Form
from backstay.logic.permissions.paths import Spot, locate
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
