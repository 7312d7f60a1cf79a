"""Split a Markdown file into its front matter (YAML between two lines of `---`) and the text after it."""

import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from msgspec import Struct

from backstay.logic.text import read_visible
from backstay.skills.problems import SkillProblem, Unusable
from backstay.skills.yaml import BadYaml, Plain, Read, Value, convert_plain, read_yaml

LONGEST: Final = 16 * 1024
"""Characters of a frontmatter."""
_FENCE: Final = re.compile(r"^---[ \t]*$", re.MULTILINE)
_KEY: Final = re.compile(r"[\"']?([A-Za-z][A-Za-z_-]*)[\"']?[ \t]*:(?:[ \t]|$)")
_PROSE: Final = re.compile(r"(description|when_to_use|when-to-use|argument-hint)[ \t]*:[ \t]+([^\s\"'|>#].*)")
KNOWN: Final = frozenset(
    (
        "name description license compatibility metadata version whentouse argumenthint arguments disablemodelinvocation "
        "userinvocable allowedtools disallowedtools tools permissionmode maxturns model effort agent background hooks "
        "paths shell skills mcpservers memory isolation color initialprompt"
    ).split()
)
"""Every key that means something, folded: a text that is not YAML ends where one of them begins."""


class Frontmatter(Struct, frozen=True, kw_only=True):
    """The front matter of a file, and the text below it."""

    values: Mapping[str, Value]
    lines: Mapping[str, int]
    """The line of each key in the file."""
    body: str
    warnings: tuple[SkillProblem, ...] = ()

    @property
    def present(self) -> bool:
        """Whether the file has a frontmatter at all."""
        return bool(self.lines)


class Patience:
    """The budget for reading the files of one owner, so that a hostile folder cannot hold up a start."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def spend(self, characters: int, file: str) -> None:
        """Spend bytes of the budget. Raise `Unusable` when it is exhausted."""
        self._left -= characters
        if self._left < 0:
            raise Unusable(file, 1, "The files before this one have too much frontmatter. Move text below it.")


def read_frontmatter(
    content: bytes, file: str, *, strict: bool = False, patience: Patience | None = None
) -> Frontmatter:
    """Take the bytes of a file apart. Raise `Unusable` when it is not UTF-8 text, or its frontmatter is not closed or not YAML.

    A description or a hint that is not YAML, because of a colon or a bracket, is taken as it stands, unless `strict`: people write them
    so, and they decide nothing. With `strict`, lists and mappings in brackets are refused as well, as the skill standard's own reader does.
    """
    text = _text(content, file)
    head = split(text, file)
    if head is None:
        return Frontmatter(values={}, lines={}, body=text)
    yaml, body = head
    if len(yaml) > LONGEST:
        raise Unusable(file, 1, f"The frontmatter has more than {LONGEST:,} characters. Move text below it.")
    (values, lines), warnings = _read(yaml, file, strict, patience)
    where = {key: line + 1 for key, line in lines.items()}
    return Frontmatter(values=values, lines=where, body=body, warnings=warnings)


def split(text: str, file: str) -> tuple[str, str] | None:
    """Return the frontmatter and the rest; None when there is no frontmatter. Raise `Unusable` when it has no end."""
    first = _FENCE.match(text)
    if first is None:
        return None
    last = _FENCE.search(text, first.end())
    if last is None:
        raise Unusable(file, 1, "The frontmatter that begins here has no end. Put a line `---` after it.")
    return text[first.end() + 1 : last.start()], text[last.end() + 1 :]


@functools.lru_cache(maxsize=512)
def normalise_key(key: str) -> str:
    """Return a key without the marks in which spellings differ: `allowed-tools`, `allowed_tools` and `allowedTools` are one key."""
    return key.replace("-", "").replace("_", "").lower()


def _text(content: bytes, file: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise Unusable(file, line, "This is not UTF-8 text. Save the file as UTF-8.") from None
    return text.replace("\r\n", "\n")


def _read(yaml: str, file: str, strict: bool, patience: Patience | None) -> tuple[Read, tuple[SkillProblem, ...]]:
    if patience is not None:
        patience.spend(len(yaml), file)
    try:
        return read_yaml(yaml, flow=not strict), ()
    except BadYaml as exc:
        broken = exc
    if not strict:
        mended, warnings = _with_quotes(yaml, file)
        try:
            if warnings:
                return read_yaml(mended), warnings
        except BadYaml as exc:  # there is more that is wrong: that is what to tell
            broken = exc
    raise Unusable(file, broken.line + 1, f"{broken} Mend the frontmatter.")


def _with_quotes(yaml: str, file: str) -> tuple[str, tuple[SkillProblem, ...]]:
    """Return the frontmatter with its prose in quotes, and a warning for each text that got them. Every line stays where it is.

    People write a description of several paragraphs without a mark where it ends. It ends at the next key that means something, however
    that is spelled, so that no list of tools is ever taken for a part of it.
    """
    made: list[str] = []
    warnings: list[SkillProblem] = []
    lines = yaml.split("\n")
    at = 0
    while at < len(lines):
        found = _PROSE.fullmatch(lines[at])
        if found is None:
            made.append(lines[at])
            at += 1
            continue
        message = f"The text of {found[1]!r} is not YAML and is taken as it stands. Put it in quotes."
        warnings.append(SkillProblem(file=file, line=at + 2, message=message, severity="warning"))
        end = next((place for place in range(at + 1, len(lines)) if _is_known(lines[place])), len(lines))
        text = "\n".join((found[2], *lines[at + 1 : end])).strip()
        made += (f"{found[1]}: {json.dumps(text, ensure_ascii=False)}", *[""] * (end - at - 1))
        at = end
    return "\n".join(made), tuple(warnings)


def _is_known(line: str) -> bool:
    found = _KEY.match(line)
    if found is None:
        return False
    key = normalise_key(found[1])
    return key in KNOWN or (
        key == "context" and line[found.end() :].strip() in ("fork", "inline")
    )  # else: of an example


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
        self.problems: list[SkillProblem] = list(head.warnings)
        self._head = head
        self._keys: dict[str, str] = {}
        for key in head.values:
            other = self._keys.setdefault(normalise_key(key), key)
            if other != key:
                message = f"The keys {other!r} and {key!r} mean the same, and only one of them would count."
                raise Unusable(file, head.lines.get(key, 1), message)

    def __contains__(self, key: str) -> bool:
        return normalise_key(key) in self._keys

    def unknown(self, known: frozenset[str]) -> Iterator[str]:
        """Return the keys that are none of `known`, as they are written."""
        expected = _all_folded(known)
        return (key for short, key in self._keys.items() if short not in expected)

    def line(self, key: str) -> int:
        """Return where a key stands; 1 when it does not."""
        return self._head.lines.get(self._keys.get(normalise_key(key), ""), 1)

    def warn(self, key: str, message: str) -> None:
        """Note something that is odd about a key."""
        self.problems.append(SkillProblem(file=self.file, line=self.line(key), message=message, severity="warning"))

    def unusable(self, key: str, message: str) -> Unusable:
        """Return the error that says why the file cannot be used."""
        return Unusable(self.file, self.line(key), message)

    def text(self, key: str) -> str:
        """Return the text of a key, trimmed; empty when it is not there or says nothing."""
        value = self._value(key)
        if value is None or isinstance(value, dict):
            if value is not None:
                self.warn(key, f"{key!r} must be a text. It is ignored.")
            return ""
        if isinstance(value, list):  # a hint such as [file]
            return f"[{', '.join(str(each) for each in value)}]"
        return "" if isinstance(value, Plain) and value in _NOTHING else read_visible(str(value)).text.strip()

    def flag(self, key: str, *, default: bool, unclear: bool) -> bool:
        """Return whether a key says yes; `unclear` when it is neither yes nor no."""
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
        """Return a whole number from 1 on; None when the key is not there."""
        value = self._value(key)
        if value is None:
            return None
        if isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,8}", value.strip()):
            return int(value)
        raise self.unusable(key, f"{key!r} must be a whole number from 1 on.")

    def choice(self, key: str, choices: Collection[str]) -> str:
        """Return one of a few words; empty when the key is not there or says something else."""
        word = self.text(key)
        if word and word not in choices:
            self.warn(key, f"{word[:80]!r} is not known as {key!r}. Use one of {', '.join(sorted(choices))}.")
            return ""
        return word

    def names(self, key: str, *, brackets: str = "()") -> tuple[str, ...] | None:
        """Return a list in any form that people write: a YAML list, or a text with commas or blanks that stand outside `brackets`. None
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
        """Return the model that the file wants; empty for the one that is used already.

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
        """Return the value of a key as JSON would have it; None when it is not there."""
        value = self._value(key)
        return None if value is None else convert_plain(value)

    def _value(self, key: str) -> Value | None:
        name = self._keys.get(normalise_key(key))
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
    """Return whether a name can be typed, shown and written into a rule: letters, digits, `-`, `_`, `.`, at most 64 of them.

    Some letters fill a place and show nothing: a name with one of them would look like another.
    """
    return _NAME.fullmatch(name) is not None and not read_visible(name).left_out


@functools.lru_cache(maxsize=8)
def _all_folded(keys: frozenset[str]) -> frozenset[str]:
    return frozenset(map(normalise_key, keys))
