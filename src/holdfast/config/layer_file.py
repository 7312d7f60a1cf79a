"""One settings file, read for safety: what it permits, which hooks it has, and what it would change or run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Raw

from holdfast.config.json_reader import JsonReader
from holdfast.config.json_text import JsonText
from holdfast.config.permissions_section import SECTION, Permissions, read_permissions
from holdfast.config.places import Place

HooksSection = Mapping[str, object]
"""The `hooks` of a file, as they stand there."""
_LOOSE: Final = ("chat", "providers", "models", "fallback", "auto_compact", "retries")
"""Sections of Holdfast's own files that change how a session is held."""


@dataclass(frozen=True, kw_only=True)
class LayerFile:
    """What was read of one file, from bytes that were read once."""

    place: Place
    text: JsonText | None
    """None for a file that is broken: then the rest is what its last good copy said."""
    permissions: Permissions = field(default_factory=Permissions)
    hooks: HooksSection = field(default_factory=dict)
    hooks_off: bool = False
    """Whether it wants no hooks at all."""
    warnings: tuple[str, ...] = ()
    broken: str = ""
    """What is wrong with it."""

    @property
    def path(self) -> str:
        """Where it is."""
        return str(self.place.path)


def read_layer(place: Place) -> LayerFile:
    """Read a file that is there. Raise `UserError` when it is not certain what it denies."""
    text = JsonText.read(place.path)
    reader = JsonReader(text)
    said = reader.members(text.content, ())
    permissions = Permissions()
    if SECTION in said:
        permissions = read_permissions(reader, said[SECTION], source=place.source, root=place.root)
    return LayerFile(
        place=place,
        text=text,
        permissions=permissions,
        hooks=reader.convert(said["hooks"], dict[str, object], ("hooks",)) if "hooks" in said else {},
        hooks_off=reader.value_or(said, "disableAllHooks", bool, False),
        warnings=tuple(reader.warnings),
    )


def environment_of(file: LayerFile) -> dict[str, str]:
    """The variables that a file sets for the programs that tools and hooks start. Raise `UserError` when they are none."""
    reader, said = _said(file)
    if reader is None or "env" not in said or (file.place.family == "claude" and not file.place.of_project):
        return {}
    found = reader.convert(said["env"], dict[str, str], ("env",))
    for name, value in found.items():
        if not name or "=" in name or "\0" in name + value:
            raise reader.text.wrong(("env", name), "This cannot be an environment variable.")
    return found


def servers_of(file: LayerFile) -> dict[str, object]:
    """The MCP servers that a file names, as they stand there; nothing when that cannot be read."""
    return _tolerated(file, "mcpServers")


def changes_of(file: LayerFile) -> dict[str, object]:
    """The other sections of a file that change how a session is held; of another program's files none is read."""
    if file.place.family != "holdfast":
        return {}
    reader, said = _said(file)
    return {} if reader is None else {key: reader.convert(said[key], object, (key,)) for key in _LOOSE if key in said}


def _tolerated(file: LayerFile, key: str) -> dict[str, object]:
    reader, said = _said(file)
    found = reader.convert(said[key], object, (key,)) if reader is not None and key in said else {}
    return found if isinstance(found, dict) else {}


def _said(file: LayerFile) -> tuple[JsonReader | None, Mapping[str, Raw]]:
    if file.text is None:
        return None, {}
    reader = JsonReader(file.text)
    return reader, reader.members(file.text.content, ())
