"""The seam of the SQLite store filled with apsw, whose files can be watched and made to fail. Only in a process of its own."""

import errno
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import apsw

from backstay.stores.sqlite.connection import BUSY_S, Access, Connect, Db, DbError, Row, Value
from tests.torture.disk import Synced, SyncedFolder
from tests.torture.tap import Fault, Tape

_FLAGS: Final = {
    "write": apsw.SQLITE_OPEN_READWRITE,
    "read": apsw.SQLITE_OPEN_READONLY,
    "immutable": apsw.SQLITE_OPEN_READONLY,
}
_CODES: Final = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "fsync": apsw.SQLITE_IOERR_FSYNC,
    "ftruncate": apsw.SQLITE_IOERR_TRUNCATE,
    "open": apsw.SQLITE_CANTOPEN,
    "unlink": apsw.SQLITE_IOERR_DELETE,
}


class ApswDb:
    """A connection of apsw."""

    def __init__(self, connection: apsw.Connection, checkpoint_pages: int) -> None:
        self._connection = connection
        self._pages = checkpoint_pages

    def execute(self, sql: str, args: Sequence[Value] = ()) -> list[Row]:
        """Run one statement and return all its rows."""
        if self._pages and sql.startswith("PRAGMA wal_autocheckpoint="):
            sql = f"PRAGMA wal_autocheckpoint={self._pages}"
        try:
            return list(self._connection.execute(sql, args))
        except apsw.Error as exc:
            raise _error(exc) from exc

    def executemany(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Run one statement for each row."""
        try:
            self._connection.executemany(sql, rows)
        except apsw.Error as exc:
            raise _error(exc) from exc

    def begin(self) -> None:
        """Open a transaction and take the write lock."""
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make the transaction durable."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Forget the transaction."""
        if self._connection.in_transaction:
            self.execute("ROLLBACK")

    def backup(self, target: Db) -> None:
        """Copy all of the database into the one of `target`."""
        assert isinstance(target, ApswDb)
        with target._connection.backup("main", self._connection, "main") as copying:
            copying.step()

    def close(self) -> None:
        """Let go of the file."""
        try:
            self._connection.close()
        except apsw.Error:
            self._connection.close(True)  # the standard library says nothing either when the last checkpoint fails


def connector(vfs: str, *, checkpoint_pages: int = 0) -> Connect:
    """Opens connections over the file layer called `vfs`."""

    def connect(path: str, access: Access) -> Db:
        try:
            connection = apsw.Connection(path, flags=_FLAGS[access], vfs=vfs)
        except apsw.Error as exc:
            raise _error(exc) from exc
        connection.set_busy_timeout(int(BUSY_S * 1000))
        return ApswDb(connection, checkpoint_pages)

    return connect


class TapedFiles(apsw.VFS):
    """The file layer of SQLite, with everything on a tape, and with faults."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.tape: Tape | None = None
        self.fault: Fault | None = None

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        """Open a file; the ones of the tape are watched."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        inside = self.tape.inside(path) if self.tape is not None and path is not None else None
        if self.tape is None or inside is None:
            return apsw.VFSFile("", name, flags)
        self.check("open", inside)
        journal = flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL)
        syncs_folder = bool(journal and flags[0] & apsw.SQLITE_OPEN_CREATE)
        return _TapedFile(self, self.tape, inside, name, flags, syncs_folder=syncs_folder)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """Remove a file."""
        inside = self.tape.inside(filename) if self.tape is not None else None
        if self.tape is not None and inside is not None:
            self.check("unlink", inside)
        super().xDelete(filename, syncdir)
        if self.tape is not None and inside is not None:
            with self.tape.lock:
                self.tape.removed(inside)
                if syncdir:
                    self.tape.ops.append(SyncedFolder(inside.rpartition("/")[0]))

    def check(self, call: str, path: str) -> None:
        """Fail when it is time to."""
        error = self.fault(call, path) if self.fault is not None else None
        if error is not None:
            full = error.errno == errno.ENOSPC
            raise apsw.exception_for(apsw.SQLITE_FULL if full else _CODES[call])


class _TapedFile(apsw.VFSFile):
    def __init__(
        self,
        files: TapedFiles,
        tape: Tape,
        path: str,
        name: str | apsw.URIFilename | None,
        flags: list[int],
        *,
        syncs_folder: bool,
    ) -> None:
        super().__init__("", name, flags)
        self._files = files
        self._tape = tape
        self._path = path
        self._syncs_folder = syncs_folder
        self._file = tape.file(path)

    def xWrite(self, data: bytes, offset: int) -> None:
        with self._tape.lock:
            try:
                self._files.check("write", self._path)
            except apsw.FullError:
                super().xWrite(data[: len(data) // 2], offset)
                raise
            super().xWrite(data, offset)
            self._tape.wrote(self._file, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        with self._tape.lock:
            self._files.check("ftruncate", self._path)
            super().xTruncate(newsize)
            self._tape.cut(self._file, newsize)

    def xSync(self, flags: int) -> None:
        with self._tape.lock:
            self._files.check("fsync", self._path)
            self._tape.ops.append(Synced(self._file))
            if self._syncs_folder:  # as SQLite does with the first sync of a journal that it may have made
                self._tape.ops.append(SyncedFolder(self._path.rpartition("/")[0]))
                self._syncs_folder = False


Taped = Callable[[], TapedFiles]


def _error(exc: apsw.Error) -> DbError:
    code = getattr(exc, "extendedresult", 0) or getattr(exc, "result", 0)
    return DbError(code if code > 0 else apsw.SQLITE_ERROR, str(exc))
