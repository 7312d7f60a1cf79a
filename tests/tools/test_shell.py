"""The tool `Bash`."""

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from holdfast.ports import ToolOutput
from holdfast.tools.processes import boot_id, look_at, members
from holdfast.tools.shell import run_command
from holdfast.vocab.events import ProcessStarted
from tests.tools.context import RecordingContext, until

pytestmark = pytest.mark.anyio

STUBBORN = "trap '' TERM; (trap '' TERM; echo $BASHPID; while :; do sleep 0.05; done) & echo $$; wait; wait"
"""Prints its own pid and that of a child; neither listens to SIGTERM."""


async def _run(folder: Path, command: str, **args: object) -> ToolOutput:
    return await run_command.run({"command": command, **args}, RecordingContext(folder))


async def _start(context: RecordingContext, command: str) -> None:
    await run_command.run({"command": command}, context)


def _alive(pid: int) -> bool:
    found = look_at(pid)
    return found is not None and not found.dead


async def _lines(context: RecordingContext, count: int) -> list[int]:
    """Wait until the command has printed `count` numbers."""
    await until(lambda: len("".join(context.shown).split()) >= count)
    return [int(each) for each in "".join(context.shown).split()]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo out; echo err >&2", ToolOutput(text="out\nerr\n")),
        ("true", ToolOutput(text="(no output)")),
        ("printf x; exit 3", ToolOutput(text="x\nexit 3", failed=True, code="exit")),
        ("false", ToolOutput(text="exit 1", failed=True, code="exit")),
        ("echo x; kill -9 $$", ToolOutput(text="x\nkilled by signal 9 (SIGKILL)", failed=True, code="signal")),
        ("cat; echo done", ToolOutput(text="done\n")),
        ("printf 'caf\\xe9'", ToolOutput(text="caf\ufffd")),
        ("[[ a == a ]] && echo bash", ToolOutput(text="bash\n")),
    ],
)
async def test_a_command_is_reported_as_it_ended(tmp_path: Path, command: str, output: ToolOutput) -> None:
    assert await _run(tmp_path, command) == output


async def test_a_command_runs_in_the_sessions_folder_and_knows_its_call(tmp_path: Path) -> None:
    output = await _run(tmp_path, 'pwd; echo "$HOLDFAST_CALL"', description="where am I")

    assert output == ToolOutput(text=f"{tmp_path}\ncall-1\n")


async def test_output_is_streamed_while_the_command_runs(tmp_path: Path) -> None:
    context = RecordingContext(tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_start, context, "echo 1; until [ -e go ]; do sleep 0.01; done; echo 2")
        assert await _lines(context, 1) == [1]
        (tmp_path / "go").touch()

    assert "".join(context.shown) == "1\n2\n"


async def test_endless_output_is_bounded_and_says_what_is_left_out(tmp_path: Path) -> None:
    output = await _run(tmp_path, "printf first; head -c 3000000 /dev/zero | tr '\\0' x; printf last")

    assert output.text.startswith("firstxxx")
    assert output.text.endswith("xxxlast")
    assert f"\n[{3_000_009 - 30_000} characters are left out here]\n" in output.text
    assert len(output.text) < 31_000


async def test_all_of_the_output_arrives_even_when_a_child_keeps_the_pipe_open(tmp_path: Path) -> None:
    output = await _run(tmp_path, "head -c 20000 /dev/zero | tr '\\0' x; sleep 60 & echo; echo $!")

    text, pid, note = output.text.splitlines()
    assert (text, note) == ("x" * 20000, f"(still running in the background, its output no longer read: {pid})")
    assert not output.failed
    assert _alive(int(pid))
    os.kill(int(pid), signal.SIGKILL)


async def test_the_process_group_is_noted_as_soon_as_it_exists(tmp_path: Path) -> None:
    context = RecordingContext(tmp_path, call="c9")

    output = await run_command.run({"command": "echo $$; cut -d' ' -f22 /proc/$$/stat"}, context)

    pid, started = output.text.split()
    assert context.noted == [ProcessStarted(call="c9", group=int(pid), boot=boot_id(), started=int(started))]


async def test_a_timeout_stops_every_process_and_keeps_the_output(tmp_path: Path) -> None:
    output = await _run(tmp_path, f"echo begun; {STUBBORN}", timeout=1000)

    begun, first, second, ending = output.text.splitlines()
    assert (begun, ending) == ("begun", "timed out after 1000 ms; the command was stopped")
    assert (output.failed, output.code) == (True, "timeout")
    assert not _alive(int(first))
    assert not _alive(int(second))


async def test_a_command_may_use_its_grace_to_say_goodbye(tmp_path: Path) -> None:
    output = await _run(tmp_path, "trap 'echo goodbye; exit' TERM; sleep 60 & wait", timeout=1000)

    assert output.text == "goodbye\ntimed out after 1000 ms; the command was stopped"


@pytest.mark.parametrize("command", ["set -m; sleep 60 & echo $!; echo $$; wait", "sleep 60 & echo $! $$; wait"])
async def test_a_cancelled_command_leaves_no_process_behind(tmp_path: Path, command: str) -> None:
    context = RecordingContext(tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_start, context, command)
        pids = await _lines(context, 2)
        assert all(map(_alive, pids))
        tasks.cancel_scope.cancel()

    assert not any(map(_alive, pids))


async def test_a_context_that_breaks_leaves_no_process_behind(tmp_path: Path) -> None:
    class Broken(RecordingContext):
        def show(self, text: str) -> None:
            super().show(text)
            raise LookupError(text)

    context = Broken(tmp_path)
    with pytest.RaisesGroup(LookupError):
        await run_command.run({"command": "echo $$; sleep 60"}, context)

    assert not _alive(int("".join(context.shown)))


async def test_a_command_dies_with_the_program_that_started_it(tmp_path: Path) -> None:
    program = (
        "import anyio; from holdfast.tools.shell import run_command\n"
        "from tests.tools.context import RecordingContext\n"
        f"anyio.run(run_command.run, {{'command': 'echo $$ > pid; sleep 60; :'}}, RecordingContext({str(tmp_path)!r}))"
    )
    written = tmp_path / "pid"
    env = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    async with await anyio.open_process([sys.executable, "-c", program], env=env) as host:
        try:
            await until(lambda: written.exists() and written.read_text().endswith("\n"))
        finally:
            host.kill()
    pid = int(written.read_text())
    await until(lambda: not _alive(pid))
    for left in members(pid):
        os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize(
    ("folder", "args", "code"),
    [
        ("missing", {"command": "true"}, "not_started"),
        (".", {"command": "a\0b"}, "bad_arguments"),
        (".", {"command": "true", "timeout": 3_600_001}, "bad_arguments"),
        (".", {"command": "true", "cwd": "/"}, "bad_arguments"),
    ],
)
async def test_what_cannot_be_started_is_said(tmp_path: Path, folder: str, args: dict[str, object], code: str) -> None:
    output = await run_command.run(args, RecordingContext(tmp_path / folder))

    assert (output.failed, output.code) == (True, code)
