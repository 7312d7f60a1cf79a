"""Files that were cut or altered: every byte, never sampled."""

from pathlib import Path

import pytest

from holdfast.ports import LogSlice, SessionQuery
from holdfast.stores.jsonl import JsonlStore
from holdfast.stores.jsonl_lines import FORMAT, Beginning, Claim, read_lines, seal, seal_batch, seal_struct
from holdfast.stores.jsonl_log import HeldSegments, Place, read_log
from holdfast.testing.builders import START
from holdfast.testing.store_examples import owner, say
from holdfast.vocab.errors import LogDamaged, NeedsUpgrade, NoSession
from holdfast.wire.codec import encode
from tests.stores.jsonl_kit import BATCHES, EVENTS, WHOLE, head, jsonl, lay, segments

pytestmark = pytest.mark.anyio


def test_a_log_cut_at_every_byte_is_a_prefix_of_whole_appends() -> None:
    whole = segments()
    seen = set()
    for token, older in ((1, {}), (2, {1: whole[1]})):
        for cut in range(len(whole[token]) + 1):
            found = read_log(HeldSegments({**older, token: whole[token][:cut]}))
            assert found.records == EVENTS[: len(found.records)]
            assert len(found.records) in WHOLE
            assert found.flaw is None or cut < whole[token].index(b"\n") + 1
            seen.add(len(found.records))
    assert seen == WHOLE


def test_a_segment_that_lost_bytes_others_build_on_is_damaged() -> None:
    whole = segments()
    for cut in range(len(whole[1])):
        found = read_log(HeldSegments({1: whole[1][:cut], 2: whole[2]}))
        assert found.flaw is not None
        assert found.records == EVENTS[: len(found.records)]
        assert len(found.records) < 5 or cut >= len(whole[1])


@pytest.mark.parametrize("flip", [0x01, 0x80, "newline"])
def test_a_byte_altered_anywhere_is_named_and_what_stands_before_it_is_read(flip: int | str) -> None:
    whole = segments()
    for token, content in whole.items():
        for place, byte in enumerate(content):
            new = 0x0A if flip == "newline" else byte ^ int(flip)
            if new == byte:
                continue
            altered = {**whole, token: content[:place] + bytes([new]) + content[place + 1 :]}
            found = read_log(HeldSegments(altered))
            assert found.flaw is not None
            assert found.flaw.kind == "damaged"
            assert f"{token:08}.jsonl" in found.flaw.detail
            assert found.records == EVENTS[: len(found.records)]
            assert len(found.records) == _before(token, place)


def _before(token: int, place: int) -> int:
    """The events of the appends that end before a byte."""
    whole = segments()
    count, end = (0, whole[1].index(b'{"seq"')) if token == 1 else (5, whole[2].index(b'{"seq"'))
    for batch in BATCHES[:3] if token == 1 else BATCHES[3:]:
        end += len(seal_batch(batch))
        if place < end:
            break
        count += len(batch)
    return count


def test_a_line_is_the_event_as_it_goes_over_the_wire_with_a_checksum() -> None:
    first, *_, last = seal_batch(EVENTS[:3]).splitlines()
    assert first.startswith(encode(EVENTS[0])[:-1] + b',"left":2,"crc":"')
    assert last.startswith(encode(EVENTS[2])[:-1] + b',"crc":"')


def test_a_line_missing_from_a_batch_is_found_without_decoding_anything() -> None:
    first, second, third = seal_batch(EVENTS[:3]).splitlines(keepends=True)
    for lines in (first + third, first + second + seal_batch(EVENTS[3:5]), first + first):
        found = read_lines(lines, 0, 0, after=100)
        assert found.flaw is not None
        assert (found.end, found.seq) == (0, 0)
    assert read_lines(second + third, 0, 1, after=100).flaw is None


def test_a_gap_between_segments_and_a_missing_segment_are_damage() -> None:
    whole = segments()
    gap = head(2, Beginning(prev=1, length=len(whole[1]), after=6)) + seal_batch([say("x", 7)])
    for contents in ({1: whole[1], 2: gap}, {2: whole[2]}):
        found = read_log(HeldSegments(contents))
        assert found.flaw is not None
        assert found.flaw.kind == "damaged"
        assert found.records == EVENTS[: 5 if 1 in contents else 0]


def test_a_segment_that_nobody_names_never_was_part_of_the_log() -> None:
    whole = segments()
    late = head(2, Beginning(prev=1, length=len(whole[1]), after=5)) + seal_batch([say("too late", 6)])
    third = head(3, Beginning(prev=1, length=len(whole[1]), after=5)) + seal_batch(BATCHES[3])
    claimed = seal_struct(Claim(segment=4, session="s1", since=0))
    found = read_log(HeldSegments({1: whole[1], 2: late, 3: third, 4: claimed}))
    assert (found.records, found.flaw, found.chain) == (EVENTS, None, (1, 3))


def test_reading_goes_on_from_a_place_and_finds_out_when_the_place_is_gone() -> None:
    whole = segments()
    after_first = Place(segment=1, offset=len(whole[1]), seq=5)
    found = read_log(HeldSegments(whole), after=5, place=after_first)
    assert (found.records, found.resumed) == (EVENTS[5:], True)
    for wrong in (
        Place(segment=1, offset=len(whole[1]) + 1, seq=5),
        Place(segment=3, offset=0, seq=5),
        Place(segment=1, offset=300, seq=5),
    ):
        found = read_log(HeldSegments(whole), after=5, place=wrong)
        assert (found.records, found.flaw, found.resumed) == (EVENTS[5:], None, False)


async def test_a_torn_tail_is_cut_reported_and_kept(tmp_path: Path) -> None:
    torn = {1: segments()[1][:-1]}
    async with jsonl(tmp_path) as store:
        folder = lay(tmp_path, "s1", torn)
        found = await store.read("s1")
        assert found.records == EVENTS[:4]
        assert found.trouble is not None
        assert (found.trouble.kind, found.trouble.seq) == ("torn", 4)
        lease = await store.lease("s1", owner())
        again = await store.read("s1")
        assert again.trouble is not None
        assert (again.records, again.trouble.kind) == (EVENTS[:4], "torn")
        await store.append(lease, 4, (say("on", 5),))
        assert (folder / "00000001.jsonl").read_bytes() == torn[1]
        assert await store.verify("s1") == ()
        await store.release(lease)
        await store.lease("s1", owner())
        again = await store.read("s1")
        assert (again.records, again.trouble) == ((*EVENTS[:4], say("on", 5)), None)
        assert [note.partition(":")[0] for note in again.notes] == ["00000001.jsonl"]
        assert "needs no repair" in await store.repair("s1")


async def test_bytes_missing_from_a_segment_that_was_given_back_are_damage(tmp_path: Path) -> None:
    async with jsonl(tmp_path) as store:
        for number in (0, 1):
            lease = await store.lease("s1", owner())
            for record in EVENTS[number * 3 : number * 3 + 3]:
                await store.append(lease, record.seq - 1, (record,))
            await store.release(lease)
        whole = {path.name: path.read_bytes() for path in (tmp_path / "sessions/s1").glob("*.*")}
        last = whole["00000002.jsonl"]
        start = last.rindex(b"\n", 0, len(last) - 1) + 1
        for cut in range(start, len(last)):
            folder = lay(tmp_path, f"cut{cut}", {})
            for name, content in {**whole, "00000002.jsonl": last[:cut]}.items():
                (folder / name).write_bytes(content)

            await missed(store, f"cut{cut}")
        assert await store.verify("s1") == ()


async def missed(store: JsonlStore, session: str) -> None:
    """The last event of six is gone: everybody is told, until a repair."""
    for _ in range(2):
        found = await store.read(session)
        assert found.records == EVENTS[:5]
        assert found.trouble is not None
        assert (found.trouble.kind, found.notes) == ("damaged", ())
        assert await store.verify(session) == (found.trouble.detail,)
        lease = await store.lease(session, owner())
        with pytest.raises(LogDamaged, match="repair"):
            await store.append(lease, 5, (say("x", 6),))
        await store.release(lease)
    await store.repair(session)
    lease = await store.lease(session, owner())
    await store.append(lease, 5, (say("x", 6),))
    assert await store.read(session) == LogSlice(records=(*EVENTS[:5], say("x", 6)))
    await store.release(lease)


async def test_every_damaged_line_refuses_writes_until_a_repair_that_destroys_nothing(tmp_path: Path) -> None:
    whole = segments()
    places = [(token, end - 1) for token, content in whole.items() for end in _line_ends(content)]
    async with jsonl(tmp_path) as store:
        for number, (token, place) in enumerate(places):
            session = f"s{number}"
            content = whole[token]
            damaged = {**whole, token: content[:place] + b"?" + content[place + 1 :]}
            lay(tmp_path, session, damaged)
            found = await store.read(session)
            assert found.trouble is not None
            assert found.trouble.kind == "damaged"
            count = len(found.records)
            lease = await store.lease(session, owner())
            with pytest.raises(LogDamaged, match="repair"):
                await store.append(lease, count, (say("x", count + 1),))
            assert await store.read(session) == found
            assert found.trouble.detail in await store.verify(session)
            aside = Path((await store.repair(session)).split("'")[-2])
            for each in range(token, 3):
                assert (aside / f"{each:08}.jsonl").read_bytes() == damaged[each]
            lease = await store.lease(session, owner())
            await store.append(lease, count, (say("x", count + 1),))
            assert await store.read(session) == LogSlice(records=(*EVENTS[:count], say("x", count + 1)))
            assert await store.verify(session) == ()
        listed = {meta.id: meta.seq for meta in await store.list()}
        assert len(listed) == len(places)


def _line_ends(content: bytes) -> list[int]:
    return [place for place, byte in enumerate(content) if byte == 0x0A]


async def test_a_damaged_session_is_listed_with_what_can_be_read_and_hides_no_other(tmp_path: Path) -> None:
    whole = segments()
    async with jsonl(tmp_path) as store:
        lay(tmp_path, "sound", whole)
        lay(tmp_path, "late", {1: whole[1].replace(b'"input":"i5"', b'"input":"i6"')})
        lay(tmp_path, "headless", {1: b"?" + whole[1]})
        lay(tmp_path, "empty", {})
        lay(tmp_path, "not a session", whole)
        (tmp_path / "sessions" / "stray.txt").write_text("a file")
        found = {meta.id: meta.seq for meta in await store.list()}
        assert found == {"sound": 7, "late": 4, "headless": 0}
        assert {hit.session for hit in await store.search("a")} == {"sound", "late"}


async def test_a_session_of_which_nothing_can_be_read_is_neither_empty_nor_old(tmp_path: Path) -> None:
    whole = segments()
    lines = whole[1].splitlines(keepends=True)
    async with jsonl(tmp_path) as store:
        lay(tmp_path, "headless", {1: b"?" + whole[1]})
        lay(tmp_path, "beheaded", {2: whole[2]})
        lay(tmp_path, "thinned", {1: b"".join(lines[:2] + lines[3:])})
        metas = await store.list(SessionQuery(include_empty=False))
        assert {meta.id for meta in metas} == {"headless", "beheaded", "thinned"}
        for meta in metas:
            assert "cannot be read" in meta.prompt
            assert meta.updated > START
            assert await store.meta(meta.id) == meta


async def test_a_newer_session_is_read_as_far_as_possible_and_not_written(tmp_path: Path) -> None:
    whole = segments()
    newer = seal(encode(say("x", 6)).replace(b'"type":"input_received"', b'"type":"dream_dreamt"'))
    contents = {"event": {1: whole[1] + newer}, "format": {1: whole[1], 2: seal(b'{"format":%d}' % (FORMAT + 1))}}
    async with jsonl(tmp_path) as store:
        for session, content in contents.items():
            lay(tmp_path, session, content)
            found = await store.read(session)
            assert found.trouble is not None
            assert (found.records, found.trouble.kind, found.trouble.seq) == (EVENTS[:5], "newer", 5)
            lease = await store.lease(session, owner())
            with pytest.raises(NeedsUpgrade):
                await store.append(lease, 5, (say("x", 6),))
            with pytest.raises(NeedsUpgrade):
                await store.repair(session)
            assert (await store.read(session)).trouble == found.trouble


async def test_a_store_of_a_newer_format_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text(f'{{"format": {FORMAT + 1}, "identity": "x"}}')
    with pytest.raises(NeedsUpgrade):
        async with jsonl(tmp_path):
            pass


async def test_a_log_without_one_whole_append_is_no_session(tmp_path: Path) -> None:
    first = segments()[1]
    async with jsonl(tmp_path) as store:
        lay(tmp_path, "s1", {1: first[: first.index(b'{"seq"')]})
        with pytest.raises(NoSession):
            await store.read("s1")
