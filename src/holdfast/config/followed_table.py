"""What is known of the programs that hooks run: `followed.toml`, read."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct


class NotFollowed(ValueError):
    """A command whose files cannot be told, and why."""


class Unknown(NotFollowed):
    """A program that is in no list."""


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """How a program that reads scripts finds them: see `followed.toml`."""

    flags: str = ""
    code: str = ""
    modules: str = ""
    language: str = ""
    endings: tuple[str, ...] = ()


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """How a program is told what it runs: see `followed.toml`."""

    files: tuple[str, ...]
    flags: str = ""
    file: str = ""
    folder: str = ""
    words: str = ""
    brings: bool = False


class ProgramTable(Struct, frozen=True, forbid_unknown_fields=True):
    """What `followed.toml` says."""

    plain: frozenset[str]
    running: Mapping[str, tuple[str, ...]]
    writers: frozenset[str]
    subcommands: Mapping[str, tuple[str, ...]]
    wrappers: frozenset[str]
    variables: frozenset[str]
    families: tuple[str, ...]
    shell: frozenset[str]
    expansions: frozenset[str]
    modules: frozenset[str]
    imports: frozenset[str]
    scripts: Mapping[str, Script]
    manifests: Mapping[str, Manifest]
    projects: Mapping[str, tuple[str, ...]]
    """Followed for the person's own programs alone."""
    fetching: Mapping[str, tuple[str, ...]]

    def steers(self, variable: str) -> bool:
        """Whether a variable changes which programs or files run."""
        return variable in self.variables or variable.startswith(self.families)


@cache
def command_table() -> ProgramTable:
    """What is known of programs."""
    text = Path(__file__).with_name("followed.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), ProgramTable)
