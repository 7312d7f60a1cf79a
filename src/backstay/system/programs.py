"""Run programs for Backstay itself: with bounded output, a deadline, and an end of everything that they started.

Each gets a process group of its own. When it takes too long, is not waited for any more or is to say no more, the whole group is
killed: what it started is not left behind.
"""

import os
import resource
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from msgspec import Struct

from backstay.vocab.env_keys import without_loading


class Ran(Struct, frozen=True, kw_only=True):
    """The result of a program: exit code and output."""

    code: int
    out: bytes
    err: bytes
    cut: bool = False
    """Whether it wrote more to its standard output than is kept."""


async def run_program(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    given: bytes = b"",
    most: int,
    deadline_s: float,
    limits: Mapping[int, int] = {},
    take: Callable[[bytes], bool] | None = None,
) -> Ran:
    """Run a program to its end and return what it said: at most `most` bytes of each stream, while the rest is read and dropped.

    `given` is its standard input, `limits` its hard limits by kind (`resource.RLIMIT_...`). `take` gets each piece of its standard
    output instead; when it returns False, the program is killed. Raise `TimeoutError` when it has not ended and let go of its output
    by the deadline, and `OSError` when it cannot be started.
    """
    with anyio.CancelScope(shield=True):  # a start that is cut short would leave half a process behind
        process = await anyio.open_process(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if given else subprocess.DEVNULL,
            start_new_session=True,
        )
    out, err = _Output(most, take), _Output(most)
    over = False
    async with process:
        try:
            _limit(process.pid, limits)
            with anyio.fail_after(deadline_s):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_drain, process.stdout, out, process.pid)
                    tasks.start_soon(_drain, process.stderr, err, process.pid)
                    tasks.start_soon(_feed, process.stdin, given)
                code = await process.wait()
            over = True
        finally:
            if not over:
                _kill(process.pid)
    return Ran(code=code, out=bytes(out.kept), err=bytes(err.kept), cut=out.cut)


def load_behind(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return what to start in a sandbox, and the environment of the program that sets it up.

    The variables that say what is loaded into programs hold in the sandbox alone: a command may have changed what they name.
    """
    kept = without_loading(environment)
    inside = [f"{name}={value}" for name, value in environment.items() if name not in kept]
    return ["/usr/bin/env", *inside, *argv] if inside else list(argv), kept


class _Output:
    """The output of a stream so far."""

    def __init__(self, most: int, take: Callable[[bytes], bool] | None = None) -> None:
        self.kept = bytearray()
        self.cut = False
        self._most, self._take = most, take

    def add(self, piece: bytes) -> bool:
        """Keep a piece, or what of it there is room for; say whether more is wanted."""
        if self._take is not None:
            return self._take(piece)
        room = self._most - len(self.kept)
        self.kept += piece[:room]
        self.cut = self.cut or len(piece) > room
        return True


async def _drain(stream: ByteReceiveStream | None, output: _Output, group: int) -> None:
    assert stream is not None  # it is a pipe unless said otherwise
    async for piece in stream:
        if not output.add(piece):
            _kill(group)
            return


async def _feed(stream: ByteSendStream | None, content: bytes) -> None:
    if stream is not None:
        with suppress(anyio.BrokenResourceError):  # it gave up on what it has read
            await stream.send(content)
        await stream.aclose()


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # all of it has ended already
        os.killpg(group, signal.SIGKILL)


def _limit(pid: int, limits: Mapping[int, int]) -> None:
    """Set limits of the process and of those that it starts."""
    for kind, most in limits.items() if hasattr(resource, "prlimit") else ():
        with suppress(OSError):  # it may be over already
            resource.prlimit(pid, kind, (most, most))
