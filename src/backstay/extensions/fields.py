"""What the keys of a frontmatter mean: texts, flags, lists of names. What cannot be understood allows nothing."""

import functools
import re
from collections.abc import Collection, Iterator
from typing import Final

from backstay.config.unseen import seen
from backstay.extensions.frontmatter import Frontmatter, folded
from backstay.extensions.problems import Problem, Unusable
from backstay.extensions.yaml_values import Plain, Value, typed

_TRUE: Final = frozenset(("true", "yes", "on"))
_FALSE: Final = frozenset(("false", "no", "off"))
_NOTHING: Final = frozenset(("", "~", "null"))
_NAME: Final = re.compile(r"[^\W_](?:[\w.-]{0,62}[^\W_])?")
MOST_NAMES: Final = 200
_PLAYED: Final = ("scripted", "recorded")
"""Models that say what a file or another session says."""


class Fields:
    """The keys of one file, in any spelling: `allowed-tools`, `allowed_tools` and `allowedTools` are one key."""

    def __init__(self, head: Frontmatter, file: str) -> None:
        """Raise `Unusable` when a key stands there in two spellings."""
        self.file = file
        self.problems: list[Problem] = list(head.warnings)
        self._head = head
        self._keys: dict[str, str] = {}
        for key in head.values:
            other = self._keys.setdefault(folded(key), key)
            if other != key:
                message = f"The keys {other!r} and {key!r} mean the same, and only one of them would count."
                raise Unusable(file, head.lines.get(key, 1), message)

    def __contains__(self, key: str) -> bool:
        return folded(key) in self._keys

    def unknown(self, known: frozenset[str]) -> Iterator[str]:
        """The keys that are none of `known`, as they are written."""
        expected = _all_folded(known)
        return (key for short, key in self._keys.items() if short not in expected)

    def line(self, key: str) -> int:
        """Where a key stands; 1 when it does not."""
        return self._head.lines.get(self._keys.get(folded(key), ""), 1)

    def warn(self, key: str, message: str) -> None:
        """Note something that is odd about a key."""
        self.problems.append(Problem(file=self.file, line=self.line(key), message=message, severity="warning"))

    def unusable(self, key: str, message: str) -> Unusable:
        """The error that says why the file cannot be used."""
        return Unusable(self.file, self.line(key), message)

    def text(self, key: str) -> str:
        """The text of a key, trimmed; empty when it is not there or says nothing."""
        value = self._value(key)
        if value is None or isinstance(value, dict):
            if value is not None:
                self.warn(key, f"{key!r} must be a text. It is ignored.")
            return ""
        if isinstance(value, list):  # a hint such as [file]
            return f"[{', '.join(str(each) for each in value)}]"
        return "" if isinstance(value, Plain) and value in _NOTHING else seen(str(value)).text.strip()

    def flag(self, key: str, *, default: bool, unclear: bool) -> bool:
        """Whether a key says yes; `unclear` when nobody can tell what it says."""
        value = self._value(key)
        if value is None:
            return default
        word = value.strip().lower() if isinstance(value, str) else ""
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        self.warn(key, f"{key!r} must be true or false. It counts as {str(unclear).lower()}.")
        return unclear

    def number(self, key: str) -> int | None:
        """A whole number from 1 on; None when the key is not there."""
        value = self._value(key)
        if value is None:
            return None
        if isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,8}", value.strip()):
            return int(value)
        raise self.unusable(key, f"{key!r} must be a whole number from 1 on.")

    def choice(self, key: str, choices: Collection[str]) -> str:
        """One of a few words; empty when the key is not there or says something else."""
        word = self.text(key)
        if word and word not in choices:
            self.warn(key, f"{word[:80]!r} is not known as {key!r}. Use one of {', '.join(sorted(choices))}.")
            return ""
        return word

    def names(self, key: str, *, brackets: str = "()") -> tuple[str, ...] | None:
        """A list in any form that people write: a YAML list, or a text with commas or blanks that stand outside `brackets`. None
        when the key is not there.

        Raise `Unusable` when it cannot be told which names are meant.
        """
        value = self._value(key)
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        found: list[str] = []
        for each in items:
            if not isinstance(each, str):
                raise self.unusable(key, f"{key!r} must be a list of names, such as [Read, Grep].")
            if not (isinstance(each, Plain) and each in _NOTHING):
                found += self._parts(key, each, *brackets)
        if len(found) > MOST_NAMES:
            raise self.unusable(key, f"{key!r} has more than {MOST_NAMES} names.")
        return tuple(dict.fromkeys(found))

    def model(self) -> str:
        """The model that the file wants; empty for the one that is used already.

        One that says where to ask is left out: who reads the conversation is settled in the settings, where trust shows it.
        """
        wanted = self.text("model")
        if wanted.partition(":")[0] in _PLAYED or "://" in wanted:
            self.warn(
                "model", f"{wanted[:80]!r} leads to an address or a file. Name it in the settings, as a provider."
            )
            return ""
        return "" if wanted == "inherit" else wanted

    def raw(self, key: str) -> object:
        """The value of a key as JSON would have it; None when it is not there."""
        value = self._value(key)
        return None if value is None else typed(value)

    def _value(self, key: str) -> Value | None:
        name = self._keys.get(folded(key))
        return None if name is None else self._head.values[name]

    def _parts(self, key: str, text: str, opens: str, closes: str) -> Iterator[str]:
        if opens not in text and closes not in text:
            yield from text.replace(",", " ").split()
            return
        depth, part = 0, ""
        for character in text:
            depth += (character == opens) - (character == closes)
            if depth < 0:
                break
            if depth == 0 and (character == "," or character.isspace()):
                if part:
                    yield part
                part = ""
            else:
                part += character
        if depth:
            raise self.unusable(
                key, f"The brackets {opens}{closes} of {key!r} do not match, so it cannot be told what it allows."
            )
        if part:
            yield part


def good_name(name: str) -> bool:
    """Whether a name can be typed, shown and written into a rule: letters, digits, `-`, `_`, `.`, at most 64 of them.

    Some letters fill a place and show nothing: a name with one of them would look like another.
    """
    return _NAME.fullmatch(name) is not None and not seen(name).left_out


@functools.lru_cache(maxsize=8)
def _all_folded(keys: frozenset[str]) -> frozenset[str]:
    return frozenset(map(folded, keys))
