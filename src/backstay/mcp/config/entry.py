"""Read one entry of `mcpServers`: fill its variables in and check it. Every error names file and line."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, field

from backstay.mcp.spec import START_S, Kind, Scope, ServerSpec
from backstay.vocab.errors import UserError

SECTION: Final = "mcpServers"
LONGEST_NAME: Final = 64
LONGEST_WAIT_MS: Final = 24 * 60 * 60 * 1000
_KINDS: Final[Mapping[str, Kind]] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KNOWN_TO_ALL: Final = ("HOME", "PWD", "USER", "PATH", "SHELL", "LANG", "CLAUDE_PLUGIN_ROOT", "BACKSTAY_PLUGIN_ROOT")
"""Variables whose values are no secrets."""
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class ServerSource(Struct, frozen=True, kw_only=True):
    """One file or other source that names servers."""

    scope: Scope
    servers: Mapping[str, object]
    place: Callable[[tuple[str, ...]], str]
    """Returns the place of keys below the servers."""
    variables: Mapping[str, str]
    withheld: frozenset[str] = frozenset()
    """Variables that hold keys and are withheld from files of a workspace and plugins."""
    mcpjson: bool = False
    plugin: str = ""

    def wrong(self, keys: tuple[str, ...], words: str) -> UserError:
        """Make the error of what stands under `keys`."""
        return UserError(f"{self.place(keys)}: {make_printable('.'.join((SECTION, *keys)))}: {words}")


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an entry."""

    type: str | None = None
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    timeout: Annotated[int, Meta(ge=1, le=LONGEST_WAIT_MS)] | None = None
    """Milliseconds that a call may take; a start takes no longer either."""
    disabled: bool = False


def read_entry(source: ServerSource, name: str, raw: object) -> tuple[ServerSpec, bool]:
    """Return the server of an entry, and whether the entry disables it. Raise `UserError` when it cannot be used."""
    where = source.place((name,))
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UserError(
            f"{where}: {make_printable(name)!r} cannot name a server. Use up to {LONGEST_NAME} plain characters."
        )
    entry = _convert(raw, name, source)
    kind = _kind(entry, name, where)
    fill = _Substitution(source, name)
    wait = None if entry.timeout is None else entry.timeout / 1000
    start = _seconds(source, "MCP_TIMEOUT") or START_S
    spec = ServerSpec(
        name=f"plugin:{source.plugin}:{name}" if source.plugin else name,
        kind=kind,
        argv=fill.argv(entry) if kind == "stdio" else (),
        env=fill.env(entry) if kind == "stdio" else {},
        url="" if kind == "stdio" else _address(fill.text(entry.url, "url"), name, source),
        headers={} if kind == "stdio" else {key: fill.header(key, value) for key, value in entry.headers.items()},
        written=(entry.command, *entry.args) if kind == "stdio" else (entry.url,),
        scope=source.scope,
        place=where,
        start_s=start if wait is None else min(start, wait),
        call_s=wait or _seconds(source, "MCP_TOOL_TIMEOUT"),
    )
    return replace(spec, hidden=tuple(sorted(fill.used))), entry.disabled


def odd_keys(raw: object) -> dict[str, str]:
    """Return the keys of an entry that do nothing, with a note for each."""
    found: dict[str, str] = {}
    for key in raw if isinstance(raw, Mapping) else ():
        if key == "headersHelper":
            found[key] = "is not run; write the headers into 'headers', with ${VARIABLE} for a secret"
        elif key not in ServerEntry.__struct_fields__:
            found[key] = "is not a key of servers that this version knows; it is left out"
    return found


def make_printable(name: str) -> str:
    """Return a name fit for a terminal."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name[: 2 * LONGEST_NAME])


_WITHHELD: Final = (
    "The environment variable {name!r} holds a key, which is withheld from files of a workspace and from plugins on purpose. "
    "To give it to this server, name the server under mcpServers of your own settings, or in a file that you pass with --mcp-config."
)


class _Substitution(Struct, frozen=True):
    """Substitutes variables."""

    source: ServerSource
    server: str
    used: set[str] = field(default_factory=set)
    """Secret values that were filled in."""

    def text(self, text: str, *keys: str) -> str:
        """Fill the variables of `text` in. Raise `UserError` when one is not set and has no default."""

        def value(found: "re.Match[str]") -> str:
            name, other = found[1], found[2]
            if (known := self.source.variables.get(name)) is not None and (known or other is None):
                self.used.update(() if name in _KNOWN_TO_ALL else (known,))
                return known
            if other is not None:
                return other
            why = f"The environment variable {name!r} is not set. Set it, or write ${{{name}:-VALUE}}."
            raise self._wrong(keys, _WITHHELD.format(name=name) if name in self.source.withheld else why)

        filled = _VARIABLE.sub(value, text)
        if "\0" in filled:
            raise self._wrong(keys, "It has a NUL character in it.")
        return filled

    def argv(self, entry: ServerEntry) -> tuple[str, ...]:
        """Return the program and its arguments."""
        return (self.text(entry.command, "command"), *(self.text(each, "args") for each in entry.args))

    def header(self, key: str, text: str) -> str:
        """Return a header's value. Raise `UserError` when no header can have it."""
        filled = self.text(text, "headers", key).strip()
        if not _HEADER.fullmatch(key) or not filled.isascii() or not filled.isprintable():
            raise self._wrong(("headers", key), "This cannot be a header.")
        return filled

    def env(self, entry: ServerEntry) -> dict[str, str]:
        """Return the variables of a program. Raise `UserError` for an impossible name."""
        odd = next((key for key in entry.env if not key or "=" in key or "\0" in key), None)
        if odd is not None:
            raise self._wrong(("env", odd), "This cannot be an environment variable.")
        return {key: self.text(value, "env", key) for key, value in entry.env.items()}

    def _wrong(self, keys: tuple[str, ...], words: str) -> UserError:
        return self.source.wrong((self.server, *keys), words)


def _convert(raw: object, name: str, source: ServerSource) -> ServerEntry:
    try:
        return msgspec.convert(raw, ServerEntry)
    except msgspec.ValidationError as exc:
        words, _, inner = str(exc).partition(" - at `$")
        keys = tuple(key for key in inner.strip("`").replace("[", ".").replace("]", "").split(".") if key)
        raise source.wrong((name, *keys), f"{words}.") from None


def _kind(entry: ServerEntry, name: str, where: str) -> Kind:
    raw = entry.type or ("stdio" if entry.command else "http" if entry.url else "")
    named = f"{where}: The MCP server {name!r}"
    if raw == "ws":
        raise UserError(f"{named} speaks over a WebSocket, which is not supported. Use its 'http' address.")
    if raw not in _KINDS:
        hint = f"has the type {raw!r}" if raw else "has neither 'command' nor 'url'"
        raise UserError(f"{named} {hint}. The types are stdio, with 'command', and http or sse, with 'url'.")
    kind = _KINDS[raw]
    if not (entry.command.strip() if kind == "stdio" else entry.url.strip()):
        raise UserError(f"{named} is of the type {raw!r} and has no {'command' if kind == 'stdio' else 'url'!r}.")
    return kind


def _address(url: str, name: str, source: ServerSource) -> str:
    try:
        parts = urlsplit(url.strip())
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.username
    except ValueError:
        fine = False
    if not fine:
        words = "It is not an address. It begins with https:// and has no user's name in it."
        raise source.wrong((name, "url"), words)
    return url.strip()


def _seconds(source: ServerSource, variable: str) -> float | None:
    raw = source.variables.get(variable, "")
    fine = raw.isdecimal() and len(raw) < 10 and 0 < int(raw) <= LONGEST_WAIT_MS
    return int(raw) / 1000 if fine else None
