"""Programs that are run for Backstay itself: bounded output, a deadline, and nothing left behind of what they started."""

import resource
import sys
from pathlib import Path

import anyio
import pytest

from backstay.sandbox.git import run_git
from backstay.system.programs import Ran, run_program
from backstay.vocab.errors import UserError
from tests.tools.test_web_pages import pdf

MOST = 1000
LONG_S = 60.0
"""A deadline that nothing here reaches."""
SHORT_S = 1.0


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


async def ends(file: Path) -> bool:
    """Whether the process ends whose number stands in a file."""
    with anyio.move_on_after(20):
        while not (file.exists() and file.read_text().strip()):
            await anyio.sleep(0.01)
        while is_alive(int(file.read_text())):
            await anyio.sleep(0.01)
        return True
    return False


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


async def test_a_program_says_what_it_says_and_how_it_ended() -> None:
    ran = await run_program(shell("cat; echo oh >&2; exit 3"), given=b"x" * 100, most=MOST, deadline_s=LONG_S)

    assert ran == Ran(code=3, out=b"x" * 100, err=b"oh\n")


async def test_what_is_too_much_is_read_and_dropped() -> None:
    ran = await run_program(shell("yes | head -c 5000000; echo done >&2"), most=MOST, deadline_s=LONG_S)

    assert (ran.code, len(ran.out), ran.cut, ran.err) == (0, MOST, True, b"done\n")


async def test_a_program_that_reads_nothing_of_what_it_is_given_ends_all_the_same() -> None:
    ran = await run_program(shell("exit 0"), given=b"x" * 5_000_000, most=MOST, deadline_s=LONG_S)

    assert ran.code == 0


@pytest.mark.parametrize("ending", ["wait", "exit 0"])  # it stays, or leaves somebody behind who holds its output
async def test_outer_9_the_whole_group_is_killed_at_the_deadline(tmp_path: Path, ending: str) -> None:
    with pytest.raises(TimeoutError):
        await run_program(shell(f"sleep 600 & echo $! > {tmp_path}/pid; {ending}"), most=MOST, deadline_s=SHORT_S)

    assert await ends(tmp_path / "pid")


async def test_outer_9_the_whole_group_is_killed_when_nobody_waits_any_more(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            await run_program(shell(f"sleep 600 & echo $! > {tmp_path}/pid; wait"), most=MOST, deadline_s=LONG_S)

        tasks.start_soon(run)
        while not (tmp_path / "pid").exists():
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()

    assert await ends(tmp_path / "pid")


async def test_outer_9_the_whole_group_is_killed_when_no_more_output_is_wanted() -> None:
    pieces: list[bytes] = []

    def take(piece: bytes) -> bool:
        pieces.append(piece)
        return sum(map(len, pieces)) < MOST

    ran = await run_program(shell("yes; true"), most=MOST, deadline_s=LONG_S, take=take)

    assert ran.code != 0
    assert ran.out == b""
    assert sum(map(len, pieces)) >= MOST


async def test_files_are_bounded(tmp_path: Path) -> None:
    ran = await run_program(
        shell("sleep 0.5; head -c 100000 /dev/zero > big"),
        cwd=tmp_path,
        most=MOST,
        deadline_s=LONG_S,
        limits={resource.RLIMIT_FSIZE: 4096},
    )

    assert ran.code != 0
    assert (tmp_path / "big").stat().st_size <= 4096


async def test_what_cannot_be_started_is_an_os_error() -> None:
    with pytest.raises(OSError, match="nowhere"):
        await run_program(["/nowhere/at/all"], most=MOST, deadline_s=LONG_S)


async def test_outer_9_what_git_started_ends_with_git_at_the_deadline(tmp_path: Path) -> None:
    await run_program(["git", "init", "-q", str(tmp_path)], most=MOST, deadline_s=LONG_S)
    slow = f"alias.slow=!sleep 600 & echo $! > {tmp_path}/pid; wait"

    with pytest.raises(UserError, match="took longer than"):
        await run_git(["-c", slow, "slow"], tmp_path, deadline_s=SHORT_S)

    assert await ends(tmp_path / "pid")


FETCHING = """
import resource
import sys
import anyio, httpx
from backstay.tools.web.download import download

def clients():
    body = open(sys.argv[1], "rb").read()
    return httpx.AsyncClient(transport=httpx.MockTransport(lambda request: httpx.Response(200, content=body)))

page = anyio.run(download, clients, "https://example.com/a.pdf")
print(page.kind, "Hello" in page.text, "pypdf" in sys.modules)
"""


async def test_outer_18_a_pdf_of_the_web_is_read_by_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("Hello from a PDF"))

    ran = await run_program([sys.executable, "-c", FETCHING, str(tmp_path / "a.pdf")], most=10_000, deadline_s=LONG_S)

    assert ran.out == b"PDF True False\n", ran.err
