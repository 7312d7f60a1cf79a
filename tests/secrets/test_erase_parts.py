"""A key that was cut leaves nothing behind: not in the error about a call that was cut off, nor anywhere else a part of it stands."""

import time
from collections import Counter
from pathlib import Path

import pytest

from backstay import open_session, open_store
from backstay.logic.secrets.erase import Eraser
from backstay.secrets.erase import erase, scour
from backstay.secrets.scan import scan
from backstay.system.machine import SystemClock
from tests.contracts.kit import scripted
from tests.secrets.planted import SESSION

BODY = "dZUsrY8Dk3Vt9QwLr7XyB2NmHc8PdSfGaJe5U1oKiT4xWn6Zq0RvCp3Mb9LsTh7EgYu2AjFi5OkXd8NwVz1QtHr4BcPm6KyGl0SeJa3U"
ANTHROPIC = f"sk-ant-api03-{BODY}"
STRIPE = f"sk_live_{BODY[:40]}"
HARMLESS = "A word of 12 characters: productivity; and api03 at the end"


def pieces(size: int) -> list[str]:
    return [BODY[at : at + size] for at in range(len(BODY) - size + 1)]


def written(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_b3_a_call_that_was_cut_off_leaves_no_part_of_its_key(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    cut = '{"command": "curl -H \'x-api-key: ' + ANTHROPIC
    replies = ({"raw_args": {"name": "Bash", "text": cut}}, "Done.")
    store = await open_store(url)
    async with open_session(session_id=SESSION, model=scripted(*replies), store=store, cwd=tmp_path) as session:
        await session.run("Go on.")
    said = written(tmp_path)
    assert ANTHROPIC.encode() in said

    await erase(store, await store.meta(SESSION), Eraser(b"k" * 32), reason="", clock=SystemClock())
    await scour(store)

    assert (await scan(store, await store.meta(SESSION), Eraser(b"k" * 32))).spots == ()
    await store.close()
    left = written(tmp_path)
    assert [piece for piece in pieces(12) if piece.encode() in left] == []


@pytest.mark.parametrize("chunk", [3, 4, 7, 40])
async def test_parts_of_a_known_value_in_a_stream_are_erased_at_once(chunk: int, tmp_path: Path) -> None:
    word = "plainwordkeyvalue"
    split = f"printf plainword; echo keyvalue; printf %s {word[:5]}; printf %s {word[5:]}"
    store = await open_store(f"sqlite://{tmp_path}/store")
    replies = (
        {
            "text": f"Say {word[:9]}, {word[9:]}.",
            "chunk": chunk,
            "calls": [{"name": "Bash", "args": {"command": split}}],
        },
        {"text": "Done.", "chunk": chunk},
    )
    async with open_session(
        session_id=SESSION, model=scripted(*replies), store=store, cwd=tmp_path, permission_mode="bypassPermissions"
    ) as session:
        await session.run("Go on.")
    before = await scan(store, await store.meta(SESSION), Eraser(b"k" * 32, [word]))
    assert "trace" in {spot.where for spot in before.spots}

    await erase(store, await store.meta(SESSION), Eraser(b"k" * 32, [word]), reason="", clock=SystemClock())
    await scour(store)

    assert (await scan(store, await store.meta(SESSION), Eraser(b"k" * 32, [word]))).spots == ()
    again = await erase(store, await store.meta(SESSION), Eraser(b"k" * 32, [word]), reason="", clock=SystemClock())
    assert again.count == 0
    await store.close()


@pytest.mark.parametrize("size", [1, 2, 5, 50])
def test_the_mark_of_a_secret_that_is_split_stands_where_it_begins(size: int) -> None:
    text = f"a {STRIPE} b {STRIPE}{ANTHROPIC} c"
    given = ["", *(text[at : at + size] for at in range(0, len(text), size)), ""]
    eraser = Eraser(b"k" * 32)
    clean = eraser.pieces(given)
    assert len(clean) == len(given)
    assert "".join(clean) == eraser.text(text)
    assert not [piece for piece in clean if "[ERASED" in piece and "]" not in piece]


@pytest.mark.parametrize("start", [0, 7, 40, 70, len(BODY) - 12])
def test_b3_twelve_characters_of_a_known_key_are_erased_wherever_they_stand(start: int) -> None:
    eraser = Eraser(b"k", [ANTHROPIC])
    text = f"data was cut, after x{BODY[start : start + 12]}. And so on."

    assert BODY[start : start + 12] not in eraser.text(text)
    assert eraser.text(HARMLESS) == HARMLESS


def test_b3_the_end_of_a_key_after_a_note_is_erased() -> None:
    eraser = Eraser(b"k")
    eraser.learn(f"STRIPE={STRIPE}")

    assert STRIPE[-8:] not in eraser.text(f"... [9,000 characters are left out]\n{STRIPE[-8:]}\nand more")


def test_c5_a_whole_key_is_counted_as_what_it_is() -> None:
    npm, bare = f"npm_{BODY[:36]}", BODY[50:80]
    eraser = Eraser(b"k")
    eraser.learn(f"use {npm}; api_key: {bare}")
    found = eraser.find(f"use {npm}; api_key: {bare}, and {bare}; {npm[20:]}")

    assert Counter(each.why for each in found) == {
        "an npm token": 1,
        "a secret that is named as one": 2,
        "a part of one": 1,
    }


def test_c5_the_time_to_learn_is_linear_in_the_number_of_distinct_secrets() -> None:
    def taken(count: int) -> float:
        texts = [f"token: ghp_{number:06}{BODY[number % 60 :][:30]}" for number in range(count)]
        eraser = Eraser(b"k")
        start = time.process_time()
        for text in texts:
            eraser.learn(text)
        return time.process_time() - start

    taken(10)
    assert taken(1_600) <= 24 * max(taken(200), 0.001)  # were it quadratic: 64
