"""Objects in JSON that say something twice: one reader takes the first, another the last."""

import json
from collections.abc import Sequence


class _Repeated(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def repeated_name(text: str | bytes) -> str:
    """The first name that stands twice in an object of a JSON text; empty when there is none, and for what is no JSON."""
    try:
        json.loads(text, object_pairs_hook=_checked)
    except _Repeated as exc:
        return exc.name
    except (ValueError, RecursionError):
        return ""
    return ""


def _checked(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Repeated(next(name for at, name in enumerate(names) if name in names[:at]))
    return found
