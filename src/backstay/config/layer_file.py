"""One settings file, read for safety: what it permits, which hooks it has, and what it would change or run."""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from backstay.config.json_document import JsonText
from backstay.config.key_table import find_key, names_below
from backstay.config.locations import SettingsFile
from backstay.config.permissions_section import LEVEL, Permissions, read_level, read_permissions, slip_words
from backstay.config.secret import named_keys
from backstay.config.settings_reader import SettingsReader

HooksSection = Mapping[str, object]
"""The `hooks` of a file, as they stand there."""
_TOLD_APART: Final = ("permissions", "hooks", "disableAllHooks", "env", "mcpServers", LEVEL)
"""Keys that a survey tells of by themselves; of the others it tells what they change."""


class LayerFile(Struct, frozen=True, kw_only=True):
    """What was read of one file, from bytes that were read once."""

    place: SettingsFile
    text: JsonText | None
    """None for a file that is broken: then the rest is what its last good copy said."""
    permissions: Permissions = field(default_factory=Permissions)
    hooks: HooksSection = field(default_factory=dict)
    hooks_off: bool = False
    """Whether it wants no hooks at all."""
    servers_off: tuple[str, ...] = ()
    """Servers of `.mcp.json` that it wants not to be started."""
    keys: tuple[str, ...] = ()
    """Names of variables that hold keys."""
    warnings: tuple[str, ...] = ()
    slips: tuple[str, ...] = ()
    """Warnings about misspelled names of what restricts: they are told of a workspace that is not trusted too."""
    broken: str = ""
    """What is wrong with it."""

    @property
    def path(self) -> str:
        """Where it is."""
        return str(self.place.path)


def read_layer(place: SettingsFile) -> LayerFile:
    """Read a file that is there. Raise `UserError` when it is not certain what it denies."""
    text = JsonText.read(place.path)
    reader = SettingsReader(text, elsewhere=place.family == "claude")
    said, content = reader.everything(), reader.members(text.content, ())
    if LEVEL not in said and LEVEL in content:
        reader.warn(
            (LEVEL,),
            "is not read from a file of another program. Write permissions.defaultMode, or .backstay/settings.json",
        )
    permissions = read_permissions(reader, content, source=place.source, root=place.root)
    level = read_level(reader, said[LEVEL]) if LEVEL in said else None
    if permissions.mode is None:
        permissions = replace(permissions, mode=level)
    return LayerFile(
        place=place,
        text=text,
        permissions=permissions,
        hooks=reader.convert(said["hooks"], dict[str, object], ("hooks",)) if "hooks" in said else {},
        hooks_off=reader.value_or(said, "disableAllHooks", bool, False),
        servers_off=reader.value_or(said, "disabledMcpjsonServers", tuple[str, ...], ()),
        keys=named_keys(text.content, own=not place.of_project),
        warnings=tuple(reader.warnings),
        slips=tuple(slip_words(reader, content)),
    )


def environment_of(file: LayerFile) -> dict[str, str]:
    """The variables that a file sets for the programs that tools and hooks start. Raise `UserError` when they are none."""
    reader, said = _said(file)
    if reader is None or "env" not in said or (reader.elsewhere and not file.place.of_project):
        return {}
    found = reader.convert(said["env"], dict[str, str], ("env",))
    for name, value in found.items():
        if not name or "=" in name or "\0" in name + value:
            raise reader.text.wrong(("env", name), "This cannot be an environment variable.")
    return found


def servers_of(file: LayerFile) -> dict[str, object]:
    """The MCP servers that a file names, as they stand there; nothing when that cannot be read."""
    found = _plain(file, "mcpServers")
    return found if isinstance(found, dict) else {}


def enabling_of(file: LayerFile) -> tuple[bool | None, tuple[str, ...]]:
    """Whether a file wants all servers of `.mcp.json` started, None when it does not say, and those that it wants by name."""
    reader, said = _said(file)
    if reader is None:
        return None, ()
    return (
        reader.value_or(said, "enableAllProjectMcpServers", bool, None),
        reader.value_or(said, "enabledMcpjsonServers", tuple[str, ...], ()),
    )


def changes_of(file: LayerFile) -> dict[str, object]:
    """Whatever else a file would change about how a session is held, as it stands there."""
    _, said = _said(file)
    return {key: _plain(file, key) for key in said if key not in _TOLD_APART and _waits(key)}


def _waits(name: str) -> bool:
    """Whether what stands under a top-level key counts only once a workspace is trusted."""
    key = find_key((name,))
    if key is not None:
        return key.who not in ("any", "machine")
    return bool(names_below((name,)))


def _plain(file: LayerFile, key: str) -> object:
    reader, said = _said(file)
    return reader.convert(said[key], object, (key,)) if reader is not None and key in said else None


def _said(file: LayerFile) -> tuple[SettingsReader | None, Mapping[str, Raw]]:
    if file.text is None:
        return None, {}
    reader = SettingsReader(file.text, elsewhere=file.place.family == "claude")
    return reader, reader.everything()
