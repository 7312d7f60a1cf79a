"""Secrets in names of files, of folders and in targets of links: listings of kept folders that hold one are given up."""

import contextlib
import os
import zlib
from pathlib import Path

import pytest

from backstay import open_session
from backstay.catalog import sessions
from backstay.logic.secrets.erase import Eraser
from backstay.logic.secrets.rewrite import LISTING_LOST
from backstay.secrets.erase import erase, scour
from backstay.secrets.scan import scan
from backstay.stores.open import open_store
from backstay.system.machine import SystemClock
from tests.contracts.kit import call, scripted
from tests.secrets.planted import token

KEY = b"k" * 32
SESSION = "named"


def unpacked(folder: Path) -> bytes:
    """All bytes of a folder's files, and what is compressed in them."""
    found: list[bytes] = []
    for path in (each for each in folder.rglob("*") if each.is_file()):
        content = path.read_bytes()
        found.append(content)
        at = content.find(b"\x78\x01")
        while at >= 0:
            with contextlib.suppress(zlib.error):  # it may only look as if something compressed began here
                found.append(zlib.decompressobj().decompress(content[at:]))
            at = content.find(b"\x78\x01", at + 1)
    return b"\n".join(found)


@pytest.mark.parametrize("place", ["file", "folder", "link"])
async def test_a_secret_in_a_name_of_a_kept_folder_is_erased(place: str, tmp_path: Path) -> None:
    work, data = tmp_path / "work", tmp_path / "store"
    work.mkdir()
    data.mkdir()
    if place == "file":
        (work / f"{token(1)}.txt").write_text("x")
    elif place == "folder":
        (work / token(1)).mkdir()
        (work / token(1) / "x").write_text("x")
    else:
        os.symlink(f"/nowhere/{token(1)}", work / "link")
    (work / "plain.txt").write_text("old")
    store = await open_store(f"sqlite:///{data}/s.db", clock=SystemClock())
    model = scripted(
        call("Bash", command="echo new > plain.txt"), "One.", call("Bash", command="echo newer > plain.txt"), "Two."
    )
    async with open_session(
        session_id=SESSION, model=model, store=store, cwd=work, permission_mode="bypassPermissions"
    ) as session:
        await session.run("Go.")
        for name in list(work.iterdir()):
            if name.name != "plain.txt":
                name.rename(tmp_path / "aside")  # the second turn is kept without it
        await session.run("Go on.")
        first, second = (each.turn for each in session.turns)
    meta = await store.meta(SESSION)
    assert token(1).encode() in unpacked(data)
    found = await scan(store, meta, Eraser(KEY))
    assert found.count > 0

    erased = await erase(store, meta, Eraser(KEY), reason="a test", clock=SystemClock())
    await scour(store)

    assert erased.contents == 1
    assert token(1).encode() not in unpacked(data)
    assert (await scan(store, await store.meta(SESSION), Eraser(KEY))).spots == ()
    assert await sessions.verify(store, SESSION) == ()
    async with open_session(resume=SESSION, model=model, store=store, cwd=work) as session:
        assert (await session.checkpoints())[0].why_not.endswith(LISTING_LOST)
        assert LISTING_LOST in (await session.restore_files(before=first)).warnings
        await session.restore_files(undo="latest")
        assert (work / "plain.txt").read_text() == "newer\n"
        await session.restore_files(before=second)
        assert (work / "plain.txt").read_text() == "new\n"
    await store.close()


async def test_a_file_with_a_secret_in_its_name_is_not_put_back_under_the_mark(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    path = work / f"{token(1)}.txt"
    path.write_text("old")
    store = await open_store(f"sqlite://{tmp_path}/store", clock=SystemClock())
    model = scripted(call("Read", file_path=str(path)), call("Write", file_path=str(path), content="new"), "Done.")
    async with open_session(
        session_id=SESSION, model=model, store=store, cwd=work, permission_mode="bypassPermissions"
    ) as session:
        await session.run("Go.")
        first = session.turns[0].turn
    await erase(store, await store.meta(SESSION), Eraser(KEY), reason="a test", clock=SystemClock())
    path.unlink()
    async with open_session(resume=SESSION, model=model, store=store, cwd=work) as session:
        result = await session.restore_files(before=first)
    assert result.problems
    assert list(work.iterdir()) == []
    await store.close()
