"""Limits on the size of a call. A larger one is asked about, so that no verdict keeps a session waiting.

Everything below grows in step with what it is given, so a limit on the size is a limit on the time.
"""

from typing import Final

from backstay.permissions.tool_kinds import Call, Form

LONGEST_COMMAND: Final = 50_000
LONGEST_PATCH: Final = 500_000
LONGEST_NAME: Final = 8_000
"""Characters of a path, a pattern or an address; no system opens a path this long."""
LONGEST_CALL: Final = 4_000_000
"""Characters of all arguments together."""
MOST_VALUES: Final = 50_000
DEEPEST: Final = 100
"""How many lists and objects may lie inside of each other."""

_NAMING: Final = ("read", "edit", "search", "fetch")
_BESIDE: Final = {"search": ("pattern", "glob")}
"""Arguments that name files besides the main one."""


def beyond(call: Call, form: Form) -> str:
    """Return what about a call is too large to be looked at, and what to do instead; empty when nothing is."""
    if found := _shape(call.args):
        return found
    match form.kind:
        case "shell":
            return _longer(call, form.main, LONGEST_COMMAND, "split it, or write it to a file as a script first")
        case "patch":
            names = ("patch", "input")
            return next(
                (each for name in names if (each := _longer(call, name, LONGEST_PATCH, "send it in parts"))), ""
            )
        case kind if kind in _NAMING:
            names = (form.main, *form.more, *_BESIDE.get(kind, ()))
            return next(
                (each for name in names if (each := _longer(call, name, LONGEST_NAME, "give a shorter one"))), ""
            )
    return ""


def _longer(call: Call, name: str, limit: int, advice: str) -> str:
    content = call.args.get(name)
    if not isinstance(content, str) or len(content) <= limit:
        return ""
    return f"{name!r} has {len(content):,} characters, more than the {limit:,} that are looked at: {advice}"


def _shape(args: dict[str, object]) -> str:
    """Return what is too large about the arguments as a whole."""
    size = values = 0
    layer: list[object] = [args]
    for _ in range(DEEPEST):
        inner = list[object]()
        for each in layer:
            if isinstance(each, str):
                size += len(each)
            elif isinstance(each, dict):
                size += sum(map(len, each))
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        values += len(inner)
        if size > LONGEST_CALL:
            return f"the arguments have more than the {LONGEST_CALL:,} characters that are looked at: make several calls of it"
        if values > MOST_VALUES:
            return (
                f"the arguments have more than the {MOST_VALUES:,} values that are looked at: make several calls of it"
            )
        if not inner:
            return ""
        layer = inner
    return f"the arguments are nested deeper than the {DEEPEST} levels that are looked at: make them flatter"
