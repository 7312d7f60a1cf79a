"""The MCP servers that settings files name, and which of a project's own servers they want."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from holdfast.config.layer_file import LayerFile, enabling_of, servers_of
from holdfast.vocab.rules import RuleSource


class ServerLayer(Struct, frozen=True, kw_only=True):
    """One server under `mcpServers` that counts: the highest file's entry of that name, whole."""

    name: str
    content: Mapping[str, object]
    """As it stands in the file."""
    source: RuleSource
    file: str
    line: int


class ProjectServers(Struct, frozen=True, kw_only=True):
    """Which servers of the project's `.mcp.json` are wanted."""

    every: bool = False
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    """Whoever says so, also a project that is not trusted."""

    def wants(self, name: str) -> bool:
        """Whether a server is wanted; what is disabled is not."""
        return name not in self.disabled and (self.every or name in self.enabled)


def named_servers(counted: Sequence[LayerFile], notes: list[str]) -> tuple[ServerLayer, ...]:
    """The servers of the files that count."""
    found: dict[str, ServerLayer] = {}
    for file in counted:
        for name, content in servers_of(file).items():
            assert file.text is not None, "a file that is broken names no servers"
            line = file.text.line(("mcpServers", name))
            if not isinstance(content, dict):
                notes.append(f"{file.path}:{line}: {f'mcpServers.{name}'!r} is no object; it is left out.")
                continue
            found.setdefault(
                name, ServerLayer(name=name, content=content, source=file.place.source, file=file.path, line=line)
            )
    return tuple(found.values())


def project_servers(files: Sequence[LayerFile], counted: Sequence[LayerFile]) -> ProjectServers:
    """Which servers of the project are wanted, by all files together. Raise `UserError` for a wrong value in one that counts."""
    said = [enabling_of(file) for file in counted]
    return ProjectServers(
        every=next((every for every, _ in said if every is not None), False),
        enabled=tuple(dict.fromkeys(name for _, names in said for name in names)),
        disabled=tuple(dict.fromkeys(name for file in files for name in file.servers_off)),
    )
