"""The `permissions` of a settings file: what is allowed, asked for and denied.

What cannot be read of a denial makes the whole file count as broken; what cannot be read of an allowance allows nothing.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from msgspec import Raw
from msgspec.structs import replace

from holdfast.config.json_reader import JsonReader
from holdfast.vocab.errors import UserError
from holdfast.vocab.rules import Rule, RuleSource
from holdfast.vocab.specs import MODES, Mode

Decision = Literal["allow", "ask", "deny"]
DECISIONS: Final[tuple[Decision, ...]] = ("deny", "ask", "allow")
SECTION: Final = "permissions"
_KEYS: Final = (*DECISIONS, "defaultMode", "additionalDirectories", "disableBypassPermissionsMode")
_OTHERS: Final = ("disableAutoMode", "skipDangerousModePermissionPrompt", "skipAutoPermissionPrompt")
"""Keys that other programs have and that mean nothing here."""
_LOOSENESS: Final[tuple[Mode, ...]] = ("plan", "dontAsk", "default", "acceptEdits", "bypassPermissions")
_EMPTY: Final = re.compile(r"[^()]*\(\s*\)")


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """What one file says about permissions."""

    rules: tuple[Rule, ...] = ()
    mode: Mode | None = None
    folders: tuple[str, ...] = ()
    """Folders beside the working folder, as written."""
    no_bypass: bool = False
    """Whether the mode that asks nobody may not be used."""

    def decided(self, decision: Decision) -> tuple[Rule, ...]:
        """The rules with this decision."""
        return tuple(rule for rule in self.rules if rule.decision == decision)


def looser(mode: Mode, than: Mode) -> bool:
    """Whether `mode` lets more happen without a person."""
    return _LOOSENESS.index(mode) > _LOOSENESS.index(than)


def read_permissions(reader: JsonReader, raw: Raw, *, source: RuleSource, root: str) -> Permissions:
    """Read the section. Raise `UserError` when it is not certain what it denies."""
    said = reader.members(raw, (SECTION,))
    reader.warn_of_others(said, (*_KEYS, *_OTHERS), (SECTION,))
    rules: list[Rule] = []
    for decision in DECISIONS:
        if decision in said:
            texts = reader.convert(said[decision], tuple[str, ...], (SECTION, decision))
            rules += (replace(rule, source=source, root=root) for rule in _rules(reader, decision, texts))
    return Permissions(
        rules=tuple(rules),
        mode=_mode(reader, said["defaultMode"]) if "defaultMode" in said else None,
        folders=_folders(reader, said["additionalDirectories"]) if "additionalDirectories" in said else (),
        no_bypass="disableBypassPermissionsMode" in said
        and _is_set(reader, said["disableBypassPermissionsMode"], (SECTION, "disableBypassPermissionsMode")),
    )


def _rules(reader: JsonReader, decision: Decision, texts: tuple[str, ...]) -> list[Rule]:
    found: list[Rule] = []
    where = (SECTION, decision)
    for text in texts:
        try:
            rule = Rule.parse(decision, text)
        except UserError as exc:
            if decision != "allow":
                raise UserError(f"{reader.text.place(where, text)}: {'.'.join(where)}: {exc}") from None
            reader.warn(where, f"has {text!r}, which is no rule and allows nothing", text)
            continue
        if decision == "allow" and _EMPTY.fullmatch(text.strip()):
            reader.warn(where, f"has {text!r}: nothing stands between the parentheses, so it allows nothing", text)
            continue
        found.append(rule)
    return found


def _mode(reader: JsonReader, raw: Raw) -> Mode | None:
    where = (SECTION, "defaultMode")
    text = reader.convert(raw, str, where)
    for mode in MODES:
        if mode == text:
            return mode
    reader.warn(where, f"is {text!r}, which is no mode here; it is left out. The modes are {', '.join(MODES)}")
    return None


def _folders(reader: JsonReader, raw: Raw) -> tuple[str, ...]:
    return reader.convert(raw, tuple[str, ...], (SECTION, "additionalDirectories"))


def _is_set(reader: JsonReader, raw: Raw, where: tuple[str, ...]) -> bool:
    """Whether a switch is on: anything but a clear no is a yes, since the switch only takes away."""
    value = reader.convert(raw, object, where)
    if value not in (True, False, "disable", "enable", None):
        reader.warn(where, 'is neither "disable" nor true; it is taken as said')
    return value not in (False, "enable", None)
