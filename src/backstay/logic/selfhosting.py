"""How an agent changes the program that it runs in: a plan whose steps are fixed, and a machine that allows no other order.

The order is the whole safety: what is there is kept before anything changes, the change is made in one step, the new program is tried
from outside the old one, and what does not pass is taken back. Nothing here runs anything.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

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


class Package(msgspec.Struct, frozen=True, kw_only=True):
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


def plan(changed: Iterable[Package], *, harness: Sequence[tuple[str, ...]], folder: str = ".") -> tuple[PlanStep, ...]:
    """The steps of a change of the packages `changed`, in order. `harness` tries the whole in `folder`, whatever has changed.

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
    """Go on to a phase; raise `IllegalTransition` when this one does not lead there."""
    if to not in TRANSITIONS[phase]:
        ways = " or ".join(map(repr, TRANSITIONS[phase])) or "nothing more"
        raise IllegalTransition(
            f"A change of the program that is {phase!r} cannot become {to!r}. What can follow: {ways}."
        )
    return to


def verification(steps: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
    """The steps of a plan that try something."""
    return tuple(step for step in steps if step.kind in ("verify_package", "verify_harness"))


def _package_steps(package: Package) -> Iterable[PlanStep]:
    for check in CHECKS:
        if command := package.commands.get(check):
            yield PlanStep(
                kind="verify_package", package=package.name, folder=package.folder, check=check, command=command
            )
