"""Blobs as files: `ab/<sha256>`, each written whole before it gets its name."""

import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from holdfast.files import make_folder, replace_file, sync_folder
from holdfast.logic.parts import digest
from holdfast.stores.disk import read_regular
from holdfast.vocab.errors import BlobMissing, UserError

_NAME: Final = re.compile(r"[0-9a-f]{64}")


class BlobFolder:
    """A folder of blobs, named by their content.

    Every session that cites a blob keeps a hard link to it in a folder of its own. The number of links says whether
    anybody needs the blob, and no lock is needed: a link that was made in time keeps the bytes, whatever happens to the
    shared name, and `get` finds them there.
    """

    def __init__(self, root: Path, keepers: str = "") -> None:
        self._root = root
        self._keepers = keepers
        """Pattern, relative to the root's parent, of the folders that hold links."""

    def put(self, sha256: str, content: bytes, keeper: Path | None = None) -> None:
        """Make a blob durable, with a link in the folder `keeper`; one that is there unaltered is not written again."""
        if digest(content) != sha256:
            raise UserError(f"{sha256!r} is not the SHA-256 of the blob given under that name.")
        path = self._path(sha256)
        make_folder(path.parent)
        there = self._read(path)
        if there is None or digest(there) != sha256:
            replace_file(path, content)
            if there is not None:
                self._mend_links(sha256)
        while keeper is not None and not self.keep((sha256,), keeper):
            replace_file(path, content)  # the last session that cited it was deleted between the two steps

    def get(self, sha256: str) -> bytes:
        """The bytes of a blob, checked. Raise `BlobMissing` when they are gone or not what was stored."""
        if not _NAME.fullmatch(sha256):
            raise BlobMissing(f"{sha256!r} is not the name of a blob: 64 hexadecimal digits are.")
        content = self._read(self._path(sha256))
        if content is not None and digest(content) == sha256:
            return content
        for path in self._kept(sha256):
            kept = self._read(path)
            if kept is not None and digest(kept) == sha256:
                return kept
        state = "is gone" if content is None else "was altered"
        raise BlobMissing(f"The blob {sha256!r} {state}. Bring it back from a backup of {str(self._root)!r}.")

    def keep(self, names: Iterable[str], keeper: Path) -> bool:
        """Link the blobs called `names` into the folder `keeper`, durably; say whether all of them are there."""
        wanted = {sha256 for sha256 in names if _NAME.fullmatch(sha256)}
        new = [sha256 for sha256 in wanted if not (keeper / sha256).exists()]
        if new:
            make_folder(keeper)
            linked = [self._link(sha256, keeper / sha256) for sha256 in new]
            sync_folder(keeper)
            return all(linked)
        return True

    def drop_unused(self) -> None:
        """Remove the blobs that no keeper has a link to."""
        for path in self._root.glob("??/*"):
            if _NAME.fullmatch(path.name):
                self._remove_unused(path)

    def drop(self, keeper: Path) -> None:
        """Remove the links in the folder `keeper`, and the blobs that no other folder has a link to."""
        for name in os.listdir(keeper):
            (keeper / name).unlink(missing_ok=True)
            if _NAME.fullmatch(name):
                self._remove_unused(self._path(name))
        keeper.rmdir()

    def _path(self, sha256: str) -> Path:
        return self._root / sha256[:2] / sha256

    def _link(self, sha256: str, target: Path) -> bool:
        try:
            os.link(self._path(sha256), target)
        except FileExistsError:
            return True
        except FileNotFoundError:
            return False
        except OSError as exc:
            if exc.errno != errno.EMLINK:
                raise
            replace_file(target, self.get(sha256))  # a file can have some ten thousand names; a copy serves as well
        return True

    def _mend_links(self, sha256: str) -> None:
        """Let every keeper of a blob that was altered have the bytes that are there now."""
        for kept in self._kept(sha256):
            kept.unlink(missing_ok=True)
            self._link(sha256, kept)
            sync_folder(kept.parent)

    def _kept(self, sha256: str) -> list[Path]:
        return list(self._root.parent.glob(f"{self._keepers}/{sha256}")) if self._keepers else []

    @staticmethod
    def _read(path: Path) -> bytes | None:
        try:
            return read_regular(path)
        except FileNotFoundError:
            return None

    @staticmethod
    def _remove_unused(path: Path) -> None:
        try:
            if path.stat().st_nlink == 1:
                path.unlink()
        except FileNotFoundError:
            return
