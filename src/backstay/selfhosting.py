"""Tries a change of the program itself: every check is a process of its own, so that a broken program cannot judge itself."""

import os
import subprocess
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import msgspec

from backstay.logic.selfhosting import Phase, PlanStep, verification
from backstay.tools.processes import end_group
from backstay.vocab.keys import without_keys

DEADLINE_S: Final = 1_800.0
"""Seconds that one check may take."""
MOST_OUTPUT: Final = 64 * 1024
"""Bytes of a check's output that are kept, the last ones."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one check."""

    step: PlanStep
    code: int | None
    """How the process ended; None when it could not start or took too long."""
    output: str = ""
    """The end of what it printed, or why there is nothing."""

    @property
    def passed(self) -> bool:
        """Whether the check found nothing wrong."""
        return self.code == 0


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What came of all of them."""

    results: tuple[CheckResult, ...]
    skipped: tuple[PlanStep, ...] = ()
    """Checks of packages that were not made because one before them had failed."""

    @property
    def passed(self) -> bool:
        """Whether everything was tried and nothing was wrong."""
        return bool(self.results) and not self.skipped and all(each.passed for each in self.results)

    @property
    def phase(self) -> Phase:
        """What the change becomes by it."""
        return "passed" if self.passed else "failed"


Run = Callable[[PlanStep], Awaitable[CheckResult]]


async def verify(steps: Iterable[PlanStep], run: Run) -> Verification:
    """Try what a plan says, one after the other. After a failure no more packages are tried; the harness always is."""
    results: list[CheckResult] = []
    skipped: list[PlanStep] = []
    for step in verification(steps):
        if step.kind == "verify_package" and not all(each.passed for each in results):
            skipped.append(step)
        else:
            results.append(await run(step))
    return Verification(results=tuple(results), skipped=tuple(skipped))


def in_processes(root: Path, *, deadline_s: float = DEADLINE_S) -> Run:
    """Give a function that runs the checks below `root`, each in a process group of its own, without a shell, input or keys."""
    return partial(_run, root, deadline_s=deadline_s)


async def _run(root: Path, step: PlanStep, *, deadline_s: float) -> CheckResult:
    output = bytearray()
    try:
        process = await anyio.open_process(
            step.command,
            cwd=root / step.folder,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            env=without_keys(os.environ),
            start_new_session=True,
        )
    except OSError as exc:
        return CheckResult(step=step, code=None, output=f"{step.command[0]!r} could not be started: {exc.strerror}.")
    try:
        with anyio.move_on_after(deadline_s) as limit:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_read, process, output)
                await process.wait()
                await end_group(process.pid)  # what the check left behind would keep its output open
    finally:
        with anyio.CancelScope(shield=True):
            await end_group(process.pid)
            await process.aclose()
    words = output.decode("utf-8", "replace")
    if limit.cancelled_caught:
        return CheckResult(
            step=step, code=None, output=f"{words}\nIt took longer than {deadline_s:g} s and was stopped."
        )
    return CheckResult(step=step, code=process.returncode, output=words)


async def _read(process: anyio.abc.Process, output: bytearray) -> None:
    assert process.stdout is not None  # it is a pipe unless said otherwise
    async for piece in process.stdout:
        output += piece
        del output[:-MOST_OUTPUT]
