"""Full-text search of the SQLite store: the watermark, words that look like syntax, and no FTS5 at all."""

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from backstay.stores.sqlite.writer import IDLE_S
from tests.stores.sqlite_kit import Open, Taps, beginning, begun, opening, owner, peek, said, tamper

pytestmark = pytest.mark.anyio

NO_FTS5 = ("words USING", "FROM words", "INTO words")


@pytest.fixture
async def open_at(tmp_path: Path) -> AsyncIterator[Open]:
    """Open stores in the test's folder that are closed at its end."""
    async with opening(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("forbidden", [(), NO_FTS5])
async def test_a_search_finds_what_was_said_a_moment_ago_newest_first(
    open_at: Open, forbidden: tuple[str, ...]
) -> None:
    taps = Taps()
    taps.forbidden = forbidden
    store = await open_at(connect=taps.connect)
    lease = await begun(store)
    await store.append(lease, 1, [said("A needle in a haystack", 2), said("No such thing", 3)])
    first = [hit.seq for hit in await store.search("NEEDLE")]
    await store.append(lease, 3, [said("another needle, please", 4)])

    assert first == [2]
    assert [hit.seq for hit in await store.search("needle")] == [4, 2]
    assert [hit.seq for hit in await store.search("needle haystack")] == [2]
    assert [hit.seq for hit in await store.search("haystack such")] == []
    assert len(await store.search("needle", limit=1)) == 1
    (hit,) = await store.search("hayst")
    assert (hit.session, hit.snippet, hit.meta) == ("s1", "A needle in a haystack", await store.meta("s1"))


@pytest.mark.parametrize("forbidden", [(), NO_FTS5])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('"', False),
        ("", False),
        ("*", False),
        ("AND", False),
        ("OR NOT", False),
        ("NEAR(path file)", False),
        ("text:path", True),
        ("^path", True),
        ("path*", True),
        ('"path"', True),
        ('path" OR "zebra', False),
        ("src/path_to-file.py", True),
        ("it's", True),
        ("'; DROP TABLE events; --", False),
        ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", True),
        ("CAF\N{LATIN CAPITAL LETTER E WITH ACUTE}", True),
        ("\N{CJK UNIFIED IDEOGRAPH-65E5}", True),
        ("100%", True),
        ("a\x00b", False),
        ("\U0001fae0", False),
        ("stra\u00dfe", True),
        ("a\U0001e900b", True),  # letters that are younger than the tokenizer
        ("a\u19b0b", True),  # one word to us, two to the tokenizer
        ("x" * 10_000, False),
        ("path " * 5_000, True),
    ],
)
async def test_what_people_type_is_never_taken_for_syntax(
    open_at: Open, forbidden: tuple[str, ...], query: str, found: bool
) -> None:
    taps = Taps()
    taps.forbidden = forbidden
    store = await open_at(connect=taps.connect, inline=True)
    lease = await begun(store)
    text = "the text: it's in src/path_to-file.py, 100% caf\N{LATIN SMALL LETTER E WITH ACUTE} 日本 "
    text += "Stra\u00dfe a\U0001e900b a\u19b0b"
    await store.append(lease, 1, [said(text, 2)])

    assert [hit.seq for hit in await store.search(query)] == [2] * found


async def test_a_snippet_is_cut_around_the_hit(open_at: Open) -> None:
    store = await open_at()
    lease = await begun(store)
    await store.append(lease, 1, [said("word " * 500 + "the\n  needle here" + " word" * 500, 2)])

    (hit,) = await store.search("needle")

    assert "word the needle here word" in hit.snippet
    assert hit.snippet[0] == hit.snippet[-1] == "…"
    assert len(hit.snippet) < 200


async def test_a_deleted_text_is_not_found_even_when_its_place_is_taken(open_at: Open, tmp_path: Path) -> None:
    store = await open_at()
    lease = await begun(store, "s1")
    await store.append(lease, 1, [said(f"old needle {seq}", seq) for seq in range(2, 20)])
    assert len(await store.search("needle")) == 18
    await store.delete("s1")
    lease = await begun(store, "s2")
    await store.append(lease, 1, [said(f"new straw {seq}", seq) for seq in range(2, 20)])

    assert await store.search("needle") == ()
    assert len(await store.search("straw")) == 18
    assert peek(tmp_path / "store.db", "SELECT rowid FROM words WHERE words MATCH 'needle'") == []


async def test_a_damaged_line_is_passed_over_by_the_index(open_at: Open, tmp_path: Path) -> None:
    store = await open_at()
    lease = await begun(store)
    await store.append(lease, 1, [said("first needle", 2), said("second needle", 3)])
    tamper(tmp_path / "store.db", "UPDATE events SET line = x'00' WHERE seq = 2")

    assert [hit.seq for hit in await store.search("needle")] == [3]
    await store.delete("s1")
    assert await store.search("needle") == ()


async def test_an_index_of_another_version_is_built_anew(open_at: Open, tmp_path: Path) -> None:
    store = await open_at()
    lease = await begun(store)
    await store.append(lease, 1, [said("needle", 2)])
    await store.search("needle")
    await store.close()
    tamper(tmp_path / "store.db", "UPDATE store SET value = 99 WHERE key = 'words'")
    tamper(tmp_path / "store.db", "DELETE FROM words_data WHERE id > 10")
    store = await open_at()

    assert [hit.seq for hit in await store.search("needle")] == [2]


async def test_search_agrees_with_reading_every_event(open_at: Open) -> None:
    chance, words = random.Random(4), ("ant", "bee", "cat", "dog", "eel", "fox")
    store = await open_at(inline=True)
    texts: dict[tuple[str, int], str] = {}
    for number in range(6):
        lease = await store.lease(f"s{number}", owner())
        records = [said(" ".join(chance.sample(words, 3)), seq) for seq in range(2, 8)]
        await store.append(lease, 0, [beginning(f"s{number}"), *records])
        texts |= {(f"s{number}", record.seq): record.event.parts[0].text for record in records}  # type: ignore[attr-defined]  # said() makes them
        if number == 3:
            await store.search("ant")
            await store.delete("s1")

    for one in words:
        for other in words:
            wanted = {where for where, text in texts.items() if {one, other} <= set(text.split()) and where[0] != "s1"}
            assert {(hit.session, hit.seq) for hit in await store.search(f"{one} {other}", limit=100)} == wanted


async def test_the_idle_writer_indexes_sweeps_up_and_empties_the_write_ahead_log(open_at: Open, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await open_at()
    await begun(store, "gone")
    tamper(path, "UPDATE sessions SET id = NULL, seq = 0")  # a delete whose process died half-way
    lease = await begun(store, "s1")
    await store.append(lease, 1, [said("needle", 2)])

    log = tmp_path / "store.db-wal"
    with anyio.fail_after(50):
        while log.stat().st_size:  # without looking into the database: whoever reads is in the way of emptying the log
            await anyio.sleep(0.02)

    assert peek(path, "SELECT count(*), (SELECT value FROM store WHERE key = 'indexed') FROM sessions") == [(1, 3)]
    assert peek(path, "SELECT rowid FROM words WHERE words MATCH 'needle'") == [(3,)]


async def test_a_reader_in_the_way_only_delays_the_emptying(open_at: Open, tmp_path: Path) -> None:
    path, log = tmp_path / "store.db", tmp_path / "store.db-wal"
    store = await open_at()
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sessions").fetchall()
        await begun(store, "s1")
        await anyio.sleep(3 * IDLE_S)
        assert log.stat().st_size

    with anyio.fail_after(50):
        while log.stat().st_size:
            await anyio.sleep(0.02)
