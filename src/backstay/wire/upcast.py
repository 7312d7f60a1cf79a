"""Read old shapes of events: one function for each change of shape, kept for ever.

An upcaster takes the raw object of version `n` and returns that of version `n + 1`. Register it under `(wire name, n)`; add a fixture log
of the old shape under `tests/fixtures/logs/`.
"""

from collections.abc import Callable
from typing import Final

Raw = dict[str, object]

UPCASTERS: Final[dict[tuple[str, int], Callable[[Raw], Raw]]] = {}


def upcast(name: str, version: int, current: int, raw: Raw) -> Raw:
    """Bring `raw` of `version` to the `current` one, a step at a time."""
    for step in range(version, current):
        raw = UPCASTERS[name, step](raw)
    return raw
