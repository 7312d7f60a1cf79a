"""Files in UTF-16 and UTF-32, as PowerShell writes them: a secret in one is found, and what was kept of the file is given up."""

import codecs
from pathlib import Path

import pytest

from backstay import open_session
from backstay.catalog import sessions
from backstay.logic.secrets.erase import Eraser
from backstay.secrets.erase import erase, scour
from backstay.secrets.scan import scan
from backstay.stores.open import open_store
from backstay.system.machine import SystemClock
from tests.contracts.kit import call, scripted
from tests.secrets.planted import bare, token
from tests.secrets.test_erase_names import KEY, unpacked

SESSION = "wide"
TEXT = f"Schlüssel € \r\nGITHUB_TOKEN={token(1)}\r\napi_key: {bare(2)}…\r\n"
ENCODINGS = {
    "utf-16": codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
    "utf-16 the other way": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
    "utf-16 without a mark": TEXT.encode("utf-16-le"),
    "utf-32": codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"),
    "utf-32 the other way": codecs.BOM_UTF32_BE + TEXT.encode("utf-32-be"),
    "utf-16 behind UTF-8": b"plain\n" + TEXT.encode("utf-16-le"),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_secret_in_a_file_of_wide_letters_is_erased(encoding: str, tmp_path: Path) -> None:
    work, data = tmp_path / "work", tmp_path / "store"
    work.mkdir()
    data.mkdir()
    (work / "k.txt").write_bytes(ENCODINGS[encoding])
    store = await open_store(f"sqlite:///{data}/s.db", clock=SystemClock())
    model = scripted(call("Bash", command="cat k.txt; echo new > k.txt"), f"It says {bare(2)} there.")
    async with open_session(
        session_id=SESSION, model=model, store=store, cwd=work, permission_mode="bypassPermissions"
    ) as session:
        await session.run("Go.")
    wide = [secret.encode(name) for secret in (token(1), bare(2)) for name in ("utf-16-le", "utf-32-le")]
    codec = "utf-32-le" if encoding.startswith("utf-32") else "utf-16-le"
    assert token(1).encode(codec)[1:-4] in unpacked(data)

    assert (await scan(store, await store.meta(SESSION), Eraser(KEY))).count > 0
    erased = await erase(store, await store.meta(SESSION), Eraser(KEY), reason="a test", clock=SystemClock())
    await scour(store)

    left = unpacked(data)
    assert erased.contents == 1
    assert not any(each[1:-4] in left for each in wide)  # in either order of bytes
    shown = left.decode("utf-8", "replace").replace("\ufffd", "")
    assert token(1) not in shown  # of what the command printed
    assert bare(2) not in shown  # told by the file, and said by the model
    assert (await scan(store, await store.meta(SESSION), Eraser(KEY))).spots == ()
    assert await sessions.verify(store, SESSION) == ()
    await store.close()
