"""An erasing that is cut off at any operation on a file or the database: the log is the old or the new one, and again finishes it."""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import anyio

from backstay import open_session
from backstay.catalog import sessions
from backstay.logic.secrets.erase import Eraser
from backstay.secrets.erase import erase, is_clean, scour
from backstay.secrets.scan import scan
from backstay.stores.sqlite.connection import Access, Db, Row, Value, connect_stdlib
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from backstay.vocab.events import SecretsErased
from tests.contracts.kit import call, scripted
from tests.secrets.planted import SESSION, left_in, token

_OPERATIONS = frozenset(("open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"))
_CUT = 9


class _Cut:
    """Ends the process at an operation."""

    def __init__(self, at: int, below: Path) -> None:
        self.count = 0
        self.armed = False
        self._at, self._below = at, str(below)

    def step(self) -> None:
        self.count += 1
        if self.count == self._at:
            os._exit(_CUT)

    def hook(self, event: str, args: tuple[object, ...]) -> None:
        if not self.armed or event not in _OPERATIONS or not str(args[0]).startswith(self._below):
            return
        if event != "open" or (isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)):
            self.step()

    def connect(self, path: str, access: Access) -> Db:
        return _Counted(connect_stdlib(path, access), self)


class _Counted:
    def __init__(self, inner: Db, cut: _Cut) -> None:
        self._inner, self._cut = inner, cut

    def _step(self) -> None:
        if self._cut.armed:
            self._cut.step()

    def execute(self, sql: str, args: Sequence[Value] = ()) -> list[Row]:
        if not sql.startswith("SELECT"):
            self._step()
        return self._inner.execute(sql, args)

    def executemany(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        self._step()
        self._inner.executemany(sql, rows)

    def begin(self) -> None:
        self._step()
        self._inner.begin()

    def commit(self) -> None:
        self._step()
        self._inner.commit()
        self._step()

    def rollback(self) -> None:
        self._inner.rollback()

    def backup(self, target: Db) -> None:
        self._inner.backup(target)

    def close(self) -> None:
        self._inner.close()


async def _open(folder: Path, cut: _Cut | None = None) -> SqliteStore:
    connect = connect_stdlib if cut is None else cut.connect
    return await SqliteStore.open(
        folder / "s.db", clock=SystemClock(), connect=connect, inline=True, synchronous="normal"
    )


async def _plant(folder: Path, work: Path) -> None:
    (work / "long.txt").write_text(f"{'word ' * 8_000}{token(4)}")
    store = await _open(folder)
    looks = (call("Bash", command=f"echo {token(3)}; cat long.txt"), call("Read", path=str(work / "long.txt")), "Done.")
    for _ in range(2):  # two openings
        async with open_session(
            session_id=SESSION,
            model=scripted(*looks, *looks),
            store=store,
            cwd=work,
            permission_mode="bypassPermissions",
        ) as session:
            await session.run(f"Use {token(1)}.")
    await store.search("use")
    await store.close()


async def _erase(store: SqliteStore) -> None:
    eraser = Eraser(b"k" * 32)
    await erase(store, await store.meta(SESSION), eraser, reason="", clock=SystemClock())
    await scour(store)


def _run_cut(folder: Path, at: int) -> tuple[bool, int]:
    """Erase in a process of its own that ends at the operation `at`; whether it came to its end, and how many there were."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            cut = _Cut(at, folder)
            sys.addaudithook(cut.hook)

            async def work() -> None:
                store = await _open(folder, cut)
                cut.armed = True
                await _erase(store)
                cut.armed = False
                await store.close()

            anyio.run(work)
            os.write(write, str(cut.count).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    _, status = os.waitpid(child, 0)
    said = os.read(read, 20)
    os.close(read)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, _CUT), f"the erasing failed by itself with {code} when it was to be cut off at {at}"
    return code == 0, int(said or b"0")


async def _look_after(folder: Path) -> bool:
    """Check the store after a cut, finish the erasing, and check again. Return whether the log was the new one."""
    store = await _open(folder)
    assert await sessions.verify(store, SESSION) == ()
    records = (await store.read(SESSION)).records
    new = isinstance(records[-1].event, SecretsErased)
    found = await scan(store, await store.meta(SESSION), Eraser(b"k" * 32))
    assert not (new and found.spots)
    if found.spots or not await is_clean(store):
        await _erase(store)
    assert await sessions.verify(store, SESSION) == ()
    assert isinstance((await store.read(SESSION)).records[-1].event, SecretsErased)
    assert await is_clean(store)
    assert left_in(folder) == []
    await store.close()
    assert left_in(folder) == []
    return new


def test_an_erasing_may_be_cut_off_anywhere(tmp_path: Path) -> None:
    template, work = tmp_path / "template", tmp_path / "work"
    template.mkdir()
    work.mkdir()
    anyio.run(_plant, template, work)
    assert left_in(template)
    seen: list[bool] = []
    at = 0
    while True:
        at += 1
        folder = tmp_path / f"cut-{at}"
        subprocess.run(["cp", "-a", str(template), str(folder)], check=True)
        whole, count = _run_cut(folder, at)
        if whole:
            assert count < at
            break
        seen.append(anyio.run(_look_after, folder))
        subprocess.run(["rm", "-r", str(folder)], check=True)
    assert set(seen) == {False, True}
    assert seen == sorted(seen)
    assert at > 30, at
