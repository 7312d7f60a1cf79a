"""Where every value of the settings comes from: who said it, in which line, whether it counts, and why not when it does not."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from backstay.config.json_document import JsonText, Node, outline
from backstay.config.key_table import KEYS, Key, canonical, find_key, is_elsewhere, names_below, nearest
from backstay.config.layer_file import LayerFile
from backstay.config.mask import masked
from backstay.config.permissions_section import SECTION, slips_of
from backstay.permissions.rule_index import DEFAULT_RULES
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule, RuleSource

ELSEWHERE = "known elsewhere, not used here"
UNKNOWN = "not a setting that this version knows"
_MODES = ("permissions.defaultMode", "defaultTrustLevel")


class Entry(Struct, frozen=True, kw_only=True):
    """One value that a file says."""

    key: str
    """Dotted, in its usual spelling."""
    value: object
    """As it stands there, without secrets."""
    source: RuleSource
    file: str = ""
    """Empty for what holds without any file."""
    line: int = 0
    """0 when it is remembered of a file that is broken now."""
    counts: bool = True
    reason: str = ""
    """Why it does not count."""

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.file}:{self.line}" if self.line else self.file or "default"


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of the layers, as far as single values cannot tell it by themselves."""

    trusted: bool = False
    mode_file: str = ""
    """The file whose mode counts."""
    hook_files: frozenset[str] = frozenset()
    """The files whose hooks run."""


def entries_of(files: Sequence[LayerFile], outcome: Outcome) -> tuple[Entry, ...]:
    """Everything that the files say, highest first."""
    taken: dict[tuple[str, ...], str] = {}
    found: list[Entry] = []
    for file in files:
        telling = _Telling(file, outcome, taken)
        found += telling.entries()
        taken |= {unit: place for unit, place in telling.own.items() if unit not in taken}
    return tuple(found)


def why(entries: Sequence[Entry], key: str) -> tuple[Entry, ...]:
    """The entries of `key`, or of everything below it, with what holds by default at the end. Raise `UserError` for no setting."""
    wanted = ".".join(canonical(key.split(".")))
    found = [each for each in entries if each.key == wanted or each.key.startswith(f"{wanted}.")]
    if not found and not any(_could_be(row, wanted) for row in KEYS):
        near = nearest(wanted, [row.name for row in KEYS] + [each.key for each in entries])
        meant = f" Did you mean {near!r}?" if near else ""
        raise UserError(f"{key!r} is not a setting.{meant} `backstay config schema` lists them all.")
    return (*found, *_defaults(wanted, found))


def _defaults(wanted: str, found: Sequence[Entry]) -> Iterator[Entry]:
    row = find_key(wanted.split("."))
    if row is None:
        return
    if row.name == "permissions.allow":
        yield from (Entry(key=row.name, value=str(rule), source="default") for rule in DEFAULT_RULES)
    elif row.default:
        said = any(each.counts for each in found) and row.gathered == "highest"
        reason = "a file says something else" if said else ""
        yield Entry(key=wanted, value=row.default.replace("`", ""), source="default", counts=not said, reason=reason)


def _could_be(row: Key, wanted: str) -> bool:
    """Whether a key, which may have dots in names that people chose, is a setting or the beginning of one."""
    words = [".+" if part == "*" else re.escape(part) for part in row.parts]
    return any(re.fullmatch(r"\.".join(words[:size]), wanted) for size in range(1, len(words) + 1))


class _Said(NamedTuple):
    """One value as it stands in a file."""

    where: tuple[str, ...]
    row: Key | None
    value: object
    position: int


class _Telling(Struct):
    """What one file says, and what has become of it."""

    file: LayerFile
    outcome: Outcome
    taken: Mapping[tuple[str, ...], str]
    own: dict[tuple[str, ...], str] = field(default_factory=dict)
    """What this file decides: a unit that no higher file has, and where."""

    def entries(self) -> Iterator[Entry]:
        text = self.file.text
        if text is None:
            yield from self._remembered()
            return
        for said in _everything(text):
            line = outline(text.content).line(said.position)
            reason = self._reason(said, f"{self.file.path}:{line}")
            where = ".".join(canonical(said.where))
            value = masked(said.where, said.value)
            yield self._entry(where, value, line, reason)

    def _entry(self, key: str, value: object, line: int, reason: str) -> Entry:
        return Entry(
            key=key,
            value=value,
            source=self.file.place.source,
            file=self.file.path,
            line=line,
            counts=not reason,
            reason=reason,
        )

    def _remembered(self) -> Iterator[Entry]:
        """What holds of a broken file."""
        for rule in self.file.permissions.rules:
            yield self._entry(f"permissions.{rule.decision}", str(rule), 0, "")
        if self.file.permissions.mode is not None:
            counts = self.file.path == self.outcome.mode_file
            yield self._entry(_MODES[0], self.file.permissions.mode, 0, "" if counts else "another file's mode counts")
        for event in self.file.hooks:
            counts = self.file.path in self.outcome.hook_files
            yield self._entry(f"hooks.{event}", "(as remembered)", 0, "" if counts else "these hooks do not run")

    def _reason(self, said: _Said, place: str) -> str:
        """Why a value does not count; empty when it does."""
        row, of_project = said.row, self.file.place.of_project
        if row is None:
            return ELSEWHERE if is_elsewhere(said.where) else UNKNOWN
        if self.file.place.family == "claude" and (
            row.elsewhere == "no" or (row.elsewhere == "project" and not of_project)
        ):
            return "not read from another program's file"
        if row.name in _MODES:
            return self._mode(said)
        if row.who == "machine" and self.file.place.source != "managed":
            return "it counts in the machine's file alone"
        if of_project and not self.outcome.trusted and row.who != "any":
            return "the workspace is not trusted"
        if row.name == "hooks.*" and self.file.path not in self.outcome.hook_files:
            return "hooks are switched off"
        if row.name == "permissions.allow" and not _is_rule(said.value):
            return "it is no rule, and allows nothing"
        return "" if row.gathered == "list" else self._overridden(said, row, place)

    def _overridden(self, said: _Said, row: Key, place: str) -> str:
        where = canonical(said.where)
        unit = where[: row.unit or len(where)]
        if unit in self.taken:
            return f"overridden by {self.taken[unit]}"
        self.own.setdefault(unit, place)
        return ""

    def _mode(self, said: _Said) -> str:
        if self.file.path == self.outcome.mode_file:
            both = said.where[0] == _MODES[1] and _says_mode(self.file)
            return f"{_MODES[0]} of the same file goes before it" if both else ""
        if self.file.place.of_project and not self.outcome.trusted:
            return "the workspace is not trusted, and it would loosen"
        return f"overridden by {self.outcome.mode_file}" if self.outcome.mode_file else "it cannot come from here"


def _everything(text: JsonText) -> Iterator[_Said]:
    """Every value of the table that a file says, lists one by one, and whatever else stands beside them."""
    slips = {
        slip.where: slip.meant for slip in slips_of(msgspec.json.decode(text.content, type=dict[str, msgspec.Raw]))
    }
    yield from _walk(json.loads(text.content), outline(text.content).root, (), slips)


def _walk(value: object, node: Node, where: tuple[str, ...], slips: Mapping[tuple[str, ...], str]) -> Iterator[_Said]:
    row = find_key(where) if where else None
    if row is not None and row.gathered == "list" and isinstance(value, list):
        yield from (_Said(where, row, each, node.inner[at].key_at) for at, each in enumerate(value))
    elif (
        row is None and isinstance(value, dict) and (not where or names_below(where) or where in {w[:1] for w in slips})
    ):
        for key, inner in value.items():
            below = (*where, key)
            yield from _walk(inner, node.inner[key], (SECTION, slips[below]) if below in slips else below, slips)
    else:
        yield _Said(where, row, value, node.key_at)


def _is_rule(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(Rule.parse("allow", value))
    except UserError:
        return False


def _says_mode(file: LayerFile) -> bool:
    return file.text is not None and outline(file.text.content).find(_MODES[0].split("."))[1] == 2
