"""The driver's side of the worker: a process that has loaded everything and forks a child for each life."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from tests.torture.orders import Order, Word

ROOT: Final = Path(__file__).parents[2]
PATIENCE_S: Final = 60.0
_word: Final = msgspec.json.Decoder(Word)


class Silent(Exception):
    """The worker is gone."""


class Quiet(Silent):
    """No life said anything for a long time."""


class Forks:
    """Starts lives and hears from them. A context manager; whatever still lives at its end is killed."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", ""))))
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is for the driver, which ends the lives in its own way
            env={**os.environ, "PYTHONPATH": path},
        )
        self._rest = b""
        self._words: list[Word] = []
        self.pids: dict[int, int] = {}
        """Of the lives that are not over."""

    def __enter__(self) -> "Forks":
        ready = self.next()
        assert ready.kind == "ready", ready
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for life in tuple(self.pids):
            self.signal(life, signal.SIGKILL)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(PATIENCE_S)
        self._server.stdout.close()

    def start(self, order: Order) -> None:
        """Begin a life; `born` is its first word."""
        assert self._server.stdin is not None
        self._server.stdin.write(msgspec.json.encode(order) + b"\n")
        self._server.stdin.flush()

    def signal(self, life: int, number: signal.Signals) -> None:
        """Send a signal to a life. Its process is not reaped before the driver has heard of its death, so the pid is its own."""
        if life in self.pids:
            os.kill(self.pids[life], number)

    def next(self, timeout: float = PATIENCE_S) -> Word:
        """The next word of any life."""
        while not self._words:
            self._listen(timeout)
        word = self._words.pop(0)
        if word.kind == "born":
            self.pids[word.life] = int(word.text)
        elif word.kind == "dead":
            self.pids.pop(word.life, None)
            self._reap(word.life)
        return word

    def hear(self, timeout: float) -> Word | None:
        """The next word of any life, if one comes in time."""
        try:
            return self.next(timeout)
        except Quiet:
            return None

    def until_dead(self, life: int) -> Iterator[Word]:
        """Everything that a life still says, its death included."""
        while True:
            word = self.next()
            if word.life == life:
                yield word
                if word.kind == "dead":
                    return

    def _reap(self, life: int) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(b"%d\n" % life)
        self._server.stdin.flush()

    def _listen(self, timeout: float) -> None:
        assert self._server.stdout is not None
        handle = self._server.stdout.fileno()
        if not select.select([handle], [], [], timeout)[0]:
            raise Quiet(f"No life said anything for {timeout:g} s.")
        heard = os.read(handle, 1 << 16)
        if not heard:
            raise Silent(f"The worker is gone with status {self._server.wait(PATIENCE_S)}; its error is printed above.")
        *lines, self._rest = (self._rest + heard).split(b"\n")
        self._words += map(_word.decode, lines)
