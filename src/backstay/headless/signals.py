"""Handle the signals of a run: the first interrupt stops the turn, the second the process; SIGTERM and SIGHUP let the turn finish."""

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from backstay.headless.result import INTERRUPTED
from backstay.logic.text import count_seconds
from backstay.session.session import Session
from backstay.vocab.errors import BackstayError
from backstay.vocab.event import By

Warn = Callable[[str], None]
"""Tell the person something, apart from the output."""
_AGAIN_S: Final = 0.05


class StopSignals:
    """Listen to signals and stop a session."""

    def __init__(self, drain_s: float, warn: Warn) -> None:
        self.interrupted = False
        self.now = anyio.Event()
        """Set when turns and commands must stop at once."""
        self.input = anyio.CancelScope()
        """Cancelled when no more input is taken."""
        self._drain_s = drain_s
        self._warn = warn
        self._draining = False
        self._session: Session | None = None

    def attach(self, session: Session) -> None:
        """Set the session that signals stop. Without one, a signal ends the run at once."""
        self._session = session

    async def listen(self, tasks: TaskGroup, *, task_status: TaskStatus[None]) -> None:
        """Wait for signals until cancelled."""
        try:
            with anyio.open_signal_receiver(*_signals()) as signals:
                task_status.started()
                async for number in signals:
                    self._receive(number, tasks)
        finally:
            if self.interrupted:  # another interrupt while the run ends is no other end
                signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))

    async def interrupt(self, reason: str, by: By = "system") -> None:
        """Stop the running turn or command, or the one that is about to start; go on until cancelled."""
        self.interrupted = True
        self.now.set()
        self.input.cancel()
        with contextlib.suppress(BackstayError):  # it is closed, or has failed: there is nothing left to stop
            while self._session is not None:
                await self._session.abort(reason, by=by)
                await anyio.sleep(_AGAIN_S)

    def _receive(self, number: signal.Signals, tasks: TaskGroup) -> None:
        if self._session is None:
            tasks.cancel_scope.cancel()
        elif number == signal.SIGINT:
            if self.interrupted:
                os._exit(INTERRUPTED)  # the person means it; the log holds everything that was acknowledged
            self.interrupted = True
            tasks.start_soon(self.interrupt, "interrupted by the person", "user")
        elif not self._draining:
            self._draining = True
            tasks.start_soon(self._drain, number.name)
        elif not self.interrupted:
            tasks.start_soon(self.interrupt, f"{number.name}, the second signal")

    async def _drain(self, name: str) -> None:
        """Take no more input, let the turn finish in time, else interrupt it."""
        self.input.cancel()
        assert self._session is not None
        grace = f", and the turn may go on for {count_seconds(self._drain_s)}; a second signal interrupts it at once"
        self._warn(f"{name}: no more input is taken{grace if self._session.is_running else ''}.")
        with anyio.move_on_after(self._drain_s):
            while True:  # a line that was read just before may still become input
                try:
                    await self._session.drop_queued()
                except BackstayError:  # it is closed, or has failed: the run reports which
                    return
                await anyio.sleep(_AGAIN_S)
        await self.interrupt(f"{name}, and the turn did not end within {count_seconds(self._drain_s)}")


def _signals() -> list[signal.Signals]:
    """Return the signals to listen to, without those that the parent process set to be ignored, as `nohup` does."""
    numbers = (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
    return [number for number in dict.fromkeys(numbers) if signal.getsignal(number) != signal.SIG_IGN]
