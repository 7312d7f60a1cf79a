"""Disks that are full or may not be written."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_examples import StepClock, opening, owner, say
from holdfast.vocab.errors import StoreReadOnly
from tests.stores.jsonl_kit import jsonl, python, seqs

pytestmark = pytest.mark.anyio

FILL = """
import json, resource, sys, anyio
from pathlib import Path
from holdfast.runtime.clock import SystemClock
from holdfast.stores.jsonl import JsonlStore
from holdfast.testing.store_examples import opening, owner, say
from holdfast.vocab.errors import StoreFull

async def main(root, means):
    store = await JsonlStore.open(root, clock=SystemClock())
    lease = await store.lease("s1", owner())
    await store.append(lease, 0, opening("s1"))
    ballast = Path(root) / "ballast"
    if means == "limit":
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    else:
        ballast.write_bytes(bytes(300_000))
    seq, refused = 1, 0
    while refused < 3:
        try:
            await store.append(lease, seq, (say("a" * 3000, seq + 1), say("b" * 3000, seq + 2)))
            seq += 2
        except StoreFull:
            refused += 1
    full = await store.read("s1")
    if means == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    ballast.unlink(missing_ok=True)
    await store.append(lease, seq, (say("again", seq + 1),))
    after = await store.read("s1")
    print(json.dumps([seq, len(full.records), str(full.trouble), len(after.records), str(after.trouble), await store.verify("s1")]))
    await store.close()

anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.parametrize("means", ["limit", "tmpfs"])
def test_a_full_disk_refuses_loses_nothing_and_is_written_again_when_there_is_space(tmp_path: Path, means: str) -> None:
    before: list[str] = []
    if means == "tmpfs":
        before = in_a_mount(tmp_path, f"mount -t tmpfs -o size=640k holdfast {tmp_path}")
    with python(FILL, str(tmp_path), means, before=before) as process:
        assert process.stdout is not None
        answer = process.stdout.read()
    assert process.returncode == 0
    seq, full, trouble, after, later, wrong = json.loads(answer)
    assert seq > 3
    assert (full, trouble, after, later, wrong) == (seq, "None", seq + 1, "None", [])


READ = """
import json, sys, anyio
from holdfast.runtime.clock import SystemClock
from holdfast.stores.jsonl import JsonlStore
from holdfast.testing.store_examples import owner
from holdfast.vocab.errors import StoreReadOnly

async def main(root, read_only):
    store = await JsonlStore.open(root, clock=SystemClock(), read_only=read_only == "yes")
    found = [len((await store.read("s1")).records), len(await store.list()), len(await store.search("hello"))]
    try:
        await store.lease("s2", owner())
    except StoreReadOnly as exc:
        found.append(str(exc))
    await store.close()
    print(json.dumps(found))

anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.parametrize("read_only", ["yes", "no"])
async def test_a_store_on_a_read_only_disk_is_read_listed_and_searched(tmp_path: Path, read_only: str) -> None:
    async with jsonl(tmp_path) as store:
        lease = await store.lease("s1", owner())
        await store.append(lease, 0, opening("s1", "hello"))
    before = in_a_mount(tmp_path, f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}")
    with python(READ, str(tmp_path), read_only, before=before) as process:
        assert process.stdout is not None
        *found, said = json.loads(process.stdout.read())
    assert found == [2, 1, 1]
    assert said.count(str(tmp_path)) == 1
    assert ("was opened for reading only" if read_only == "yes" else "is on a read-only file system: it can") in said
    assert ".tmp" not in said


WRITE = """
import sys, anyio
from holdfast import open_store
from holdfast.runtime.clock import SystemClock
from holdfast.testing.store_examples import owner
from holdfast.vocab.errors import StoreReadOnly

async def main(path):
    store = await open_store(f"sqlite://{path}", clock=SystemClock())
    print(len((await store.read("s1")).records))
    try:
        await store.lease("s2", owner())
    except StoreReadOnly as exc:
        print(exc)
    await store.close()

anyio.run(main, *sys.argv[1:])
"""


async def test_a_database_on_a_read_only_disk_is_read_and_says_why_it_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = await SqliteStore.open(path, clock=StepClock())
    await store.append(await store.lease("s1", owner()), 0, opening("s1", "hello"))
    await store.close()
    before = in_a_mount(tmp_path, f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}")
    with python(WRITE, str(path), before=before) as process:
        count, said = process.communicate()[0].splitlines()
    assert count == "2"
    assert said.startswith(f"{str(path)!r} is on a read-only file system: it can be read but not written.")
    assert said.count(str(path)) == 1


async def test_a_store_opened_for_reading_changes_nothing(tmp_path: Path) -> None:
    async with jsonl(tmp_path) as store:
        lease = await store.lease("s1", owner())
        await store.append(lease, 0, opening("s1", "hello"))
    shutil.rmtree(tmp_path / "cache")
    before = sorted(tmp_path.rglob("*"))
    async with jsonl(tmp_path, read_only=True) as reader:
        assert seqs((await reader.read("s1")).records) == [1, 2]
        assert len(await reader.list()) == 1
        assert len(await reader.search("hello")) == 1
        for refused in (
            reader.append(lease, 2, (say("x", 3),)),
            reader.heartbeat(owner()),
            reader.repair("s1"),
            reader.delete("s1"),
        ):
            with pytest.raises(StoreReadOnly):
                await refused
    assert sorted(tmp_path.rglob("*")) == before


def in_a_mount(folder: Path, mount: str) -> list[str]:
    """The words before a command that runs it with a mount of its own, which ends with it; skip where that is not allowed."""
    prefix = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    if (
        os.geteuid() != 0
        or shutil.which("unshare") is None
        or subprocess.run([*prefix, "true"], check=False).returncode
    ):
        pytest.skip(f"a mount over {folder} needs root and the right to mount")
    return prefix
