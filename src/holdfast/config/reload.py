"""Settings that change while a session is open: noticed between turns, and never to the loss of what was denied."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.config.fingerprint import marks
from holdfast.config.layers import Layered
from holdfast.vocab.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Refreshed:
    """The settings as they are now."""

    layers: Layered
    changed: bool
    """Whether they were read again; otherwise `layers` are those that were given."""
    notes: tuple[str, ...] = ()
    """What the person should hear."""


def changed(layers: Layered) -> bool:
    """Whether a file that `layers` were read from, or looked for, is not as it was. Costs a few looks at the file system."""
    return marks(mark.path for mark in layers.fingerprint) != layers.fingerprint


def refreshed(layers: Layered, read: Callable[[], Layered]) -> Refreshed:
    """Read the settings again with `read` when a file has changed.

    A file that broke meanwhile keeps denying what it denied. When they cannot be read at all, the given `layers` go on holding, and
    the next call tries again.
    """
    if not changed(layers):
        return Refreshed(layers=layers, changed=False)
    try:
        found = read()
    except UserError as exc:
        return Refreshed(layers=layers, changed=False, notes=(f"{exc} Until then the settings stay as they were.",))
    new = tuple(words for words in (*found.warnings, found.notice) if words)
    told = (*layers.warnings, layers.notice)
    return Refreshed(layers=found, changed=True, notes=tuple(words for words in new if words not in told))
