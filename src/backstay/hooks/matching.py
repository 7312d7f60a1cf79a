"""Select the hooks that are due: matchers in their three forms, and the rule of `if`."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from backstay.hooks.events import EVENTS
from backstay.hooks.safe_pattern import LONGEST_TEXT, compile_matcher
from backstay.hooks.spec import HookSpec
from backstay.permissions.tool_kinds import guess_tool

RuleMatches = Callable[[str, str, Mapping[str, object]], bool]
"""Return whether a permission rule is about a call: its tool and its arguments. An unclear case counts as a match."""

ALSO_CALLED: Final[Mapping[str, tuple[str, ...]]] = {
    "Agent": ("Task",),
    "MultiEdit": ("Edit",),
    "apply_patch": ("Edit", "Write"),
}
"""Other names that hooks know a tool by, so that a guard over `Edit|Write` also covers the other tools that change files."""

_NAMES: Final = re.compile(r"[A-Za-z0-9_\-,| ]*")
_NARROW_NAMES: Final = re.compile(r"[A-Za-z0-9_|]*")
_SERVER: Final = re.compile(r"mcp__(?:(?!__).)+")


def select(
    specs: Iterable[HookSpec],
    event: str,
    matcher_value: str = "",
    *,
    args: Mapping[str, object] | None = None,
    rule_matches: RuleMatches | None = None,
) -> tuple[HookSpec, ...]:
    """Return the hooks that are due, in order, without those that would do the same again.

    `matcher_value` is what matchers are compared with: for a call, the tool's name.
    """
    if not EVENTS[event].fires:
        return ()
    return distinct(
        spec
        for spec in specs
        if spec.event == event
        and fits(event, spec.matcher, matcher_value)
        and _rule_holds(spec, matcher_value, args or {}, rule_matches)
    )


def fits(event: str, matcher: str, matcher_value: str) -> bool:
    """Return whether a matcher fits a value. An unreadable matcher fits everything when the event's hooks guard."""
    facts = EVENTS[event]
    if not facts.matcher_field or matcher in ("", "*"):
        return True
    if matcher_problem(event, matcher) or len(matcher_value) > LONGEST_TEXT:
        return fails_closed(event)
    words = (matcher_value, *ALSO_CALLED.get(matcher_value, ())) if facts.tool else (matcher_value,)
    names = names_of(event, matcher)
    if names is not None:
        return any(each in names for each in words)
    return any(compile_matcher(matcher).search(each) is not None for each in words)


def fails_closed(event: str) -> bool:
    """Return whether hooks of an event can prevent something, so that running one too often is the safe mistake."""
    return EVENTS[event].on_failure == "block" or EVENTS[event].decides == "call"


def names_of(event: str, matcher: str) -> tuple[str, ...] | None:
    """Return the names that a matcher lists; None when it is a pattern."""
    alphabet = _NARROW_NAMES if EVENTS[event].narrow else _NAMES
    if not alphabet.fullmatch(matcher):
        return None
    return tuple(name for each in re.split(r"[|,]", matcher) if (name := each.strip()))


def matcher_problem(event: str, matcher: str) -> str:
    """Return why a matcher cannot be read; empty when it can."""
    if matcher in ("", "*"):
        return ""
    names = names_of(event, matcher)
    if names is not None:
        return "" if names else "it names nothing"
    try:
        compile_matcher(matcher)
    except ValueError as exc:
        return str(exc)
    return ""


def matcher_warning(event: str, matcher: str) -> str:
    """Return a warning about a matcher that is probably a mistake; empty for any other."""
    facts = EVENTS[event]
    if matcher in ("", "*"):
        return ""
    if not facts.matcher_field:
        return f"{event} takes no matcher; {matcher!r} is ignored."
    for name in names_of(event, matcher) or ():
        if facts.tool and _SERVER.fullmatch(name):
            return f"{name!r} is the exact name of a tool, and matches none of the server's. Write '{name}__.*'."
        if facts.tool and (meant := guess_tool(name)):
            return f"{name!r} is the name of no tool that comes with backstay, so the hook is never due. Did you mean {meant!r}?"
    return ""


def distinct(specs: Iterable[HookSpec]) -> tuple[HookSpec, ...]:
    """Drop hooks that do what an earlier one does. Hooks that differ in their timeout or failure rule stay."""
    found: dict[object, HookSpec] = {}
    for spec in specs:
        root = spec.root if spec.source == "plugin" else ""
        found.setdefault((spec.event, spec.handler, spec.timeout, spec.on_failure, root, bool(spec.doubt)), spec)
    return tuple(found.values())


def near_misses(specs: Sequence[HookSpec], event: str, matcher_value: str) -> tuple[HookSpec, ...]:
    """Return the hooks of the event that would be due but for upper and lower case, or the rest of a name."""
    return tuple(spec for spec in specs if spec.event == event and _nearly(spec, matcher_value))


def _nearly(spec: HookSpec, matcher_value: str) -> bool:
    if fits(spec.event, spec.matcher, matcher_value):
        return False
    lower, matcher = matcher_value.lower(), spec.matcher.lower()
    names = names_of(spec.event, matcher)
    if names is not None:
        return any(lower == name or lower.startswith(f"{name}__") for name in names)
    if matcher_problem(spec.event, spec.matcher) or len(matcher_value) > LONGEST_TEXT:
        return False
    return re.search(compile_matcher(spec.matcher).pattern, matcher_value, re.ASCII | re.IGNORECASE) is not None


def _rule_holds(spec: HookSpec, tool: str, args: Mapping[str, object], rule_matches: RuleMatches | None) -> bool:
    if not spec.if_rule or not spec.facts.tool or rule_matches is None:
        return True
    return rule_matches(spec.if_rule, tool, args)
