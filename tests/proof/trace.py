"""Reads what `strace -f -y` wrote: which process executed, opened, changed or reached what."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

Kind = Literal["born", "exec", "read", "folder", "write", "remove", "connect", "other"]
Folders = dict[int, str]
"""The working folder of each process, as far as it was seen."""

_LINE: Final = re.compile(
    rb"(\d+) +(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+|\?)(?:<.*?>)?(?: ([A-Z0-9]+))?(?: \(.*\))?", re.DOTALL
)
_CUT: Final = re.compile(rb"(\d+) +(\w+)\((.*) <unfinished \.\.\.>", re.DOTALL)
_RESUMED: Final = re.compile(rb"(\d+) +<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_BORN: Final = re.compile(
    rb"(\d+) +(?:clone3?|v?fork)\(.*\) += (?:\d+ /\* (\d+) in strace's PID NS \*/|(\d+))$", re.DOTALL
)
_STRING: Final = rb'"((?:[^"\\]|\\.)*)"'
_HERE: Final = re.compile(rb"AT_FDCWD<((?:[^>\\]|\\.)*)>")
_AT: Final = re.compile(rb"(?:(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>(?:\(deleted\))?, )?" + _STRING)
_FD: Final = re.compile(rb"\d+<((?:[^>\\]|\\.)*)>")
_ARGUMENTS: Final = re.compile(rb'"(?:[^"\\]|\\.)*", \[(.*?)\](?:\.\.\.)?, 0x', re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}
_WRITES: Final = re.compile(rb"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_TMPFILE")
_NETLINK: Final = re.compile(rb"AF_NETLINK|nlmsg_|sa_family=AF_UNSPEC")
_EXECS: Final = ("execve", "execveat")
_OPENS: Final = ("open", "openat", "openat2")
_NETWORK: Final = ("connect", "sendto", "sendmsg", "sendmmsg", "bind", "listen")
_CHANGES: Final = re.compile(
    "creat|(?:un|sym)?link(?:at)?|rename(?:at2?)?|f?chmod(?:at)?|[fl]?chown|fchownat|mk(?:dir|nod)(?:at)?|rmdir|truncate|utimensat|[fl]?setxattr|removexattr"
)
_BY_DESCRIPTOR: Final = ("fchmod", "fchown", "fsetxattr")
_TWO: Final = ("rename", "renameat", "renameat2", "link", "linkat")
"""Both of their paths are changed or read; of others the first one or, for `symlink`, the last."""


class Event(msgspec.Struct, frozen=True):
    """One thing that a process did, or tried to change."""

    process: int
    kind: Kind
    path: str
    """The file, as it was named, with the folder that it is relative to; for `connect` the address, for `other` the call."""
    arguments: tuple[str, ...] = ()
    """Of a program that was executed."""
    parents: tuple[int, ...] = ()
    """The processes that it comes from, the nearest first."""


def read_events(content: bytes, number: int) -> list[Event]:
    """Give what happened between the marks of a job."""
    begin, end = b'"/proof-mark/begin-%d"' % number, b'"/proof-mark/end-%d"' % number
    inside, events, cut, folders, parents = False, list[Event](), dict[bytes, bytes](), Folders(), dict[int, int]()
    for line in content.split(b"\n"):
        if not inside:
            inside = begin in line
            continue
        if end in line:
            return [msgspec.structs.replace(event, parents=tuple(_line_of(event.process, parents))) for event in events]
        if found := _CUT.fullmatch(line):
            cut[found[1]] = b"%s %s(%s" % (found[1], found[2], found[3])
            continue
        if found := _RESUMED.fullmatch(line):
            line = cut.pop(found[1], b"") + found[3]  # noqa: PLW2901 - the two halves of one line
        if born := _BORN.match(line):
            parents[int(born[2] or born[3])] = int(born[1])
            events.append(Event(int(born[2] or born[3]), "born", ""))
        else:
            events += _events(line, folders)
    raise ValueError(f"the trace lacks the mark of job {number}")


def _line_of(process: int, parents: Mapping[int, int]) -> Iterator[int]:
    while process in parents:
        process = parents[process]
        yield process


def _events(line: bytes, folders: Folders) -> list[Event]:
    found = _LINE.fullmatch(line)
    if not found:
        return []
    process, name, arguments, result = int(found[1]), found[2].decode(), found[3], found[4]
    failed = result.startswith(b"-") or result == b"?"
    if here := _HERE.search(arguments):
        folders[process] = _plain(here[1])
    if name in ("clone", "clone3", "fork", "vfork"):
        return []
    if name in ("chdir", "fchdir"):
        return _moved(process, name, arguments, folders) if not failed else []
    if name in _EXECS:
        listed = _ARGUMENTS.search(arguments)
        words = tuple(_plain(each) for each in re.findall(_STRING, listed[1])) if listed else ()
        path = posixpath.join(folders.get(process, ""), _paths(arguments)[0])
        return [] if failed else [Event(process, "exec", path, words)]
    if name in _OPENS:
        return _opened(process, arguments, failed) if found[5] != b"EISDIR" else []
    if name in _NETWORK:
        return [Event(process, "connect", _address(name, arguments))] if not _NETLINK.search(arguments) else []
    if name.startswith("mkdir") and found[5] == b"EEXIST":
        return []  # `mkdir -p` tries each folder on the way
    if _CHANGES.fullmatch(name):
        paths = [_plain(each) for each in _FD.findall(arguments)[:1]] if name in _BY_DESCRIPTOR else _paths(arguments)
        paths = paths if name in _TWO else paths[-1:] if name.startswith("symlink") else paths[:1]
        if not paths:  # `utimensat(3</path>, NULL, ...)`
            paths = [_plain(each) for each in _FD.findall(arguments)[:1]]
        kind: Kind = "remove" if name.startswith(("unlink", "rmdir")) else "write"
        return [Event(process, kind, posixpath.join(folders.get(process, ""), path)) for path in paths]
    return [Event(process, "other", f"{name}({arguments.decode(errors='replace')[:200]})")]


def _opened(process: int, arguments: bytes, failed: bool) -> list[Event]:
    path = _paths(arguments)[0]
    flags = arguments[arguments.rfind(b'"') :]
    if _WRITES.search(flags):
        return [Event(process, "write", path)]
    if failed or b"O_PATH" in flags:
        return []
    return [Event(process, "folder" if b"O_DIRECTORY" in flags else "read", path)]


def _moved(process: int, name: str, arguments: bytes, folders: Folders) -> list[Event]:
    target = _paths(arguments)[0] if name == "chdir" else _plain(_FD.findall(arguments)[0])
    folders[process] = posixpath.normpath(posixpath.join(folders.get(process, ""), target))
    return []


def _address(name: str, arguments: bytes) -> str:
    return f"{name}({arguments.decode(errors='replace')[:200]})"


def _paths(arguments: bytes) -> list[str]:
    """Give the paths of a call; one that is relative to a folder begins with that folder."""
    found = list[str]()
    for folder, path in _AT.findall(arguments):
        plain = _plain(path)
        found.append(plain if plain.startswith("/") or not folder else f"{_plain(folder)}/{plain}".removesuffix("/"))
    return found


def _plain(text: bytes) -> str:
    """Take the escapes out of a string."""

    def one(found: re.Match[bytes]) -> bytes:
        escape = found[1]
        return bytes((int(escape, 8) & 255,)) if escape.isdigit() else _LETTERS.get(escape, escape)

    return _ESCAPE.sub(one, text).decode(errors="surrogateescape")
