"""The tool `Bash`."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest

from backstay.ports import ToolOutput
from backstay.system.machine import boot_id
from backstay.tools.shell.bash import make_bash, run_command
from backstay.tools.shell.processes import list_members, read_process
from backstay.vocab.errors import StoreFull
from backstay.vocab.events import ProcessStarted
from tests.tools.context import RecordingContext, cut_short, until

pytestmark = pytest.mark.anyio

STUBBORN = "trap '' TERM; (trap '' TERM; echo $BASHPID; while :; do sleep 0.05; done) & echo $$; wait; wait"
"""Prints its own pid and that of a child; neither listens to SIGTERM."""
AS_A_SHELL = "(as a shell says when a program was killed by"
NOT_TEXT = "that are not text are shown as \ufffd"


class FakeSandbox:
    """A sandbox that puts a program before the command and says what it keeps away."""

    name = "sandbox"
    words = "no network, nothing outside of the folder may be written"

    def __init__(self, *before: str, prepare: Callable[[], None] | None = None) -> None:
        self.asked: list[str] = []
        self._before = before
        self._prepare = prepare

    def close(self) -> None:
        """Nothing was put up."""

    def command(self, argv: Sequence[str], *, cwd: str) -> tuple[list[str], Callable[[], None] | None]:
        self.asked.append(cwd)
        return [*self._before, *argv], self._prepare


async def _run(folder: Path, command: str, **args: object) -> ToolOutput:
    return await run_command.run({"command": command, **args}, RecordingContext(folder))


async def _start(context: RecordingContext, command: str) -> None:
    await run_command.run({"command": command}, context)


def _alive(pid: int) -> bool:
    found = read_process(pid)
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
        ("printf x; exit 3", ToolOutput(text="x\nexit 3", failed=True, code="exit:3")),
        ("false", ToolOutput(text="exit 1", failed=True, code="exit:1")),
        ("echo x; kill -9 $$", ToolOutput(text="x\nkilled by signal 9 (SIGKILL)", failed=True, code="signal:9")),
        ("cat; echo done", ToolOutput(text="done\n")),
        ("exit 137", ToolOutput(text=f"exit 137 {AS_A_SHELL} SIGKILL)", failed=True, code="exit:137")),
        ("exit 255", ToolOutput(text="exit 255", failed=True, code="exit:255")),
        ("printf 'caf\\xe9'", ToolOutput(text=f"caf\ufffd\n[binary output: 1 bytes {NOT_TEXT}]")),
        ("printf '\\0\\1ok\\n'", ToolOutput(text=f"\ufffd\ufffdok\n[binary output: 2 bytes {NOT_TEXT}]")),
        ("printf '\\033[31mred\\033[0m 10%%\\r20%%\\n'", ToolOutput(text="20%\n")),
        ("[[ a == a ]] && echo bash", ToolOutput(text="bash\n")),
    ],
)
async def test_a_command_is_reported_as_it_ended(tmp_path: Path, command: str, output: ToolOutput) -> None:
    assert await _run(tmp_path, command) == output


async def test_a_command_runs_in_the_sessions_folder_and_knows_its_call(tmp_path: Path) -> None:
    output = await _run(tmp_path, 'pwd; echo "$BACKSTAY_CALL"', description="where am I")

    assert output == ToolOutput(text=f"{tmp_path}\ncall-1\n")


async def test_output_is_streamed_while_the_command_runs(tmp_path: Path) -> None:
    context = RecordingContext(tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_start, context, "echo 1; until [ -e go ]; do sleep 0.01; done; echo 2")
        assert await _lines(context, 1) == [1]
        (tmp_path / "go").touch()

    assert "".join(context.shown) == "1\n2\n"


async def test_rb_w37_endless_output_is_bounded_and_says_what_is_left_out(tmp_path: Path) -> None:
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


async def test_rb_w37_a_timeout_stops_every_process_and_keeps_the_output_and_the_errors(tmp_path: Path) -> None:
    limit, output = await cut_short(
        lambda limit: _run(tmp_path, f"echo begun >&2; {STUBBORN}", timeout=limit),
        lambda output: len(output.text.splitlines()) == 4,
    )

    begun, first, second, ending = output.text.splitlines()
    assert (begun, ending) == ("begun", f"timed out after {limit} ms; the command was stopped")
    assert (output.failed, output.code) == (True, "timeout")
    assert not _alive(int(first))
    assert not _alive(int(second))


async def test_a_command_may_use_its_grace_to_say_goodbye(tmp_path: Path) -> None:
    command = "trap 'echo goodbye; exit' TERM; echo begun; sleep 60 & wait"

    limit, output = await cut_short(
        lambda limit: _run(tmp_path, command, timeout=limit), lambda output: output.text.startswith("begun")
    )

    assert output.text == f"begun\ngoodbye\ntimed out after {limit} ms; the command was stopped"


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


@pytest.mark.parametrize("sandbox", ["None", "FakeSandbox('env', prepare=lambda: None)"])
async def test_a_command_dies_with_the_program_that_started_it(tmp_path: Path, sandbox: str) -> None:
    program = (
        "import anyio; from backstay.tools.shell.bash import run_command\n"
        "from tests.tools.context import RecordingContext; from tests.tools.test_shell import FakeSandbox\n"
        f"context = RecordingContext({str(tmp_path)!r}, sandbox={sandbox})\n"
        "anyio.run(run_command.run, {'command': 'echo $$ > pid; sleep 60; :'}, context)"
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
    for left in list_members(pid):
        os.kill(left, signal.SIGKILL)


@pytest.mark.contract("RB-47")
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


async def test_rb_w60_a_grandchild_that_left_the_session_and_ignores_sigterm_is_stopped_too(tmp_path: Path) -> None:
    daemon = "setsid bash -c 'trap : TERM; echo $$; while :; do sleep 0.05; done' & wait; exit 0"

    _, output = await cut_short(
        lambda limit: _run(tmp_path, daemon, timeout=limit), lambda output: output.text[0].isdecimal()
    )

    pid, *_, ending = output.text.splitlines()
    assert ending.startswith("timed out")
    assert not _alive(int(pid))


def test_rb_w37_the_help_says_that_a_folder_does_not_stay() -> None:
    assert "`cd` and variables do not stay" in run_command.spec.description


async def test_rb_w37_a_signal_is_never_a_success(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGSEGV, signal.SIGPIPE):
        output = await _run(tmp_path, f"kill -{int(number)} $$")
        assert (output.failed, output.code) == (True, f"signal:{int(number)}")


async def test_what_is_left_out_is_kept_whole_and_the_note_says_where(tmp_path: Path) -> None:
    kept: list[bytes] = []

    async def keep(content: bytes) -> str:
        kept.append(content)
        return "o1"

    bash = make_bash(keep=keep)
    output = await bash.run({"command": "seq 20000; printf '\\033[1mend\\033[0m'"}, RecordingContext(tmp_path))

    assert kept == [b"".join(b"%d\n" % number for number in range(1, 20_001)) + b"\033[1mend\033[0m"]
    assert output.text.startswith("1\n2\n")
    assert output.text.endswith("20000\nend")
    assert "characters are left out here; they go on in line 3222: ReadOutput with output_id='o1'" in output.text
    assert len(output.text) < 31_000
    assert (await bash.run({"command": "echo short"}, RecordingContext(tmp_path))).text == "short\n"
    assert len(kept) == 1


async def test_a_store_that_refuses_the_whole_output_loses_nothing_of_what_is_shown(tmp_path: Path) -> None:
    async def keep(content: bytes) -> str:
        raise StoreFull("no room")

    output = await make_bash(keep=keep).run({"command": "seq 20000"}, RecordingContext(tmp_path))

    assert not output.failed
    assert "characters are left out here, and could not be kept: no room]" in output.text


async def test_endless_output_fills_neither_memory_nor_disk(tmp_path: Path) -> None:
    sizes: list[int] = []

    async def keep(content: bytes) -> str:
        sizes.append(len(content))
        return "o1"

    bash = make_bash(keep=keep, folder=str(tmp_path))
    command = "head -c 40000000 /dev/zero | tr '\\0' '\\n'; echo end"
    output = await bash.run({"command": command}, RecordingContext(tmp_path))

    assert output.text.endswith("\nend\n")
    assert [size for size in sizes if abs(size - 30 * 1024 * 1024) > 100] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [100_000, 131_072, 900_000])
async def test_a_long_command_runs_as_it_is_written(tmp_path: Path, size: int) -> None:
    text = "é'\"$x " * (size // 8)
    command = f"x=1; cat <<'END'\n{text}\nEND\necho $# ${{#IFS}}"

    output = await make_bash(keep=None).run({"command": command}, RecordingContext(tmp_path))

    assert not output.failed
    assert output.text.startswith(text[:15_000])
    assert output.text.endswith("$x \n0 3\n")


async def test_a_command_that_no_system_takes_is_refused(tmp_path: Path) -> None:
    output = await _run(tmp_path, "true " + "x" * 1_000_000)

    assert (output.failed, output.code) == (True, "bad_arguments")
    assert "more than 1000000 bytes" in output.text


async def test_a_command_runs_in_its_sandbox_and_a_failure_names_it(tmp_path: Path) -> None:
    sandbox = FakeSandbox("env", "BEHIND=sandbox", prepare=lambda: os.chdir("/"))
    context = RecordingContext(tmp_path, sandbox=sandbox)

    good = await run_command.run({"command": "echo $BEHIND; pwd"}, context)
    bad = await run_command.run({"command": "exit 3"}, context)

    assert good == ToolOutput(text="sandbox\n/\n")
    assert bad == ToolOutput(text=f"exit 3\n[{sandbox.words}]", failed=True, code="exit:3")
    assert sandbox.asked == [str(tmp_path)] * 2


async def test_what_is_loaded_into_programs_is_loaded_in_the_sandbox_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "lib"))
    sandbox = FakeSandbox("sh", "-c", 'echo "before: $LD_LIBRARY_PATH"; exec "$@"', "sh")

    inside = await run_command.run({"command": "echo $LD_LIBRARY_PATH"}, RecordingContext(tmp_path, sandbox=sandbox))
    free = await _run(tmp_path, "echo $LD_LIBRARY_PATH")

    assert (inside.text, free.text) == (f"before: \n{tmp_path}/lib\n", f"{tmp_path}/lib\n")


async def test_the_environment_is_added_and_keys_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    bash = make_bash(environment={"GIT_CONFIG_NOSYSTEM": "1"})

    output = await bash.run({"command": "echo [$OPENAI_API_KEY] $GIT_CONFIG_NOSYSTEM"}, RecordingContext(tmp_path))

    assert output.text == "[] 1\n"


async def test_a_watcher_sees_no_escape_sequences_but_sees_progress(tmp_path: Path) -> None:
    context = RecordingContext(tmp_path)

    await run_command.run({"command": "printf '\\033]0;title\\a\\033[2J1%%\\r2%%\\n'"}, context)

    assert "".join(context.shown) == "1%\r2%\n"


async def test_without_a_place_for_it_nothing_runs_in_the_background(tmp_path: Path) -> None:
    output = await _run(tmp_path, "touch ran", run_in_background=True)

    assert (output.failed, output.code) == (True, "no_background")
    assert list(tmp_path.iterdir()) == []
