"""Unpack an untrusted archive: below one folder, without links, within limits."""

import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final

from backstay.plugins.plugin import PLACE
from backstay.plugins.tree import LIMITS, TreeLimits
from backstay.vocab.errors import UserError

LARGEST: Final = 64 * 1024 * 1024
"""Bytes that an archive may have."""
_DIRECTORY: Final = 4 * 1024 * 1024
"""Bytes that the list of a zip's members may have; it is read as a whole."""
_PIECE: Final = 64 * 1024
_END: Final = b"PK\x05\x06"
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_BROKEN: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    gzip.BadGzipFile,
    NotImplementedError,
    RuntimeError,
    ValueError,  # also a text that is no number, or no UTF-8
)
"""Errors that the readers of the standard library raise for invalid bytes."""


def unpack(archive: Path, target: Path, limits: TreeLimits = LIMITS) -> int:
    """Unpack a zip or tar.gz file into the new folder `target`; return the number of files.

    Raise `UserError`, with the member's name, for a path that leaves the folder, a link, a device, a name that stands twice, or more
    than `limits` allow. Bytes are counted as they come out, so that no header is believed.
    """
    try:
        if archive.stat().st_size > LARGEST:
            raise UserError(f"The archive {archive.name!r} has more than {LARGEST // 1024**2} MiB.")
        target.mkdir(mode=0o700)
        with archive.open("rb") as file:
            start = file.read(4)
            file.seek(0)
            members = _Members(archive.name, target, limits)
            if start[:2] == b"PK":
                _check_directory(archive.name, file)
                _unzip(file, members)
            elif start[:2] == b"\x1f\x8b":
                _untar(file, members)
            else:
                raise UserError(f"{archive.name!r} is neither a zip nor a tar.gz archive.")
            return members.files
    except _BROKEN as exc:
        raise UserError(f"The archive {archive.name!r} is broken: {exc}.") from exc
    except OSError as exc:
        raise UserError(f"The archive {archive.name!r} cannot be unpacked: {exc}.") from exc


class _Members:
    """Writes the members of one archive, and counts them."""

    def __init__(self, archive: str, target: Path, limits: TreeLimits) -> None:
        self.files = 0
        self._archive = archive
        self._target = target
        self._limits = limits
        self._total = 0
        self._entries = 0
        self._seen: set[str] = set()

    def place(self, name: str) -> Path:
        """Return the path of a member. Raise `UserError` when it is not below the target."""
        parts = PurePosixPath(name).parts
        bad = not parts or "\0" in name or "\\" in name or name.startswith("/") or ".." in parts or _DRIVE.match(name)
        if bad or len(parts) > self._limits.depth or any(len(os.fsencode(part)) > 255 for part in parts):
            raise self.refusal(name, "its path leaves the folder or cannot be used")
        self._entries += 1
        if self._entries > self._limits.files:
            raise UserError(f"The archive {self._archive!r} has more than {self._limits.files:,} members.")
        return self._target.joinpath(*parts)

    def folder(self, name: str) -> None:
        """Make a folder."""
        _make_folders(self._target, self.place(name))

    def file(self, name: str, content: IO[bytes], *, runs: bool) -> None:
        """Write a file."""
        place = self.place(name)
        if str(place).casefold() in self._seen:  # on some disks the second would replace the first, which was looked at
            raise self.refusal(name, "its name stands twice")
        self._seen.add(str(place).casefold())
        _make_folders(self._target, place.parent)
        self.files += 1
        size = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(place, flags, 0o700 if runs else 0o600), "wb") as file:
            while piece := content.read(_PIECE):
                size += len(piece)
                self._total += len(piece)
                if size > self._limits.one or self._total > self._limits.total:
                    raise self.refusal(name, "it unpacks to more than a plugin may have")
                file.write(piece)

    def refusal(self, name: str, why: str) -> UserError:
        """Make the error of a member."""
        return UserError(f"The member {name[:200]!r} of {self._archive!r} is refused: {why}.")


def _make_folders(top: Path, folder: Path) -> None:
    missing = [each for each in (folder, *folder.parents) if each != top and top in each.parents and not each.is_dir()]
    for each in reversed(missing):
        each.mkdir(mode=0o700)


def _unzip(file: IO[bytes], members: _Members) -> None:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            kind = stat.S_IFMT(mode)
            if not member.filename:
                raise members.refusal("", "it has no name")
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise members.refusal(member.filename, "it is a link or a device")
            if member.flag_bits & 0x1:
                raise members.refusal(member.filename, "it is encrypted")
            if member.is_dir():
                members.folder(member.filename)
                continue
            with archive.open(member) as content:
                members.file(member.filename, content, runs=bool(mode & stat.S_IXUSR))


def _check_directory(name: str, file: IO[bytes]) -> None:
    """Refuse a zip whose list of members is long: it would be in memory before anything could be counted."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 65_557))
    tail = file.read()
    end = tail.rfind(_END)
    if end < 0 or len(tail) < end + 22:
        raise UserError(f"The archive {name!r} is broken: it has no list of its members.")
    listed = int.from_bytes(tail[end + 12 : end + 16], "little")
    if listed > _DIRECTORY or b"PK\x06\x07" in tail[max(0, end - 20) : end]:
        raise UserError(f"The archive {name!r} has more members than a plugin may have.")
    file.seek(0)


def _untar(file: IO[bytes], members: _Members) -> None:
    with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
        counted = _Counted(unpacked, LIMITS.total + LIMITS.files * 4 * tarfile.BLOCKSIZE)
        with tarfile.open(fileobj=counted, mode="r|") as archive:
            for member in archive:
                _take(archive, member, members)
        while counted.read():  # to its end, where its checksum is
            pass


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, members: _Members) -> None:
    if member.isdir():
        if PurePosixPath(member.name).parts:  # `./` itself is no member to speak of
            members.folder(member.name)
        return
    if not member.isreg():
        raise members.refusal(member.name, "it is a link or a device")
    content = archive.extractfile(member)
    if content is not None:
        with content:
            members.file(member.name, content, runs=bool(member.mode & stat.S_IXUSR))


class _Counted(io.RawIOBase):
    """A stream that raises when more comes out of it than may: headers count too."""

    def __init__(self, source: gzip.GzipFile, most: int) -> None:
        super().__init__()
        self._source = source
        self._left = most

    def readable(self) -> bool:
        """Return True: it can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes."""
        piece = self._source.read(size if 0 <= size <= _PIECE else _PIECE)
        self._left -= len(piece)
        if self._left < 0:
            raise UserError("The archive unpacks to more than a plugin may have.")
        return piece


def single_folder(folder: Path) -> Path:
    """Return the one folder that an archive holds everything in, or the folder itself: both are common."""
    entries: Iterator[Path] = folder.iterdir()
    found = list(entries)
    return found[0] if len(found) == 1 and found[0].is_dir() and not found[0].is_symlink() else folder


_DEEPEST: Final = 4


def plugin_in(folder: Path) -> Path:
    """Return the folder in an unpacked package that is the plugin. Raise `UserError` unless there is exactly one."""
    found = sorted({manifest.parent.parent for manifest in _manifests(folder, 0)})
    if len(found) != 1:
        raise UserError(f"The package holds {len(found) or 'no'} plugins; it must have one {PLACE}.")
    return found[0]


def _manifests(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / PLACE).is_file():
        yield folder / PLACE
        return
    if depth < _DEEPEST:
        for each in sorted(folder.iterdir()):
            if each.is_dir() and not each.is_symlink() and each.name != "node_modules":
                yield from _manifests(each, depth + 1)
