"""One settings file, read for safety: what it permits, which hooks it has, and what it would change or run."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from backstay.config.json_document import JsonReader, JsonText
from backstay.config.key_lookup import find_key, is_shared, keys_below
from backstay.config.locations import SettingsFile
from backstay.config.permissions_section import LEVEL, Permissions, describe_misspelled, read_level, read_permissions
from backstay.config.secret import find_named_keys

HooksSection = Mapping[str, object]
"""The `hooks` of a file, as they stand there."""
_APART: Final = ("permissions", "hooks", "disableAllHooks", "env", "mcpServers", LEVEL)
"""Keys that a survey lists by themselves; of the others it lists what they change."""


class LayerFile(Struct, frozen=True, kw_only=True):
    """The contents of one settings file, from bytes that were read once."""

    place: SettingsFile
    text: JsonText | None
    """None for a file that is broken: then the rest is what its last good copy said."""
    content: Mapping[str, object] = field(default_factory=dict)
    """The object that stands in it."""
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
    """Warnings about misspelled names of what restricts: they are shown for a workspace that is not trusted too."""
    broken: str = ""
    """What is wrong with it."""

    @property
    def path(self) -> str:
        """Where it is."""
        return str(self.place.path)

    @property
    def servers(self) -> Mapping[str, object]:
        """The MCP servers that it names; none when that is no object."""
        found = self.content.get("mcpServers")
        return found if isinstance(found, dict) else {}

    @property
    def environment(self) -> Mapping[str, object] | None:
        """The variables that it sets for the programs that tools and hooks start; None when that is no object."""
        found = self.content.get("env", {})
        return found if isinstance(found, dict) else None

    @property
    def changes(self) -> dict[str, object]:
        """Everything else that waits until its workspace is trusted."""
        shared = [key for key in self.content if self.place.family != "claude" or is_shared(key)]
        return {key: self.content[key] for key in shared if key not in _APART and _waits(key)}


def read_layer(place: SettingsFile) -> LayerFile:
    """Read a file that is there. Raise `UserError` when it is not certain what it denies."""
    text = JsonText.read(place.path)
    reader, content = JsonReader(text, foreign=place.family == "claude"), text.parse()
    permissions = read_permissions(reader, content, source=place.source, root=place.root)
    if LEVEL in content and reader.foreign:
        reader.warn(
            (LEVEL,),
            "is not read from a file of another program. Write permissions.defaultMode, or .backstay/settings.json",
        )
    elif LEVEL in content:
        level = read_level(reader, content[LEVEL])
        permissions = replace(permissions, mode=level if permissions.mode is None else permissions.mode)
    return LayerFile(
        place=place,
        text=text,
        content=content,
        permissions=permissions,
        hooks=reader.check(content.get("hooks", {}), dict[str, object], ("hooks",)),
        hooks_off=reader.check(content.get("disableAllHooks", False), bool, ("disableAllHooks",)),
        servers_off=reader.check(
            content.get("disabledMcpjsonServers", ()), tuple[str, ...], ("disabledMcpjsonServers",)
        ),
        keys=find_named_keys(content, own=not place.of_project),
        warnings=tuple(reader.warnings),
        slips=tuple(describe_misspelled(reader, content)),
    )


def _waits(name: str) -> bool:
    """Return whether what stands under a top-level key counts only once a workspace is trusted."""
    key = find_key((name,))
    return key.settable_by not in ("any", "machine") if key is not None else bool(keys_below((name,)))
