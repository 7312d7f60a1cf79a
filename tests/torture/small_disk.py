"""A disk of a few megabytes that can be filled, emptied and made read-only; in a process of its own."""

import ctypes
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

SIZE: Final = 4 * 1024 * 1024
_NEWNS: Final = 0x00020000
_NEWUSER: Final = 0x10000000
_RDONLY, _REMOUNT, _REC, _PRIVATE = 1, 32, 0x4000, 1 << 18


class SmallDisk(Protocol):
    """Room that can run out."""

    how: str

    def fill(self) -> None:
        """Leave no room."""

    def free(self) -> None:
        """Make room again."""

    def forbid_writing(self) -> bool:
        """Make it read-only, for good; False where that cannot be done."""


def small_disk(folder: Path) -> SmallDisk:
    """A small file system at `folder` where this process may mount one, else a limit on the size of files."""
    try:
        return _Mounted(folder)
    except OSError:
        return _Limited()


class _Mounted:
    how = "tmpfs"

    def __init__(self, folder: Path) -> None:
        uid, gid = os.getuid(), os.getgid()
        _call("unshare", _NEWNS | (0 if uid == 0 else _NEWUSER))
        if uid:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
            Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        _call("mount", None, b"/", None, _REC | _PRIVATE, None)  # nobody else sees what is mounted here
        _call("mount", b"none", str(folder).encode(), b"tmpfs", 0, f"size={SIZE}".encode())
        self._folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        handle = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while os.write(handle, bytes(size)) == size:
                    pass
        os.close(handle)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def forbid_writing(self) -> bool:
        _call("mount", None, str(self._folder).encode(), None, _REMOUNT | _RDONLY, None)
        return True


class _Limited:
    """No file may grow beyond a few bytes; a weaker witness, for where nothing can be mounted."""

    how = "a limit on the size of files"

    def fill(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    def free(self) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    def forbid_writing(self) -> bool:
        return False


def _call(name: str, *args: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
