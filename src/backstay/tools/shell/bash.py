"""The tool `Bash`: a command in the session's folder, with all of its processes under control."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from typing import Annotated, Final, cast

import anyio
import anyio.to_thread
from msgspec import Meta, Struct

from backstay.ports import Tool, ToolContext, ToolOutput
from backstay.system.machine import boot_id
from backstay.system.programs import load_behind
from backstay.tools.define import tool
from backstay.tools.output import BoundedText, Keep, LineBuffer, LiveText, TextDecoder, show_in_part
from backstay.tools.shell import processes
from backstay.tools.shell.processes import (
    CALL_VARIABLE,
    KILL_S,
    RUN_VARIABLE,
    end_group,
    list_survivors,
    prepare_program,
    start_time,
    wait_for,
)
from backstay.tools.shell.spool import Spool
from backstay.vocab import events
from backstay.vocab.env_keys import BUILT_IN, Keys

LONGEST: Final = 1_000_000
"""Bytes that a command may have. The kernel takes so many, and some room is left for the environment."""
PIPE_HOLDS: Final = 1_048_576
"""Bytes that a pipe can hold at most: so many may still wait when the command has ended."""

_ONE_ARGUMENT: Final = 120_000
"""Bytes that the kernel takes as one argument, less a margin."""
_JOIN: Final = """IFS=; set -- "$*"; IFS=' \t\n'; eval "set --; $1\""""
"""Puts the arguments together again and runs them as one command."""
TIMEOUT_MS: Final = 120_000
"""Milliseconds that a command may run when the call does not say."""
LONGEST_MS: Final = 600_000
"""Milliseconds that a command may run at most."""
LINGER_S: Final = 0.2
"""Seconds to read on after the command ended: a program that it left behind may hold its output open for ever."""

Begin = Callable[[str, ToolContext], ToolOutput]
"""Starts a command in the background and says how it is known. Raises `OSError` when it cannot be started."""

_PIECE: Final = 65_536


class StartedCommand(Struct, frozen=True):
    """A command that runs."""

    process: "subprocess.Popen[bytes]"
    run: str
    """The word that all of its processes carry."""

    @property
    def group(self) -> int:
        """The process group, which it leads."""
        return self.process.pid


def make_bash(
    *,
    environment: Mapping[str, str] | None = None,
    keep: Keep | None = None,
    folder: str | None = None,
    begin: Begin | None = None,
    keys: Keys = BUILT_IN,
) -> Tool:
    """Make the tool `Bash`.

    `environment` is added to that of this process, `keep` takes whole outputs that the model sees in part only, `folder` is where they
    are put together, and `begin` starts what is to run in the background. Commands do not get the variables that hold `keys`.
    """
    added = dict(environment or {})

    @tool(name="Bash", touches="runs")
    async def bash(
        context: ToolContext,
        command: Annotated[str, "The command, as bash reads it."],
        timeout: Annotated[  # noqa: ASYNC109  # the model sets it
            int, Meta(ge=1, le=LONGEST_MS, description="Milliseconds that it may run; not counted in the background.")
        ] = TIMEOUT_MS,
        description: Annotated[str, "What it does, in a few words, for the person who watches."] = "",
        run_in_background: Annotated[
            bool, "Return at once with an id, and let it run as long as the session: for servers and watchers."
        ] = False,
    ) -> ToolOutput:
        """Run a shell command in the working folder. Each call is a new shell, without input: `cd` and variables do not stay. Standard
        output and errors come together; of a long output the beginning and the end are shown."""
        if problem := check_command(command):
            return ToolOutput(text=problem, failed=True, code="bad_arguments")
        if run_in_background and begin is None:
            text = "This session cannot run commands in the background. Run it without `run_in_background`."
            return ToolOutput(text=text, failed=True, code="no_background")
        try:
            if run_in_background and begin is not None:
                return begin(command, context)
            started = start(command, context, added, keys)
        except OSError as exc:
            return not_started(context.cwd, exc)
        return await _Run(started, context, Spool(folder)).finish(timeout, keep)

    return cast("Tool", bash)


def not_started(cwd: str, exc: OSError) -> ToolOutput:
    """Say that a command could not even begin."""
    return ToolOutput(text=f"The command could not be started in {cwd!r}: {exc}", failed=True, code="not_started")


run_command = make_bash()
"""`Bash` as it is without a session: nothing in the background, nothing kept of long outputs but what is shown."""


class _Run:
    """One command while it runs."""

    def __init__(self, started: StartedCommand, context: ToolContext, spool: Spool) -> None:
        assert started.process.stdout is not None
        self._started = started
        self._process = started.process
        self._stdout = started.process.stdout
        self._context = context
        self._spool = spool
        self._plain = TextDecoder()
        self._lines = LineBuffer()
        self._output = BoundedText()
        self._live = LiveText(context.show)
        self._drained = anyio.Event()
        os.set_blocking(self._stdout.fileno(), False)

    async def finish(self, timeout_ms: int, keep: Keep | None) -> ToolOutput:
        """Wait for the end. A command that takes too long or is cancelled is stopped with all of its processes."""
        try:
            note_start(self._started, self._context)
            timed_out = await self._watch(timeout_ms / 1000)
            left = await anyio.to_thread.run_sync(list_survivors, self._started.group)
            text = await show_in_part(self._output, self._spool.whole, keep)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._stop()
            raise
        finally:
            self._stdout.close()
            self._spool.close()
        return self._report(text, timeout_ms if timed_out else None, left)

    async def _watch(self, timeout_s: float) -> bool:
        """Read until the command has ended; say whether it had to be stopped."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pump)
            with anyio.move_on_after(timeout_s) as limit:
                await wait_for(self._process)
            if limit.cancelled_caught:
                await self._stop()
            with anyio.move_on_after(LINGER_S):
                await self._drained.wait()
            tasks.cancel_scope.cancel()
        self._read(PIPE_HOLDS)  # a busy event loop may have let the time pass without reading
        self._take(b"", final=True)
        self._live.close()
        return limit.cancelled_caught

    async def _stop(self) -> None:
        await end_group(self._started.group, self._started.run)
        with anyio.move_on_after(KILL_S):
            await wait_for(self._process)

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
            self._take(piece)

    def _take(self, piece: bytes, *, final: bool = False) -> None:
        self._spool.add(piece)
        text = self._plain.add(piece, final=final)
        if text:
            self._live.add(text, anyio.current_time())
        if settled := self._lines.add(text, final=final):
            self._output.add(settled)

    def _report(self, output: str, timeout_ms: int | None, left: tuple[int, ...]) -> ToolOutput:
        code, words = describe_ending(self._process.poll(), timeout_ms)
        notes = [words] if words else []
        if self._plain.replaced:
            notes.insert(0, f"[binary output: {self._plain.replaced} bytes that are not text are shown as \ufffd]")
        if left:
            what = "still running in the background, its output no longer read"
            notes.append(f"({what if timeout_ms is None else 'could not be stopped'}: {', '.join(map(str, left))})")
        if code and self._context.sandbox is not None and self._context.sandbox.words:
            notes.append(f"[{self._context.sandbox.words}]")
        separator = "\n" if notes and output and not output.endswith("\n") else ""
        return ToolOutput(text=output + separator + "\n".join(notes) or "(no output)", failed=bool(code), code=code)


def start(command: str, context: ToolContext, environment: Mapping[str, str], keys: Keys = BUILT_IN) -> StartedCommand:
    """Start a command in the session's folder, in its sandbox, in a group of its own, without input and without `keys`.

    Call it on the event loop's own thread: the kernel ends the command together with the thread that forked. The command has no
    problem (see `check_command`). Raise `OSError` when it cannot be started.
    """
    run = os.urandom(8).hex()
    words, known = _argv(command), keys.without(os.environ) | dict(environment)
    if context.sandbox is not None:
        words, known = load_behind(words, known)
    argv, before = _in_sandbox(words, context)
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=context.cwd,
        env=known | {CALL_VARIABLE: context.call, RUN_VARIABLE: run},
        start_new_session=True,
        preexec_fn=before,  # noqa: PLW1509  # prepared before the fork; it only makes system calls
    )
    return StartedCommand(process, run)


def note_start(started: StartedCommand, context: ToolContext) -> None:
    """Write down what a resume needs to find the processes if this one dies."""
    group = started.group
    context.note(events.ProcessStarted(call=context.call, group=group, boot=boot_id(), started=start_time(group)))


def check_command(command: str) -> str:
    """Explain why a text cannot be a command; empty when it can."""
    if "\0" in command:
        return "A command cannot contain a NUL character."
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        return "The command has half of a surrogate pair in it, which is no character."
    if size > LONGEST:
        return f"The command has more than {LONGEST} bytes. Write it to a file and run that."
    return ""


def describe_ending(status: int | None, timeout_ms: int | None = None) -> tuple[str, str]:
    """Describe how a command ended: a code, empty when it went well, and a sentence."""
    if timeout_ms is not None:
        return "timeout", f"timed out after {timeout_ms} ms; the command was stopped"
    match status:
        case 0:
            return "", ""
        case processes.UNSEEN:
            return "exit:unknown", processes.LOST_CODE
        case int() if status < 0:
            return f"signal:{-status}", f"killed by signal {-status} ({_signal_name(-status) or 'unknown'})"
        case int() if status > 128 and (name := _signal_name(status - 128)):
            return f"exit:{status}", f"exit {status} (as a shell says when a program was killed by {name})"
        case _:
            return f"exit:{status}", f"exit {status}"


def _argv(command: str) -> list[str]:
    shell = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or shutil.which("bash") or "/bin/sh"
    if len(command.encode()) <= _ONE_ARGUMENT:
        return [shell, "-c", command]
    pieces = [command[at : at + _ONE_ARGUMENT // 4] for at in range(0, len(command), _ONE_ARGUMENT // 4)]
    return [shell, "-c", _JOIN, shell, *pieces]


def _in_sandbox(argv: list[str], context: ToolContext) -> tuple[list[str], Callable[[], None] | None]:
    prepare = prepare_program()
    if context.sandbox is None:
        return argv, prepare
    argv, enter = context.sandbox.command(argv, cwd=context.cwd)
    if prepare is None or enter is None:
        return argv, prepare or enter

    def arrange() -> None:
        prepare()
        enter()

    return argv, arrange


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
