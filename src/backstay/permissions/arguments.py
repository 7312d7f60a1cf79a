"""Compare deny and ask rules with the arguments of a call that are no paths, commands or addresses.

`Tool(name:pattern)` is about the argument of that name, at any depth; `Tool(pattern)` is about every text in the arguments.

| what is there                    | `Tool(name:pattern)`                     | `Tool(pattern)`      |
|----------------------------------|------------------------------------------|----------------------|
| nothing of that name, or null    | no                                       | no                   |
| a text                           | yes when it matches in any spelling      | likewise             |
| true, false                      | yes when it matches as written in JSON   | likewise             |
| a number                         | likewise; maybe when the pattern is none | likewise, never maybe |
| a list                           | each item                                | each item            |
| an object                        | each name and value; maybe when none matches | each name and value |
| a text that is a list or an object in JSON | as a text, and what is in it   | likewise             |
| more than is looked through      | maybe                                    | maybe                |

A maybe asks. What is found only adds up: a further argument never makes a no of a yes or a maybe.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal
from urllib.parse import unquote

import msgspec

from backstay.permissions.call_site import CallSite
from backstay.permissions.path_rules import path_pattern
from backstay.permissions.paths import absolute, locate
from backstay.permissions.wildcards import star_match
from backstay.vocab.rules import Rule

_BLANK: Final = re.compile(r"\s")


def matches_text(pattern: str, text: str, *, folds: bool = False) -> bool:
    """Return whether a text matches. `*` is any characters; a final ` *` or `:*` is a word boundary that the bare prefix matches too.

    With `folds` capitals do not matter, and a final `:*` is also what it says: the names of a plugin begin with its own and a colon.
    """
    if folds:
        pattern, text = pattern.casefold(), text.casefold()
        if pattern.endswith(":*") and star_match(tuple(pattern.split("*")), text):
            return True
    if not pattern.endswith((" *", ":*")):
        return star_match(tuple(pattern.split("*")), text)
    *head, last = pattern[:-2].split("*")
    spaced = _BLANK.sub(" ", text)
    return star_match((*head, last), text) or star_match((*head, f"{last} ", ""), spaced)


Match = Literal["no", "maybe", "yes"]

MOST_VALUES: Final = 5_000
"""Values of a call that are compared with rules, all rules together."""
MOST_TEXT: Final = 200_000
"""Characters of a call that are compared with a rule."""

_LONGEST_PATH: Final = 4_096
"""Characters of a path that systems open."""
_FILE_URI: Final = re.compile(r"file:(?://[^/]*)?(?=/)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[-+]?\d{1,400}(?:\.\d*)?(?:[eE][-+]?\d{1,3})?")
_NUMERIC: Final = frozenset("0123456789+-.*")
_BETWEEN: Final = re.compile(r"[-_\s]+")


class Compared(msgspec.Struct, frozen=True):
    """Whether a rule is about the arguments of a call."""

    match: Match
    why: str = ""
    """What could not be compared, for a maybe."""


def compare(
    rule: Rule, args: Mapping[str, object], call_site: CallSite, *, by_name: bool, most: int = MOST_VALUES
) -> Compared:
    """Compare a rule that has a pattern with arguments; `by_name` alone when something else reads the pattern too."""
    pattern = rule.pattern or ""
    name, colon, rest = pattern.partition(":")
    found = Compared("no")
    if colon and name.strip():
        found = _over(rule, rest.strip(), args, call_site, name.strip(), most)
    if found.match == "yes" or by_name:
        return found
    other = _over(rule, pattern.strip(), args, call_site, "", most)
    return other if other.match != "no" else found


class _Object:
    """Stands for an object, before what is in it."""


_Value = str | int | float | _Object


def _over(rule: Rule, pattern: str, args: Mapping[str, object], call_site: CallSite, name: str, most: int) -> Compared:
    """Compare one pattern with all values under a name, or with all values there are."""
    spelled = _path_rule(rule, pattern)
    doubt, size = "", 0
    for count, value in enumerate(_values(args, name)):
        size += len(value) if isinstance(value, str) else 1
        if count >= most or size > MOST_TEXT:
            return Compared("maybe", "there is more in the arguments than is looked through")
        if isinstance(value, str):
            if matches_text(pattern, value, folds=True) or _matches_path(spelled, value, call_site):
                return Compared("yes")
        elif isinstance(value, _Object):
            doubt = doubt or f"the argument {name!r} has an object in it"
        else:
            match = _scalar(pattern, value)
            if match == "yes":
                return Compared("yes")
            doubt = doubt or (f"the argument {name!r} has a number in it" if match == "maybe" else "")
    return Compared("maybe", doubt) if doubt and name else Compared("no")


def _values(args: Mapping[str, object], name: str) -> Iterator[_Value]:
    """Yield the names and values under a name, wherever it stands; under no name all, but for the names of the arguments."""
    wanted = _fold_name(name)
    todo: list[tuple[object, bool, bool]] = [
        (each, not name or _fold_name(key) == wanted, True) for key, each in args.items()
    ]
    while todo:
        value, meant, given = todo.pop()
        if isinstance(value, dict):
            if meant and given:
                yield _Object()
            for key, each in value.items():
                if meant:
                    yield key
                todo.append((each, meant or _fold_name(key) == wanted, given))
        elif isinstance(value, list):
            todo += ((each, meant, given) for each in value)
        elif isinstance(value, str):
            if meant:
                yield value
            if (inner := _parse_json(value)) is not None:
                todo.append((inner, meant, False))
        elif meant and isinstance(value, int | float):
            yield value


def _fold_name(name: str) -> str:
    """Return a name as lenient tools compare it: `filePath` is `file_path`."""
    return _BETWEEN.sub("", name).casefold()


def _parse_json(text: str) -> object:
    """Return the list or object that a text is in JSON, which some servers read by themselves; None when it is none."""
    if len(text) > MOST_TEXT or not text.lstrip().startswith(("[", "{")):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _scalar(pattern: str, value: float) -> Match:
    written = msgspec.json.encode(value).decode()
    if matches_text(pattern, written, folds=True):
        return "yes"
    if isinstance(value, bool):
        return "no"
    if _NUMBER.fullmatch(pattern):
        return "yes" if float(pattern) == value else "no"
    return "no" if set(pattern) <= _NUMERIC else "maybe"


def _path_rule(rule: Rule, pattern: str) -> Rule:
    """Return the rule that a pattern would be for a file tool; a bare name holds for the working folder alone."""
    named = not pattern or "/" in pattern or "\\" in pattern or pattern.startswith((".", "~"))
    return msgspec.structs.replace(rule, pattern=pattern if named else f"./{pattern}")


def _matches_path(rule: Rule, text: str, call_site: CallSite) -> bool:
    """Return whether a text is another spelling of a path that a pattern covers: `./a`, `b/../a`, from the root, in other letters."""
    found = _FILE_URI.match(text)
    written = unquote(text[found.end() :]) if found else text
    if call_site.os == "windows":
        written = written.replace("\\", "/")
    path = posixpath.normpath(written.strip() or ".")
    if not rule.pattern or len(path) > _LONGEST_PATH or "\n" in path:
        return False
    pattern = path_pattern(rule, call_site)
    return any(pattern.covers(each) for each in locate(absolute(path, call_site), call_site).all)
