"""The plan of a change of the program itself, and the machine that keeps its order."""

import itertools
import os
import sys
from pathlib import Path
from typing import get_args

import anyio
import pytest

from backstay.tools.shell.processes import read_process
from backstay.vocab.errors import IllegalTransition, UserError
from backstay.workflows.self_edit import (
    TRANSITIONS,
    CheckResult,
    Phase,
    PlanStep,
    SelfEditPackage,
    advance,
    in_processes,
    plan,
    verify,
)

PYTHON = sys.executable


def package(name: str, **commands: tuple[str, ...]) -> SelfEditPackage:
    return SelfEditPackage(name=name, folder=f"packages/{name}", commands=commands)  # type: ignore[arg-type]  # names of checks


def harness_alone(*command: str) -> tuple[PlanStep, ...]:
    return plan([], harness=[command])


@pytest.mark.contract("RB-58")
def test_the_steps_have_one_order_and_the_harness_is_always_tried() -> None:
    core = package("core", build=("make", "build"), test=("make", "test"), typecheck=("mypy", "."))
    door = package("door", test=("pytest",))

    steps = plan([door, core, door], harness=[("make", "check"), ("make", "torture")])

    assert [(step.kind, step.package, step.check) for step in steps] == [
        ("checkpoint", "", ""),
        ("edit", "", ""),
        ("handoff", "", ""),
        ("verify_package", "core", "test"),
        ("verify_package", "core", "typecheck"),
        ("verify_package", "core", "build"),
        ("verify_package", "door", "test"),
        ("verify_harness", "", "harness"),
        ("verify_harness", "", "harness"),
        ("rollback", "", ""),
    ]
    assert steps == plan([core, door], harness=[("make", "check"), ("make", "torture")])
    assert [step.only_on_failure for step in steps] == [False] * 9 + [True]
    assert [step.kind for step in plan([], harness=[("make",)])] == [
        "checkpoint",
        "edit",
        "handoff",
        "verify_harness",
        "rollback",
    ]


@pytest.mark.parametrize("harness", [[], [()], [("make",), ()]])
def test_a_plan_without_a_harness_is_refused(harness: list[tuple[str, ...]]) -> None:
    with pytest.raises(UserError, match="at least one harness command"):
        plan([package("core", test=("pytest",))], harness=harness)


@pytest.mark.contract("RB-58")
def test_the_machine_goes_one_way_and_every_other_transition_is_an_error() -> None:
    phases: tuple[Phase, ...] = get_args(Phase)
    allowed = {
        ("idle", "checkpointed"),
        ("checkpointed", "editing"),
        ("editing", "verifying"),
        ("verifying", "passed"),
        ("verifying", "failed"),
        ("passed", "rolled_back"),
        ("failed", "rolled_back"),
    }

    assert set(TRANSITIONS) == set(phases)
    for here, there in itertools.product(phases, phases):
        if (here, there) in allowed:
            assert advance(here, there) == there
        else:
            with pytest.raises(IllegalTransition, match=f"{here!r} cannot become {there!r}"):
                advance(here, there)


@pytest.mark.contract("RB-58")
async def test_checks_run_in_processes_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "packages/core").mkdir(parents=True)
    code = "import os; print(os.getpid(), os.getppid(), os.getcwd())"

    good = await verify(plan([package("core", test=(PYTHON, "-c", code))], harness=[("true",)]), in_processes(tmp_path))
    bad = await verify(harness_alone(PYTHON, "-c", "import sys; print('why'); sys.exit(3)"), in_processes(tmp_path))

    child, parent, folder = good.results[0].output.split()
    assert (good.passed, good.phase) == (True, "passed")
    assert int(child) != os.getpid() == int(parent)
    assert folder == str(tmp_path / "packages/core")
    assert (bad.passed, bad.phase, bad.results[0].code, bad.results[0].output) == (False, "failed", 3, "why\n")


async def test_after_a_failure_only_the_harness_is_tried() -> None:
    tried: list[str] = []

    async def run(step: PlanStep) -> CheckResult:
        tried.append(step.check)
        return CheckResult(step=step, code=1 if step.check == "typecheck" else 0)

    core = package("core", test=("a",), typecheck=("b",), build=("c",))
    found = await verify(plan([core, package("door", test=("d",))], harness=[("e",)]), run)

    assert tried == ["test", "typecheck", "harness"]
    assert [(step.package, step.check) for step in found.skipped] == [("core", "build"), ("door", "test")]
    assert not found.passed


async def test_a_plan_that_tries_nothing_does_not_pass() -> None:
    async def run(step: PlanStep) -> CheckResult:
        raise AssertionError(step)

    assert not (await verify((PlanStep(kind="edit"),), run)).passed


async def test_no_shell_reads_a_command(tmp_path: Path) -> None:
    found = await verify(harness_alone("echo", "$(touch owned); touch owned"), in_processes(tmp_path))

    assert found.results[0].output == "$(touch owned); touch owned\n"
    assert list(tmp_path.iterdir()) == []


async def test_a_check_that_cannot_start_hangs_or_floods_is_a_failed_one(tmp_path: Path) -> None:
    run = in_processes(tmp_path, deadline_s=0.3)
    missing = await verify(harness_alone("no-such-program"), run)
    hanging = await verify(harness_alone(PYTHON, "-c", "import time; print('so far', flush=True); time.sleep(60)"), run)
    flooding = await verify(harness_alone(PYTHON, "-c", "print('x' * 1_000_000 + 'end')"), in_processes(tmp_path))

    assert [each.results[0].code for each in (missing, hanging, flooding)] == [None, None, 0]
    assert "'no-such-program' could not be started" in missing.results[0].output
    assert hanging.results[0].output.endswith("It took longer than 0.3 s and was stopped.")
    assert len(flooding.results[0].output) == 64 * 1024
    assert flooding.results[0].output.endswith("end\n")
    assert not missing.passed


async def test_a_check_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    marker = tmp_path / "started"
    code = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(60)"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(verify, harness_alone(PYTHON, "-c", code), in_processes(tmp_path))
        with anyio.fail_after(30):
            while not marker.exists() or not marker.read_text():
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()

    with anyio.fail_after(30):  # who has ended may stand in the list until a busy machine takes him off
        while (left := read_process(int(marker.read_text()))) is not None and not left.dead:
            await anyio.sleep(0.01)


async def test_what_a_check_leaves_behind_is_ended(tmp_path: Path) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid)"

    found = await verify(harness_alone(PYTHON, "-c", code), in_processes(tmp_path, deadline_s=20))

    left = read_process(int(found.results[0].output))
    assert found.passed
    assert left is None or left.dead


async def test_checks_get_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")

    found = await verify(harness_alone("env"), in_processes(tmp_path))

    assert "sk-very-secret" not in found.results[0].output
