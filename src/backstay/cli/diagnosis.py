"""What the checks of `backstay doctor` look at, and what they say."""

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from backstay.cli.place import Place

if TYPE_CHECKING:
    from backstay.config.layers import Layered
    from backstay.kit.looking import Around

Level = Literal["ok", "note", "attention"]


class Finding(Struct, frozen=True):
    """One thing that was seen, and what to do about it when it is not as it should be."""

    text: str
    level: Level = "ok"
    todo: str = ""
    detail: object = None
    """More of it, for programs."""


class Here(Struct, frozen=True, dict=True):
    """Where to look."""

    place: Place
    cwd: Path
    servers: bool = False
    """Whether servers may be started to see whether they answer."""

    @functools.cached_property
    def layered(self) -> "Layered":
        """What the settings files here come to. Raise `UserError` when that cannot be known."""
        from backstay.config.layers import read_layers

        return read_layers(self.cwd)

    @functools.cached_property
    def model(self) -> str:
        """The model that answers when none is named; empty when nothing says one."""
        from backstay.config.choosing import choose
        from backstay.vocab.errors import UserError

        try:
            chosen = choose(self.layered.settings)
        except UserError:
            return ""
        return chosen.model if chosen is not None else ""

    @functools.cached_property
    def around(self) -> "Around":
        """What a session here would find. Raise `UserError` when that cannot be known."""
        from backstay.view.around import look_here

        return look_here(self.cwd, self.layered, model=self.model)


Check = Callable[[Here], Iterable[Finding]]
