"""Processes that an earlier program left behind."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from backstay.system.machine import boot_id
from backstay.tools.shell.processes import list_members, read_process, start_time, stop_call, stop_calls, stop_group
from tests.tools.context import until

pytestmark = pytest.mark.anyio

LEADERLESS = "(trap 'exit 0' TERM; while :; do sleep 0.02; done) & echo $!"
"""The shell ends and leaves a child in its group."""


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[str]"]]:
    """Processes that are ended after the test, whatever happens."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        for pid in list_members(process.pid):
            with suppress(ProcessLookupError):  # it may end by itself just now
                os.kill(pid, signal.SIGKILL)
        process.communicate()


CALL = f"call-of-mine-{os.getpid()}"


def _start(started: list["subprocess.Popen[str]"], command: str, call: str = "") -> "subprocess.Popen[str]":
    env = {
        name: value for name, value in os.environ.items() if name != "BACKSTAY_CALL"
    }  # a session may run these tests
    env |= {"BACKSTAY_CALL": call} if call else {}
    process = subprocess.Popen(
        ["bash", "-c", command], stdout=subprocess.PIPE, text=True, start_new_session=True, env=env
    )
    started.append(process)
    return process


def _runs(pid: int) -> bool:
    found = read_process(pid)
    return found is not None and not found.dead


async def test_a_left_over_group_is_stopped_with_all_of_its_processes(started: list["subprocess.Popen[str]"]) -> None:
    process = _start(started, "sleep 60 & echo ready; wait")
    assert process.stdout is not None
    process.stdout.readline()
    facts = process.pid, boot_id(), start_time(process.pid)

    assert await stop_group(*facts)

    assert list_members(process.pid) == ()
    assert not await stop_group(*facts)


@pytest.mark.parametrize("lie", ["boot", "started"])
async def test_a_stranger_with_the_same_number_is_left_alone(started: list["subprocess.Popen[str]"], lie: str) -> None:
    process = _start(started, "sleep 60")
    boot = "another boot" if lie == "boot" else boot_id()
    ticks = start_time(process.pid) + (lie == "started")

    assert not await stop_group(process.pid, boot, ticks)

    assert process.poll() is None


@pytest.mark.parametrize(
    ("carried", "asked", "stopped"),
    [("c1", "c1", True), ("c1", "", True), ("c1", "c2", False), ("", "c1", False), ("", "", False)],
)
async def test_a_group_without_its_leader_is_known_by_the_call_that_it_carries(
    started: list["subprocess.Popen[str]"], carried: str, asked: str, stopped: bool
) -> None:
    process = _start(started, LEADERLESS, carried)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    ticks = start_time(process.pid)
    process.wait()

    assert await stop_group(process.pid, boot_id(), ticks, asked) is stopped

    assert bool(list_members(process.pid)) is not stopped
    assert _runs(child) is not stopped


async def test_our_own_group_is_never_stopped() -> None:
    assert not await stop_group(os.getpgrp(), boot_id(), start_time(os.getpgrp()))
    assert not await stop_group(1, boot_id(), start_time(1))


async def test_a_call_is_stopped_even_when_its_group_was_never_recorded(started: list["subprocess.Popen[str]"]) -> None:
    mine = _start(started, "setsid sleep 60 & sleep 60", CALL)
    other = _start(started, "sleep 60", f"{CALL}-too")
    await until(lambda: len(list_members(mine.pid)) >= 2)

    assert await stop_call(CALL)
    assert not await stop_call(CALL)
    assert not await stop_call("")

    assert list_members(mine.pid) == ()
    assert other.poll() is None


async def test_many_calls_are_stopped_at_once_and_a_name_that_only_begins_alike_is_left_alone(
    started: list["subprocess.Popen[str]"],
) -> None:
    name = f"mine-{os.getpid()}"  # other tests run beside this one
    mine = [_start(started, "echo ready; sleep 60", f"{name}-{number}") for number in (1, 2)]
    other = _start(started, "echo ready; sleep 60", f"{name}-10")
    for each in (*mine, other):
        assert each.stdout is not None
        each.stdout.readline()

    assert await stop_calls(("", *(f"{name}-{number}" for number in range(5))))
    assert not await stop_calls(("", f"{name}-1", f"{name}-2"))
    assert not await stop_calls(())

    assert [list_members(each.pid) for each in mine] == [(), ()]
    assert other.poll() is None
