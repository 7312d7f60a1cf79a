"""One configured server: how it is reached, where it is configured, and what of it may be shown."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from backstay.logic.secrets.redact import Redactor

Kind = Literal["stdio", "http", "sse"]
Scope = Literal["managed", "flag", "local", "project", "person", "plugin"]
START_S: Final = 30.0
"""Seconds that a server may take to become ready."""
HIDDEN: Final = "(hidden)"


@dataclass(frozen=True, kw_only=True)
class ServerSpec:
    """One server. Its `repr` and its `listing` hold no value of a variable or a header."""

    name: str
    kind: Kind
    argv: tuple[str, ...] = field(default=(), repr=False)
    """For `stdio`: the program and its arguments, with variables filled in."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For `stdio`: variables of the program besides the usual."""
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    written: tuple[str, ...] = field(default=(), repr=False)
    """The command or the address as configured, variables not filled in."""
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """Values that were filled in for variables."""
    scope: Scope = "person"
    place: str = ""
    """The file and line of its entry."""
    start_s: float = START_S
    call_s: float | None = None
    """Seconds that a call may take; None leaves that to the session."""

    @property
    def identity(self) -> str:
        """Its name and a digest of how it is reached: approvals of its tools are bound to it."""
        reached = "\0".join((self.kind, *(self.written or self.argv or (self.url,))))
        return f"{self.name}:{hashlib.sha256(reached.encode('utf-8', 'replace')).hexdigest()[:32]}"

    @property
    def vouched(self) -> bool:
        """Whether the person or managed settings configured it, not a repository or a plugin."""
        return self.scope in ("managed", "flag", "person")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that no message may contain: those of its variables, headers and query."""
        asked = parse_qsl(self.url.partition("?")[2])
        return (*self.env.values(), *self.headers.values(), *self.hidden, *(value for _, value in asked))

    def listing(self) -> dict[str, object]:
        """Return its entry as JSON, without secrets."""
        redact = Redactor(exact=self.secrets)
        shown: dict[str, object] = {"name": self.name, "type": self.kind, "scope": self.scope, "source": self.place}
        if self.kind == "stdio":
            command, *args = (redact.text(word) for word in self.written or self.argv)
            shown |= {"command": command, "args": args, "env": dict.fromkeys(self.env, HIDDEN)}
        else:
            address = self.written[0] if self.written else self.url
            shown |= {"url": redact.text(bare_address(address)), "headers": dict.fromkeys(self.headers, HIDDEN)}
        return shown


def bare_address(url: str) -> str:
    """Return an address without user, query and fragment: tokens often stand there."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(not an address)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
