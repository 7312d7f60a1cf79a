"""Commands that start as copies of a process that has loaded everything, so that a hundred of them load it once."""

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

NEST = Path(__file__).with_name("nest.py")
SOURCE = Path(__file__).parents[2] / "src"
COLD = ("PYTHON", "LC_", "LANG")
"""What Python reads of its environment when it begins: a copy, which has begun already, would not see a change."""


class Running:
    """A command that runs, with as much of `subprocess.Popen` as the tests use."""

    def __init__(self, pid: int, streams: Sequence[IO[str]], ending: IO[bytes]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = streams
        self._ending = ending

    def poll(self) -> int | None:
        """The exit code, once there is one."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("backstay", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, text: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Give it its whole input and take its whole output."""
        with self.stdout, self.stderr, ThreadPoolExecutor(2) as readers:
            out, err = readers.submit(self.stdout.read), readers.submit(self.stderr.read)
            with suppress(BrokenPipeError), self.stdin:
                self.stdin.write(text or "")
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            return out.result(), err.result()

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ending], [], [], timeout)[0]:
            with self._ending:
                self.returncode = int(self._ending.readline())
        return self.returncode


class Nest:
    """The process that is copied."""

    def __init__(self) -> None:
        self._mouth, ear = socket.socketpair()
        with ear:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", str(NEST), str(ear.fileno())],
                pass_fds=[ear.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
            )

    def start(self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> Running:
        """Start a command."""
        (stdin, write), (read_out, stdout), (read_err, stderr), (read_ending, teller) = (os.pipe() for _ in range(4))
        order = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
        body = json.dumps(order).encode()
        theirs = (stdin, stdout, stderr, teller)
        socket.send_fds(self._mouth, [struct.pack("!Q", len(body))], theirs)
        self._mouth.sendall(body)
        for each in theirs:
            os.close(each)
        ending = open(read_ending, "rb", buffering=0)  # noqa: SIM115  closed when the command has ended
        into = open(write, "w", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115  closed by who uses them
        out, err = (open(each, encoding="utf-8") for each in (read_out, read_err))  # noqa: SIM115  likewise
        return Running(int(ending.readline()), (into, out, err), ending)

    def close(self) -> None:
        """Let it go."""
        self._mouth.close()
        self._process.communicate(timeout=50)
