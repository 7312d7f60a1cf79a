"""Names of servers' tools and prompts as all model providers accept them: `mcp__server__tool`.

Whose a tool is must be certain from its name alone, because rules are written about names: a server's part never has a double
underscore, and never begins or ends with one. Two things never share a name; whoever comes second has a tail made of its own.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable
from typing import Final

PREFIX: Final = "mcp__"
LONGEST: Final = 64
LONGEST_SERVER: Final = 36
_TAIL: Final = 8
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
_RUN: Final = re.compile(r"_{2,}")


def server_names(servers: Iterable[str], first: Collection[str] = ()) -> dict[str, str]:
    """The part of tools' names that stands for each server. Those that need no change keep their names before any other.

    `first` are those that the person wrote down: nobody else takes a name that is theirs, and with it what rules allow them.
    """
    return _apart(servers, _plain_server, LONGEST_SERVER, first)


def item_names(server: str, items: Iterable[str]) -> dict[str, str]:
    """The whole name of each tool or prompt of a server, by the server's own name for it; `server` is its part of the name."""
    head = f"{PREFIX}{server}__"
    parts = _apart(items, lambda item: _ODD.sub("_", item), LONGEST - len(head))
    return {item: head + part for item, part in parts.items()}


def _plain_server(name: str) -> str:
    return _RUN.sub("_", _ODD.sub("_", name)).strip("_") or "server"


def _apart(
    names: Iterable[str], plain: Callable[[str], str], longest: int, first: Collection[str] = ()
) -> dict[str, str]:
    """A plain form of each name, of at most `longest` characters, no two the same."""
    known = tuple(dict.fromkeys(names))
    given: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(known, key=lambda each: (each not in first, plain(each) != each)):
        part, turn = plain(name), 0
        while part in taken or len(part) > longest:
            part = _tailed(plain(name), f"{name}\0{turn}" if turn else name, longest)
            turn += 1
        given[name] = part
        taken.add(part)
    return {name: given[name] for name in known}


def _tailed(part: str, whole: str, longest: int) -> str:
    """`part`, cut where it must be, with a tail that only `whole` has."""
    tail = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_TAIL]
    kept = part[: longest - _TAIL - 1].rstrip("_")
    return f"{kept}_{tail}" if kept else tail
