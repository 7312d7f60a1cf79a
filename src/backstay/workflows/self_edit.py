"""Let an agent change the program that it runs in: a plan of fixed steps, and a state machine that allows no other order.

The order is the whole safety: what is there is kept before anything changes, the change is made in one step, the new program is tried
from outside the old one, and what does not pass is taken back. Nothing here runs anything.
"""

import os
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal

import anyio
import anyio.abc
import msgspec

from backstay.tools.shell.processes import end_group
from backstay.vocab.env_keys import without_keys
from backstay.vocab.errors import IllegalTransition, UserError

Phase = Literal["idle", "checkpointed", "editing", "verifying", "passed", "failed", "rolled_back"]
StepKind = Literal["checkpoint", "edit", "handoff", "verify_package", "verify_harness", "rollback"]
Check = Literal["test", "typecheck", "build"]
CHECKS: Final[tuple[Check, ...]] = ("test", "typecheck", "build")
"""What is tried of each package, in this order."""

TRANSITIONS: Final[Mapping[Phase, tuple[Phase, ...]]] = {
    "idle": ("checkpointed",),
    "checkpointed": ("editing",),
    "editing": ("verifying",),
    "verifying": ("passed", "failed"),
    "passed": ("rolled_back",),
    "failed": ("rolled_back",),
    "rolled_back": (),
}
"""Where each phase may lead. What passed can be taken back too, when the person does not want it."""


class SelfEditPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the program that can be tried by itself."""

    name: str
    folder: str
    commands: dict[Check, tuple[str, ...]]
    """How to try it: programs with their arguments, never a line for a shell."""


class PlanStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a plan."""

    kind: StepKind
    package: str = ""
    folder: str = ""
    check: str = ""
    """What is tried: one of `CHECKS`, or the harness's own name for it."""
    command: tuple[str, ...] = ()
    """What to run, in a process of its own."""
    only_on_failure: bool = False


def plan(
    changed: Iterable[SelfEditPackage], *, harness: Sequence[tuple[str, ...]], folder: str = "."
) -> tuple[PlanStep, ...]:
    """Return the steps of a change of the packages `changed`, in order. `harness` tries the whole in `folder`, whatever has changed.

    Raise `UserError` when there is nothing to try the whole with: then nobody could say that the change is good.
    """
    if not harness or not all(harness):
        raise UserError("A change of the program itself is always tried as a whole: give at least one harness command.")
    packages = sorted({each.name: each for each in changed}.values(), key=lambda each: each.name)
    return (
        PlanStep(kind="checkpoint"),
        PlanStep(kind="edit"),
        PlanStep(kind="handoff"),
        *(step for package in packages for step in _package_steps(package)),
        *(PlanStep(kind="verify_harness", folder=folder, check="harness", command=command) for command in harness),
        PlanStep(kind="rollback", only_on_failure=True),
    )


def advance(phase: Phase, to: Phase) -> Phase:
    """Enter a phase. Raise `IllegalTransition` when the current one does not lead there."""
    if to not in TRANSITIONS[phase]:
        ways = " or ".join(map(repr, TRANSITIONS[phase])) or "nothing more"
        raise IllegalTransition(
            f"A change of the program that is {phase!r} cannot become {to!r}. What can follow: {ways}."
        )
    return to


def verification(steps: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
    """Return the steps of a plan that try something."""
    return tuple(step for step in steps if step.kind in ("verify_package", "verify_harness"))


def _package_steps(package: SelfEditPackage) -> Iterable[PlanStep]:
    for check in CHECKS:
        if command := package.commands.get(check):
            yield PlanStep(
                kind="verify_package", package=package.name, folder=package.folder, check=check, command=command
            )


DEADLINE_S: Final = 1_800.0
"""Seconds that one check may take."""
MOST_OUTPUT: Final = 64 * 1024
"""Bytes of a check's output that are kept, the last ones."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

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
    """The results of all checks."""

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
    """Verify the steps of a plan in order. After a failure no more packages are tried; the harness always is."""
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
