"""The process that gets killed: a server that forks a child for each life, and what the lives do.

The server has no thread and no event loop, so that a fork is safe. A line on its input is an order, or the number of a life that may be
reaped; every line on its output is a word of one life, written with one call, so that a kill never leaves half of one.
"""

import os
import selectors
import signal
import socket
import time
import traceback
from pathlib import Path
from typing import Final

import anyio
import msgspec

from tests.torture import lives
from tests.torture.orders import Order, Word

_order: Final = msgspec.json.Decoder(Order)


class Server:
    """Forks lives until its input ends."""

    def __init__(self) -> None:
        self._input = os.dup(0)
        self._output = os.dup(1)
        os.dup2(2, 1)  # whatever a life prints must not look like a word
        self._lives: dict[int, int] = {}
        """Life by pid."""
        self._dead: dict[int, int] = {}
        """Pid by life, not reaped yet."""
        self._bell, self._ring = socket.socketpair()
        for end in (self._bell, self._ring):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._ring.fileno())

    def serve(self) -> None:
        """Do what the lines of the input say."""
        self.say(Word(life=0, kind="ready"))
        rest = b""
        with selectors.DefaultSelector() as ears:
            ears.register(self._input, selectors.EVENT_READ)
            ears.register(self._bell, selectors.EVENT_READ)
            while True:
                heard = {key.fileobj for key, _ in ears.select()}
                if self._bell in heard:
                    self._bell.recv(4096)
                    self._bury()
                if self._input in heard:
                    read = os.read(self._input, 1 << 16)
                    if not read:
                        return
                    *lines, rest = (rest + read).split(b"\n")
                    for line in lines:
                        self._obey(line)

    def say(self, word: Word) -> None:
        """Tell the driver."""
        os.write(self._output, msgspec.json.encode(word) + b"\n")

    def _obey(self, line: bytes) -> None:
        if line.isdigit():
            pid = self._dead.pop(int(line))
            os.waitpid(pid, 0)
            del self._lives[pid]
            return
        order = _order.decode(line)
        pid = os.fork()
        if pid == 0:
            self._live(order)
        self._lives[pid] = order.life

    def _bury(self) -> None:
        """Say who died, and leave the bodies: a pid stays taken until the driver has heard."""
        for pid, life in self._lives.items():
            if life in self._dead:
                continue
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                self._dead[life] = pid
                self.say(Word(life=life, kind="dead", text=str(found.si_status)))

    def _live(self, order: Order) -> None:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(self._input)
            self.say(Word(life=order.life, kind="born", text=str(os.getpid())))
            while order.gate and not Path(order.gate).exists():
                time.sleep(0.0005)
            anyio.run(lives.LIVES[order.what], order, self.say)
            status = 0
        finally:
            if status:
                traceback.print_exc()
            os._exit(status)


if __name__ == "__main__":
    Server().serve()
