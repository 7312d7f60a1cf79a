"""The names of servers' tools: made from the names of a server and its items, and meant by rules with the names as people write them."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

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
