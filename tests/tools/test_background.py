"""Commands in the background: `Bash`, `BashOutput`, `KillShell`."""

import os
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backstay.ports import Tool, ToolOutput
from backstay.system.machine import boot_id
from backstay.tools.shell.background import RUNNING, BackgroundShells, EndedCommand, _Shell
from backstay.tools.shell.bash import LINGER_S, start
from backstay.tools.shell.processes import read_process, start_time
from backstay.tools.shell.spool import Spool
from backstay.vocab.events import ProcessStarted
from tests.tools.context import RecordingContext, until

pytestmark = pytest.mark.anyio


class Stage:
    """Background commands of one session, and who was told of their end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended: list[EndedCommand] = []
        self.kept: list[bytes] = []
        self.shells = BackgroundShells(on_exit=self.ended.append, keep=self._keep)
        self.calls = 0
        self.context = RecordingContext(folder)

    async def start(self, command: str) -> str:
        self.calls += 1
        self.context = RecordingContext(self.folder, call=f"call-{self.calls}")
        args: dict[str, object] = {"command": command, "run_in_background": True, "timeout": 1}
        output = await self.shells.bash.run(args, self.context)
        assert not output.failed, output.text
        return output.text.partition("as '")[2].partition("'")[0]

    async def read(self, bash_id: str, **args: object) -> str:
        return (await self._call(self.shells.bash_output, bash_id=bash_id, **args)).text

    async def kill(self, shell_id: str) -> str:
        return (await self._call(self.shells.kill_shell, shell_id=shell_id)).text

    async def _call(self, tool: Tool, **args: object) -> ToolOutput:
        return await tool.run(args, self.context)

    async def _keep(self, content: bytes) -> str:
        self.kept.append(content)
        return "o1"


@asynccontextmanager
async def _stage(folder: Path) -> AsyncIterator[Stage]:
    stage = Stage(folder)
    try:
        yield stage
    finally:
        await stage.shells.aclose()


def _alive(pid: int) -> bool:
    found = read_process(pid)
    return found is not None and not found.dead


async def test_a_command_runs_beside_the_conversation_and_tells_what_is_new(tmp_path: Path) -> None:
    async with _stage(tmp_path) as stage:
        name = await stage.start("echo one; until [ -e go ]; do sleep 0.01; done; printf '\\033[1mtwo\\033[0m'; exit 3")
        texts: list[str] = []
        while not texts or "one" not in texts[-1]:
            texts.append(await stage.read(name))
        assert texts[-1] == "one\n(still running)"
        assert await stage.read(name) == "(nothing new; still running)"

        (tmp_path / "go").touch()
        await until(lambda: bool(stage.ended))

        assert await stage.read(name) == "two\n(exit 3)"
        assert await stage.read(name) == "(nothing new; exit 3)"
        assert await stage.kill(name) == f"'{name}' had ended already: exit 3."
        assert [(each.id, each.call, each.status, each.words) for each in stage.ended] == [
            (name, "call-1", 3, "exit 3")
        ]


async def test_rb_w49_a_command_in_the_background_has_no_time_limit(tmp_path: Path) -> None:
    async with _stage(tmp_path) as stage:
        name = await stage.start("sleep 0.3; echo late")  # the call says a timeout of one millisecond
        await until(lambda: bool(stage.ended))

        assert await stage.read(name) == "late\n(exit 0)"


async def test_the_group_is_noted_when_it_starts(tmp_path: Path) -> None:
    async with _stage(tmp_path) as stage:
        await stage.start("sleep 60")
        (noted,) = stage.context.noted

        assert isinstance(noted, ProcessStarted)
        assert noted == ProcessStarted(
            call="call-1", group=noted.group, boot=boot_id(), started=start_time(noted.group)
        )


@pytest.mark.parametrize("end", ["kill", "close"])
async def test_rb_w60_everything_ends_with_it_even_what_ignores_sigterm(tmp_path: Path, end: str) -> None:
    stubborn = "trap '' TERM; setsid bash -c 'trap : TERM; echo $$; while :; do sleep 0.05; done' & echo $$; wait; wait"
    async with _stage(tmp_path) as stage:
        name = await stage.start(f"exec > pids; {stubborn}")
        pids = tmp_path / "pids"
        await until(lambda: pids.exists() and pids.read_text().count("\n") == 2)
        found = [int(each) for each in pids.read_text().split()]
        assert all(map(_alive, found))

        if end == "kill":
            assert await stage.kill(name) == f"'{name}' was stopped: killed by signal 9 (SIGKILL)."
        else:
            await stage.shells.aclose()

        assert not any(map(_alive, found))


async def test_what_an_ended_command_left_behind_ends_with_the_session(tmp_path: Path) -> None:
    async with _stage(tmp_path) as stage:
        name = await stage.start("sleep 60 & echo $!")
        await until(lambda: bool(stage.ended))
        pid = int((await stage.read(name)).split()[0])
        assert _alive(pid)

    assert not _alive(pid)


async def test_a_filter_shows_matching_lines_and_a_bad_one_loses_nothing(tmp_path: Path) -> None:
    async with _stage(tmp_path) as stage:
        name = await stage.start("seq 12")
        await until(lambda: bool(stage.ended))

        assert "unclosed group" in await stage.read(name, filter="(")
        assert await stage.read(name, filter="^1") == "1\n10\n11\n12\n(exit 0)"
        assert await stage.read(name) == "(nothing new; exit 0)"


async def test_a_flood_is_shown_in_part_and_kept_whole(tmp_path: Path) -> None:
    async with _stage(tmp_path) as stage:
        name = await stage.start("seq 20000")
        await until(lambda: bool(stage.ended))

        text = await stage.read(name)
        assert text.startswith("1\n2\n")
        assert text.endswith("20000\n(exit 0)")
        assert "ReadOutput with output_id='o1'" in text
        assert stage.kept == [b"".join(b"%d\n" % number for number in range(1, 20_001))]


async def test_what_a_command_printed_is_read_to_its_end_although_the_reader_is_slow(tmp_path: Path) -> None:
    class Slow(Spool):
        def add(self, piece: bytes) -> None:
            if self.size < 200_000:
                time.sleep(LINGER_S)
            super().add(piece)

    enlarged = "import fcntl, sys; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20); sys.stdout.write('x' * 1_000_000)"
    command = f"exec {shlex.quote(sys.executable)} -I -S -c {shlex.quote(enlarged)}"
    ended: list[EndedCommand] = []
    shell = _Shell("name", "call", command, start(command, RecordingContext(tmp_path), {}), Slow(), "")
    shell.watch(ended.append)
    await until(lambda: bool(ended))

    assert (ended[0].status, shell.take()) == (0, "x" * 1_000_000)
    shell.forget()


async def test_endless_output_does_not_stop_the_rest_and_is_bounded(tmp_path: Path) -> None:
    async with _stage(tmp_path) as stage:
        name = await stage.start("yes")
        while (await stage.read(name)).startswith("(nothing"):
            pass
        assert (await stage.kill(name)).startswith(f"'{name}' was stopped")


async def test_strange_ids_and_too_many_commands_are_refused(tmp_path: Path) -> None:
    async with _stage(tmp_path) as stage:
        assert await stage.read("bash_9") == (
            "There is no background command 'bash_9' in this run of the session. Known: none."
        )
        names = [await stage.start("sleep 60") for _ in range(RUNNING)]
        assert len(set(names)) == RUNNING
        refused = await stage.shells.bash.run({"command": "true", "run_in_background": True}, stage.context)
        assert (refused.failed, refused.code) == (True, "too_many")
        missing = await stage.shells.bash.run({"command": "true", "run_in_background": True}, RecordingContext("/nope"))
        assert missing.failed


async def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    async with _stage(tmp_path / "gone") as stage:
        output = await stage.shells.bash.run({"command": "true", "run_in_background": True}, stage.context)
        assert (output.failed, output.code) == (True, "not_started")


async def test_a_command_that_is_killed_from_outside_says_so(tmp_path: Path) -> None:
    async with _stage(tmp_path) as stage:
        name = await stage.start("sleep 60")
        (noted,) = stage.context.noted
        assert isinstance(noted, ProcessStarted)
        os.killpg(noted.group, signal.SIGKILL)
        await until(lambda: bool(stage.ended))

        assert await stage.read(name) == "(nothing new; killed by signal 9 (SIGKILL))"
