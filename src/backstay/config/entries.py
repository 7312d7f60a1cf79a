"""The values that settings files hold, each with its file and line, whether it counts, and the reason why not.

The files are read by the table of keys. Settings are a fold of the entries that count, and `backstay config show --why`
prints the same list.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.config.json_document import JsonReader, JsonText, explain_mismatch
from backstay.config.key_lookup import (
    canonical,
    find_key,
    find_nearest,
    guess_name,
    is_elsewhere,
    is_shared,
    keys_below,
    names_below,
)
from backstay.config.key_table import KEYS, Address, Key
from backstay.config.layer_file import LayerFile
from backstay.config.locations import SettingsFile
from backstay.config.permissions_section import LEVEL, SECTION, find_misspelled, read_rule
from backstay.config.secret import mask
from backstay.logic.decide.policy import looser
from backstay.permissions.rule_index import DEFAULT_RULES
from backstay.vocab.errors import UserError
from backstay.vocab.rules import RuleSource
from backstay.vocab.specs import Mode

ELSEWHERE: Final = "known elsewhere, not used here"
UNKNOWN: Final = "not a setting that this version knows"
UNTRUSTED: Final = "the workspace is not trusted"
_OVERRIDDEN: Final = "overridden by "
_FOREIGN: Final = "not read from another program's file"
_MODES: Final = (f"{SECTION}.defaultMode", LEVEL)
_MOST_UNKNOWN: Final = 20
"""Unknown keys of one object that are told one by one."""
_CHECKED_BY_READERS: Final = frozenset(
    f"""
    {SECTION} {LEVEL} hooks disableAllHooks allowedHttpHookUrls httpHookAllowedEnvVars allowManagedHooksOnly
    mcpServers disabledMcpjsonServers $schema
    """.split()
)
"""Keys whose own readers say what is wrong with a value."""


class SettingsEntry(Struct, frozen=True, kw_only=True):
    """One value that a file holds, or the default of a key."""

    where: tuple[str, ...]
    """The keys that lead to it, in their usual spelling."""
    raw: object
    """The value as it stands there. It may be a secret: `value` is what may be shown."""
    row: Key | None = None
    """Its row in the table; None for what is no setting."""
    origin: SettingsFile | None = None
    """None for a default."""
    text: JsonText | None = None
    """None for what is remembered of a file that is broken now."""
    spelled: tuple[str, ...] = ()
    """The keys as the file spells them; for an element of a list its index at the end."""
    problem: str = ""
    """What is wrong with the value."""
    reason: str = ""
    """Why it does not count."""

    @property
    def key(self) -> str:
        """The keys, dotted."""
        return ".".join(self.where)

    @property
    def value(self) -> object:
        """The value without secrets."""
        return mask(self.where, self.raw)

    @property
    def counts(self) -> bool:
        """True when it is used."""
        return not self.reason

    @property
    def is_overridden(self) -> bool:
        """True when a higher file says something else instead."""
        return self.reason.startswith(_OVERRIDDEN)

    @property
    def source(self) -> RuleSource:
        """Who wrote it."""
        return self.origin.source if self.origin is not None else "default"

    @property
    def file(self) -> str:
        """The file; empty for a default."""
        return str(self.origin.path) if self.origin is not None else ""

    @property
    def line(self) -> int:
        """The line; 0 when the file is broken now, and for a default."""
        return self.text.line(self.spelled) if self.text is not None else 0

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.file}:{self.line}" if self.text is not None else self.file or "default"

    def error(self, words: str, size: int | None = None) -> UserError:
        """Return the error of this value, or of what its first `size` keys lead to."""
        assert self.text is not None, "what is remembered was checked"
        return self.text.wrong(self.spelled[:size], words)

    def warning(self, words: str, size: int | None = None) -> str:
        """Return a warning of this value, or of what its first `size` keys lead to."""
        assert self.text is not None, "what is remembered was checked"
        return f"{self.text.place(self.spelled[:size])}: {'.'.join(self.spelled[:size])!r} {words}."

    def __repr__(self) -> str:
        return f"SettingsEntry({self.key} = {self.value!r}, {self.file or 'default'}, {self.reason or 'counts'})"


class Judgement(Struct, kw_only=True):
    """All entries of all files, and what follows from them together."""

    trusted: bool
    entries: list[SettingsEntry] = field(default_factory=list)
    """Highest file first."""
    mode_file: LayerFile | None = None
    """The file whose mode counts."""
    warnings: list[str] = field(default_factory=list)

    def select(self, name: str) -> tuple[SettingsEntry, ...]:
        """Return the entries of one row of the table that count."""
        return tuple(each for each in self.entries if each.row is not None and each.row.name == name and each.counts)


def judge(files: Sequence[LayerFile], *, trusted: bool) -> Judgement:
    """Return everything that `files`, highest first, hold, each value with the reason why it does not count.

    Raise `UserError` for a wrong value that would count; in another program's file it is left out with a warning.
    """
    found = Judgement(trusted=trusted)
    judging = _Judge(files, found)
    for file in files:
        judging.add(file)
    return found


def why_not(row: Key, place: SettingsFile, *, trusted: bool) -> str:
    """Return why a file at `place` cannot set a key; empty when it can."""
    if place.family == "claude" and (
        row.claude_files == "no" or (row.claude_files == "project" and not place.of_project)
    ):
        return _FOREIGN
    if row.settable_by == "machine" and place.source != "managed":
        return "it counts in the machine's file alone"
    return UNTRUSTED if place.of_project and not trusted and row.settable_by == "trusted" else ""


def explain(entries: Sequence[SettingsEntry], key: str) -> tuple[SettingsEntry, ...]:
    """Return the entries of `key`, or of all keys below it, and its default at the end. Raise `UserError` for what is no setting."""
    wanted = ".".join(canonical(key.split(".")))
    found = [each for each in entries if each.key == wanted or each.key.startswith(f"{wanted}.")]
    if not found and not any(_could_be(row, wanted) for row in KEYS):
        near = find_nearest(wanted, [row.name for row in KEYS] + [each.key for each in entries])
        meant = f" Did you mean {near!r}?" if near else ""
        raise UserError(f"{key!r} is not a setting.{meant} `backstay config schema` lists them all.")
    return (*found, *_defaults(wanted, found))


def _defaults(wanted: str, found: Sequence[SettingsEntry]) -> Iterator[SettingsEntry]:
    where = tuple(wanted.split("."))
    row = find_key(where)
    if row is not None and row.name == "permissions.allow":
        yield from (SettingsEntry(where=where, row=row, raw=str(rule)) for rule in DEFAULT_RULES)
    elif row is not None and row.default:
        is_set = any(each.counts for each in found) and row.merge == "highest"
        reason = "a file says something else" if is_set else ""
        yield SettingsEntry(where=where, row=row, raw=row.default.replace("`", ""), reason=reason)


def _could_be(row: Key, wanted: str) -> bool:
    """Return whether a key, which may have dots in names that people chose, is a setting or the beginning of one."""
    words = [".+" if part == "*" else re.escape(part) for part in row.parts]
    return any(re.fullmatch(r"\.".join(words[:size]), wanted) for size in range(1, len(words) + 1))


# --- what one file holds -------------------------------------------------------------------------------------------------------------


def _read(file: LayerFile) -> Iterator[SettingsEntry]:
    """Yield the entries of a file, lists one by one, and what else stands beside them; nothing is judged yet."""
    if file.text is None:
        return _remember(file)
    slips = {slip.where: slip.meant for slip in find_misspelled(file.content)}
    return _FileWalk(file.place, file.text, slips).entries(file.content, (), ())


def _remember(file: LayerFile) -> Iterator[SettingsEntry]:
    """Yield what still holds of a broken file."""
    said = file.permissions
    values: list[tuple[str, object]] = [(f"{SECTION}.{rule.decision}", str(rule)) for rule in said.rules]
    values += [(_MODES[0], said.mode)] if said.mode is not None else []
    values += [(f"{SECTION}.disableBypassPermissionsMode", "disable")] if said.no_bypass else []
    values += [(f"hooks.{event}", "(as remembered)") for event in file.hooks]
    values += [("disabledMcpjsonServers", name) for name in file.servers_off]
    for name, value in values:
        where = tuple(name.split("."))
        yield SettingsEntry(where=where, raw=value, row=find_key(where), origin=file.place)


class _FileWalk(Struct):
    """One walk through the values of a file."""

    origin: SettingsFile
    text: JsonText
    slips: Mapping[tuple[str, ...], str]

    def entries(self, value: object, spelled: tuple[str, ...], where: tuple[str, ...]) -> Iterator[SettingsEntry]:
        """Yield the values at and below `spelled`, which means `where`."""
        row, below = find_key(where), keys_below(where)
        if row is not None and row.merge == "list" and isinstance(value, list):
            for at, each in enumerate(value):
                words, _ = _problem(row, where, [each])
                yield self._entry((*spelled, str(at)), where, each, row, words)
        elif row is not None:
            words, inner = _problem(row, where, value)
            yield self._entry((*spelled, *inner), where, value, row, words)
        elif isinstance(value, dict) and (below or where in {slip[:1] for slip in self.slips}):
            yield from self._odd(value, spelled, where)
            for key, inner_value in value.items():
                inner = (*spelled, key)
                meant = (SECTION, self.slips[inner]) if inner in self.slips else canonical((*where, key))
                yield from self.entries(inner_value, inner, meant)
        elif below:
            yield self._entry(spelled, where, value, below[0], _mismatch(value, dict)[0])
        else:
            yield self._entry(spelled, where, value, None, "")

    def _odd(
        self, value: Mapping[str, object], spelled: tuple[str, ...], where: tuple[str, ...]
    ) -> Iterator[SettingsEntry]:
        """Yield what stands twice in an object, in both spellings, and what is missing."""
        for row in keys_below(where):
            name = row.parts[len(where)]
            if len(row.parts) > len(where) + 1:
                continue
            if row.alias in value and name in value:
                words = f"It stands twice, as {name!r} and as {row.alias!r}. Keep one."
                yield self._entry((*spelled, row.alias), (*where, name), value[row.alias], row, words)
            elif row.required and name not in value and row.alias not in value:
                yield self._entry(spelled, where, value, row, f"Object missing required field `{name}`.")

    def _entry(
        self, spelled: tuple[str, ...], where: tuple[str, ...], value: object, row: Key | None, problem: str
    ) -> SettingsEntry:
        return SettingsEntry(
            where=where, raw=value, row=row, origin=self.origin, text=self.text, spelled=spelled, problem=problem
        )


def _problem(row: Key, where: tuple[str, ...], value: object) -> tuple[str, tuple[str, ...]]:
    """Return what is wrong with the value of a key, and the keys inside it that lead there; empty when it fits."""
    if row.parts[0] in _CHECKED_BY_READERS:
        return "", ()
    words, inner = _mismatch(value, row.kind)
    if words and row.kind is Address:
        return "It is not an address. It begins with https://.", ()
    if not words and row.name == "env.*" and (not where[1] or "=" in where[1] or "\0" in f"{where[1]}{value}"):
        return "This cannot be an environment variable.", ()
    return words, inner


def _mismatch(value: object, kind: object) -> tuple[str, tuple[str, ...]]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        return explain_mismatch(exc, kind)
    return "", ()


# --- what counts ---------------------------------------------------------------------------------------------------------------------


def own_mode(files: Sequence[LayerFile]) -> Mode:
    """Return the mode that holds without the modes of the project's files. Every file may forbid `bypassPermissions`."""
    own = (file.permissions.mode for file in files if not file.place.of_project)
    mode: Mode = next((mode for mode in own if mode is not None), "default")
    return "default" if mode == "bypassPermissions" and forbids_bypass(files) else mode


def forbids_bypass(files: Sequence[LayerFile]) -> str:
    """Return the highest file that forbids `bypassPermissions`; empty when none does."""
    return next((file.path for file in files if file.permissions.no_bypass), "")


class _Judge:
    """Goes through the files, highest first, and keeps what is decided."""

    def __init__(self, files: Sequence[LayerFile], found: Judgement) -> None:
        self._found = found
        self._taken: dict[tuple[str, ...], SettingsEntry] = {}
        """What a file has decided already, and where."""
        counted = [file for file in files if found.trusted or not file.place.of_project]
        self._switches = [file.place for file in counted if file.hooks_off]
        self._own_mode = own_mode(files)

    def add(self, file: LayerFile) -> None:
        """Judge the values of one file."""
        mode, taken = self._mode_reason(file), dict[tuple[str, ...], SettingsEntry]()
        hooks = "hooks are switched off" if any(_switches_off(each, file.place) for each in self._switches) else ""
        unknown: list[SettingsEntry] = []
        for entry in _read(file):
            name = entry.row.name if entry.row is not None else ""
            reason = self._reason(entry) or (hooks if name == "hooks.*" else "")
            if not reason and name in _MODES:
                reason = mode or (f"{_MODES[0]} of the same file goes before it" if _is_spare_mode(entry, file) else "")
            elif not reason and entry.row is not None and entry.row.merge == "highest":
                unit = entry.where[: entry.row.replace_depth or len(entry.where)]
                above = self._taken.get(unit)
                reason = f"{_OVERRIDDEN}{above.place}" if above is not None else ""
                taken.setdefault(unit, entry)
            if reason == UNKNOWN:
                unknown.append(entry)
            self._found.entries.append(replace(entry, reason=reason))
        self._taken = taken | self._taken
        if file.permissions.mode is not None and not mode:
            self._found.mode_file = file
        if self._found.trusted or not file.place.of_project:
            self._found.warnings += _warn_of_unknown(unknown)

    def _reason(self, entry: SettingsEntry) -> str:
        """Return why a value does not count, as far as it and its file alone tell."""
        place, row = entry.origin, entry.row
        assert place is not None
        if row is None:
            if is_elsewhere(entry.spelled):
                return ELSEWHERE
            first = entry.spelled[0]
            return _FOREIGN if place.family == "claude" and keys_below((first,)) and not is_shared(first) else UNKNOWN
        if reason := why_not(row, place, trusted=self._found.trusted):
            return reason
        if row.name == "permissions.allow" and read_rule("allow", str(entry.raw))[0] is None:
            return "it is no rule, and allows nothing"
        if entry.problem and row.parts[0] not in _CHECKED_BY_READERS:
            error = entry.error(entry.problem)
            if place.family != "claude":
                raise error
            self._found.warnings.append(f"{error} It is left out.")
        return entry.problem

    def _mode_reason(self, file: LayerFile) -> str:
        """Return why the mode of a file does not count.

        One that comes with the workspace is never `bypassPermissions`, and before trust it can only make stricter.
        """
        mode, of_project, trusted = file.permissions.mode, file.place.of_project, self._found.trusted
        if mode is None:
            return "it is no mode here"
        if of_project and mode == "bypassPermissions":
            if trusted:
                words = "bypassPermissions cannot come with a workspace; it is left out."
                self._found.warnings.append(f"{file.path}: {words}")
            return "it cannot come from here"
        if of_project and not trusted and looser(mode, self._own_mode):
            return f"{UNTRUSTED}, and it would loosen"
        above = self._found.mode_file
        return f"{_OVERRIDDEN}{above.path}" if above is not None else ""


def _is_spare_mode(entry: SettingsEntry, file: LayerFile) -> bool:
    """Return whether an entry is the other spelling of a mode that its file says in the usual one too."""
    section = file.content.get(SECTION)
    return entry.where == (LEVEL,) and isinstance(section, dict) and "defaultMode" in section


def _switches_off(switch: SettingsFile, hooks: SettingsFile) -> bool:
    """Return whether a file that wants no hooks switches off those of another: its own and those that it stands for, never
    the person's or managed ones.
    """
    if switch.path == hooks.path or switch.source == "managed":
        return True
    if switch.of_project:
        return hooks.of_project
    if switch.family == "claude":
        return hooks.family == "claude"
    return hooks.source != "managed" and (switch.source == "flag" or hooks.source != "flag")


def _warn_of_unknown(entries: Sequence[SettingsEntry]) -> Iterator[str]:
    """Yield warnings of the keys of one file that are no settings, with those that were likely meant."""
    if not entries or (text := entries[0].text) is None:
        return
    reader, objects = JsonReader(text), dict[tuple[str, ...], list[SettingsEntry]]()
    for each in entries:
        objects.setdefault(each.spelled[:-1], []).append(each)
    for where, keys in objects.items():
        known = names_below(where)
        for each in keys[:_MOST_UNKNOWN]:
            near = guess_name(each.spelled[-1], known)
            meant = f" (did you mean {near!r}?)" if near else ""
            reader.warn(each.spelled, f"is {UNKNOWN}{meant}; it is left out")
        if len(keys) > _MOST_UNKNOWN:
            more = len(keys) - _MOST_UNKNOWN - 1
            reader.warn(keys[_MOST_UNKNOWN].spelled, f"and {more} more are no settings that this version knows")
    yield from reader.warnings
