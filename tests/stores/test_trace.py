"""The trace: readable while it is written, honest about what it lost, harmless when the disk is not."""

import contextlib
import os
import resource
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import anyio
import pytest

from backstay.ports import Trace
from backstay.stores.stored_trace import TraceSlice, read_trace
from backstay.stores.trace import CUT, LOST, FileTrace, MemoryTrace, NoTrace, TraceLine, delete_trace, trace_path
from backstay.vocab.deltas import TextDelta, ToolOutputDelta
from backstay.vocab.errors import BadId, StoreUnavailable

pytestmark = pytest.mark.anyio


def line(n: int, text: str = "", *, after: int = 0, token: int = 0, kind: str = "text_delta") -> TraceLine:
    return TraceLine(after=after, token=token, n=n, at=5, kind=kind, data={"text": text or str(n)})


def trace_in(folder: Path, max_bytes: int = 1 << 20) -> FileTrace:
    return FileTrace(folder / "traces", max_bytes=max_bytes, now=lambda: 5)


def wait_for_lines(folder: Path, count: int) -> TraceSlice:
    """Read until the flusher has brought `count` lines; the test's own timeout ends a wait in vain."""
    while len((found := read_trace(folder, "s1")).lines) < count:
        time.sleep(0.002)
    return found


@contextlib.contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Let no file grow over `size` bytes: the nearest thing to a full disk that a test can have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.contract("RB-31")
async def test_lines_are_readable_while_the_run_goes_on(tmp_path: Path) -> None:
    trace = trace_in(tmp_path)
    trace.write("s1", "text_delta", {"text": "1"})
    assert wait_for_lines(tmp_path / "traces", 1) == TraceSlice(lines=(line(1),))

    trace.write("s1", "text_delta", {"text": "2"})
    assert wait_for_lines(tmp_path / "traces", 2) == TraceSlice(lines=(line(1), line(2)))
    await trace.close()


async def test_a_line_is_one_json_object_with_its_key(tmp_path: Path) -> None:
    trace = trace_in(tmp_path)
    trace.position("s1", after=12, token=3)
    trace.write("s1", "text_delta", {"text": "hi", "after": 99})
    await trace.close()

    stored = (tmp_path / "traces" / "s1.jsonl").read_bytes()
    assert stored == b'{"after":12,"token":3,"n":1,"at":5,"kind":"text_delta","data":{"text":"hi","after":99}}\n'


async def test_numbers_start_over_only_when_the_position_changes(tmp_path: Path) -> None:
    for trace in (trace_in(tmp_path), memory := MemoryTrace(now=lambda: 5)):
        trace.write("s1", "text_delta", {"text": "a"})
        trace.position("s1", after=1, token=1)
        trace.write("s1", "text_delta", {"text": "b"})
        trace.position("s1", after=1, token=1)
        trace.write("s1", "text_delta", {"text": "c"})
        trace.position("s1", after=1, token=2)
        trace.write("s1", "text_delta", {"text": "d"})
        await trace.close()

    expected = (
        line(1, "a"),
        line(1, "b", after=1, token=1),
        line(2, "c", after=1, token=1),
        line(1, "d", after=1, token=2),
    )
    assert read_trace(tmp_path / "traces", "s1").lines == expected
    assert memory.lines("s1") == expected


async def test_flush_brings_everything_to_the_files_in_order(tmp_path: Path) -> None:
    trace = trace_in(tmp_path)
    for n in range(1, 2_001):
        trace.write(f"s{n % 3}", "text_delta", {"text": "x" * 100, "number": n})
    await trace.flush()

    found = [read_trace(tmp_path / "traces", f"s{k}") for k in range(3)]
    assert [slice_.lost for slice_ in found] == [0, 0, 0]
    assert [[each.data["number"] for each in slice_.lines] for slice_ in found] == [
        [n for n in range(1, 2_001) if n % 3 == k] for k in range(3)
    ]
    await trace.close()


async def test_lines_of_many_threads_all_arrive(tmp_path: Path) -> None:
    trace = trace_in(tmp_path)

    def speak(who: int) -> None:
        for n in range(300):
            trace.write("s1", "text_delta", {"text": f"{who}/{n}"})

    speakers = [threading.Thread(target=speak, args=(who,)) for who in range(4)]
    for speaker in speakers:
        speaker.start()
    for speaker in speakers:
        speaker.join()
    await trace.close()

    lines = read_trace(tmp_path / "traces", "s1").lines
    assert {each.data["text"] for each in lines} == {f"{who}/{n}" for who in range(4) for n in range(300)}
    assert sorted(each.n for each in lines) == list(range(1, 1_201))


async def test_files_are_private(tmp_path: Path) -> None:
    trace = FileTrace(tmp_path / "new" / "traces")
    trace.write("s1", "text_delta", {})
    await trace.close()

    modes = [stat.S_IMODE(os.stat(tmp_path / path).st_mode) for path in ("new", "new/traces", "new/traces/s1.jsonl")]
    assert modes == [0o700, 0o700, 0o600]


async def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "s1.jsonl").symlink_to(tmp_path / "elsewhere")
    trace = trace_in(tmp_path)
    trace.write("s1", "text_delta", {})
    await trace.close()

    assert trace.lost == 1
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("cut", range(1, 10))
async def test_a_torn_tail_is_lost_not_invalid(tmp_path: Path, cut: int) -> None:
    trace = trace_in(tmp_path)
    for text in ("1", "2"):
        trace.write("s1", "text_delta", {"text": text})
    await trace.close()
    path = trace_path(tmp_path / "traces", "s1")
    path.write_bytes(path.read_bytes()[: -1 - cut])

    assert read_trace(tmp_path / "traces", "s1") == TraceSlice(lines=(line(1),), lost=1)


async def test_a_torn_tail_does_not_spoil_what_the_next_process_writes(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    trace_path(tmp_path / "traces", "s1").write_bytes(b'{"after":1,"tok')
    trace = trace_in(tmp_path)
    trace.write("s1", "text_delta", {"text": "1"})
    await trace.close()

    assert read_trace(tmp_path / "traces", "s1") == TraceSlice(lines=(line(1),), lost=1)


@pytest.mark.parametrize("damage", [b"\xff\x00{", b"[]", b'{"after":1}', b'{"data":' + b"[" * 50_000])
async def test_damaged_bytes_hide_no_other_line(tmp_path: Path, damage: bytes) -> None:
    trace = trace_in(tmp_path)
    for n in range(1, 4):
        trace.write("s1", "text_delta", {"text": str(n)})
    await trace.close()
    path = trace_path(tmp_path / "traces", "s1")
    first, _, third = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join((first, damage, third, b"")))

    assert read_trace(tmp_path / "traces", "s1") == TraceSlice(lines=(line(1), line(3)), lost=1)


async def test_a_trace_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read_trace(tmp_path, "s1") == TraceSlice(lines=())


async def test_a_trace_that_cannot_be_read_is_a_named_error(tmp_path: Path) -> None:
    (tmp_path / "s1.jsonl").mkdir()

    with pytest.raises(StoreUnavailable, match="Cannot read the trace"):
        read_trace(tmp_path, "s1")


async def test_the_oldest_lines_are_dropped_at_the_cap_and_the_trace_says_so(tmp_path: Path) -> None:
    trace = trace_in(tmp_path, max_bytes=2_000)
    for n in range(1, 101):
        trace.write("s1", "text_delta", {"text": str(n)})
        await trace.flush()
    await trace.close()

    found = read_trace(tmp_path / "traces", "s1")
    assert (found.cut, found.lost) == (True, 0)
    assert any(
        each == TraceLine(after=0, token=0, n=0, at=5, kind=CUT, data={"max_bytes": 2_000}) for each in found.lines
    )
    kept = [each.n for each in found.lines if each.kind == "text_delta"]
    assert kept == list(range(kept[0], 101))
    held = sum(path.stat().st_size for path in (tmp_path / "traces").iterdir())
    assert 1_000 <= held <= 2_000


async def test_a_restart_keeps_to_the_cap(tmp_path: Path) -> None:
    for _ in range(30):
        trace = trace_in(tmp_path, max_bytes=2_000)
        for _ in range(3):
            trace.write("s1", "text_delta", {"text": "x"})
            await trace.flush()
        await trace.close()

    assert sum(path.stat().st_size for path in (tmp_path / "traces").iterdir()) <= 2_000 + 300


async def test_a_session_never_shares_the_older_file_of_another(tmp_path: Path) -> None:
    trace = trace_in(tmp_path, max_bytes=300)
    for session in ("a", "a.old", "a.jsonl", "a.jsonl.old"):
        for _ in range(5):
            trace.write(session, "text_delta", {"text": session})
            await trace.flush()
    await trace.close()

    for session in ("a", "a.old", "a.jsonl", "a.jsonl.old"):
        told = {
            each.data["text"] for each in read_trace(tmp_path / "traces", session).lines if each.kind == "text_delta"
        }
        assert told == {session}


async def test_a_failing_disk_costs_lines_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "traces").write_text("a file where the folder should be")
    trace = trace_in(tmp_path)
    trace.write("s1", "text_delta", {"text": "1"})
    trace.write("s1", "text_delta", {"text": "2"})
    await trace.flush()
    assert (trace.lost, bool(trace.problem)) == (2, True)

    (tmp_path / "traces").unlink()
    for text in ("3", "4"):
        trace.write("s1", "text_delta", {"text": text})
        await trace.flush()
    await trace.close()

    lost = TraceLine(after=0, token=0, n=0, at=5, kind=LOST, data={"lines": 2})
    assert read_trace(tmp_path / "traces", "s1") == TraceSlice(lines=(lost, line(3), line(4)), lost=2)
    assert trace.lost == 2


async def test_a_disk_that_fills_up_in_the_middle_of_a_line_costs_that_line_and_the_next(tmp_path: Path) -> None:
    trace = trace_in(tmp_path)
    trace.write("s1", "text_delta", {"text": "1"})
    await trace.flush()
    trace.write("s1", "text_delta", {"text": "2"})
    trace.write("s1", "text_delta", {"text": "3"})
    with files_limited_to(100):
        await trace.flush()
    assert trace.lost == 2
    trace.write("s1", "text_delta", {"text": "4"})
    await trace.close()

    lost = TraceLine(after=0, token=0, n=0, at=5, kind=LOST, data={"lines": 2})
    torn = 1
    assert read_trace(tmp_path / "traces", "s1") == TraceSlice(lines=(line(1), lost, line(4)), lost=2 + torn)


async def test_what_is_written_after_closing_is_counted_as_lost(tmp_path: Path) -> None:
    trace = trace_in(tmp_path)
    trace.write("s1", "text_delta", {"text": "1"})
    await trace.close()
    trace.write("s1", "text_delta", {"text": "2"})
    await trace.close()

    assert (trace.lost, trace.problem) == (1, "the trace is closed")
    assert read_trace(tmp_path / "traces", "s1").lines == (line(1),)


async def test_closing_ends_the_thread_even_inside_a_cancelled_scope(tmp_path: Path) -> None:
    trace = trace_in(tmp_path)
    trace.write("s1", "text_delta", {"text": "1"})
    with anyio.CancelScope() as scope:
        scope.cancel()
        await trace.close()

    assert [each.name for each in threading.enumerate() if each.name == "backstay-trace"] == []
    assert read_trace(tmp_path / "traces", "s1").lines == (line(1),)


async def test_no_thread_runs_before_the_first_line(tmp_path: Path) -> None:
    trace = trace_in(tmp_path)
    trace.position("s1", after=1, token=1)

    assert [each.name for each in threading.enumerate() if each.name == "backstay-trace"] == []
    await trace.close()
    assert not (tmp_path / "traces").exists()


class Odd:
    """Something that no encoder knows."""


@pytest.mark.parametrize(
    ("content", "stored"),
    [
        ({"odd": Odd()}, {"odd": "<Odd>"}),
        ({"raw": b"\x00\x01"}, {"raw": "AAE="}),
        ({"text": "half \ud800"}, {"salvaged": '{"text": "half ?"}'}),
        ({"map": {(1, 2): "x"}, "odd": Odd()}, {"map": {"<tuple>": "x"}, "odd": "<Odd>"}),
    ],
)
async def test_content_that_cannot_be_encoded_is_salvaged(
    tmp_path: Path, content: dict[str, object], stored: dict[str, object]
) -> None:
    trace = trace_in(tmp_path)
    trace.write("s1", "payload", content)
    await trace.close()

    assert [each.data for each in read_trace(tmp_path / "traces", "s1").lines] == [stored]


async def test_a_delta_that_is_no_text_costs_its_own_line_and_ends_no_thread(tmp_path: Path) -> None:
    trace = FileTrace(tmp_path)
    for delta in (TextDelta(text="one"), TextDelta(text=cast(str, None)), ToolOutputDelta(call="c", text=cast(str, 5))):
        trace.write("s1", "text_delta", {"delta": delta})
    trace.position("s1", 1, 1)  # nothing waits for what may follow it
    with anyio.fail_after(5):
        while not read_trace(tmp_path, "s1").lines:  # only the thread writes
            await anyio.sleep(0.01)
    trace.write("s1", "text_delta", {"delta": TextDelta(text="two")})
    await trace.close()

    found = read_trace(tmp_path, "s1")
    assert [line.data["delta"]["text"] for line in found.lines if line.n] == ["one", "two"]  # type: ignore[index]  # JSON
    assert (trace.lost, found.lost) == (2, 2)
    assert "NoneType" in trace.problem or "int" in trace.problem


async def test_content_that_holds_itself_is_named_unwritable(tmp_path: Path) -> None:
    circle: dict[str, object] = {}
    circle["self"] = circle
    trace = trace_in(tmp_path)
    trace.write("s1", "payload", circle)
    await trace.close()

    (only,) = read_trace(tmp_path / "traces", "s1").lines
    assert list(only.data) == ["unwritable"]


async def test_a_line_holds_what_the_content_was_when_it_was_written(tmp_path: Path) -> None:
    content: dict[str, object] = {"text": "1"}
    trace = trace_in(tmp_path)
    trace.write("s1", "text_delta", content)
    content["text"] = "changed"
    await trace.close()

    assert read_trace(tmp_path / "traces", "s1").lines == (line(1),)


@pytest.mark.parametrize("session", ["../up", "a/b", "", ".hidden"])
async def test_no_session_id_leads_out_of_the_folder(tmp_path: Path, session: str) -> None:
    trace = trace_in(tmp_path)

    with pytest.raises(BadId):
        trace.write(session, "text_delta", {})
    with pytest.raises(BadId):
        read_trace(tmp_path, session)
    await trace.close()


async def test_deleting_a_trace_leaves_nothing_of_it(tmp_path: Path) -> None:
    trace = trace_in(tmp_path, max_bytes=300)
    for _ in range(5):
        trace.write("s1", "text_delta", {"text": "x"})
        await trace.flush()
    trace.write("s2", "text_delta", {"text": "1"})
    await trace.close()
    delete_trace(tmp_path / "traces", "s1")
    delete_trace(tmp_path / "traces", "s1")

    assert [path.name for path in (tmp_path / "traces").iterdir()] == ["s2.jsonl"]


@pytest.mark.parametrize("make", [MemoryTrace, NoTrace])
async def test_a_trace_without_files_plays_the_same_role(make: Callable[[], MemoryTrace | NoTrace]) -> None:
    trace: Trace = (made := make())
    made.position("s1", after=1, token=1)
    trace.write("s1", "text_delta", {"text": "1"})
    await trace.flush()
    await trace.close()
