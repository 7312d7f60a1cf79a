"""Work that may take long is not done on the event loop, so that one session never keeps the others waiting."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import anyio
import pytest

from backstay import open_session
from tests.contracts.kit import scripted, talk

JUDGING = frozenset({"weigh", "paths_of", "inspect"})
"""Functions that read the arguments of a call."""
COMMANDS = {
    "one word": "echo " + "a" * 60_000,
    "words": "echo " + "a " * 30_000,
    "a list": "echo a; " * 8_000,
    "open parentheses": "(" * 60_000,
}


@contextmanager
def on_this_thread(names: frozenset[str]) -> Iterator[list[int]]:
    """Collect the lengths of the longest argument text that each call of a function in `names` is given on this thread."""
    seen: list[int] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name in names and "backstay" in frame.f_code.co_filename:
            seen.append(max(len(repr(value)) for value in frame.f_locals.values()))

    sys.setprofile(look)
    try:
        yield seen
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
async def test_sec_m7_a_long_command_is_never_judged_on_the_event_loop(command: str, tmp_path: Path) -> None:
    model = scripted({"calls": [{"name": "Bash", "args": {"command": command}}]}, "Done.")
    async with open_session(model=model, cwd=tmp_path, store=None) as session:
        with on_this_thread(JUDGING) as seen:
            assert await session.run("go") == "Done."
    assert max(seen, default=0) < 10_000


async def test_sec_m7_long_arguments_of_any_tool_are_not_read_on_the_event_loop(tmp_path: Path) -> None:
    args = {"file_path": str(tmp_path / "f"), "content": "[" * 100_000}
    model = scripted({"calls": [{"name": "Write", "args": args}]}, "Done.")
    async with open_session(model=model, cwd=tmp_path, store=None, permission_mode="acceptEdits") as session:
        with on_this_thread(JUDGING) as seen:
            assert await session.run("go") == "Done."
    assert max(seen, default=0) < 10_000
    assert (tmp_path / "f").read_text() == args["content"]


async def test_sec_m7_a_judge_that_hangs_does_not_stop_another_session(tmp_path: Path) -> None:
    long = scripted({"calls": [{"name": "Bash", "args": {"command": "echo " + "a " * 5_000}}]}, "Done.")
    others_went_on = threading.Event()
    begun: list[str] = []
    waited: list[bool] = []

    def hang(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "judge_call":
            begun.append(frame.f_code.co_name)
            waited.append(others_went_on.wait(20))

    sys.setprofile(hang)
    threading.setprofile(hang)
    try:
        async with (
            talk(*["Done."] * 3) as session,
            open_session(model=long, cwd=tmp_path, store=None) as judged,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(judged.run, "go")
            while not begun:
                await anyio.sleep(0.001)
            assert [await session.run("go") for _ in range(3)] == ["Done."] * 3
            others_went_on.set()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert waited == [True]
