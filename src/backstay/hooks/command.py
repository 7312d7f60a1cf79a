"""Run a hook that is a program: write its input, read its output within bounds, and end it with all its descendants."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final, Literal

import anyio
import msgspec

from backstay.hooks.run_context import HandlerOutcome, HookInput, RunContext
from backstay.hooks.spec import CommandHook, HookSpec
from backstay.system.folders import bytecode_environment
from backstay.tools.shell.processes import (
    CALL_VARIABLE,
    HOOK_VARIABLE,
    KILL_S,
    LOST_CODE,
    UNSEEN,
    end_group,
    prepare_program,
    stop_call,
    wait_for,
)
from backstay.vocab.env_keys import without_keys

KEPT: Final = 1_000_000
"""Bytes that are kept of each stream."""
FLOOD: Final = 32_000_000
"""Bytes of output after which a program is stopped."""
LINGER_S: Final = 0.2
"""Seconds to read on after the program ended: a descendant in the background may hold its output open."""

_PIECE: Final = 65_536
_ANNOUNCED: Final = 4_096
"""Bytes within which a program says that it goes on in the background."""

Ending = Literal["ended", "late", "flooded", "left"]
"""Why the wait is over: the program ended, ran out of time, wrote too much, or announced that it goes on in the background."""

Show = Callable[[str], None]


class HookProgram:
    """A running program. The caller calls `end` or `close` in any case."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        payload: bytes,
        cwd: str,
        environment: Mapping[str, str],
        mark: str,
        leaves: Callable[[str], bool] = lambda _: False,
        show: Show | None = None,
    ) -> None:
        """Start the program on the event loop's own thread: the kernel ends it together with the thread that forked.

        `mark` stands in the environment of everything that it starts. `leaves` says of the first output whether the program announces
        that it goes on in the background. Raise `OSError` or `ValueError` when it cannot be started.
        """
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**environment, CALL_VARIABLE: mark},
            start_new_session=True,
            preexec_fn=prepare_program(),  # noqa: PLW1509  # prepared before the fork; it only makes system calls
        )
        self._mark = mark
        self._payload = memoryview(payload)
        self._says_background = leaves
        self._show = show
        self._streams = (_Stream(self._process.stdout), _Stream(self._process.stderr))
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
        self._news = anyio.Event()
        self._endings: list[Ending] = []

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    @property
    def stdout(self) -> str:
        """The kept part of standard output."""
        return self._streams[0].text

    @property
    def stderr(self) -> str:
        """The kept part of standard error."""
        return self._streams[1].text

    @property
    def cut(self) -> bool:
        """Whether standard output is longer than its kept part."""
        return self._streams[0].total > KEPT

    async def watch(self, seconds: float) -> Ending:
        """Feed and read the program until it ends, its time is over, or it need not be waited for."""
        self._news, self._endings = anyio.Event(), []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._feed)
            tasks.start_soon(self._await_exit)
            for stream in self._streams:
                tasks.start_soon(self._pump, stream)
            with anyio.move_on_after(seconds):
                await self._news.wait()
            ending = self._endings[0] if self._endings else "late"
            if ending == "ended":
                with anyio.move_on_after(LINGER_S):
                    for stream in self._streams:
                        await stream.drained.wait()
            tasks.cancel_scope.cancel()
        if ending == "ended":
            for stream in self._streams:  # a busy event loop may have let the time pass without reading
                stream.read(KEPT)
        return ending

    async def end(self) -> None:
        """Stop the program with all descendants, including those that left its group, and close its streams."""
        with anyio.CancelScope(shield=True):
            await end_group(self._process.pid)
            await stop_call(self._mark)
            with anyio.move_on_after(KILL_S):
                await self._await_exit()
        for stream in self._streams:
            stream.read(KEPT)
        self.close()

    def close(self) -> None:
        """Close its streams; what it left in the background may go on."""
        self._close_input()
        for stream in self._streams:
            stream.close()

    async def _feed(self) -> None:
        """Write the input while the program reads it."""
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            return
        while self._payload:
            await anyio.wait_writable(pipe)
            try:
                self._payload = self._payload[os.write(pipe.fileno(), self._payload[:_PIECE]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:  # it does not want to know
                break
        self._close_input()

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    async def _pump(self, stream: "_Stream") -> None:
        while not stream.drained.is_set():
            await anyio.wait_readable(stream.pipe)
            piece = stream.read(_PIECE)
            if piece and self._show is not None:
                self._show(piece.decode("utf-8", "replace"))
            if stream.total > FLOOD:
                self._end_with("flooded")
                return
            announced = stream is self._streams[0] and piece and stream.total <= _ANNOUNCED
            if announced and self._says_background(stream.text):
                self._end_with("left")

    async def _await_exit(self) -> None:
        await wait_for(self._process)
        self._end_with("ended")

    def _end_with(self, ending: Ending) -> None:
        self._endings.append(ending)
        self._news.set()


class _Stream:
    """A pipe read without waiting; its beginning is kept."""

    def __init__(self, pipe: "IO[bytes] | None") -> None:
        assert pipe is not None
        self.pipe = pipe
        self.total = 0
        self.drained = anyio.Event()
        self._kept = bytearray()
        os.set_blocking(pipe.fileno(), False)

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")

    def read(self, size: int) -> bytes:
        """Read what is there and return the part of it that is kept."""
        before = len(self._kept)
        while size > 0 and not self.drained.is_set() and not self.pipe.closed:
            try:
                piece = os.read(self.pipe.fileno(), min(size, _PIECE))
            except BlockingIOError:
                break
            size -= len(piece)
            self.total += len(piece)
            self._kept += piece[: KEPT - len(self._kept)]
            if not piece:
                self.drained.set()
        return bytes(self._kept[before:])

    def close(self) -> None:
        self.pipe.close()


class CommandRun:
    """One run of a program: `run` it; if it goes on in the background, `finish` it there."""

    def __init__(
        self, spec: HookSpec, handler: CommandHook, payload: HookInput, context: RunContext, mark: str
    ) -> None:
        self._spec = spec
        self._handler = handler
        self._payload = payload
        self._context = context
        self._mark = mark
        self._program: HookProgram | None = None

    async def run(self, *, may_leave: bool) -> HandlerOutcome:
        """Run the program to its end. With `may_leave` it may announce that it goes on in the background: then `finish` it there."""
        environment = _environment(self._spec, self._handler, self._payload, self._context)
        show = self._context.on_output
        spec = self._spec
        try:
            self._program = HookProgram(
                _argv(self._handler, environment),
                payload=msgspec.json.encode(self._payload) + b"\n",
                cwd=self._context.cwd,
                environment=environment,
                mark=self._mark,
                leaves=_says_background if may_leave else _never,
                show=None if show is None else (lambda text: show(spec, text)),
            )
        except (OSError, ValueError) as exc:
            return HandlerOutcome(failed=f"it could not be started in {self._context.cwd!r}: {exc}")
        return await self.finish(self._spec.timeout)

    async def finish(self, seconds: float) -> HandlerOutcome:
        """Wait so many seconds for the end of the started program. It never outlives this call."""
        program = self._program
        if program is None:
            return HandlerOutcome(failed="it was never started")
        try:
            ending = await program.watch(seconds)
            if ending in ("late", "flooded"):
                await program.end()
        except BaseException:
            await program.end()
            raise
        if ending == "left":
            return HandlerOutcome(stdout=program.stdout, background=True)
        program.close()
        return HandlerOutcome(
            exit_code=program.exit_code,
            stdout=program.stdout,
            stderr=program.stderr,
            cut=program.cut,
            timed_out=ending == "late",
            failed=_failure(ending, program.exit_code),
        )


def _failure(ending: str, exit_code: int | None) -> str:
    if ending == "flooded":
        return f"it wrote more than {FLOOD:,} bytes and was stopped"
    return LOST_CODE if exit_code == UNSEEN else ""


def background_seconds(text: str, usual: float) -> float:
    """Return how long an announced background program may run: its own milliseconds, else the usual time."""
    values = _read_announcement(text)
    value = values.get("asyncTimeout") if values is not None else None
    return value / 1000 if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else usual


def _says_background(text: str) -> bool:
    values = _read_announcement(text)
    return values is not None and values.get("async") is True


def _never(text: str) -> bool:
    return False


def _read_announcement(text: str) -> dict[str, object] | None:
    line = text.lstrip().partition("\n")[0].strip()
    if not (line.startswith("{") and line.endswith("}")):
        return None
    try:
        values = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _environment(spec: HookSpec, handler: CommandHook, payload: HookInput, context: RunContext) -> dict[str, str]:
    """Return the environment of a program: without providers' keys, with the folders and the session."""
    folder = context.project or context.cwd
    known = {
        "CLAUDE_PROJECT_DIR": folder,
        "BACKSTAY_PROJECT_DIR": folder,
        "CLAUDE_SESSION_ID": payload.get("session_id"),
        "BACKSTAY_SESSION_ID": payload.get("session_id"),
        HOOK_VARIABLE: spec.event,
        "BACKSTAY_AGENT_ID": payload.get("agent_id"),
        "BACKSTAY_AGENT_TYPE": payload.get("agent_type"),
        "CLAUDE_PLUGIN_ROOT": spec.root if spec.source == "plugin" else "",
    }
    values = {name: value for name, value in known.items() if isinstance(value, str) and value}
    return {**without_keys(context.environment), **dict(handler.env), **values, **bytecode_environment()}


def _argv(handler: CommandHook, environment: Mapping[str, str]) -> list[str]:
    if handler.args is not None:
        fill = _make_filler(environment)
        return [fill(handler.command), *map(fill, handler.args)]
    if handler.shell == "powershell":
        found = shutil.which("pwsh") or shutil.which("powershell") or "pwsh"
        return [found, "-NoProfile", "-NonInteractive", "-Command", handler.command]
    shell = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or shutil.which("bash") or "/bin/sh"
    return [shell, "-c", handler.command]


def _make_filler(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that fills in folders where no shell does."""
    names = ("CLAUDE_PROJECT_DIR", "BACKSTAY_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT")

    def fill(text: str) -> str:
        for name in names:
            text = text.replace(f"${{{name}}}", environment.get(name, ""))
        return text

    return fill
