"""T1: a real process is killed with SIGKILL, again and again, in the middle of its sessions."""

import itertools
import random
import secrets
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio

from backstay.catalog import sessions
from backstay.stores.open import open_store
from backstay.system.machine import SystemClock
from backstay.vocab.event import Recorded
from tests.torture.forks import Forks
from tests.torture.judging import Wrongs, judge_log
from tests.torture.lives import entries
from tests.torture.orders import Order, Word
from tests.torture.progress import Progress

KILLS: Final = 1000
"""At full size."""
CHAIN: Final = 20
"""Kills in one session before it is left to finish and judged."""
SESSIONS_IN_A_STORE: Final = 5


def run(report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path) -> bool:
    """Kill until there were enough kills."""
    progress = Progress(state_dir, "kill9", seed)
    wanted = max(1, round(KILLS * scale))
    with Forks() as forks:
        torment(forks, wanted, progress, state_dir / "kill9", report)
    progress.save(over=True)
    return progress.sound


def torment(forks: Forks, wanted: int, progress: Progress, folder: Path, report: Callable[[str], None]) -> None:
    """Bring the number of kills to `wanted`."""
    while (kills := progress.done("kills")) < wanted:
        number = progress.done("sessions")
        place = folder / f"{progress.seed}-{number // SESSIONS_IN_A_STORE}"
        place.mkdir(parents=True, exist_ok=True)
        chain = Chain(forks, store_url(place / "store"), place, f"{progress.seed}:{number}")
        try:
            chain.run(min(CHAIN, wanted - kills))
        finally:
            chain.stop()
        _tell(progress, chain)
        if (number + 1) % SESSIONS_IN_A_STORE == 0 and progress.sound:
            shutil.rmtree(place)
        progress.count("sessions")
        progress.save()
        report(f"{progress.done('kills')} of {wanted}: {progress.line()}")


def store_url(path: Path) -> str:
    """Where a store is."""
    return f"sqlite://{path}.db"


@dataclass
class Chain:
    """One session, killed many times, then left to finish."""

    forks: Forks
    url: str
    folder: Path
    seed: str
    kills: int = 0
    in_tools: int = 0
    """Kills right after a `ToolStarted` was committed."""
    acknowledged: list[Word] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    wrongs: Wrongs = field(default_factory=dict)

    def __post_init__(self) -> None:
        # a chain that was broken off leaves its session behind: this is another one
        self.session = f"k-{self.seed.replace(':', '-')}-{secrets.token_hex(3)}"
        self._chance = random.Random(self.seed)
        self._place = self.folder / self.session
        self._life = 0
        self._place.mkdir()

    def run(self, kills: int) -> None:
        """Kill, resume, kill, ... then finish and judge."""
        for attempt in itertools.count():
            if self.kills >= kills:
                break
            if attempt > kills * 5:
                self.troubles.append(f"only {self.kills} of {attempt} lives could be killed in time")
                break
            self._shorten(in_tool=self.in_tools * 2 <= self.kills)
        self._start(turns=1, finish=True)
        if not any(word.kind == "end" for word in self._listen()):
            self.troubles.append("the last life did not come to its end")
        self.wrongs = anyio.run(self._judge)

    def stop(self) -> None:
        """Leave nothing running."""
        for life in tuple(self.forks.pids):
            self.forks.signal(life, signal.SIGKILL)
            for _ in self.forks.until_dead(life):
                pass

    def _shorten(self, *, in_tool: bool) -> None:
        """Start a life and kill it: at the n-th start of a tool, or some time after the n-th event."""
        turns, after = 6, self._chance.randint(1, 3) if in_tool else self._chance.randint(1, 40)
        delay = 0.0 if in_tool else self._chance.random() * 0.01
        life = self._start(turns=turns)
        ended = False
        for word in self.forks.until_dead(life):
            self._note(word)
            ended = ended or word.kind == "end"
            if word.kind == "event" and (word.text == "ToolStarted" or not in_tool):
                after -= 1
                if after == 0:
                    time.sleep(delay)
                    self.forks.signal(life, signal.SIGKILL)
        if not ended:
            self.kills += 1
            self.in_tools += in_tool

    def _start(self, *, turns: int, finish: bool = False) -> int:
        self._life += 1
        order = Order(
            life=self._life,
            what="talk",
            url=self.url,
            session=self.session,
            folder=str(self._place),
            seed=self._chance.getrandbits(32),
            turns=turns,
            finish=finish,
        )
        self.forks.start(order)
        return self._life

    def _listen(self) -> list[Word]:
        heard = list(self.forks.until_dead(self._life))
        for word in heard:
            self._note(word)
        return heard

    def _note(self, word: Word) -> None:
        if word.kind == "event":
            self.acknowledged.append(word)
        elif word.kind == "trouble":
            self.troubles.append(word.text)
        elif word.kind == "dead" and word.text not in ("0", str(int(signal.SIGKILL))):
            self.troubles.append(f"life {word.life} died by itself with status {word.text}; its error is printed above")

    async def _judge(self) -> Wrongs:
        store = await open_store(self.url, clock=SystemClock())
        try:
            records: tuple[Recorded, ...] = (await store.read(self.session)).records
            wrong = judge_log(records, self.acknowledged, entries(self._place / "ledger"))
            damaged = list(await sessions.verify(store, self.session))
        finally:
            await store.close()
        return {**wrong, "what verify finds": damaged, "troubles": self.troubles}


def _tell(progress: Progress, chain: Chain) -> None:
    progress.count("kills", chain.kills)
    progress.count("kills right after ToolStarted", chain.in_tools)
    progress.count("events acknowledged", len(chain.acknowledged))
    progress.faulted(chain.wrongs, f"seed {chain.seed} in {chain.url}")
