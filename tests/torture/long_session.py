"""A session of 2,000 turns with a window of 32,000 tokens, in memory and on SQLite: it never fails, loses nothing, stays flat."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from backstay.stores.open import open_store
from backstay.system.machine import SystemClock
from tests.long_talk import Talk, long_talk
from tests.torture.progress import Progress

TURNS: Final = 2_000
STORES: Final = ("memory:", "sqlite:///{folder}/long.db")


def run(report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path) -> bool:
    """Talk at length on each store; return whether nothing went wrong."""
    progress = Progress(state_dir, "long_session", seed)
    turns = max(100, round(TURNS * scale))
    for number, url in enumerate(STORES):
        if progress.done("talks") > number:
            continue
        talk = anyio.run(partial(_talk, url, turns))
        report(f"{url.partition(':')[0]}: {talk.figures()}")
        progress.count("talks")
        progress.count("turns", turns)
        progress.count("compactions", talk.compactions)
        progress.faulted(_wrong(talk), f"--seed {seed} {url}")
        progress.save()
    progress.save(over=True)
    return progress.sound


async def _talk(url: str, turns: int) -> Talk:
    with tempfile.TemporaryDirectory() as folder:
        store = await open_store(url.format(folder=folder), clock=SystemClock())
        try:
            return await long_talk(turns, store)
        finally:
            await store.close()


def _wrong(talk: Talk) -> dict[str, list[str]]:
    return {
        "turns that failed": [each for each in talk.outcomes if each != "completed"],
        "requests that a provider would refuse": talk.model.wrong,
        "compactions that failed": talk.failures,
        "pasted texts that were lost": [str(each) for each in talk.lost],
        "turns with more than 6 appends": [str(each) for each in talk.appends if each > 6],
    }
