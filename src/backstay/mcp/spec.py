"""One configured server: how it is reached, where it is configured, and what of it may be shown."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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


PREFIX: Final = "mcp__"
LONGEST: Final = 64
LONGEST_SERVER: Final = 36
_TAIL: Final = 8
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
_ODD_BUT_WILD: Final = re.compile(r"[^A-Za-z0-9_*?\[\]-]")
_RUN: Final = re.compile(r"_{2,}")


def server_names(servers: Iterable[str], first: Collection[str] = ()) -> dict[str, str]:
    """Return the part of tool names that stands for each server. Names that need no change go before all others.

    `first` are those that the person configured: no other server takes their names, and with a name what rules allow it.
    """
    return _make_distinct(servers, _plain_server, LONGEST_SERVER, first)


def item_names(server: str, items: Iterable[str]) -> dict[str, str]:
    """Return the full name of each tool or prompt of a server, by the server's own name; `server` is its part of the name."""
    head = f"{PREFIX}{server}__"
    parts = _make_distinct(items, lambda item: _ODD.sub("_", item), LONGEST - len(head))
    return {item: head + part for item, part in parts.items()}


def patterns_of(written: str) -> Iterator[str]:
    """Yield patterns of the tool names that `mcp__SERVER` or `mcp__SERVER__ITEM` may stand for, with names as people write them."""
    flat = _ODD_BUT_WILD.sub("_", written.removeprefix(PREFIX))
    for server, mark, item in ((flat, "", ""), flat.partition("__"), flat.rpartition("__")):
        plain = _RUN.sub("_", server).strip("_")
        for part in (plain, *((_cut(plain, LONGEST_SERVER),) if len(plain) > LONGEST_SERVER else ())):
            whole = f"{PREFIX}{part}__{item if mark else '*'}"
            yield whole
            if mark and len(whole) > LONGEST:
                yield _cut(whole, LONGEST)


def _cut(name: str, longest: int) -> str:
    """Return a pattern of what a name is cut to: its beginning, and a tail in place of what is gone."""
    return f"{name[: longest - _TAIL - 1].rstrip('_')}_{'?' * _TAIL}"


def _plain_server(name: str) -> str:
    return _RUN.sub("_", _ODD.sub("_", name)).strip("_") or "server"


def _make_distinct(
    names: Iterable[str], plain: Callable[[str], str], longest: int, first: Collection[str] = ()
) -> dict[str, str]:
    """Return a plain form of each name, of at most `longest` characters, no two the same."""
    known = tuple(dict.fromkeys(names))
    given: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(known, key=lambda each: (each not in first, plain(each) != each)):
        part, turn = plain(name), 0
        while part in taken or len(part) > longest:
            part = _add_tail(plain(name), f"{name}\0{turn}" if turn else name, longest)
            turn += 1
        given[name] = part
        taken.add(part)
    return {name: given[name] for name in known}


def _add_tail(part: str, whole: str, longest: int) -> str:
    """Cut `part` where necessary and add a tail that only `whole` has."""
    tail = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_TAIL]
    kept = part[: longest - _TAIL - 1].rstrip("_")
    return f"{kept}_{tail}" if kept else tail
