"""Read the files of a git repository as git does, without asking it: its configuration, and its index of tracked files."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

LARGEST: Final = 128 * 1024 * 1024
"""Bytes of an index that is read."""
_TIMES: Final = 40
"""Bytes of an entry before its hash."""
_WHOLE: Final = (b"link", b"sdir")
"""Extensions of an index that does not name every file by itself: a part of one, or one with whole folders."""
_MODE: Final = 24
"""The offset of the mode in an entry."""
_GITLINK: Final = b"\x00\x00\xe0\x00"
"""The mode of a submodule, 160000."""
_NO_FILE: Final = re.compile(rb"(?:^|/)(?:\.{0,2}|(?i:\.git))(?:/|$)")
"""A name that git never adds, and reads where an index has it: from the root, through a folder above, or in a git folder."""
_FOLDER: Final = b"\x00\x00\x40\x00"
"""The mode of a whole folder, 040000."""
_HEADER: Final = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:\\[^\n]|[^"\\\n])*)")?[ \t]*\]')
_NAME: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|[#;][^\n]*)*")
_PIECE: Final = re.compile(r'\\(\r?\n|[^\n])|"|\r?\n|([#;])|[^"\\\r\n#;]+|\r')
_ESCAPES: Final = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"'}


class Unclear(ValueError):
    """A configuration that cannot be read with certainty."""


def git_keys(content: str) -> Iterator[tuple[str, str]]:
    """Yield every key of a git configuration with its value: `section.name` or `section.sub.name`. Raise `Unclear`."""
    if "\0" in content:
        raise Unclear("it holds a null byte")
    content, section = content.removeprefix("\ufeff"), ""
    at = _past_blank(content, 0)
    while at < len(content):
        if content[at] == "[":
            header = _HEADER.match(content, at)
            if header is None:
                raise Unclear(_line(content, at))
            section, at = _section(header), header.end()
        else:
            name = _NAME.match(content, at)
            if name is None or not section:
                raise Unclear(_line(content, at))
            value, at = _value(content, name.end())
            yield f"{section}.{name[1].lower()}", value
        at = _past_blank(content, at)


def _past_blank(content: str, at: int) -> int:
    blank = _BLANK.match(content, at)
    return at if blank is None else blank.end()


def _section(header: re.Match[str]) -> str:
    name, old, sub = header[1].lower().partition(".")
    given = re.sub(r"\\(.)", r"\1", header[2]) if header[2] is not None else ""
    return ".".join(filter(None, (name, sub if old else "", given)))


def _value(content: str, at: int) -> tuple[str, int]:
    """Return the value that begins at `at`, where the name ended, and where it ends."""
    if content[at : at + 1] != "=":
        end = re.compile(r"[ \t]*(?:[#;][^\n]*)?(?:\r?\n|$)").match(content, at)
        if end is None:
            raise Unclear(_line(content, at))
        return "true", end.end()
    at, words, quoted = at + 1, "", False
    while at < len(content):
        piece = _PIECE.match(content, at)
        assert piece is not None, "every character has its alternative"
        if piece[1] is not None:
            words += _unescape(piece[1], content, at)
        elif piece[0] == '"':
            quoted = not quoted
        elif piece[0] in ("\n", "\r\n"):
            break
        elif piece[2] and not quoted:
            line = content.find("\n", at)
            return words.strip(), len(content) if line < 0 else line
        else:
            words += piece[0]
        at = piece.end()
    if quoted:
        raise Unclear(_line(content, at))
    return words.strip(), at


def _unescape(text: str, content: str, at: int) -> str:
    if text.endswith("\n"):
        return ""  # the line goes on
    if text not in _ESCAPES:
        raise Unclear(_line(content, at))
    return _ESCAPES[text]


def _line(content: str, at: int) -> str:
    return f"line {content.count(chr(10), 0, at) + 1} cannot be read"


# --- the index ---


def repository_of(folder: str) -> Path | None:
    """Return the root of the work tree that `folder` lies in."""
    return next((each for each in (Path(folder), *Path(folder).parents) if os.path.lexists(each / ".git")), None)


def list_tracked(folder: str) -> Iterator[str] | None:
    """Yield the files that git tracks below `folder`, as `/name`; None when that is unknown.

    So it is where a folder of them is a link now: git searches what that leads to.
    """
    root = repository_of(folder)
    if root is None:
        return None
    try:
        git = _git_folder(root)
        if not os.path.lexists(git / "HEAD"):  # git goes on to the folder above
            return None
        content = _content(git / "index")
        names = [name for name, _ in _entries(content, _hash_size(git))]
    except FileNotFoundError:
        return iter(())  # nothing was ever added
    except (OSError, ValueError, IndexError):
        return None
    below = os.fsencode(os.path.relpath(folder, root) + "/") if Path(folder) != root else b""
    names = [name for name in names if name.startswith(below)]
    if any(os.path.islink(os.path.join(os.fsencode(root), each)) for each in _folders_of(names)):
        return None
    return (f"/{os.fsdecode(name[len(below) :])}" for name in names)


def _folders_of(names: Iterable[bytes]) -> set[bytes]:
    """Return the folders that files lie in, with those above."""
    found = set[bytes]()
    waiting = {name.rpartition(b"/")[0] for name in names}
    while waiting := waiting - found - {b""}:
        found |= waiting
        waiting = {folder.rpartition(b"/")[0] for folder in waiting}
    return found


def submodule_paths(git: Path) -> tuple[str, ...]:
    """Name the submodules in the index of a git folder. Raise `OSError` or `ValueError` when the index cannot be read."""
    try:
        content = _content(git / "index")
    except FileNotFoundError:
        return ()
    if not any(each in content for each in (_GITLINK, _FOLDER, *_WHOLE)):
        return ()
    try:
        entries = _entries(content, _hash_size(git))
    except IndexError as exc:
        raise ValueError("the index is cut off") from exc
    return tuple(os.fsdecode(name) for name, mode in entries if mode == _GITLINK)


def _hash_size(git: Path) -> int:
    """Return the bytes of a hash. Raise `Unclear`, a `ValueError`, where the configuration cannot be read with certainty."""
    try:
        config = _content(_common_folder(git) / "config").decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return 20
    return 32 if dict(git_keys(config)).get("extensions.objectformat") == "sha256" else 20


def _git_folder(root: Path) -> Path:
    """Return the git folder of a work tree; a linked one has a file that names it."""
    git = root / ".git"
    if git.is_dir():
        return git
    text = os.fsdecode(_content(git))
    if not text.startswith("gitdir: "):
        raise ValueError(f"{git} names no folder")
    return root / text.removeprefix("gitdir: ").rstrip("\r\n")


def _common_folder(git: Path) -> Path:
    """Return the folder with the configuration, which linked work trees share."""
    common = git / "commondir"
    return git / os.fsdecode(_content(common)).rstrip("\r\n") if common.is_file() else git


def _content(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST:
            raise ValueError(f"{path} is no file that can be read")
        return file.read(LARGEST)


def _entries(content: bytes, hash_size: int) -> list[tuple[bytes, bytes]]:
    """Read the names and modes of the entries, by `gitformat-index`. Raise `ValueError` for other formats, or if some are folders."""
    version, count = int.from_bytes(content[4:8], "big"), int.from_bytes(content[8:12], "big")
    if content[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index that is known")
    entries, at, name = list[tuple[bytes, bytes]](), 12, b""
    for _ in range(count):
        start = at
        at += _TIMES + hash_size
        at += 4 if content[at] & 0x40 else 2  # more flags follow where the first say so
        kept = 0
        if version == 4:
            drop, at = _offset(content, at)
            kept = len(name) - drop
        end = content.index(b"\0", at)
        name = name[:kept] + content[at:end]
        at = end + 1 if version == 4 else start + ((end - start) // 8 + 1) * 8
        entries.append((name, content[start + _MODE : start + _MODE + 4]))
    if any(mode == _FOLDER for _, mode in entries):
        raise ValueError("the index names whole folders")
    if any(_NO_FILE.search(name) for name, _ in entries):
        raise ValueError("the index names files that no work tree has")
    while at + 8 <= len(content) - hash_size:
        if content[at : at + 4] in _WHOLE:
            raise ValueError("the index does not name every file")
        at += 8 + int.from_bytes(content[at + 4 : at + 8], "big")
    if at != len(content) - hash_size:
        raise ValueError("the index does not end where it should")
    return entries


def _offset(content: bytes, at: int) -> tuple[int, int]:
    """Read a number as packs have it, seven bits a byte, and return it with where it ends."""
    number = content[at] & 0x7F
    while content[at] & 0x80:
        at += 1
        number = ((number + 1) << 7) | (content[at] & 0x7F)
    return number, at + 1
