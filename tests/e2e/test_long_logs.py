"""What looks at a log does not hold it in memory as a whole."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import pytest
from msgspec.structs import replace

from backstay import open_store
from backstay.catalog.load import replay, replay_pieces
from backstay.catalog.paged_log import with_log
from backstay.logic.secrets.redact import redact
from backstay.logic.state.conversation import SeenIds
from backstay.stores.owners import this_process
from backstay.testing.builders import conversation, recorded, started
from backstay.vocab.event import Recorded
from backstay.vocab.events import HistoryCleared
from backstay.vocab.ids import event_id
from backstay.wire.codec import decode, encode
from tests.e2e.door import SOURCE, Door

PEAK = """
import sys
from backstay.cli.root import run
code = run(sys.argv[1:])
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(code)
"""
"""Runs a command, and says how many KiB it had in memory at most."""
COMMANDS = {
    "validate": ("log", "validate", "s"),
    "show": ("log", "show", "s", "--json"),
    "replay": ("log", "replay", "s"),
    "log export": ("log", "export", "s", "-o", "{to}.jsonl"),
    "events": ("log", "export", "s", "--format", "events", "-o", "{to}.lines"),
    "html": ("export", "s", "-o", "{to}.html"),
    "json": ("export", "s", "-o", "{to}.json"),
    "workflow": ("export", "s", "-o", "{to}.yaml"),
    "verify": ("sessions", "verify", "s"),
    "scan": ("secrets", "scan", "--session", "s"),
}
EVENTS = {"workflow": 1_000}
"""Events of the shorter log, where 10,000 would take long: YAML is read back."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the stores of all tests."""
    return tmp_path_factory.mktemp("logs")


def stored(url: str, events: int) -> None:
    """A session of about so many events, twelve a turn, with texts of some length; its history is cleared after every ten turns."""

    async def make() -> None:
        store = await open_store(url)
        lease = await store.lease("s", this_process("test"))
        await store.append(lease, 0, (recorded(started("s", store=store.identity), by="user"),))
        after = 1
        while after < events:
            records = tuple(ten_turns(after))
            await store.append(lease, after, records)
            after += len(records)
        await store.release(lease)
        await store.close()

    anyio.run(make)


def ten_turns(after: int) -> Iterator[Recorded]:
    """Ten turns and a clearing, with ids of their own."""
    said = ("What does it say, and why? " * 10, "It says that it was a dark and stormy night. " * 10)
    records = conversation(*[said] * 10, session="s", tool="Read")[1:]
    for record in (*records, recorded(HistoryCleared(), len(records) + 2)):
        line = encode(record).replace(b'"t0.', b'"t%d.' % after).replace(b'"in-', b'"in%d-' % after)
        renamed = decode(line)
        yield replace(renamed, seq=after + record.seq - 1, at=record.at + after * 1_000)


def peak_of(door: Door, url: str, *command: str) -> float:
    """The MiB that a command has in memory at most."""
    told = [each.format(to=door.folder / "out") for each in command]
    ran = subprocess.run(
        [sys.executable, "-c", PEAK, *told, "--store", url],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    return int(ran.stderr.split()[-1]) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says how much memory a process had")
@pytest.mark.parametrize("name", COMMANDS)
def test_sec_l5_twice_the_log_takes_no_more_memory(door: Door, logs: Path, name: str) -> None:
    events, peaks = EVENTS.get(name, 10_000), list[float]()
    for size in (events, 2 * events):
        url = f"sqlite://{logs / f'{size}.db'}"
        if not (logs / f"{size}.db").exists():
            stored(url, size)
        peaks.append(peak_of(door, url, *COMMANDS[name]))
    # a page has 1,024 events, which take about 2 MiB; all of the longer log takes 8 MiB more than all of the shorter one at least
    assert peaks[1] - peaks[0] < 3, peaks


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says how much memory a process had")
def test_twice_the_log_takes_no_more_memory_to_import(door: Door, logs: Path) -> None:
    peaks = list[float]()
    for size in (10_000, 20_000):
        url = f"sqlite://{logs / f'{size}.db'}"
        if not (logs / f"{size}.db").exists():
            stored(url, size)
        lines = door.folder / f"{size}.lines"
        assert door.run("log", "export", "s", "--format", "events", "-o", str(lines), "--store", url).code == 0
        peaks.append(peak_of(door, url, "log", "import", str(lines)))
    assert peaks[1] - peaks[0] < 3, peaks


async def test_a_log_that_is_told_in_pieces_means_the_same(door: Door, logs: Path) -> None:
    url = f"sqlite://{logs / 'same.db'}"
    await anyio.to_thread.run_sync(stored, url, 1_500)
    store = await open_store(url)
    whole = redact(await replay(store, "s"))
    pieces = await with_log(store, "s", lambda log: b"".join(replay_pieces(log, indented=True)))
    await store.close()
    assert msgspec.json.decode(pieces) == msgspec.json.decode(msgspec.json.encode(whole))


@pytest.mark.parametrize(
    ("ids", "new"),
    [
        ((event_id("a", 1), event_id("a", 2), event_id("a", 1)), [True, True, False]),
        (
            (event_id("a", 5), event_id("b", 5), event_id("a", 3), event_id("a", 4), event_id("a", 4)),
            [True] * 4 + [False],
        ),
        (("odd", "a.A", "a.a", "odd", "a.-1", "a.01"), [True, True, True, False, True, True]),
    ],
)
def test_an_id_is_seen_once(ids: Iterable[str], new: list[bool]) -> None:
    seen = SeenIds()
    assert [seen.add(each) for each in ids] == new
