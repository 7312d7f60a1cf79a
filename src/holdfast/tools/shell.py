"""The tool `Bash`: a command in the session's folder, with all of its processes under control."""

import codecs
import os
import shutil
import signal
import subprocess
import sys
from typing import Annotated, Final

import anyio
import anyio.to_thread
from msgspec import Meta

from holdfast.ports import ToolContext, ToolOutput
from holdfast.tools.define import tool
from holdfast.tools.output import BoundedText, LiveText
from holdfast.tools.processes import CALL_VARIABLE, KILL_S, boot_id, die_with_parent, end_group, started_at, survivors
from holdfast.vocab.events import ProcessStarted
from holdfast.vocab.keys import without_keys

TIMEOUT_MS: Final = 120_000
"""How long a command may run when the call does not say."""
LONGEST_MS: Final = 600_000
"""How long a command may run at most."""
LINGER_S: Final = 0.2
"""How long to read on after the command ended: what it left in the background may hold its output open for ever."""

_PIECE: Final = 65_536
_PIPE_HOLDS: Final = 1_048_576
"""Bytes that a pipe can hold at most: so many may still wait when the command has ended."""
_POLL_S: Final = 0.02


@tool(name="Bash", touches="runs")
async def run_command(
    context: ToolContext,
    command: Annotated[str, "The command, as bash reads it."],
    timeout: Annotated[int, Meta(ge=1, le=LONGEST_MS, description="Milliseconds that it may run.")] = TIMEOUT_MS,  # noqa: ASYNC109  # the model sets it
    description: Annotated[str, "What it does, in a few words, for the person who watches."] = "",
) -> ToolOutput:
    """Run a shell command in the working folder. Each call is a new shell, without input: `cd` does not stay."""
    if "\0" in command:
        return ToolOutput(text="A command cannot contain a NUL character.", failed=True, code="bad_arguments")
    try:
        process = _spawn(command, context)
    except OSError as exc:
        return ToolOutput(
            text=f"The command could not be started in {context.cwd!r}: {exc}", failed=True, code="not_started"
        )
    return await _Run(process, context).finish(timeout)


def _spawn(command: str, context: ToolContext) -> "subprocess.Popen[bytes]":
    """Start the command on the event loop's own thread: the kernel ends it together with the thread that forked."""
    shell = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or shutil.which("bash") or "/bin/sh"
    return subprocess.Popen(
        [shell, "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=context.cwd,
        env=without_keys(os.environ) | {CALL_VARIABLE: context.call},
        start_new_session=True,
        preexec_fn=die_with_parent(),  # noqa: PLW1509  # calls nothing but a prctl that was looked up before the fork
    )


class _Run:
    """One command while it runs."""

    def __init__(self, process: "subprocess.Popen[bytes]", context: ToolContext) -> None:
        assert process.stdout is not None
        self._process = process
        self._stdout = process.stdout
        self._context = context
        self._output = BoundedText()
        self._live = LiveText(context.show)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._drained = anyio.Event()
        os.set_blocking(self._stdout.fileno(), False)

    async def finish(self, timeout_ms: int) -> ToolOutput:
        """Wait for the end. A command that takes too long or is cancelled is stopped with all of its processes."""
        group = self._process.pid
        try:
            self._note(group)
            timed_out = await self._watch(timeout_ms / 1000)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await end_group(group)
                await self._reap()
            raise
        finally:
            self._stdout.close()
        left = await anyio.to_thread.run_sync(survivors, group)
        return _report(self._output.text, self._process.poll(), timeout_ms if timed_out else None, left)

    def _note(self, group: int) -> None:
        """Write down what a resume needs to find the processes if this one dies."""
        started = started_at(group)
        self._context.note(ProcessStarted(call=self._context.call, group=group, boot=boot_id(), started=started))

    async def _watch(self, timeout_s: float) -> bool:
        """Read until the command has ended; say whether it had to be stopped."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pump)
            with anyio.move_on_after(timeout_s) as limit:
                await self._exit()
            if limit.cancelled_caught:
                await end_group(self._process.pid)
                await self._reap()
            with anyio.move_on_after(LINGER_S):
                await self._drained.wait()
            tasks.cancel_scope.cancel()
        self._read(_PIPE_HOLDS)  # a busy event loop may have let the time pass without reading
        self._take(self._decoder.decode(b"", final=True))
        self._live.close()
        return limit.cancelled_caught

    async def _pump(self) -> None:
        while not self._drained.is_set():
            await anyio.wait_readable(self._stdout)
            self._read(_PIECE)

    def _read(self, size: int) -> None:
        """Take what is there, without waiting."""
        while size > 0 and not self._drained.is_set():
            try:
                piece = os.read(self._stdout.fileno(), min(size, _PIECE))
            except BlockingIOError:
                return
            size -= len(piece)
            if not piece:
                self._drained.set()
            self._take(self._decoder.decode(piece))

    def _take(self, text: str) -> None:
        if text:
            self._output.add(text)
            self._live.add(text, anyio.current_time())

    async def _exit(self) -> None:
        """Wait until the shell itself has ended."""
        descriptor = _watchable(self._process.pid)
        try:
            while self._process.poll() is None:
                await (anyio.sleep(_POLL_S) if descriptor is None else anyio.wait_readable(descriptor))
        finally:
            if descriptor is not None:
                os.close(descriptor)

    async def _reap(self) -> None:
        with anyio.move_on_after(KILL_S):
            await self._exit()


def _watchable(pid: int) -> int | None:
    """A descriptor that becomes readable when our child `pid` ends; None where the kernel has no such thing."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _report(output: str, status: int | None, timeout_ms: int | None, left: tuple[int, ...]) -> ToolOutput:
    code, ending = _ending(status, timeout_ms)
    notes = [ending] if ending else []
    if left:
        what = (
            "still running in the background, its output no longer read"
            if timeout_ms is None
            else "could not be stopped"
        )
        notes.append(f"({what}: {', '.join(map(str, left))})")
    separator = "\n" if notes and output and not output.endswith("\n") else ""
    return ToolOutput(text=output + separator + "\n".join(notes) or "(no output)", failed=bool(code), code=code)


def _ending(status: int | None, timeout_ms: int | None) -> tuple[str, str]:
    """How a command ended: a code, empty when it went well, and the words for it."""
    if timeout_ms is not None:
        return "timeout", f"timed out after {timeout_ms} ms; the command was stopped"
    match status:
        case 0:
            return "", ""
        case int() if status < 0:
            return "signal", f"killed by signal {-status} ({_signal_name(-status)})"
        case _:
            return "exit", f"exit {status}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
