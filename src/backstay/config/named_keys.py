"""The variables with keys that a settings file names, by their names alone."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from backstay.config.secret import variable_of
from backstay.logic.redact_names import is_secret_key

SERVERS: Final = "mcpServers"
HOOKS: Final = "hooks"
_FILLED: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?=[:}])")
"""A variable that is filled into an entry of a server."""


def named_keys(content: bytes, *, own: bool, idle: bool = False) -> tuple[str, ...]:
    """The variables that a file names as keys: each `$ENV:NAME`, and in a file of the person's `own` what its MCP servers are given.

    Of a file that counts for nothing (`idle`) also what headers of its hooks name: those do not run.
    What a file says counts whatever it means: a setting that this version does not know may name a key too.
    """
    try:
        said = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()  # whoever reads it for use says what is wrong
    found = set(variables(said))
    found |= set(sent_by_hooks(said.get(HOOKS))) if idle and isinstance(said, Mapping) else set()
    servers = said.get(SERVERS) if own and isinstance(said, Mapping) else None
    for entry in servers.values() if isinstance(servers, Mapping) else ():
        found |= set(_filled(entry))
    return tuple(sorted(found))


def variables(value: object) -> Iterator[str]:
    """The variables that `$ENV:NAME` names, at any depth."""
    for _, text in _texts(value, ""):
        if name := variable_of(text):
            yield name


def sent_by_hooks(section: object) -> Iterator[str]:
    """The variables that headers of hooks are made of, however the section is nested."""
    if isinstance(section, Mapping):
        names = section.get("allowedEnvVars")
        yield from (name for name in (names if isinstance(names, list) else ()) if isinstance(name, str))
    if isinstance(section, Mapping | list):
        for inner in section.values() if isinstance(section, Mapping) else section:
            yield from sent_by_hooks(inner)


def _filled(entry: object) -> Iterator[str]:
    """The variables that make a header, and elsewhere those whose name, or that of the variable they fill, says that they are secret."""
    if not isinstance(entry, Mapping):
        return
    for section, value in entry.items():
        for key, text in _texts(value, str(section)):
            for name in _FILLED.findall(text):
                if section == "headers" or is_secret_key(name) or is_secret_key(key):
                    yield name


def _texts(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Every text in a value, and the key that it stands under."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, key)
