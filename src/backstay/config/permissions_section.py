"""The `permissions` of a settings file: what is allowed, asked for and denied.

What cannot be read of a denial makes the whole file count as broken; what cannot be read of an allowance allows nothing. A mode that
is not known stops the run: a stricter one may be meant.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from backstay.config.json_document import JsonReader
from backstay.config.key_lookup import FAR, KNOWN_ELSEWHERE, find_nearest, guess_name, is_elsewhere, names_below
from backstay.logic.decide.policy import LOOSENESS, looser
from backstay.permissions.tool_kinds import guess_tool
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule, RuleSource
from backstay.vocab.specs import MODES, Mode

Decision = Literal["allow", "ask", "deny"]
DECISIONS: Final[tuple[Decision, ...]] = ("deny", "ask", "allow")
SECTION: Final = "permissions"
LEVEL: Final = "defaultTrustLevel"
_LEVELS: Final[Mapping[str, Mode]] = {"safe": "plan", "moderate": "default", "full": "acceptEdits"}
_LONGEST: Final = 200
_MOST_WARNINGS: Final = 20
"""Entries that are no rules that are told one by one."""
MOST_RULES: Final = 5_000
"""Rules that one file may have: a start reads each of them."""
MOST_KEYS: Final = 2_000
"""Keys that one file may have in its upper two levels: each that is unknown is compared with those that are known."""
_EMPTY: Final = re.compile(r"[^()]*\(\s*\)")


class UnknownMode(UserError):
    """An unknown word for a mode or a level: no older copy of the file says what was meant."""


class Permissions(Struct, frozen=True, kw_only=True):
    """The permissions of one settings file."""

    rules: tuple[Rule, ...] = ()
    mode: Mode | None = None
    folders: tuple[str, ...] = ()
    """Folders beside the working folder, as written."""
    no_bypass: bool = False
    """Whether `bypassPermissions` may not be used."""

    def select(self, decision: Decision) -> tuple[Rule, ...]:
        """Return the rules with this decision."""
        return tuple(rule for rule in self.rules if rule.decision == decision)


class Slip(Struct, frozen=True, kw_only=True):
    """A misspelled name in a file, of a key that can only restrict."""

    where: tuple[str, ...]
    meant: str
    """The key of `permissions` that was likely meant."""
    value: object


def read_permissions(
    reader: JsonReader, content: Mapping[str, object], *, source: RuleSource, root: str
) -> Permissions:
    """Read the section of a file, and what restricts under a misspelled name: a slip of the pen must not lose a denial.

    Raise `UserError` when it is not certain what it denies, `UnknownMode` when its mode is none.
    """
    _check_keys(reader, content)
    said = reader.check(content.get(SECTION, {}), dict[str, object], (SECTION,))
    slips = find_misspelled(content)
    lists: dict[tuple[str, ...], object] = {(SECTION, each): said.get(each) for each in DECISIONS}
    _check_rules(reader, lists | {slip.where: slip.value for slip in slips})
    rules: list[Rule] = []
    for decision in DECISIONS:
        if decision in said:
            texts = reader.check(said[decision], tuple[str, ...], (SECTION, decision))
            rules += _rules(reader, decision, texts, (SECTION, decision))
        for slip in slips:
            if slip.meant == decision and isinstance(slip.value, list):
                rules += _rules(reader, decision, slip.value, slip.where)
    modes = [_mode(reader, said["defaultMode"])] if "defaultMode" in said else []
    modes += [_stricter(mode) for slip in slips for mode in MODES if (slip.meant, slip.value) == ("defaultMode", mode)]
    return Permissions(
        rules=tuple(replace(rule, source=source, root=root) for rule in rules),
        mode=next((mode for mode in LOOSENESS if mode in modes), None),
        folders=reader.check(said.get(_FOLDERS, ()), tuple[str, ...], (SECTION, _FOLDERS)),
        no_bypass=_is_set(reader, said.get(_NO_BYPASS))
        or any(slip.meant == _NO_BYPASS and slip.value in (True, "disable") for slip in slips),
    )


def find_misspelled(content: Mapping[str, object]) -> tuple[Slip, ...]:
    """Return the misspelled names in a file under which something stands that restricts."""
    found = list[Slip]()
    for section, inner in content.items():
        value = inner if section == SECTION or _is_nearly_permissions(section) else None
        for key, each in value.items() if isinstance(value, dict) else ():
            meant = _guess_restricting((section, key))
            if meant and _fits(meant, each):
                found.append(Slip(where=(section, key), meant=meant, value=each))
    return tuple(found)


def describe_misspelled(reader: JsonReader, content: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence about each misspelled name under which something stands that restricts."""
    for slip in find_misspelled(content):
        name, where = ".".join(slip.where), f"{SECTION}.{slip.meant}"
        yield (
            f"{reader.text.place(slip.where)}: {name!r} is not a setting that this version knows (did you mean {where!r}?); "
            "what it restricts holds all the same. Write the name as it is."
        )


def unknown_permissions(content: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield where an unknown key of `permissions` stands, or a key that is nearly `permissions`, and a sentence about it."""
    slips = {slip.where: slip.meant for slip in find_misspelled(content)}
    known = names_below((SECTION,))
    for section, inner in content.items():
        nearly_so = _is_nearly_permissions(section)
        if nearly_so:
            yield (section,), f"{section!r} is not a setting (did you mean {SECTION!r}?): nothing that it allows counts"
        value = inner if nearly_so or section == SECTION else None
        for key in value if isinstance(value, dict) else ():
            where, name = (section, key), f"'{section}.{key}'"
            if where in slips:
                yield where, f"{name} holds as 'permissions.{slips[where]}' only because it restricts: write it so"
            elif section == SECTION and key not in known and not is_elsewhere(where):
                near = guess_name(key, known)
                yield where, f"{name} is not a setting{f' (did you mean {near!r}?)' if near else ''}; it is left out"


@lru_cache(maxsize=4096)
def _is_nearly_permissions(name: str) -> bool:
    """Return whether an unknown key is nearly spelled `permissions`."""
    if not find_nearest(name.casefold(), ("permissions",), cutoff=FAR):
        return False  # most names end here, without the comparison with every other key
    known = names_below(())
    return name not in known and name not in KNOWN_ELSEWHERE and guess_name(name, known) == "permissions"


def _guess_restricting(where: Sequence[str]) -> str:
    """Return the key of `permissions` that can only restrict, and that a misspelled name at `where` means; empty when there is none.

    Either of the two names may be misspelled: that of the section, that of the key, or both.
    """
    if len(where) != 2 or not (where[0] == "permissions" or _is_nearly_permissions(where[0])):
        return ""
    known = names_below(("permissions",))
    if where[1] in known:
        meant = where[1] if where[0] != "permissions" else ""
    else:
        meant = "" if is_elsewhere(("permissions", where[1])) else guess_name(where[1], known)
    return meant if meant in _RESTRICTING else ""


_RESTRICTING: Final = ("deny", "ask", "defaultMode", "disableBypassPermissionsMode")


def _fits(meant: str, value: object) -> bool:
    """Return whether a value can stand under such a key."""
    if meant in DECISIONS:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return isinstance(value, str) or value is True


_NO_BYPASS: Final = "disableBypassPermissionsMode"
_FOLDERS: Final = "additionalDirectories"


def read_level(reader: JsonReader, value: object) -> Mode | None:
    """Return the mode that a `defaultTrustLevel` means. Raise `UnknownMode` for an unknown word."""
    text = reader.check(value, str, (LEVEL,))
    known = _LEVELS.get(text)
    if known is None and (meant := _guess_word(reader, text, tuple(_LEVELS), (LEVEL,), "level")):
        known = _stricter(_LEVELS[meant])
    return known


def _check_keys(reader: JsonReader, content: Mapping[str, object]) -> None:
    """Raise `UserError` when the upper two levels of a file have more than `MOST_KEYS` keys."""
    if len(content) + sum(len(inner) for inner in content.values() if isinstance(inner, dict)) > MOST_KEYS:
        raise UserError(f"{reader.text.place(())}: A file has at most {MOST_KEYS:,} keys, and this one has more.")


def _check_rules(reader: JsonReader, lists: Mapping[tuple[str, ...], object]) -> None:
    """Raise `UserError` when the lists at these keys have more than `MOST_RULES` entries together."""
    number = 0
    for where, texts in lists.items():
        number += len(texts) if isinstance(texts, list) else 0
        if number > MOST_RULES:
            words = f"A file has at most {MOST_RULES:,} rules, and this one has more. Join some, or leave some out."
            raise reader.text.wrong(where, words)


def _rules(reader: JsonReader, decision: Decision, texts: Sequence[str], where: tuple[str, ...]) -> list[Rule]:
    found: list[Rule] = []
    odd = 0
    for index, text in enumerate(texts):
        rule, problem = read_rule(decision, text)
        if rule is not None:
            found.append(rule)
            meant = guess_tool(rule.tool) if decision != "allow" else ""
            if meant.casefold() not in ("", rule.tool.casefold()):
                words = (
                    f"has {text[:_LONGEST]!r}, which is about no tool that comes with backstay. Did you mean {meant!r}?"
                )
                reader.warn(where, words, at=index)
            continue
        if decision != "allow":
            raise UserError(f"{reader.text.place((*where, str(index)))}: {'.'.join(where)}: {problem}")
        odd += 1
        if odd <= _MOST_WARNINGS:
            reader.warn(where, f"has {text[:_LONGEST]!r}{problem}", at=index)
    if odd > _MOST_WARNINGS:
        reader.warn(where, f"has {odd - _MOST_WARNINGS} more that allow nothing")
    return found


def read_rule(decision: Decision, text: str) -> tuple[Rule | None, str]:
    """Return the rule that a text is, or why it is none."""
    if decision == "allow" and _EMPTY.fullmatch(text.strip()):
        return None, ": nothing stands between the parentheses, so it allows nothing"
    try:
        return Rule.parse(decision, text), ""
    except UserError as exc:
        return None, ", which is no rule and allows nothing" if decision == "allow" else str(exc)


def _mode(reader: JsonReader, value: object) -> Mode | None:
    where = (SECTION, "defaultMode")
    text = reader.check(value, str, where)
    for mode in MODES:
        if mode == text:
            return mode
    meant = _guess_word(reader, text, MODES, where, "mode")
    return next((_stricter(mode) for mode in MODES if mode == meant), None)


def _guess_word(reader: JsonReader, text: str, known: tuple[str, ...], where: tuple[str, ...], kind: str) -> str:
    """Return the word that another program's file likely means, and warn of it. In a file of our own, raise `UnknownMode`."""
    folded = {word.casefold(): word for word in known}
    meant = folded.get(find_nearest(text.casefold(), folded), "")
    words = f"{text[:_LONGEST]!r} is no {kind} that this version knows."
    if not reader.foreign:
        hint = f" Did you mean {meant!r}?" if meant else ""
        raise UnknownMode(str(reader.text.wrong(where, f"{words}{hint} The {kind}s are {', '.join(known)}.")))
    reader.warn(
        where,
        f"is {text[:_LONGEST]!r}, which is no {kind} here; {_effect_words(meant)}. The {kind}s are {', '.join(known)}",
    )
    return meant


def _effect_words(meant: str) -> str:
    return f"it counts as {meant!r} where that is stricter" if meant else "it is left out"


def _stricter(mode: Mode) -> Mode | None:
    """Return a misspelled mode if it asks more than the usual one does."""
    return mode if looser("default", mode) else None


def _is_set(reader: JsonReader, value: object) -> bool:
    """Return whether the switch is on: anything but a clear no is a yes, since the switch only takes away."""
    if value not in (True, False, "disable", "enable", None):
        reader.warn((SECTION, _NO_BYPASS), 'is neither "disable" nor true; it counts as set')
    return value not in (False, "enable", None)
