"""Keep applying what a settings file denied after it breaks.

The data folder has a copy, for each file, of what it denied and which keys it named when Backstay could last read it.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from backstay.config.json_document import JsonText
from backstay.config.layer_file import LayerFile
from backstay.config.locations import SettingsFile
from backstay.config.permissions_section import Permissions
from backstay.config.private_file import read_private, writable_name, write_private
from backstay.config.secret import find_named_keys
from backstay.hooks.events import EVENTS
from backstay.logic.decide.policy import looser
from backstay.system.files import is_missing
from backstay.vocab.errors import UserError
from backstay.vocab.rules import Rule
from backstay.vocab.specs import Mode

DECIDING: Final = frozenset(event.name for event in EVENTS.values() if event.decides)
"""Hook events whose answer can stop something."""


class KeptDenials(msgspec.Struct, frozen=True, kw_only=True):
    """The denials of one settings file, as its copy holds them."""

    path: str
    digest: str
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    mode: Mode | None = None
    """Only one that is stricter than `default`."""
    no_bypass: bool = False
    hooks: Mapping[str, object] = {}
    servers_off: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """Names of variables that hold keys, never what is in them."""

    @property
    def says_nothing(self) -> bool:
        """True when losing it would lose nothing."""
        return not (self.deny or self.ask or self.mode or self.no_bypass or self.hooks or self.servers_off or self.keys)


class DenialCopies(msgspec.Struct, frozen=True):
    """The copies of denials, one file each under the data folder."""

    data: Path
    """The data folder."""

    def remember(self, file: LayerFile) -> str:
        """Copy what `file`, which was read without an error, denies and names as keys.

        Return why the copy could not be written, when losing it would matter.
        """
        assert file.text is not None
        kept = _extract(file, file.text.digest)
        try:
            if self._load(file.place.path) != kept:
                write_private(self._file(file.place.path), msgspec.json.encode(kept))
        except (OSError, UserError) as exc:
            return "" if kept.says_nothing else f"What {file.path!r} denies could not be kept for later: {exc}"
        return ""

    def recall(self, place: SettingsFile, problem: str) -> LayerFile | None:
        """Return what the broken file at `place` denied and asked for when Backstay could last read it; None without a copy."""
        try:
            kept = self._load(place.path)
        except (OSError, UserError):
            return None
        if kept is None or kept.path != writable_name(place.path):
            return None
        words = "what it denied and asked for when it could last be read still holds; the rest of it is left out"
        return LayerFile(
            place=place,
            text=None,
            permissions=_permissions(kept, place),
            hooks=kept.hooks,
            servers_off=kept.servers_off,
            keys=kept.keys,
            warnings=(f"{problem} Until the file is fixed, {words}.",),
            broken=problem,
        )

    def keys_of(self, place: SettingsFile) -> tuple[str, ...]:
        """Return the variables with keys that a file that does not apply names; of a broken one, those that its copy has."""
        if is_missing(place.path):
            return ()
        try:
            return find_named_keys(JsonText.read(place.path).parse(), own=not place.of_project, idle=True)
        except UserError as exc:
            kept = self.recall(place, str(exc))
            return () if kept is None else kept.keys

    def _load(self, path: Path) -> KeptDenials | None:
        content = read_private(self._file(path))
        try:
            return None if content is None else msgspec.json.decode(content, type=KeptDenials)
        except msgspec.DecodeError:
            return None

    def _file(self, path: Path) -> Path:
        return self.data / "last-good" / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:40]}.json"


def _extract(file: LayerFile, digest: str) -> KeptDenials:
    permissions = file.permissions
    return KeptDenials(
        path=writable_name(file.place.path),
        digest=digest,
        deny=tuple(map(str, permissions.select("deny"))),
        ask=tuple(map(str, permissions.select("ask"))),
        mode=permissions.mode if permissions.mode is not None and looser("default", permissions.mode) else None,
        no_bypass=permissions.no_bypass,
        hooks={} if file.hooks_off else {event: each for event, each in file.hooks.items() if event in DECIDING},
        servers_off=file.servers_off,
        keys=file.keys,
    )


def _permissions(kept: KeptDenials, place: SettingsFile) -> Permissions:
    rules = [Rule.parse("deny", text) for text in kept.deny] + [Rule.parse("ask", text) for text in kept.ask]
    return Permissions(
        rules=tuple(msgspec.structs.replace(rule, source=place.source, root=place.root) for rule in rules),
        mode=kept.mode,
        no_bypass=kept.no_bypass,
    )
