"""A server as somebody wrote it down: how it is reached, who said so, and what of it may be shown."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from backstay.logic.secrets.redact import Redactor

Kind = Literal["stdio", "http", "sse"]
Scope = Literal["managed", "flag", "local", "project", "person", "plugin"]
START_S: Final = 30.0
"""How long a server may take until it can be used."""
HIDDEN: Final = "(hidden)"


@dataclass(frozen=True, kw_only=True)
class ServerSpec:
    """One server. Its `repr` and its `listing` hold no value of a variable or a header."""

    name: str
    kind: Kind
    argv: tuple[str, ...] = field(default=(), repr=False)
    """For `stdio`: the program and its arguments, with variables filled in."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For `stdio`: what the program's environment has besides the usual."""
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    written: tuple[str, ...] = field(default=(), repr=False)
    """The command or the address as it stands in the file, variables not filled in."""
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """Values that were filled in for variables."""
    scope: Scope = "person"
    place: str = ""
    """The file and line that it comes from."""
    start_s: float = START_S
    call_s: float | None = None
    """How long a call may take; None leaves that to the session."""

    @property
    def identity(self) -> str:
        """Its name, and a digest of how it is reached: what an approval of its tools is bound to."""
        said = "\0".join((self.kind, *(self.written or self.argv or (self.url,))))
        return f"{self.name}:{hashlib.sha256(said.encode('utf-8', 'replace')).hexdigest()[:32]}"

    @property
    def vouched(self) -> bool:
        """Whether the person wrote it down, or whoever runs the machine; a repository or a plugin did not."""
        return self.scope in ("managed", "flag", "person")

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must appear in no message: the values of its variables and headers, and what its address is asked with."""
        asked = parse_qsl(self.url.partition("?")[2])
        return (*self.env.values(), *self.headers.values(), *self.hidden, *(value for _, value in asked))

    def listing(self) -> dict[str, object]:
        """What may be shown of it, as JSON."""
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
    """An address without a user's name, a query or a fragment: tokens like to stand there."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(not an address)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
