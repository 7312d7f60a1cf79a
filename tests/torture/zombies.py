"""T8: the owner of a session is stopped past its lease, another process takes over and writes, and the owner wakes up."""

import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio

from backstay.stores.open import open_store
from backstay.system.machine import SystemClock
from backstay.vocab.event import Recorded
from tests.torture.forks import Forks
from tests.torture.judging import Wrongs, judge_log
from tests.torture.kill9 import store_url
from tests.torture.lives import entries
from tests.torture.orders import Order, Word
from tests.torture.progress import Progress

ROUNDS: Final = 500
"""On each store, at full size."""
SIDE_BY_SIDE: Final = 10
TTL_S: Final = 0.4
LIMIT_S: Final = 150.0
"""No round takes so long."""
LOCKED_S: Final = 2.5
"""After this long without a takeover it is looked whether the owner was stopped while it held the lock of the database file."""
LOCKS: Final = Path("/proc/locks")


def run(report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path) -> bool:
    """Stop owners until there were enough rounds on each store."""
    progress = Progress(state_dir, "zombies", seed)
    wanted = max(1, round(ROUNDS * scale))
    with Forks() as forks:
        while (done := progress.done("rounds")) < wanted:
            play(forks, min(SIDE_BY_SIDE, wanted - done), progress, state_dir / "zombies")
            progress.save()
            report(f"{progress.done('rounds')} of {wanted}: {progress.line()}")
    progress.save(over=True)
    return progress.sound


def play(forks: Forks, count: int, progress: Progress, folder: Path) -> None:
    """Play some rounds side by side, each with a session and a store of its own."""
    first = progress.done("rounds") + progress.done("owners that held the file's lock")
    rounds = [Round(forks, folder, f"{progress.seed}:{first + each}", each) for each in range(count)]
    by_life = {life: each for each in rounds for life in (each.owner, each.taker)}
    for each in rounds:
        each.begin()
    while any(not each.over for each in rounds):
        word = forks.hear(0.05)
        if word is not None:
            by_life[word.life].note(word)
        for each in rounds:
            each.look(time.monotonic())
    for each in rounds:
        wrong = anyio.run(each.judge)
        progress.count("rounds", 0 if each.locked else 1)
        progress.count("owners that held the file's lock", each.locked)
        progress.count("events acknowledged", len(each.acknowledged))
        progress.faulted(wrong, f"seed {each.seed}")
        if not any(wrong.values()):
            shutil.rmtree(each.folder)


@dataclass
class Round:
    """One owner, one taker."""

    forks: Forks
    base: Path
    seed: str
    number: int
    acknowledged: list[Word] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    locked: bool = False
    over: bool = False

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self.folder = self.base / self.seed.replace(":", "-")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.url = store_url(self.folder / "store")
        self.owner, self.taker = self.number * 2 + 1, self.number * 2 + 2
        self._until = self._chance.randint(2, 40)
        self._delay = self._chance.random() * 0.02
        self._stopped_at = 0.0
        self._stop_at = self._limit = self._look_at = 0.0
        self._taken = self._woken = self._lost = False
        self._dead: set[int] = set()

    def begin(self) -> None:
        """Let the owner talk."""
        self._limit = time.monotonic() + LIMIT_S
        self._start(self.owner, "hold", turns=500)

    def note(self, word: Word) -> None:
        """Take in what a life says."""
        if word.kind == "event":
            self.acknowledged.append(word)
            self._taken = self._taken or word.life == self.taker
            if word.life == self.owner and len(self.acknowledged) == self._until:
                self._stop_at = time.monotonic() + self._delay
        elif word.kind == "lost":
            self._lost = True
        elif word.kind == "trouble":
            self.troubles.append(word.text)
        elif word.kind == "dead":
            self._dead.add(word.life)
            if word.text not in ("0", str(int(signal.SIGKILL))):
                self.troubles.append(f"life {word.life} died by itself with status {word.text}")

    def look(self, now: float) -> None:
        """Do what is due: stop the owner, let the taker in, wake the owner, end the round."""
        if self._stop_at and now >= self._stop_at and not self._stopped_at:
            self._stopped_at, self._look_at = now, now + LOCKED_S
            self.forks.signal(self.owner, signal.SIGSTOP)
            self._start(self.taker, "take", turns=1)
        elif self._stopped_at and not self._woken and self.taker in self._dead:
            self._woken = True
            self.forks.signal(self.owner, signal.SIGCONT)
        elif self._stopped_at and not self._taken and not self.locked and now > self._look_at:
            self._look_at = now + LOCKED_S / 5
            if self._owner_holds_a_lock():
                self.locked = True
                self.forks.signal(self.owner, signal.SIGKILL)
        elif now > self._limit:
            self.troubles.append("somebody waits for ever")
            self._limit = now + LIMIT_S
            for life in (self.owner, self.taker):
                self.forks.signal(life, signal.SIGKILL)
        self.over = len(self._dead) == 2 or (not self._stopped_at and self.owner in self._dead)

    async def judge(self) -> Wrongs:
        """Look at the log, and at who wrote in it."""
        store = await open_store(self.url, clock=SystemClock())
        try:
            records = (await store.read("z1")).records
        finally:
            await store.close()
        ledger = entries(self.folder / "ledger")
        wrong = judge_log(records, self.acknowledged, ledger)
        # a zombie finishes what it was doing outside: only a `once` call, which nobody repeats, cannot happen twice
        wrong["once effects doubled"] = [each for each in wrong["once effects doubled"] if each.startswith("once ")]
        wrong["events by the zombie after the takeover"] = self._late(records)
        wrong["zombies that were not told"] = (
            [] if self._lost or self.locked else ["it ended as if nothing had happened"]
        )
        return {**wrong, "troubles": self.troubles}

    def _late(self, records: tuple[Recorded, ...]) -> list[str]:
        nonces = [record.id.partition(".")[0] for record in records]
        owner = nonces[0]
        takeover = next((place for place, nonce in enumerate(nonces) if nonce != owner), len(nonces))
        return [records[place].id for place in range(takeover, len(nonces)) if nonces[place] == owner]

    def _owner_holds_a_lock(self) -> bool:
        """Whether the taker waits for a lock of the stopped owner, and not only for its turn on a busy machine."""
        if not LOCKS.exists():
            return True  # the system does not say, and it took long
        owner = str(self.forks.pids.get(self.owner))
        held = (line.split() for line in LOCKS.read_text(encoding="ascii").splitlines())
        return any(each[1] != "->" and each[3:5] == ["WRITE", owner] for each in held)

    def _start(self, life: int, what: str, *, turns: int) -> None:
        assert what in ("hold", "take")
        self.forks.start(
            Order(
                life=life,
                what="hold" if what == "hold" else "take",
                url=self.url,
                session="z1",
                folder=str(self.folder),
                seed=self._chance.getrandbits(32),
                turns=turns,
                ttl_s=TTL_S,
            )
        )
