"""Rules about files: gitignore patterns with an anchor, compared with paths.

`//x` starts at the root of the file system, `~/x` at the home, `/x` at the folder of the settings file, `x/y` and `./x` at the working
folder. A name without a slash holds at any depth. What forbids is read widely: a pattern covers what is below it, `x/**` holds at any
depth, `/x` is taken as absolute too; what allows is read to the letter.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from backstay.permissions.call_site import CallSite
from backstay.permissions.paths import ResolvedPath, fold, plain, within, workspace
from backstay.permissions.wildcards import BELOW, CLASS, DEEP, MANY, ONE, Tokens, expression, meets
from backstay.vocab.rules import Rule

_WILD: Final = frozenset("*?[")


class PathPattern(Struct, frozen=True):
    """A pattern, ready to be compared."""

    pattern: re.Pattern[str]
    tokens: tuple[Tokens, ...]

    def covers(self, path: str) -> bool:
        """Return whether it is about this path."""
        return self.pattern.fullmatch(path) is not None

    def may_cover(self, glob: str) -> bool:
        """Return whether it could be about a path that this shell pattern stands for."""
        theirs = shell_tokens(glob)
        return any(meets(mine, theirs) for mine in self.tokens)

    def may_reach_below(self, folder: str) -> bool:
        """Return whether it could be about something below this folder."""
        below = (*folder.rstrip("/"), "/", DEEP)
        return any(meets(mine, below) for mine in self.tokens)


def path_pattern(rule: Rule, call_site: CallSite) -> PathPattern:
    """Return the pattern of a rule that has one, at this place."""
    return _compile(absolute_patterns(rule, call_site), rule.decision != "allow", call_site.os)


def allows(rules: Iterable[Rule], resolved: ResolvedPath, call_site: CallSite) -> Rule | None:
    """Return the first rule that allows a path: every spelling must be covered, by that rule or by others."""
    rules = tuple(rules)
    first = _first(rules, resolved.lexical, call_site)
    if first is None or resolved.lexical == resolved.real:
        return first
    return first if _first(rules, resolved.real, call_site) else None


def forbids(rules: Iterable[Rule], resolved: ResolvedPath, call_site: CallSite) -> Rule | None:
    """Return the first rule that any spelling of a path falls under."""
    return next((rule for rule in rules for path in resolved.all if path_pattern(rule, call_site).covers(path)), None)


def literal_end(rule: Rule, call_site: CallSite) -> str:
    """Return the path that a pattern names by itself, its last wildcards left out; empty when it names none.

    `Read(~/.ssh/**)` names the folder, `Read(**/.env)` a file, `Read(**)` and `Read(*.py)` nothing.
    """
    text = (rule.pattern or "").rstrip("/")
    while text.endswith(("/**", "/*")):
        text = text.rpartition("/")[0]
    name = text.rpartition("/")[2]
    if not name or _WILD & set(name):
        return ""
    anchored = _anchor(text, False, rule.root or call_site.cwd, call_site.cwd, call_site.home, call_site.os)[0]
    base, rest = anchored
    return plain(f"{base}/{rest.replace('**/', '').replace('*', '_')}", call_site.os)


def absolute_patterns(rule: Rule, call_site: CallSite) -> tuple[str, ...]:
    """Return the patterns of a rule as texts that begin at the root: what is found below a folder is compared with them."""
    wide = rule.decision != "allow"
    return _absolute(
        rule.pattern or "",
        wide,
        rule.root or call_site.cwd,
        call_site.cwd,
        call_site.home,
        _find_link_to_root(call_site),
        call_site.os,
    )


def about(patterns: Iterable[str], os: str) -> PathPattern:
    """Return the patterns of rules that deny, as `absolute_patterns` gives them, ready to be compared."""
    return _compile(tuple(patterns), True, os)


def _find_link_to_root(call_site: CallSite) -> str:
    """Return the first root where the working folder is a link to it; empty when it is none."""
    here = plain(call_site.cwd, call_site.os)
    return call_site.roots[0] if call_site.roots and not within(here, workspace(call_site)) else ""


def _first(rules: Iterable[Rule], path: str, call_site: CallSite) -> Rule | None:
    return next((rule for rule in rules if path_pattern(rule, call_site).covers(path)), None)


@lru_cache(maxsize=4096)
def _absolute(pattern: str, wide: bool, root: str, cwd: str, home: str, led: str, os: str) -> tuple[str, ...]:
    here = plain(cwd, os)
    found = dict[str, None]()
    for base, rest in _anchor(pattern, wide, root, cwd, home, os):
        start = plain(base, os)
        starts = [start, *([led + start[len(here) :]] if led and within(start, (here,)) else [])]
        tail = f"/{_relative(rest)}" if rest else ""
        found.update((_MAGIC.sub(_AS_IT_IS, each).rstrip("/") + tail, None) for each in starts)
    return tuple(found)


_MAGIC: Final = re.compile(r"[*?\[\\]")
_AS_IT_IS: Final = r"\\\g<0>"


@lru_cache(maxsize=4096)
def _compile(patterns: tuple[str, ...], wide: bool, os: str) -> PathPattern:
    tokens = [_tail(each, wide, os) for each in patterns]
    return PathPattern(re.compile("|".join(f"(?:{expression(each)})" for each in tokens), re.DOTALL), tuple(tokens))


def _anchor(pattern: str, wide: bool, root: str, cwd: str, home: str, os: str) -> list[tuple[str, str]]:
    """Return where a pattern starts, and the rest of it."""
    text = pattern.replace("\\", "/") if os == "windows" else pattern
    if text.startswith("//"):
        return [("/", text.lstrip("/"))]
    if text == "~" or text.startswith("~/"):
        return [(home, text[2:])]
    if text.startswith("/"):
        return [(root, text[1:]), *([("/", text[1:])] if wide else [])]
    if os == "windows" and re.match(r"[A-Za-z]:(/|$)", text):
        return [(text[:2] + "/", text[3:])]
    if text.startswith(("./", "../")):
        return _climb(text, cwd)
    everywhere = "/" if wide else cwd
    body = text[:-3] if text.endswith("/**") else text.rstrip("/")
    if "/" not in text.rstrip("/"):
        return [(everywhere, f"**/{text}")]
    if text.startswith("**/"):
        return [(everywhere, text)]
    if wide and "/" not in body:
        return [("/", f"**/{text}")]
    return [(cwd, text)]


def _climb(text: str, cwd: str) -> list[tuple[str, str]]:
    base = cwd
    while text.startswith(("./", "../")) or text in (".", ".."):
        head, _, text = text.partition("/")
        if head == "..":
            base = base.rstrip("/").rpartition("/")[0] or "/"
    return [(base, text)]


def _relative(rest: str) -> str:
    """Return the pattern without `.` and `..` between its parts; behind a wildcard their meaning is unknown."""
    parts: list[str] = []
    for part in rest.split("/")[:-1]:
        if part == ".." and parts and "*" not in parts[-1]:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    last = rest.rpartition("/")[2]
    return "/".join((*parts, last))


def _tail(rest: str, wide: bool, os: str) -> Tokens:
    segments = [segment for segment in rest.split("/") if segment]
    tokens: list[str] = []
    for segment in segments:
        tokens += [BELOW] if segment == "**" else ["/", *_segment_tokens(fold(segment, os))]
    if (wide or rest.endswith("/")) and segments[-1:] != ["**"]:
        tokens.append(BELOW)
    if os == "windows" and tokens[2:3] == [":"]:
        del tokens[0]  # a drive begins a path without a slash
    return tuple(tokens)


def _segment_tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        end = text.find("]", at + 2) if char == "[" else -1
        if char == "*":
            if not tokens or tokens[-1] != MANY:
                tokens.append(MANY)
        elif char == "?":
            tokens.append(ONE)
        elif char == "[" and end > 0 and (found := _class(text[at + 1 : end])):
            tokens.append(found)
            at = end
        elif char == "\\" and at + 1 < len(text):
            at += 1
            tokens.append(text[at])
        else:
            tokens.append(char)
        at += 1
    return tokens


def _class(body: str) -> str:
    negated = body[0] in "!^"
    inner = body[1:] if negated else body
    pieces = re.findall(r"(.)-(.)|(.)", inner, re.DOTALL)
    if not pieces or any(first > last for first, last, _ in pieces if first):
        return ""
    text = "".join(f"{re.escape(first)}-{re.escape(last)}" if first else re.escape(one) for first, last, one in pieces)
    return f"{CLASS}[{'^' if negated else ''}{text}]"


def name_tokens(name: str) -> Tokens:
    """Return a name, or several with slashes between them, in which `*` stands for a part of one name."""
    tokens: list[str] = []
    for segment in name.split("/"):
        tokens += [*_segment_tokens(segment), "/"]
    return tuple(tokens[:-1])


@lru_cache(maxsize=2048)
def shell_tokens(glob: str) -> Tokens:
    """Return a pattern that the shell expands: `*` and `*.x` do not stand for names that begin with a dot."""
    tokens: list[str] = []
    for segment in glob.split("/"):
        if segment == "**":
            mine = [DEEP]
        elif segment == "*" or segment.startswith("*."):
            mine = [_NO_DOT, *_segment_tokens(segment)]
        else:
            mine = _segment_tokens(segment)
        tokens += [*mine, "/"]
    return tuple(tokens[:-1])


_NO_DOT: Final = CLASS + "[^./]"
