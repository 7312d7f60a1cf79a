"""Run commands in the background: started by `Bash`, read by `BashOutput`, stopped by `KillShell`."""

import hashlib
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Final, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
from msgspec import Struct

from backstay.ports import Tool, ToolContext, ToolOutput
from backstay.tools.define import tool
from backstay.tools.files.target import Refused
from backstay.tools.output import BoundedText, Keep, LineBuffer, TextDecoder, show_in_part
from backstay.tools.ripgrep import select_lines
from backstay.tools.shell.bash import (
    LINGER_S,
    PIPE_HOLDS,
    StartedCommand,
    describe_ending,
    make_bash,
    note_start,
    start,
)
from backstay.tools.shell.processes import KILL_S, end_group, end_run, has_ended, open_pidfd
from backstay.tools.shell.spool import Spool
from backstay.vocab.env_keys import BUILT_IN, Keys

RUNNING: Final = 16
"""Commands that may run beside the conversation at the same time."""
REMEMBERED: Final = 64
"""Commands that can still be asked about."""

_PIECE: Final = 65_536
_POLL_MS: Final = 100


class EndedCommand(Struct, frozen=True):
    """A command in the background that has ended."""

    id: str
    call: str
    """The call that started it."""
    command: str
    status: int
    """As Python has it: negative for a signal."""
    words: str


OnExit = Callable[[EndedCommand], None]
"""Takes each command that ends, on the event loop that it was started from. It does not raise."""


class BackgroundShells:
    """The commands that a session runs in the background. They end with it: call `aclose`."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        keep: Keep | None = None,
        folder: str | None = None,
        on_exit: OnExit | None = None,
        keys: Keys = BUILT_IN,
    ) -> None:
        self._keys = keys
        self._environment = dict(environment or {})
        self._keep = keep
        self._folder = folder
        self._on_exit = on_exit
        self._shells: dict[str, _Shell] = {}
        self.bash = make_bash(environment=environment, keep=keep, folder=folder, begin=self.begin, keys=keys)
        self.bash_output = _bash_output(self)
        self.kill_shell = _kill_shell(self)

    @property
    def tools(self) -> tuple[Tool, Tool, Tool]:
        """`Bash`, `BashOutput` and `KillShell`, bound to these commands."""
        return self.bash, self.bash_output, self.kill_shell

    @property
    def running(self) -> tuple[tuple[str, str], ...]:
        """What runs, by name: the command, and how it stands."""
        return tuple((each.id, f"{each.command}  ({each.words})") for each in self._shells.values())

    def begin(self, command: str, context: ToolContext) -> ToolOutput:
        """Start a command and say how it is known. Raise `OSError` when it cannot be started."""
        running = [each.id for each in self._shells.values() if each.status is None]
        if len(running) >= RUNNING:
            text = f"{RUNNING} commands run in the background already. Stop one with KillShell: {', '.join(running)}."
            return ToolOutput(text=text, failed=True, code="too_many")
        sandbox = context.sandbox.words if context.sandbox is not None else ""
        started = start(command, context, self._environment, self._keys)
        shell = _Shell(self._name(context.call), context.call, command, started, Spool(self._folder), sandbox)
        self._shells[shell.id] = shell
        shell.watch(self._on_exit)
        note_start(started, context)
        self._forget()
        return ToolOutput(
            text=f"It runs in the background as {shell.id!r}. BashOutput shows what it prints, KillShell stops it."
        )

    async def read(self, bash_id: str, pattern: str, cwd: str) -> ToolOutput:
        """Return what a command printed since it was last read, and whether it still runs."""
        shell = self._shells.get(bash_id)
        if shell is None:
            return self._unknown(bash_id)
        words = shell.words  # first the state, then the output: what ended has printed all
        text = await anyio.to_thread.run_sync(shell.take)
        if pattern:
            lines = text.split("\n")
            try:
                found = await select_lines(lines, pattern, cwd)
            except Refused as refused:
                shell.give_back(text)
                return refused.output
            text = "".join(f"{lines[number]}\n" for number in found)
        bounded = BoundedText()
        bounded.add(text)
        shown = await show_in_part(bounded, text.encode, self._keep)
        if not shown:
            return ToolOutput(text=f"(nothing new; {words})")
        return ToolOutput(text=f"{shown}{'' if shown.endswith(chr(10)) else chr(10)}({words})")

    async def stop(self, shell_id: str) -> ToolOutput:
        """Stop a command with all of its processes."""
        shell = self._shells.get(shell_id)
        if shell is None:
            return self._unknown(shell_id)
        words = "had ended already" if shell.status is not None else "was stopped"
        left = await shell.end()
        if left:
            text = f"{shell_id!r} could not be stopped: {', '.join(map(str, left))}."
            return ToolOutput(text=text, failed=True, code="not_stopped")
        return ToolOutput(text=f"{shell_id!r} {words}: {shell.words}.")

    async def aclose(self) -> None:
        """Stop everything that still runs."""
        shells = tuple(self._shells.values())
        self._shells.clear()
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for each in shells:
                    tasks.start_soon(each.end)
        for each in shells:
            each.forget()

    def _name(self, call: str) -> str:
        """Make a name that no other command has, nor one of an earlier process of the session."""
        name = f"bash_{hashlib.sha256(call.encode()).hexdigest()[:8]}"
        return name if name not in self._shells else f"{name}_{len(self._shells)}"

    def _unknown(self, shell_id: str) -> ToolOutput:
        known = ", ".join(self._shells) or "none"
        text = f"There is no background command {shell_id!r} in this run of the session. Known: {known}."
        return ToolOutput(text=text, failed=True, code="not_found")

    def _forget(self) -> None:
        ended = [each for each in self._shells.values() if each.status is not None]
        for each in ended[: max(0, len(self._shells) - REMEMBERED)]:
            del self._shells[each.id]
            each.forget()


class _Shell:
    """One command in the background. A thread reads what it prints, so that no task has to outlive the call."""

    def __init__(self, name: str, call: str, command: str, started: StartedCommand, spool: Spool, sandbox: str) -> None:
        self.id = name
        self.status: int | None = None
        self._call = call
        self.command = command
        self._started = started
        self._spool = spool
        self._sandbox = sandbox
        self._read_to = 0
        self._unread = ""
        self._plain = TextDecoder()
        self._lines = LineBuffer()
        self._over = anyio.Event()
        self._loop = anyio.lowlevel.current_token()

    @property
    def words(self) -> str:
        """Its state."""
        if self.status is None:
            return "still running"
        code, words = describe_ending(self.status)
        return f"{words} [{self._sandbox}]" if code and self._sandbox else words or "exit 0"

    def watch(self, on_exit: OnExit | None) -> None:
        """Begin to read."""
        threading.Thread(target=self._follow, args=(on_exit,), name=f"backstay {self.id}", daemon=True).start()

    def take(self) -> str:
        """Return what it printed since this was last called."""
        raw, self._read_to = self._spool.read(self._read_to)
        before = self._plain.replaced
        text = self._unread + self._lines.add(self._plain.add(raw, final=self.status is not None), final=True)
        self._unread = ""
        count = self._plain.replaced - before
        return f"{text}\n[{count} bytes that are not text are shown as \ufffd]\n" if count else text

    def give_back(self, text: str) -> None:
        """Show `text` again the next time."""
        self._unread = text + self._unread

    async def end(self) -> tuple[int, ...]:
        """Stop it with everything that it started; return those that could not be stopped."""
        if self.status is None:
            left = await end_group(self._started.group, self._started.run)
        else:
            left = await end_run(self._started.run)  # the number of its group may be reused by now
        with anyio.move_on_after(KILL_S):
            await self._over.wait()
        return left

    def forget(self) -> None:
        """Let go of its output."""
        self._spool.close()

    def _follow(self, on_exit: OnExit | None) -> None:
        process = self._started.process
        assert process.stdout is not None
        descriptor = open_pidfd(process.pid)
        try:
            self._read(process.stdout.fileno(), descriptor)
        finally:
            process.stdout.close()
            if descriptor is not None:
                os.close(descriptor)
        with suppress(RuntimeError):  # the loop has ended, and the session with it
            anyio.from_thread.run_sync(self._report_end, process.returncode, on_exit, token=self._loop)

    def _read(self, output: int, descriptor: int | None) -> None:
        """Take what it prints until it has ended; what it left in the background is read a moment longer."""
        poller = select.poll()
        for each in (output, descriptor):
            if each is not None:
                poller.register(each, select.POLLIN)
        open_ = True
        deadline: float | None = None
        while deadline is None or (open_ and time.monotonic() < deadline):
            for ready, _ in poller.poll(_POLL_MS if descriptor is None or deadline is not None else None):
                if ready == descriptor:
                    poller.unregister(ready)
                elif piece := os.read(output, _PIECE):
                    self._spool.add(piece)
                else:
                    poller.unregister(output)
                    open_ = False
            if deadline is None and has_ended(self._started.process):
                deadline = time.monotonic() + LINGER_S
        if open_:
            self._read_rest(output)

    def _read_rest(self, output: int) -> None:
        """Take what is there already: a busy machine may have let the time pass without reading."""
        os.set_blocking(output, False)
        left = PIPE_HOLDS
        with suppress(BlockingIOError):
            while left > 0 and (piece := os.read(output, _PIECE)):
                self._spool.add(piece)
                left -= len(piece)

    def _report_end(self, status: int, on_exit: OnExit | None) -> None:
        self.status = status
        self._over.set()
        if on_exit is not None:
            on_exit(EndedCommand(self.id, self._call, self.command, status, self.words))


def _bash_output(shells: BackgroundShells) -> Tool:
    @tool(name="BashOutput", effect="idempotent", touches="notes")
    async def bash_output(
        context: ToolContext,
        bash_id: Annotated[str, "The id that Bash gave when it started the command."],
        filter: Annotated[
            str, "Show only lines that match this regular expression; the others are not shown again."
        ] = "",
    ) -> ToolOutput:
        """Show what a background command printed since you last asked, and whether it still runs."""
        return await shells.read(bash_id, filter, context.cwd)

    return cast("Tool", bash_output)


def _kill_shell(shells: BackgroundShells) -> Tool:
    @tool(name="KillShell", effect="idempotent", touches="notes")
    async def kill_shell(shell_id: Annotated[str, "The id that Bash gave when it started the command."]) -> ToolOutput:
        """Stop a background command with all of its processes."""
        return await shells.stop(shell_id)

    return cast("Tool", kill_shell)
