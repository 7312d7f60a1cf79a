"""Which of a project's own MCP servers the settings files want."""

from collections.abc import Sequence

from msgspec import Struct

from backstay.config.layer_file import LayerFile, enabling_of


class ProjectServers(Struct, frozen=True, kw_only=True):
    """Which servers of the project's `.mcp.json` are wanted."""

    every: bool = False
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    """Whoever says so, also a project that is not trusted."""

    def wants(self, name: str) -> bool:
        """Whether a server is wanted; what is disabled is not."""
        return name not in self.disabled and (self.every or name in self.enabled)


def project_servers(files: Sequence[LayerFile], counted: Sequence[LayerFile]) -> ProjectServers:
    """Which servers of the project are wanted, by all files together. Raise `UserError` for a wrong value in one that counts."""
    said = [enabling_of(file) for file in counted]
    return ProjectServers(
        every=next((every for every, _ in said if every is not None), False),
        enabled=tuple(dict.fromkeys(name for _, names in said for name in names)),
        disabled=tuple(dict.fromkeys(name for file in files for name in file.servers_off)),
    )
