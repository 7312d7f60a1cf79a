"""Read untrusted files safely: within bounds, within their folders, each once, with stamps that tell changes."""

import errno
import fnmatch
import os
import re
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from backstay.instructions.inputs import KIB, InstructionInputs
from backstay.logic.text import read_visible
from backstay.system.files import Stamp, stamp_of

FILE_LIMIT: Final = 64 * KIB
"""Bytes of one file that are read."""
MOST_IMPORTS: Final = 128
"""Files that notes may import in all; the notes themselves are always read."""
MOST_PROBLEMS: Final = 100
MOST_OF_ONE: Final = 10
"""Problems of one file that are named."""
"""Device, number, size and time of change; None when nothing was there."""
_PLAIN_NOTE: Final = re.compile(r"(?:/[A-Za-z0-9][\w -]*)+\.md")
_SYSTEM_FOLDERS: Final = frozenset(("Library", "AppData", "snap"))
"""Folders without a dot in which programs keep what is private."""
_OWN_FOLDERS: Final = (".claude", ".backstay")
_SETTINGS: Final = ("settings.json", "settings.local.json")


class TextFile(Struct, frozen=True, kw_only=True):
    """A file that was read."""

    path: Path
    """As requested."""
    shown: str
    """Its path as people write it."""
    text: str
    size: int
    """Bytes of the whole file."""
    cut: bool = False
    """Whether it is longer than the part that is read."""
    imported_by: str = ""
    """The file and line that imported it."""
    skipped: int = 0
    """Lines of the file before the text."""


class FileReading:
    """Reads files, each once, and collects problems."""

    def __init__(self, inputs: InstructionInputs) -> None:
        self.inputs = inputs
        self.stamps: dict[str, Stamp] = {}
        self.problems: list[str] = []
        self._seen: set[object] = set()
        self._left = MOST_IMPORTS
        self._named: Counter[str] = Counter()
        self._real_roots: dict[str, str] = {}

    def add_problem(self, words: str) -> None:
        """Add what was skipped and why."""
        file = words.partition(":")[0]
        if words in self.problems or len(self.problems) == MOST_PROBLEMS or self._named[file] == MOST_OF_ONE:
            return
        self._named[file] += 1
        self.problems.append(words)

    def stat(self, path: Path | str) -> os.stat_result | None:
        """Return the status of `path`, links followed; None when there is none."""
        try:
            found = os.stat(path)
        except (OSError, ValueError):  # ValueError: a NUL in the name
            self.stamps.setdefault(os.fspath(path), None)
            return None
        self.stamps.setdefault(os.fspath(path), stamp_of(found))
        return found

    def was_read(self, path: Path | str) -> bool:
        """Return whether the file at `path` was read before, under any name."""
        found = self.stat(path)
        return found is not None and (found.st_dev, found.st_ino) in self._seen

    def read(
        self, path: Path, roots: Sequence[Path] | None, *, counted: bool = True, imported_by: str = ""
    ) -> TextFile | None:
        """Return the text of a file inside one of `roots`; None when there is none, it was read before, or it was refused.

        `roots` None: it is the person's own and may lead anywhere but to secrets. `counted` False: whether it was read before does not
        matter. What was refused is a problem with the file's name.
        """
        shown = self.inputs.display(path)
        if self._is_excluded(path):
            return None
        try:
            content, found = self._bytes(path, roots, chosen=bool(imported_by))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
            self.add_problem(f"{imported_by or shown}: {shown!r} is left out: {_why(exc)}.")
            return None
        if counted and not self._is_first(found, path, content, imported_by):
            return None
        if b"\0" in content:
            self.add_problem(
                f"{shown}:{content[: content.index(0)].count(10) + 1}: It is left out: it is not UTF-8 text."
            )
            return None
        text = self._decode(content[:FILE_LIMIT], shown, whole=len(content) <= FILE_LIMIT)
        if len(content) > FILE_LIMIT:
            self.add_problem(
                f"{shown}: It has {found.st_size:,} bytes; only the first {FILE_LIMIT:,} of a file are read."
            )
        return TextFile(
            path=path,
            shown=shown,
            text=text.rstrip("\n"),
            size=max(found.st_size, len(content)),
            cut=len(content) > FILE_LIMIT,
            imported_by=imported_by,
        )

    def list_entries(self, folder: Path, most: int) -> tuple[os.DirEntry[str], ...]:
        """Return the entries of a folder by name, at most so many; none when it cannot be listed."""
        if self.stat(folder) is None:
            return ()
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(folder) as found:
                for entry in found:
                    if len(entries) == most:
                        self.add_problem(
                            f"{self.inputs.display(folder)}: It has more than {most:,} entries; the others are left out."
                        )
                        break
                    entries.append(entry)
        except NotADirectoryError:
            return ()
        except OSError as exc:
            self.add_problem(f"{self.inputs.display(folder)}: It cannot be listed: {exc.strerror}.")
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def is_inside(self, real: str, roots: Sequence[Path]) -> bool:
        """Return whether a path without links lies in one of `roots`."""
        return any(real == root or real.startswith(f"{root.rstrip('/')}/") for root in map(self._real, roots))

    def _bytes(self, path: Path, roots: Sequence[Path] | None, *, chosen: bool) -> tuple[bytes, os.stat_result]:
        """Return the first bytes of a file. Its real path is judged before it is opened, and compared with what was opened."""
        self.stat(path)
        os.lstat(path)
        real = os.path.realpath(path)
        if roots is not None and not self.is_inside(real, roots):
            raise OSError(errno.EXDEV, "it leads outside of the project")
        if self._is_denied(real, str(path)):
            raise OSError(errno.EACCES, "a rule denies reading it")
        if (chosen or real != str(path)) and (inputs := self._secret(real, path, roots)):
            raise OSError(errno.EACCES, f"it may hold secrets ({inputs})")
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(handle)
            if found.st_nlink > 1 and (other := _private_name(real)) != real:
                raise OSError(
                    errno.EACCES, f"it is another name of {self.inputs.display(other)}, which may hold secrets"
                )
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            if os.path.realpath(path) != real or not os.path.samestat(os.stat(real, follow_symlinks=False), found):
                raise OSError(errno.ESTALE, "it changed while it was read")
            self.stamps[str(path)] = stamp_of(found)
            content = bytearray()
            while len(content) <= FILE_LIMIT and (piece := os.read(handle, FILE_LIMIT + 1 - len(content))):
                content += piece
        finally:
            os.close(handle)
        return bytes(content), found

    def _is_first(self, found: os.stat_result, path: Path, content: bytes, imported_by: str) -> bool:
        """Return whether this file, or a copy beside it, is read for the first time, and there is room for one more."""
        keys: set[object] = {(found.st_dev, found.st_ino), *([(path.parent, content)] if content else ())}
        known = bool(keys & self._seen)
        self._seen |= keys
        if known or not imported_by:
            return not known
        self._left -= 1
        if self._left == -1:
            self.add_problem(f"{imported_by}: What it names is left out: notes may name {MOST_IMPORTS} files in all.")
        return self._left >= 0

    def _decode(self, content: bytes, shown: str, *, whole: bool) -> str:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            text = content.decode("utf-8-sig", "replace" if whole or exc.start < len(content) - 4 else "ignore")
            if whole or exc.start < len(content) - 4:
                line = content[: exc.start].count(b"\n") + 1
                self.add_problem(f"{shown}:{line}: It is not UTF-8 text; what cannot be read is replaced by marks.")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        visible = read_visible(text)
        if visible.left_out:
            self.add_problem(f"{shown}:{visible.line}: {visible.left_out} characters that nobody sees are left out.")
        return visible.text

    def _is_excluded(self, path: Path) -> bool:
        return any(fnmatch.fnmatchcase(str(path), pattern) for pattern in self.inputs.excluded)

    def _real(self, root: Path) -> str:
        key = str(root)
        if key not in self._real_roots:
            self._real_roots[key] = os.path.realpath(root)
        return self._real_roots[key]

    def _is_denied(self, *paths: str) -> bool:
        inputs = self.inputs
        if not inputs.denials:
            return False
        from backstay.permissions import is_hidden  # noqa: PLC0415 - likewise
        from backstay.permissions.call_site import CallSite  # noqa: PLC0415 - only denials need it

        call_site = CallSite(
            cwd=str(inputs.paths.cwd),
            home=str(inputs.paths.home),
            roots=(self._real(inputs.paths.root),),
            os=self._system,
            trusted=inputs.trusted,
        )
        return any(is_hidden(path, inputs.denials, call_site) for path in paths)

    @property
    def _system(self) -> Literal["darwin", "linux"]:
        return "darwin" if self.inputs.system == "darwin" else "linux"

    def _secret(self, real: str, path: Path, roots: Sequence[Path] | None) -> str:
        """Return the name of a possible secret in a file; empty when it may be shown."""
        if all(_is_plainly_a_note(each, roots or ()) for each in (real, str(path))):
            return ""
        from backstay.permissions.call_site import CallSite  # noqa: PLC0415 - only links and imports need it
        from backstay.permissions.paths import plain  # noqa: PLC0415 - likewise
        from backstay.permissions.sensitive_paths import sensitive  # noqa: PLC0415 - likewise

        home = str(self.inputs.paths.home)
        known = tuple(self._real(root) for root in roots or (self.inputs.paths.config, self.inputs.paths.claude))
        call_site = CallSite(cwd=known[0], home=home, roots=known, os=self._system)
        for each in (Path(real), path):
            if each.name in _SETTINGS and (each.parent.name in _OWN_FOLDERS or each.parent == self.inputs.paths.config):
                return each.name
            if ".git" in each.parts:
                return ".git"
        return sensitive((plain(real, self._system), plain(str(path), self._system)), call_site)


def _private_name(path: str) -> str:
    """Return the private file that a path is a hard link to, or the path."""
    from backstay.sandbox.resolve_paths import private_names  # noqa: PLC0415 - few notes have several names

    return private_names()(path)


def _is_plainly_a_note(path: str, roots: Sequence[Path]) -> bool:
    """Return whether nothing in a path below a root could be the name of a secret, so that the long list need not be checked."""
    inner = next((path[len(str(root)) :] for root in roots if path.startswith(f"{root}/")), "")
    return bool(_PLAIN_NOTE.fullmatch(inner)) and not _SYSTEM_FOLDERS.intersection(inner.split("/"))


def _why(error: Exception) -> str:
    words = error.strerror if isinstance(error, OSError) else str(error)
    return (words or str(error)).rstrip(".")
