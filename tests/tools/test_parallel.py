"""Many writers of one file: no change is ever lost."""

import subprocess
import sys
from pathlib import Path

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from backstay.ports import Tool
from backstay.tools.files.apply_patch import apply_patch
from backstay.tools.files.edit import edit_file, multi_edit
from backstay.tools.files.write import write_file
from tests.tools.context import RecordingContext

WRITERS = 8


def _patch(old: str, new: str) -> str:
    return f"*** Begin Patch\n*** Update File: a\n@@\n-{old}\n+{new}\n*** End Patch"


def _call(kind: int, number: int) -> tuple[Tool, dict[str, object]]:
    """A call that changes line `number`, made with one of the tools."""
    old, new = f"line {number}.", f"changed {number}."
    match kind % 3:
        case 0:
            return edit_file, {"file_path": "a", "old_string": old, "new_string": new}
        case 1:
            return multi_edit, {"file_path": "a", "edits": [{"old_string": old, "new_string": new}]}
        case _:
            return apply_patch, {"patch": _patch(old, new)}


async def test_rb_w33_eight_parallel_calls_on_one_file_lose_no_edit(tmp_path: Path) -> None:
    rounds = 5
    total = WRITERS * rounds
    (tmp_path / "a").write_text("".join(f"line {n}.\r\n" for n in range(total)), newline="")
    failures: list[str] = []

    async def write(writer: int) -> None:
        for number in range(writer, total, WRITERS):
            tool, args = _call(writer, number)
            output = await tool.run(args, RecordingContext(tmp_path))
            failures.extend([output.text] if output.failed else [])

    async with anyio.create_task_group() as tasks:
        for writer in range(WRITERS):
            tasks.start_soon(write, writer)

    assert failures == []
    assert (tmp_path / "a").read_bytes() == b"".join(b"changed %d.\r\n" % n for n in range(total))


async def test_a_file_that_eight_calls_write_at_once_holds_one_of_them_whole(tmp_path: Path) -> None:
    contents = [f"{writer}" * 100_000 for writer in range(WRITERS)]
    failures: list[str] = []

    async def write(content: str) -> None:
        output = await write_file.run({"file_path": "new/a", "content": content}, RecordingContext(tmp_path))
        failures.extend([output.text] if output.failed else [])

    async with anyio.create_task_group() as tasks:
        for content in contents:
            tasks.start_soon(write, content)

    assert failures == []
    assert (tmp_path / "new/a").read_text() in contents
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a"]


async def test_patches_of_the_same_files_in_another_order_do_not_wait_for_each_other(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("".join(f"{n}\n" for n in range(10, 20)))

    async def patch(number: int) -> None:
        names = "ab" if number % 2 else "ba"
        sections = "".join(f"*** Update File: {name}\n-{number}\n+new {number}\n" for name in names)
        output = await apply_patch.run(
            {"patch": f"*** Begin Patch\n{sections}*** End Patch"}, RecordingContext(tmp_path)
        )
        assert not output.failed

    async with anyio.create_task_group() as tasks:
        for number in range(10, 20):
            tasks.start_soon(patch, number)

    expected = "".join(f"new {n}\n" for n in range(10, 20))
    assert [(tmp_path / name).read_text() for name in "ab"] == [expected, expected]


PROCESS = """
import sys
import anyio
from tests.tools.context import RecordingContext
from tests.tools.test_parallel import _call

async def main(folder, writer, writers, total):
    for number in range(writer, total, writers):
        tool, args = _call(writer, number)
        output = await tool.run(args, RecordingContext(folder))
        if output.failed:
            print(output.text)

anyio.run(main, sys.argv[1], *map(int, sys.argv[2:]))
"""


def test_four_processes_lose_no_edit(tmp_path: Path) -> None:
    total, writers = 48, 4
    (tmp_path / "a").write_text("".join(f"line {n}.\n" for n in range(total)))

    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(tmp_path), str(writer), str(writers), str(total)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        for writer in range(writers)
    ]
    said = [process.communicate()[0] for process in processes]

    assert [process.returncode for process in processes] == [0] * writers
    assert said == [b""] * writers
    assert (tmp_path / "a").read_text() == "".join(f"changed {n}.\n" for n in range(total))


APPENDER = """
import sys
for number in range(int(sys.argv[2])):
    with open(sys.argv[1], "a") as file:
        file.write(f"outside {number}\\n")
    print(number, flush=True)
    sys.stdin.readline()
"""


async def test_what_a_program_without_locks_appends_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("line 0.\n")
    rounds = 10
    command = [sys.executable, "-c", APPENDER, str(tmp_path / "a"), str(rounds)]
    async with await anyio.open_process(command) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        said = BufferedByteReceiveStream(program.stdout)
        context = RecordingContext(tmp_path)
        for number in range(rounds):
            await said.receive_until(b"\n", 100)
            args: dict[str, object] = {
                "file_path": "a",
                "old_string": f"line {number}.",
                "new_string": f"line {number + 1}.",
            }
            output = await edit_file.run(args, context)
            assert ("had changed" in output.text, output.failed) == (number > 0, False)
            await program.stdin.send(b"\n")

    expected = f"line {rounds}.\n" + "".join(f"outside {n}\n" for n in range(rounds))
    assert (tmp_path / "a").read_text() == expected
