"""`backstay demo`: show a session whose process dies in the middle of a turn, and then finishes its work."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import anyio
import click

from backstay.cli.log_tail import format_item
from backstay.cli.log_validate import problems
from backstay.demo.screen import Screen
from backstay.demo.worker import REFUSED
from backstay.demo.workspace import LEDGER, SESSION, build, project_of, store_of
from backstay.ports import LogSlice
from backstay.stores.open import open_store
from backstay.system.machine import SystemClock

LONGEST_S: Final = 60.0
_INTRO: Final = """\
This is a whole agent session, offline. The model is a script that ships with Backstay: it thinks nothing.
Everything else is real: the files, the commands, the log, the crash."""


@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep the folder, to look at it afterwards.")
@click.option("--fast", is_flag=True, help="Without pauses.")
def command(keep: bool, fast: bool) -> int:
    """Watch a session crash in the middle of a turn and finish after the resume; offline, no key."""
    folder = Path(tempfile.mkdtemp(prefix="backstay-demo-"))
    try:
        return _play(folder, Screen(), keep=keep, fast=fast)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _play(folder: Path, screen: Screen, *, keep: bool, fast: bool) -> int:
    screen.remark(_INTRO)
    build(folder, fast=fast)
    screen.heading("1  A prompt, streamed text, tools, an approval")
    died = _run_part(folder, "start", fast=fast)
    if died == REFUSED:
        screen.remark("The script has no other way from here. Run it again, and say yes.", "yellow")
        return REFUSED
    if died != -signal.SIGKILL:
        screen.remark(
            f"The first process ended with {died}; it should have died in the middle. Something is wrong.", "red"
        )
        return 1
    screen.heading("2  The process is dead: signal 9, nothing could be saved any more")
    log = _read_log(folder)
    screen.remark(f"The log has {len(log.records)} events. The last ones:")
    for record in log.records[-4:]:
        screen.remark(format_item(record)[:118], "dim")
    screen.remark(
        "An intent is written before it is done. So it is known that the command was started, and that nothing is known of its end."
    )
    screen.heading("3  A new process opens the session and finishes the turn")
    if finished := _run_part(folder, "finish", fast=fast):
        screen.remark(f"The second process ended with {finished}. Something is wrong.", "red")
        return 1
    return _sum_up(folder, screen, keep=keep)


def _run_part(folder: Path, part: str, *, fast: bool) -> int:
    command = [sys.executable, "-m", "backstay.demo.worker", str(folder), part, "fast" if fast else "slow"]
    scratch = folder / "tmp"  # a process that is killed leaves its temporary files; these go with the folder
    scratch.mkdir(exist_ok=True)
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(scratch)})
    try:
        return process.wait(timeout=LONGEST_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _sum_up(folder: Path, screen: Screen, *, keep: bool) -> int:
    log = _read_log(folder)
    published = (project_of(folder) / LEDGER).read_text(encoding="utf-8").splitlines()
    wrong = (*problems(log.records), *([log.trouble.detail] if log.trouble else []))
    sound = len(published) == 1 and not wrong
    screen.heading("What was shown")
    for words in (
        "a prompt, streamed text, tools that read, edited and ran, and an approval that was kept for the session",
        "a process that died by signal 9 while a command ran",
        "a resume that knew what had happened and what was unknown, asked nobody twice, and finished the turn",
        f"published {len(published)} time{'s' * (len(published) != 1)}; {len(log.records)} events without a gap; "
        + ("the log is valid" if not wrong else f"the log is NOT valid: {wrong[0]}"),
    ):
        screen.remark(f"  {'✓' if sound else '-'} {words}", "green" if sound else "red")
    _print_next_steps(folder, screen, keep=keep)
    return 0 if sound else 1


def _print_next_steps(folder: Path, screen: Screen, *, keep: bool) -> None:
    screen.heading("What to type next")
    backstay = _program()
    if keep:
        store = store_of(folder)
        screen.remark(f"  {backstay} --store {store} sessions show {SESSION}")
        screen.remark(f"  {backstay} --store {store} log show {SESSION}")
        screen.remark(f"  ls {folder}")
    else:
        screen.remark(f"  {backstay} demo --keep                       the same, and the folder stays to look at")
    screen.remark(
        "  make demo-local                              in Backstay's folder: a real small model, without a key"
    )
    screen.remark(f'  {backstay} -p "..." --model scripted:FILE    a session of your own, with a script of your own')
    screen.remark(f"  {backstay} --help                            everything else")


def _program() -> str:
    """Return what to type to run Backstay: its name, or its path when the shell would not find it."""
    if shutil.which("backstay") is not None:
        return "backstay"
    program = Path(sys.executable).with_name("backstay")
    if not program.exists():
        return f"{shlex.quote(sys.executable)} -m backstay"
    here = Path.cwd()
    return shlex.quote(str(program.relative_to(here) if program.is_relative_to(here) else program))


def _read_log(folder: Path) -> LogSlice:
    async def read() -> LogSlice:
        store = await open_store(store_of(folder), clock=SystemClock(), read_only=True)
        try:
            return await store.read(SESSION)
        finally:
            await store.close()

    return anyio.run(read)
