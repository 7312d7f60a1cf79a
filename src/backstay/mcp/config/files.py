"""Find the MCP servers of a session: those of settings, `.mcp.json`, `--mcp-config` and plugins, by scope and by trust.

Of two servers with one name the whole entry of the higher scope counts: managed, flag, local, project, person, plugin. What comes with a
workspace is held back until the workspace is trusted, and takes no name away from anybody before that. What is wrong with one entry never
hides another.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from backstay.config.json_document import JsonText
from backstay.config.layer_file import LayerFile
from backstay.config.layers import Layered
from backstay.config.trust.inventory import SERVERS
from backstay.mcp.config.entry import SECTION, ServerSource, make_printable, odd_keys, read_entry
from backstay.mcp.spec import Scope, ServerSpec
from backstay.system.files import is_missing
from backstay.vocab.env_keys import Keys
from backstay.vocab.errors import UserError

MOST_SERVERS: Final = 100
_ROOTS: Final = ("CLAUDE_PLUGIN_ROOT", "BACKSTAY_PLUGIN_ROOT")
_ORDER: Final[tuple[Scope, ...]] = ("managed", "flag", "local", "project", "person", "plugin")
_OF_WORKSPACE: Final[tuple[Scope, ...]] = ("local", "project")


class PluginServers(Struct, frozen=True, kw_only=True):
    """The servers of an enabled plugin, as in its files."""

    plugin: str
    folder: Path
    servers: Mapping[str, object]


class ServerInputs(Struct, frozen=True, kw_only=True):
    """The places that servers are read from."""

    layered: Layered
    """The settings of the run, with the trust in the workspace."""
    given: Sequence[str | Path] = ()
    """What `--mcp-config` names: files, or the JSON text itself."""
    only_given: bool = False
    """Whether only `given` counts: `--strict-mcp-config`."""
    plugins: Sequence[PluginServers] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    keys: Keys = field(default_factory=Keys)
    """Keys that are filled into no file of a workspace or a plugin."""


class HeldBack(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is not used although its entry is valid."""

    name: str
    why: str
    place: str

    def __str__(self) -> str:
        return f"{self.place}: The MCP server {self.name!r} is held back: {self.why}."


class ServersFound(Struct, frozen=True, kw_only=True):
    """The servers that were found."""

    specs: tuple[ServerSpec, ...] = ()
    problems: tuple[str, ...] = ()
    """Entries that cannot be used, each with its file and line."""
    warnings: tuple[str, ...] = ()
    """Oddities of entries that are used, likewise."""
    held_back: tuple[HeldBack, ...] = ()

    def listing(self) -> list[dict[str, object]]:
        """Return all servers without secrets, for people and for `--json`."""
        used: list[dict[str, object]] = [{**spec.listing(), "status": "used"} for spec in self.specs]
        held: list[dict[str, object]] = [
            {"name": each.name, "source": each.place, "status": "held back", "why": each.why} for each in self.held_back
        ]
        return [*used, *held]


def read_given(given: str | Path) -> JsonText:
    """Return the JSON that `--mcp-config` names, or is. Raise `UserError` when it is none."""
    inline = isinstance(given, str) and given.lstrip().startswith("{")
    return _inline(str(given)) if inline else JsonText.read(Path(given).expanduser())


def read_servers(place: ServerInputs) -> ServersFound:
    """Read every file that names servers. Errors in a file become problems."""
    return _Reader(place).all()


class _Reader:
    """Reads all files once."""

    def __init__(self, place: ServerInputs) -> None:
        self._place = place
        self._problems: list[str] = []
        self._warnings: list[str] = []
        self._held: list[HeldBack] = []
        self._trust = place.layered.trust
        self._without_keys = place.keys.without(place.environment)

    def all(self) -> ServersFound:
        found: dict[str, ServerSpec] = {}
        for source in sorted(self._sources(), key=lambda each: _ORDER.index(each.scope)):
            for spec in self._specs(source):
                above = found.setdefault(spec.name, spec)
                if above is not spec and above.scope in _OF_WORKSPACE and spec.vouched:
                    words = f"takes the place of your own at {spec.place}; rules about its name now mean this one"
                    self._warnings.append(f"{above.place}: The MCP server {spec.name!r} {words}.")
        specs = tuple(found.values())
        if len(specs) > MOST_SERVERS:
            self._problems.append(f"There are {len(specs)} MCP servers, and {MOST_SERVERS} are used.")
        return ServersFound(
            specs=specs[:MOST_SERVERS],
            problems=tuple(dict.fromkeys(self._problems)),
            warnings=tuple(dict.fromkeys(self._warnings)),
            held_back=tuple(self._held),
        )

    # --- sources ---------------------------------------------------------------------------------------------------------------------

    def _sources(self) -> Iterator[ServerSource]:
        yield from (source for given in self._place.given for source in self._read_given_source(given))
        for file in self._place.layered.files:
            if not self._place.only_given or file.place.source == "managed":
                yield from self._of_settings(file)
        if self._place.only_given:
            return
        yield from self._of_project()
        for each in self._place.plugins:
            own = {**self._without_keys, **dict.fromkeys(_ROOTS, str(each.folder))}
            where = _constant_place(str(each.folder))
            kept = self._withheld(own)
            yield ServerSource(
                scope="plugin", servers=each.servers, place=where, variables=own, withheld=kept, plugin=each.plugin
            )

    def _read_given_source(self, given: str | Path) -> Iterator[ServerSource]:
        try:
            yield self._source(read_given(given), "flag", self._place.environment)
        except UserError as exc:
            self._problems.append(str(exc))

    def _of_settings(self, file: LayerFile) -> Iterator[ServerSource]:
        scope: Scope = msgspec.convert(file.place.source, Scope)
        if file.text is None or SECTION not in file.content:
            return
        variables = self._without_keys if scope in _OF_WORKSPACE else self._place.environment
        try:
            yield self._source(file.text, scope, variables)
        except UserError as exc:
            self._problems.append(str(exc))

    def _of_project(self) -> Iterator[ServerSource]:
        """Read the project's `.mcp.json`: the very bytes that trust was given to, or none."""
        path = Path(self._trust.root) / SERVERS
        judged = self._trust.survey.seen.get(f"servers:{SERVERS}")
        if judged is None or is_missing(path):
            return
        try:
            text = JsonText.read(path)
            source = self._source(text, "project", self._without_keys, mcpjson=True)
        except UserError as exc:
            self._problems.append(str(exc))
            return
        if text.digest != judged:
            self._problems.append(f"{path}:1: The file was changed while it was read; none of it is used. Start again.")
            return
        yield source

    def _source(
        self, text: JsonText, scope: Scope, variables: Mapping[str, str], *, mcpjson: bool = False
    ) -> ServerSource:
        members = text.parse()
        above = (SECTION,) if SECTION in members else ()
        servers = members.get(SECTION, members if mcpjson or scope == "flag" else {})
        if not isinstance(servers, Mapping):
            raise text.wrong((SECTION,), 'Servers are an object by name: {"docs": {"command": "docs-server"}}.')
        if mcpjson and above:
            self._warnings += (
                f"{text.place((key,))}: {key!r} is not a key that this version knows; it is left out."
                for key in members
                if key not in (SECTION, "$schema")
            )
        return ServerSource(
            scope=scope,
            servers=servers,
            place=lambda keys: text.place((*above, *keys)),
            variables=variables,
            withheld=self._withheld(variables),
            mcpjson=mcpjson,
        )

    def _withheld(self, variables: Mapping[str, str]) -> frozenset[str]:
        return frozenset(self._place.environment) - frozenset(variables)

    # --- entries ---------------------------------------------------------------------------------------------------------------------

    def _specs(self, source: ServerSource) -> Iterator[ServerSpec]:
        if len(source.servers) > MOST_SERVERS:
            words = f"names {len(source.servers)} MCP servers, and {MOST_SERVERS} are read"
            self._problems.append(f"{source.place(())}: This {words}.")
        for name, entry in islice(source.servers.items(), MOST_SERVERS):
            try:
                spec, disabled = read_entry(source, name, entry)
                self._warn_of_others(source, name, entry)
            except UserError as exc:
                if source.scope not in _OF_WORKSPACE or self._trust.trusted:
                    self._problems.append(str(exc))
                else:
                    self._hold(source, name, "the workspace is not trusted")
                continue
            why = self._why_not(source, name) or ("its entry disables it" if disabled else "")
            if why:
                self._hold(source, name, why)
            else:
                yield spec

    def _hold(self, source: ServerSource, name: str, why: str) -> None:
        self._held.append(HeldBack(name=make_printable(name), why=why, place=source.place((name,))))

    def _why_not(self, source: ServerSource, name: str) -> str:
        if source.scope in _OF_WORKSPACE and not self._trust.trusted:
            return "the workspace is not trusted. See: backstay trust. For this run alone: --trust"
        if not source.mcpjson:
            return ""
        wanted = self._place.layered.project_servers
        if name in wanted.disabled:
            return "disabledMcpjsonServers names it"
        chosen = bool(wanted.enabled) and not wanted.every
        if wanted.wants(name) or not chosen or not self._trust.since:  # who trusted the workspace was shown its servers
            return ""
        return "enabledMcpjsonServers names others. Name it there, too. For this run alone: --trust"

    def _warn_of_others(self, source: ServerSource, name: str, members: object) -> None:
        if source.scope in _OF_WORKSPACE and not self._trust.trusted:
            return
        for key, words in odd_keys(members).items():
            self._warnings.append(
                f"{source.place((name, key))}: {make_printable(f'{SECTION}.{name}.{key}')!r} {words}."
            )


def _inline(given: str) -> JsonText:
    """Read JSON given on the command line."""
    text = JsonText(Path("--mcp-config"), given.encode("utf-8", "replace"))
    try:
        msgspec.json.decode(text.content, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as exc:
        raise UserError(f"--mcp-config: This is not JSON: {exc}.") from None
    return text


def _constant_place(place: str) -> Callable[[tuple[str, ...]], str]:
    return lambda _: place
