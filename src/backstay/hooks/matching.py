"""Select the hooks that are due: matchers in their three forms, and the rule of `if`."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from backstay.hooks.events import EVENTS
from backstay.hooks.spec import HookSpec
from backstay.permissions.tool_kinds import guess_tool

LONGEST_TEXT: Final = 256
"""Characters of a text that a pattern is tried against."""
MOST_WAYS: Final = 4 * LONGEST_TEXT**3
"""Ways to try a pattern on such a text: those of a search for two wildcards between three words, and a little more."""
_LONGEST: Final = 1_000
_TOKEN: Final = re.compile(
    r"""(?P<open>\((?!\?)|\(\?(?::|<?[=!]|<(?P<name>[A-Za-z_]\w*)>))|(?P<close>\))|(?P<either>\|)|(?P<end>\$)
    |(?P<repeat>[*+?]|\{(?P<least>\d{1,3})(?P<comma>,(?P<most>\d{0,3}))?\})\??
    |(?P<atom>\\[dDwWsSbBfnrtv]|\\[^\w]|\[\^?(?:\\[dDwWsSfnrtv]|\\[^\w]|(?![-&|~]{2})[^]\\[])+\]|[^]\\[(){}*+?|$])""",
    re.VERBOSE | re.ASCII,
)


@functools.lru_cache(maxsize=512)
def compile_matcher(pattern: str) -> "re.Pattern[str]":
    """Return the pattern, ready to search a text of `LONGEST_TEXT` characters. Raise `ValueError` with the reason when it is refused."""
    if len(pattern) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    tokens = _tokens(pattern)
    while _is_wildcard(tokens[:2]):  # a search finds the same without it
        del tokens[:2]
    while _is_wildcard(tokens[-2:]):
        del tokens[-2:]
    if _ways(tokens) > MOST_WAYS:
        raise ValueError("it could be tried in too many ways. Use fewer wildcards, or list the names")
    try:
        return re.compile("".join(map(_in_python, tokens)), re.ASCII)
    except (re.error, OverflowError, RecursionError) as exc:
        raise ValueError(str(exc)) from None


def _tokens(pattern: str) -> "list[re.Match[str]]":
    tokens, at = [], 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None:
            raise ValueError(f"{pattern[at : at + 3]!r} at character {at + 1} is not supported here")
        tokens.append(found)
        at = found.end()
    return tokens


def _is_wildcard(tokens: "list[re.Match[str]]") -> bool:
    return [token[0] for token in tokens] == [".", "*"]


def _in_python(token: "re.Match[str]") -> str:
    return r"\Z" if token["end"] else f"(?P<{token['name']}>" if token["name"] else token[0]


class _Group(Struct):
    """The parsed part of a group, or of the whole pattern."""

    others: int = 0
    """Ways of the alternatives before this one."""
    before: int = 1
    """Ways of what stands before the newest piece of this alternative."""
    piece: int = 1
    """Ways of the newest piece."""
    repeats: bool = False
    """Whether something is repeated inside."""
    inner: bool = False
    """Whether something is repeated inside the newest piece."""
    repeatable: bool = False
    """Whether the newest piece may be repeated."""

    @property
    def ways(self) -> int:
        return self.others + self.before * self.piece

    def take(self, ways: int, *, inner: bool) -> None:
        """Add a piece."""
        self.before *= self.piece
        self.piece, self.inner, self.repeatable = ways, inner, True
        self.repeats |= inner


def _ways(tokens: "list[re.Match[str]]") -> int:
    """Return in how many ways a text can be tried at most. Raise `ValueError` for a repetition within a repetition."""
    groups = [_Group()]
    for token in tokens:
        group = groups[-1]
        if token["open"]:
            groups.append(_Group())
        elif token["close"] and len(groups) > 1:
            groups.pop()
            groups[-1].take(group.ways, inner=group.repeats)
        elif token["either"]:
            groups[-1] = _Group(others=group.ways, repeats=group.repeats)
        elif token["repeat"]:
            _repeat(group, token)
        else:
            group.take(1, inner=False)
    anchored = tokens and tokens[0][0] == "^" and not groups[0].others
    return groups[0].ways * (1 if anchored else LONGEST_TEXT)


def _repeat(group: _Group, token: "re.Match[str]") -> None:
    if not group.repeatable:
        raise ValueError("nothing to repeat")
    group.repeatable = False
    if token["repeat"] == "?":
        group.piece += 1
        return
    if group.piece > 1 or group.inner:
        raise ValueError(
            "it repeats what is repeated or has alternatives, which could take for ever. List the names instead"
        )
    least, most = int(token["least"] or 0), int(token["most"] or LONGEST_TEXT)
    exact = token["least"] and not token["comma"]
    group.piece = 1 if exact else min(max(1, most - least + 1), LONGEST_TEXT)
    group.inner = group.repeats = True


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
