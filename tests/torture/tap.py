"""A tap on the file calls of this process: every change below one folder is written on a tape, or made to fail.

`tapped.py` installs it before anything of the library is imported, in a process of its own. The library's stores call `os` by name, so
they cannot tell. Reading is not tapped. What Python's file objects write is seen when the file is synced, moved or closed by name.
"""

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from tests.torture.disk import Cut, Made, MadeFolder, Named, Op, Removed, Synced, SyncedFolder, Wrote

Name = str | os.PathLike[str]


class Fault(Protocol):
    """Decides before each call whether it fails."""

    def __call__(self, call: str, path: str) -> OSError | None: ...


class Tape:
    """The changes below `root`, in order."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ops: list[Op] = []
        self.lock = threading.RLock()
        self.names: dict[str, int] = {}
        """File by path, as a process sees it now."""
        self._contents: dict[int, bytearray] = {}
        self._next = 0

    def inside(self, path: Name) -> str | None:
        """The path relative to the root, which is empty itself; None when it is elsewhere."""
        text, root = os.fspath(path), str(self.root)
        return text[len(root) :].strip("/") if f"{text}/".startswith(f"{root}/") else None

    def file(self, path: str) -> int:
        """The file of that name, which is made when it is not there."""
        if path not in self.names:
            self._next += 1
            self.names[path] = self._next
            self._contents[self._next] = bytearray()
            self.ops.append(Made(path, self._next))
        return self.names[path]

    def wrote(self, file: int, offset: int, content: bytes) -> None:
        """Note bytes that went into a file."""
        self.ops.append(Wrote(file, offset, content))
        known = self._contents[file]
        known.extend(bytes(max(0, offset - len(known))))
        known[offset : offset + len(content)] = content

    def cut(self, file: int, size: int) -> None:
        """Note that a file has another length."""
        self.ops.append(Cut(file, size))
        known = self._contents[file]
        del known[size:]
        known.extend(bytes(size - len(known)))

    def catch_up(self, file: int, real: bytes) -> None:
        """Note what was written to a file without a call that could be seen."""
        known = self._contents[file]
        if real != known:
            same = len(known) if real.startswith(known) else 0
            self.wrote(file, same, real[same:])
            if len(known) > len(real):
                self.cut(file, len(real))

    def removed(self, path: str) -> None:
        """Note that a name is gone."""
        self.names.pop(path, None)
        self.ops.append(Removed(path))

    def named(self, path: str, file: int, instead: str = "") -> None:
        """Note a new name."""
        if instead:
            self.names.pop(instead, None)
        self.names[path] = file
        self.ops.append(Named(path, file, instead))


class Tap:
    """Stands before the functions of `os`."""

    def __init__(self) -> None:
        self.tape: Tape | None = None
        self.fault: Fault | None = None
        self._handles: dict[int, int | str] = {}
        """File, or path of a folder, by handle."""

    def install(self) -> None:
        """Put the tap in place, for ever."""
        for name in ("open", "write", "fsync", "fdatasync", "ftruncate", "close", "link", "mkdir", "rmdir"):
            setattr(os, name, getattr(self, f"_{name}"))
        os.rename = os.replace = self._rename  # type: ignore[assignment]  # the tap takes what the stores give
        os.unlink = os.remove = self._unlink  # type: ignore[assignment]  # as above

    def _fails(self, call: str, path: str | None) -> None:
        if path is not None and self.fault is not None and (error := self.fault(call, path)) is not None:
            raise error

    def _open(self, path: Name, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        inside = self._inside(path)
        if inside is None or self.tape is None:
            return int(_os["open"](path, flags, mode, dir_fd=dir_fd))
        with self.tape.lock:
            self._fails("open", inside)
            handle: int = _os["open"](path, flags, mode, dir_fd=dir_fd)
            is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
            self._handles[handle] = inside if is_folder else self.tape.file(inside)
            return handle

    def _write(self, handle: int, content: bytes) -> int:
        file, tape = self._handles.get(handle), self.tape
        if tape is None or not isinstance(file, int):
            return int(_os["write"](handle, content))
        with tape.lock:
            error = self.fault("write", f"#{file}") if self.fault is not None else None
            if error is not None and error.errno != errno.ENOSPC:
                raise error
            done: int = _os["write"](handle, content if error is None else content[: len(content) // 2])
            tape.wrote(file, os.lseek(handle, 0, os.SEEK_CUR) - done, bytes(content[:done]))
            return done

    def _fsync(self, handle: int) -> None:
        self._sync("fsync", handle)

    def _fdatasync(self, handle: int) -> None:
        self._sync("fdatasync", handle)

    def _sync(self, call: str, handle: int) -> None:
        file, tape = self._handles.get(handle), self.tape
        if tape is None or file is None:
            _os[call](handle)
            return
        with tape.lock:
            self._fails(call, str(file))
            if isinstance(file, str):
                tape.ops.append(SyncedFolder(file))
                return
            tape.catch_up(file, _content(handle))
            tape.ops.append(Synced(file))

    def _ftruncate(self, handle: int, size: int) -> None:
        file, tape = self._handles.get(handle), self.tape
        if tape is None or not isinstance(file, int):
            _os["ftruncate"](handle, size)
            return
        with tape.lock:
            self._fails("ftruncate", f"#{file}")
            _os["ftruncate"](handle, size)
            tape.cut(file, size)

    def _close(self, handle: int) -> None:
        self._handles.pop(handle, None)
        _os["close"](handle)

    def _link(self, source: Name, target: Name, **options: Any) -> None:  # Any: handed on as it is
        self._move("link", source, target, options)

    def _rename(self, source: Name, target: Name, **options: Any) -> None:  # Any: as above
        self._move("replace", source, target, options)

    def _move(self, call: str, source: Name, target: Name, options: dict[str, Any]) -> None:
        inside, tape = self._inside(target), self.tape
        if inside is None or tape is None:
            _os[call](source, target, **options)
            return
        with tape.lock:
            self._fails(call, inside)
            old = tape.inside(source)
            assert old is not None, f"{source} comes from outside"
            file = tape.file(old)
            tape.catch_up(file, Path(source).read_bytes())
            _os[call](source, target, **options)
            tape.named(inside, file, "" if call == "link" else old)

    def _unlink(self, path: Name, *, dir_fd: int | None = None) -> None:
        self._remove("unlink", path, dir_fd)

    def _rmdir(self, path: Name, *, dir_fd: int | None = None) -> None:
        self._remove("rmdir", path, dir_fd)

    def _remove(self, call: str, path: Name, dir_fd: int | None) -> None:
        inside, tape = self._inside(path), self.tape
        if inside is None or tape is None:
            _os[call](path, dir_fd=dir_fd)
            return
        with tape.lock:
            self._fails(call, inside)
            _os[call](path, dir_fd=dir_fd)
            tape.removed(inside)

    def _mkdir(self, path: Name, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        inside, tape = self._inside(path), self.tape
        if inside is None or tape is None:
            _os["mkdir"](path, mode, dir_fd=dir_fd)
            return
        with tape.lock:
            self._fails("mkdir", inside)
            _os["mkdir"](path, mode, dir_fd=dir_fd)
            tape.ops.append(MadeFolder(inside))

    def _inside(self, path: Name) -> str | None:
        return self.tape.inside(path) if self.tape is not None and not isinstance(path, bytes | int) else None


class CountDown:
    """Fails the n-th call, or every call from the n-th on; counts the calls."""

    def __init__(self, at: int, number: int = errno.EIO, *, stays: bool = False) -> None:
        self.at = at
        self.calls = 0
        self.hit = ""
        """The call that failed first."""
        self._number = number
        self._stays = stays

    def __call__(self, call: str, path: str) -> OSError | None:
        self.calls += 1
        if self.at and (self.calls == self.at or (self._stays and self.calls > self.at)):
            self.hit = self.hit or f"{call} {path}"
            return OSError(self._number, os.strerror(self._number), path)
        return None


_os: Final[dict[str, Callable[..., Any]]] = {  # Any: the functions of `os`, whatever they take
    name: getattr(os, name)
    for name in (
        "open", "write", "fsync", "fdatasync", "ftruncate", "close",
        "link", "replace", "unlink", "mkdir", "rmdir",
    )
}  # fmt: skip


def _content(handle: int) -> bytes:
    with open(f"/proc/self/fd/{handle}", "rb") as file:
        return file.read()


TAP: Final = Tap()
"""The only one."""
