"""What the tests of the JSONL store share: stores, raw segments, and another process to write them."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.ports import Clock
from holdfast.stores.jsonl import JsonlStore
from holdfast.stores.jsonl_lines import Beginning, Claim, seal_batch, seal_struct
from holdfast.testing.builders import START
from holdfast.testing.store_examples import StepClock, opening
from holdfast.vocab.event import Recorded
from holdfast.vocab.specs import Owner

ROOT = Path(__file__).parents[2]
EVENTS = opening("s1", *"abcdef")
BATCHES = (EVENTS[:1], EVENTS[1:4], EVENTS[4:5], EVENTS[5:7])
"""Seven events in four appends: three of the first lease, one of the second."""
WHOLE = {0, 1, 4, 5, 7}
"""How many events there are after a number of whole appends."""


def segments() -> dict[int, bytes]:
    """The segments of a session that changed hands once."""
    first = head(1, Beginning(prev=0, length=0, after=0)) + b"".join(map(seal_batch, BATCHES[:3]))
    return {1: first, 2: head(2, Beginning(prev=1, length=len(first), after=5)) + seal_batch(BATCHES[3])}


def head(token: int, beginning: Beginning) -> bytes:
    """The first two lines of a segment."""
    return seal_struct(Claim(segment=token, session="s1", since=START)) + seal_struct(beginning)


def lay(root: Path, session: str, contents: Mapping[int, bytes]) -> Path:
    """Put segments into the folder of a session."""
    folder = root / "sessions" / session
    folder.mkdir(parents=True)
    for token, content in contents.items():
        (folder / f"{token:08}.jsonl").write_bytes(content)
    return folder


@asynccontextmanager
async def jsonl(
    where: Path, *, clock: Clock | None = None, dead: Sequence[str] = (), read_only: bool = False
) -> AsyncIterator[JsonlStore]:
    """A store that is closed in the end."""

    def is_dead(owner: Owner) -> bool:
        return owner.id in dead

    store = await JsonlStore.open(where, clock=clock or StepClock(), is_dead=is_dead, read_only=read_only)
    try:
        yield store
    finally:
        await store.close()


def python(script: str, *args: str, before: Sequence[str] = ()) -> "subprocess.Popen[str]":
    """Another process that runs `script`."""
    return subprocess.Popen(
        [*before, sys.executable, "-c", script, *args],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )


def stop(process: "subprocess.Popen[str]") -> None:
    """Stop a process where it is, and wait until it is stopped."""
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)


def seqs(records: Sequence[Recorded]) -> list[int]:
    """The numbers of some events."""
    return [record.seq for record in records]
