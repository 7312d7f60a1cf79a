"""Walls of rules, with a program inside that wants out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backstay.tools.shell.bash import run_command
from tests.sandbox.sandbox_kit import SECRET, Yard, as_nobody, missing, run, start_sandbox, try_escapes
from tests.tools.context import RecordingContext

WHY = missing("landlock")
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(WHY), reason=WHY)]

KNOWN = {
    *("change the mode of a file outside", "change the times of a file outside"),
    *("change git's configuration", "replace git's configuration", "put another .git in place", "make a git hook"),
    *("change an editor's tasks", "make settings that were not there", "make settings of another agent"),
}
"""What Landlock cannot keep; docs/sandbox.md says so."""
NETWORK = {
    *("TCP", "TCP over IPv6", "TCP with curl", "a unix socket by path", "a unix socket by path, datagrams"),
    *("heard: tcp", "heard: tcp6", "heard: udp", "heard: stream", "heard: datagram"),
}


@pytest.mark.contract("RV-20")
def test_only_what_landlock_does_not_see_gets_out_of_the_scope_sandboxed(tmp_path: Path) -> None:
    outcome = try_escapes("landlock", "sandboxed", tmp_path)

    assert (sorted(outcome.reached - KNOWN), outcome.failed) == ([], ())


@pytest.mark.contract("RV-20")
def test_the_network_is_open_besides_in_the_scope_project(tmp_path: Path) -> None:
    outcome = try_escapes("landlock", "project", tmp_path)

    assert (sorted(outcome.reached - KNOWN - NETWORK), outcome.failed) == ([], ())
    assert "TCP" in outcome.reached


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only the superuser can become somebody else; the other tests try an ordinary user then"
)
def test_no_more_gets_out_when_an_ordinary_user_runs_it() -> None:
    outcome = as_nobody("landlock", "sandboxed")

    assert (sorted(outcome.reached - KNOWN), outcome.failed) == ([], ())


def test_a_working_folder_that_is_the_home_keeps_keys(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    (yard.home / "project").mkdir()
    sandbox = start_sandbox("landlock", yard.plan("sandboxed", yard.home))

    ran = run(sandbox, ["sh", "-c", "touch project/made; mv .ssh s2; cat .ssh/key s2/key"], yard.home)
    sandbox.close()

    assert SECRET not in ran.stdout
    assert (yard.home / "project/made").exists()


_IN_TOUCH = """
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
print("shmget", libc.shmget(0x5EA1, 4096, 0o1600) < 0, "shmat", libc.shmat(0, None, 0) == -1)
print("msgget", libc.msgget(0x5EA1, 0o1600) < 0, "semget", libc.semget(0x5EA1, 1, 0o1600) < 0)
print("mq_open", libc.mq_open(b"/backstay-test", 0o100, 0o600, None) < 0)
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
    print("netlink", False)
except OSError:
    print("netlink", True)
"""


def test_no_memory_queue_or_list_of_the_machine_is_shared_in_the_scope_sandboxed(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    sandbox = start_sandbox("landlock", yard.plan("sandboxed"))
    ran = run(sandbox, [sys.executable, "-c", _IN_TOUCH], yard.root)
    sandbox.close()

    words = ran.stdout.split()
    assert dict(zip(words[::2], words[1::2], strict=True)) == dict.fromkeys(
        ("shmget", "shmat", "msgget", "semget", "mq_open", "netlink"), "True"
    )


def test_names_are_looked_up_and_shells_work_without_the_list_of_routes(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    sandbox = start_sandbox("landlock", yard.plan("sandboxed"))
    program = "import multiprocessing, socket; print(socket.getaddrinfo('localhost', 80)[0][4][1])"
    ran = run(
        sandbox,
        ["bash", "-c", f'"{sys.executable}" -c "{program}" && echo "$(id -u)" | cat && getent hosts localhost'],
        yard.root,
    )
    sandbox.close()

    assert (ran.returncode, ran.stdout.split()[:2]) == (0, ["80", str(os.geteuid())])


def test_descriptors_are_let_go_of(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    sandbox = start_sandbox("landlock", yard.plan("sandboxed"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        run(sandbox, ["true"], yard.root)
    sandbox.close()

    assert len(os.listdir("/proc/self/fd")) == before


def test_git_works_inside(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    (yard.root / ".git/config").unlink()
    subprocess.run(["git", "init", "-q", str(yard.root)], check=True)
    sandbox = start_sandbox("landlock", yard.plan("sandboxed"))

    text = "echo x > a && git add a && git -c user.email=a@example.org -c user.name=A commit -qm one && git log --format=%s"
    ran = run(sandbox, ["sh", "-c", text], yard.root)
    sandbox.close()

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "one\n", "")


async def test_commands_end_as_without_a_sandbox(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    sandbox = start_sandbox("landlock", yard.plan("sandboxed"))
    context = RecordingContext(yard.root, sandbox=sandbox)

    killed = await run_command.run({"command": "kill -9 $$"}, context)
    goodbye = await run_command.run(
        {"command": "trap 'echo goodbye; exit' TERM; sleep 60 & wait", "timeout": 1000}, context
    )
    sandbox.close()

    assert killed.text.startswith("killed by signal 9 (SIGKILL)")
    assert "goodbye\ntimed out after 1000 ms; the command was stopped" in goodbye.text
    assert killed.text.endswith(f"[{sandbox.words}]")
