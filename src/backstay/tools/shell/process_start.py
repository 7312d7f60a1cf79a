"""Start shell commands, and describe how they ended."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from backstay.ports import ToolContext
from backstay.system.machine import boot_id
from backstay.system.programs import load_behind
from backstay.tools.shell import processes
from backstay.tools.shell.processes import CALL_VARIABLE, RUN_VARIABLE, prepare_program, start_time
from backstay.vocab.env_keys import BUILT_IN, Keys
from backstay.vocab.events import ProcessStarted

LONGEST: Final = 1_000_000
"""Bytes that a command may have. The kernel takes so many, and some room is left for the environment."""
PIPE_HOLDS: Final = 1_048_576
"""Bytes that a pipe can hold at most: so many may still wait when the command has ended."""

_ONE_ARGUMENT: Final = 120_000
"""Bytes that the kernel takes as one argument, less a margin."""
_JOIN: Final = """IFS=; set -- "$*"; IFS=' \t\n'; eval "set --; $1\""""
"""Puts the arguments together again and runs them as one command."""


class StartedCommand(Struct, frozen=True):
    """A command that runs."""

    process: "subprocess.Popen[bytes]"
    run: str
    """The word that all of its processes carry."""

    @property
    def group(self) -> int:
        """The process group, which it leads."""
        return self.process.pid


def start(command: str, context: ToolContext, environment: Mapping[str, str], keys: Keys = BUILT_IN) -> StartedCommand:
    """Start a command in the session's folder, behind its confinement, in a group of its own, without input and without `keys`.

    Call it on the event loop's own thread: the kernel ends the command together with the thread that forked. The command has no
    problem (see `check_command`). Raise `OSError` when it cannot be started.
    """
    run = os.urandom(8).hex()
    words, known = _argv(command), keys.without(os.environ) | dict(environment)
    if context.confinement is not None:
        words, known = load_behind(words, known)
    argv, before = _confine(words, context)
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
    context.note(ProcessStarted(call=context.call, group=group, boot=boot_id(), started=start_time(group)))


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


def _confine(argv: list[str], context: ToolContext) -> tuple[list[str], Callable[[], None] | None]:
    prepare = prepare_program()
    if context.confinement is None:
        return argv, prepare
    argv, confine = context.confinement.command(argv, cwd=context.cwd)
    if prepare is None or confine is None:
        return argv, prepare or confine

    def arrange() -> None:
        prepare()
        confine()

    return argv, arrange


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
