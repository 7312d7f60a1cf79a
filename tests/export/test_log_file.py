"""A session written to lines and made from them again: the same log, or a refusal that names the line."""

import io
import json
import os
import re
import signal
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from backstay import open_session
from backstay.catalog.paged_log import with_log
from backstay.export.log_file import Imported, import_log, log_lines
from backstay.logic.state.log_copies import is_quiet
from backstay.logic.state.progress import fold_all
from backstay.logic.state.session_state import state_of
from backstay.logic.stored_content import digest, find_cited_blobs
from backstay.ports import Answer, EventStore, Question, SessionQuery
from backstay.stores.memory import MemoryStore
from backstay.stores.owners import this_process
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from backstay.testing.builders import golden_logs, recorded, started
from backstay.testing.crash.harness import CrashSite
from backstay.testing.crash.stage import Scenario, memory_store
from backstay.vocab.errors import BackstayError, LogDamaged, NeedsUpgrade, NoSession
from backstay.vocab.event import Recorded
from backstay.vocab.events import ChildStarted, ModelChanged, ModelReplied, PermissionAnswered, Started, StoreChanged
from backstay.vocab.messages import ToolCall
from backstay.wire.json_lines import read_line
from tests.contracts.kit import call, scripted
from tests.crash.scenarios import SCENARIOS

CLOCK = SystemClock()
GOLDEN = golden_logs()
GOLDEN["every_event"] = (
    recorded(started("golden"), 1, id="s0.1"),
    *(replace(record, seq=record.seq + 1) for record in GOLDEN["every_event"]),
)
ROOT = Path(__file__).parents[2]


async def stored(records: Sequence[Recorded], blobs: dict[str, bytes] | None = None) -> EventStore:
    """A memory store with one session."""
    store = await MemoryStore.open(clock=CLOCK)
    session = session_of(records)
    await store.append(await store.lease(session, this_process()), 0, records, blobs or {})
    return store


def session_of(records: Sequence[Recorded]) -> str:
    first = records[0].event
    assert isinstance(first, Started)
    return first.session


async def exported(store: EventStore, session: str) -> bytes:
    seq = (await store.meta(session)).seq
    return await with_log(store, session, lambda log: b"".join(log_lines(log, seq)), last=seq)


async def imported(content: bytes, store: EventStore | None = None) -> tuple[EventStore, Imported]:
    store = store or await MemoryStore.open(clock=CLOCK)
    return store, await import_log(store, io.BytesIO(content), clock=CLOCK)


async def is_the_same(records: Sequence[Recorded], blobs: dict[str, bytes] | None = None) -> Imported:
    """Export a log, import it, and compare: the events, the blobs, what they mean, and the lines of a second export."""
    source = await stored(records, blobs)
    content = await exported(source, session_of(records))
    store, done = await imported(content)
    there = (await store.read(done.session)).records
    first = records[0].event
    assert isinstance(first, Started)
    assert there[0] == replace(records[0], event=replace(first, session=done.session, store=store.identity, parent=""))
    assert there[1 : len(records)] == tuple(records[1:])
    assert there[len(records) :] == done.added
    assert done.events == len(records)
    for sha256, blob in (blobs or {}).items():
        assert await store.blob(sha256) == blob
    again = (await exported(store, done.session)).splitlines()[1:]
    assert (
        plain(content.splitlines()[1:])[1:]
        == plain(again[: len(content.splitlines()) - 1], done.session, first.session)[1:]
    )
    assert is_quiet(fold_all(there))
    if not done.added:
        assert means(there) == means(records)
    return done


def plain(lines: Sequence[bytes], session: str = "", before: str = "") -> list[object]:
    """The lines without their checksums, with the name of a session in the place of another."""
    found = [json.loads(line) for line in lines]
    for line in found:
        del line["crc"]
        if line.get("session") == session:
            line["session"] = before
    return found


def means(records: Sequence[Recorded]) -> dict[str, object]:
    """What a log means, but for the names of the session, its parent and its store."""
    first = records[0].event
    assert isinstance(first, Started)
    begun = replace(records[0], event=replace(first, session="x", store="", parent=""))
    return state_of("x", (begun, *records[1:])).plain()


@pytest.mark.parametrize("name", ["conversation", "tools", "cut"])
async def test_every_beginning_of_a_golden_log_comes_back_the_same(name: str) -> None:
    for length in range(1, len(GOLDEN[name]) + 1):
        await is_the_same(GOLDEN[name][:length])


async def test_every_event_comes_back_from_its_line() -> None:
    records = GOLDEN["every_event"]
    content = await exported(await stored(records), "golden")
    found = [read_line(line, "golden") for line in content.splitlines()[1:]]

    assert tuple(each for each in found if isinstance(each, Recorded)) == records


async def test_a_log_has_one_start_and_begins_with_it() -> None:
    first, second, *_ = GOLDEN["conversation"]
    twice = (first, second, replace(first, seq=3, id="other.3"))

    assert line_of(await refused(await exported(await stored(twice), session_of(twice)))) == 4
    content = await exported(await stored((first, second)), session_of(twice))
    header, _, other = content.splitlines(keepends=True)
    late = sealed(json.loads(other) | {"seq": 1})
    assert line_of(await refused(header + late)) == 2


async def test_calls_that_stand_open_outside_a_turn_are_refused() -> None:
    """They would run in the next turn, as they were allowed in the file."""
    first, *_ = GOLDEN["conversation"]
    reply = ModelReplied(parts=(ToolCall(id="c", name="Bash", args='{"command":"touch a"}'),))
    yes = PermissionAnswered(call="c", allowed=True)
    records = (first, recorded(reply, 2), recorded(yes, 3))

    found = await refused(await exported(await stored(records), session_of(records)))

    assert line_of(found) == 5
    assert "open" in str(found)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_log_that_a_crash_can_leave_comes_back_the_same(scenario: Scenario, tmp_path: Path) -> None:
    async def try_all() -> None:
        rehearsal, _ = await CrashSite(
            scenario=scenario, store="memory", open_store=memory_store, folder=tmp_path
        ).rehearse()
        for length in range(1, len(rehearsal.log) + 1):
            records = rehearsal.log[:length]
            cited = {sha256 for record in records for sha256 in find_cited_blobs(record.event)}
            await is_the_same(records, {sha256: rehearsal.blobs[sha256] for sha256 in cited})

    anyio.run(try_all)


async def refused(content: bytes) -> BackstayError:
    """Import what cannot be imported; nothing may be there then."""
    store = await MemoryStore.open(clock=CLOCK)
    with pytest.raises((LogDamaged, NeedsUpgrade)) as caught:
        await imported(content, store)
    assert await store.list(SessionQuery(include_children=True)) == ()
    return caught.value


def line_of(error: BackstayError) -> int:
    found = re.match(r"Line (\d+) cannot be imported, so nothing was: ", str(error))
    assert found, error
    return int(found[1])


@pytest.fixture(scope="module")
def lines() -> tuple[bytes, ...]:
    """The lines of a session with a blob."""

    async def make() -> bytes:
        blob = b"a long text" * 9
        named = digest(blob)
        records = tuple(decoded(record, named) for record in GOLDEN["tools"])
        return await exported(await stored(records, {named: blob}), session_of(records))

    return tuple(anyio.run(make).splitlines(keepends=True))


def decoded(record: Recorded, blob: str) -> Recorded:
    """A golden record that cites a blob which is there."""
    event = record.event
    return replace(record, event=replace(event, instructions=blob)) if hasattr(event, "instructions") else record


async def test_a_file_that_is_cut_at_any_byte_is_refused_with_the_line(lines: Sequence[bytes]) -> None:
    content = b"".join(lines)
    for length in range(len(content)):
        whole = content[:length].count(b"\n")
        assert line_of(await refused(content[:length])) == whole + 1
    await imported(content)


async def test_a_line_that_is_altered_gone_doubled_or_in_another_place_is_refused_with_its_number(
    lines: Sequence[bytes],
) -> None:
    for place, line in enumerate(lines):
        for at in range(0, len(line) - 1, 7):
            altered = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
            assert line_of(await refused(b"".join((*lines[:place], altered, *lines[place + 1 :])))) == place + 1
        assert line_of(await refused(b"".join((*lines[:place], *lines[place + 1 :])))) >= place + 1
    events = [place for place, line in enumerate(lines) if b'"seq"' in line]
    for place in events:
        assert line_of(await refused(b"".join((*lines[: place + 1], *lines[place:])))) == place + 2
    for place in (each for each in events if each + 1 in events):
        swapped = [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]
        assert place + 1 <= line_of(await refused(b"".join(swapped))) <= place + 2


async def test_what_is_not_of_this_session_or_of_a_newer_program_is_refused_with_the_line(
    lines: Sequence[bytes],
) -> None:
    other = (await exported(await stored(GOLDEN["conversation"]), session_of(GOLDEN["conversation"]))).splitlines(True)
    foreign = sealed(json.loads(other[3]) | {"session": "other", "seq": 3})
    found = await refused(b"".join((*lines[:3], foreign, *lines[4:])))
    assert (line_of(found), "belongs to session 'other'" in str(found)) == (4, True)
    newer = sealed(json.loads(lines[-1]) | {"type": "session:thought_read"})
    found = await refused(b"".join((*lines[:-1], newer)))
    assert (line_of(found), isinstance(found, NeedsUpgrade)) == (len(lines), True)
    header = sealed(json.loads(lines[0]) | {"version": 2})
    assert isinstance(await refused(b"".join((header, *lines[1:]))), NeedsUpgrade)
    for content in (b"", b"\n", b"hello\n", b"{}\n", b"[1]\n" * 3, b"\x00" * 99, b"\xff\xfe", lines[1]):
        assert line_of(await refused(content)) == 1
    blob = next(place for place, line in enumerate(lines) if b'"blob"' in line)
    wrong = sealed({"blob": "0" * 64, "data": "aGk="})
    assert line_of(await refused(b"".join((*lines[:blob], wrong, *lines[blob + 1 :])))) == blob + 1


def sealed(line: dict[str, object]) -> bytes:
    body = json.dumps({name: value for name, value in line.items() if name != "crc"})[:-1].encode()
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))


async def test_lines_that_another_program_wrote_need_no_checksums(lines: Sequence[bytes]) -> None:
    bare = [{name: value for name, value in json.loads(line).items() if name != "crc"} for line in lines]
    del bare[0]["events"]

    store, done = await imported("\n".join(map(json.dumps, bare)).encode())

    assert len((await store.read(done.session)).records) == done.events == len(GOLDEN["tools"])


async def test_what_was_allowed_in_a_session_is_asked_again_in_an_imported_one(tmp_path: Path) -> None:
    asked: list[str] = []

    async def yes(question: Question) -> Answer:
        asked.append(question.tool)
        return Answer(allowed=True, grant="session")

    model = scripted(call("Bash", command="touch a"), "blue", call("Bash", command="touch a"), "green")
    source, target = await MemoryStore.open(clock=CLOCK), await MemoryStore.open(clock=CLOCK)
    given: dict[str, Any] = {"model": model, "cwd": tmp_path, "asker": yes}
    async with open_session(store=source, session_id="s", fs_scope="full", **given) as session:
        await session.run("Up?")
    _, done = await imported(await exported(source, "s"), target)
    async with open_session(store=target, resume=done.session, **given) as again:
        await again.run("Down?")
    async with open_session(store=source, resume="s", **given) as session:
        await session.run("Down?")

    assert asked == ["Bash", "Bash"]


async def test_a_model_at_an_address_of_the_file_is_not_asked_and_a_moved_log_is_at_home_where_it_is_imported() -> None:
    first, *rest = GOLDEN["conversation"]
    assert isinstance(first.event, Started)
    begun = replace(first, event=replace(first.event, model="openai-chat:m@http://203.0.113.9/v1"))
    moved = replace(rest[-1], seq=len(rest) + 2, id="m.1", event=StoreChanged(store="elsewhere", came_from="here"))

    done = await is_the_same((begun, *rest, moved))

    assert [type(record.event) for record in done.added] == [ModelChanged, StoreChanged]
    assert isinstance(done.added[0].event, ModelChanged)
    assert done.added[0].event.model == ""


async def test_a_child_becomes_a_session_of_its_own_and_its_parent_names_what_is_not_in_the_file() -> None:
    first, *rest = GOLDEN["conversation"]
    assert isinstance(first.event, Started)
    await is_the_same((replace(first, event=replace(first.event, parent="p")), *rest))
    started = recorded(ChildStarted(call="c", child="p.c", prompt="Look."), len(rest) + 2)
    assert (await is_the_same((first, *rest, started))).children == ("p.c",)


KILLED = """
import io, os, pathlib, signal, sys
import anyio
from backstay.export.log_file import import_log
from backstay.system.machine import SystemClock
from backstay.stores.sqlite.store import SqliteStore
from tests.stores.sqlite_kit import Taps

async def main():
    taps = Taps()
    store = await SqliteStore.open(sys.argv[1], clock=SystemClock(), connect=taps.connect)
    left = int(sys.argv[3])
    def die(inner):
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        inner.commit()
    taps.on_commit = die
    await import_log(store, io.BytesIO(pathlib.Path(sys.argv[2]).read_bytes()), clock=SystemClock())
    taps.on_commit = None
    await store.close()

anyio.run(main)
"""


async def test_an_import_that_is_killed_leaves_nothing_or_all(lines: Sequence[bytes], tmp_path: Path) -> None:
    file, path = tmp_path / "lines", tmp_path / "s.db"
    file.write_bytes(b"".join(lines))
    codes: list[int] = []
    while 0 not in codes:
        ran = await anyio.run_process(
            [sys.executable, "-c", KILLED, str(path), str(file), str(len(codes) + 1)],
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            check=False,
        )
        codes.append(ran.returncode)
        store = await SqliteStore.open(path, clock=CLOCK)
        metas = await store.list(SessionQuery(include_children=True))
        assert {meta.seq for meta in metas} <= {len(GOLDEN["tools"])}
        assert [await store.verify(meta.id) for meta in metas] == [()] * len(metas)
        if len(codes) <= 2:  # before the lease, and before what was written counted
            assert metas == ()
        await store.close()
    assert len(codes) > 2
    assert set(codes) == {0, -signal.SIGKILL}


async def test_a_store_that_fails_in_the_middle_keeps_nothing(lines: Sequence[bytes], tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "s.db", clock=CLOCK)
    file = Vanishing(b"".join(lines))
    with pytest.raises(BackstayError):
        await import_log(store, file, clock=CLOCK)
    assert file.cut
    assert await store.list(SessionQuery(include_children=True)) == ()
    with pytest.raises(NoSession):
        await store.read("anything")
    await store.close()


class Vanishing(io.BytesIO):
    """A file that is shorter when it is read again."""

    cut = False

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if not line and not self.cut:
            self.truncate(len(self.getvalue()) // 2)
            self.cut = True
        return line
