"""No allowed call touches a path outside the scope: generated calls in a real workspace with links, renames and races beside them.

`python -m tests.security.scope 30000` makes more of them.
"""

import os
import sys
from collections.abc import Iterator

import pytest

from backstay.sandbox.probe import probe
from tests.security.scope import SETTINGS, Figures, Setting, run_batch
from tests.security.scope_calls import Call
from tests.security.yard import Yard, yard

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="names are exchanged as Linux does it"),
]

BATCHES = int(os.environ.get("BACKSTAY_SCOPE_BATCHES", "1"))
"""Batches of 40 calls for each setting."""
PLAIN = Setting(name="edits", scope="sandboxed")
STRAYING = (
    *(
        "grep -R mark pkg",
        "grep --dereference-recursive mark pkg",
        "rg -L mark pkg",
        "rg --follow mark pkg",
        "find -L pkg",
    ),
    *(
        "find pkg -follow",
        "ls -LR pkg",
        "du -aL pkg",
        "tree -l pkg",
        "diff -r other pkg",
        "cp -rL pkg copy",
        "fd -L secret",
    ),
    *("wc -l --files0-from=names", "sort --files0-from=names", "du -a --files0-from=names"),
)
"""Commands that only read or edit, and go where no path of theirs leads."""


@pytest.fixture(scope="module")
def place() -> Iterator[Yard]:
    """A yard for all of these tests."""
    if not probe("sandboxed").available:
        pytest.skip("no sandbox works here")
    with yard() as made:
        yield made


def bash(*commands: str) -> list[Call]:
    return [("Bash", {"command": command, "timeout": 20_000}) for command in commands]


async def holes(place: Yard, setting: Setting, *calls: Call) -> tuple[Figures, list[str]]:
    figures = Figures()
    await run_batch(place, setting, 0, figures, calls=calls)
    return figures, figures.holes


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
async def test_what_is_allowed_stays_in_the_workspace(place: Yard, setting: Setting) -> None:
    figures = Figures()
    for seed in range(BATCHES):
        await run_batch(place, setting, seed, figures)

    assert figures.holes == []
    assert figures.ran.total() > 3 * BATCHES
    assert figures.well > BATCHES


async def test_what_leaves_the_workspace_would_be_noticed(place: Yard) -> None:
    free = Setting(name="free", scope="full", mode="bypassPermissions")
    _, found = await holes(
        place, free, ("Write", {"file_path": "dangling", "content": "x"}), *bash("cat folder/secret.txt")
    )
    (place.path / "outside" / "made.txt").unlink()

    assert ["changed outside" in each or "shown by Bash" in each for each in found] == [True, True]


async def test_commands_that_follow_links_or_lists_of_files_need_a_yes(place: Yard) -> None:
    figures, found = await holes(place, PLAIN, *bash(*STRAYING))

    assert (figures.judged, found) == ({"ask": len(STRAYING)}, [])


async def test_a_link_that_comes_between_the_judgement_and_the_call_stops_file_tools(place: Yard) -> None:
    figures, found = await holes(
        place,
        PLAIN,
        *bash("mv other old", "mv pkg other"),  # from here on other/link leads out
        ("Read", {"file_path": "other/link/secret.txt"}),
        ("Write", {"file_path": "other/link/made.txt", "content": "x"}),
        ("Edit", {"file_path": "other/link/secret.txt", "old_string": "one", "new_string": "1"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: other/link/secret.txt\n*** End Patch"}),
        ("Grep", {"pattern": "mark", "path": "other/link", "output_mode": "content"}),
        ("Glob", {"pattern": "**/*", "path": "other/link"}),
    )

    assert (figures.judged["ask"], figures.well, found) == (6, 2, [])


async def test_a_link_that_comes_in_the_middle_of_a_command_lets_nothing_be_written_outside(place: Yard) -> None:
    swap = "mv other old; mv pkg other; "
    writes = (
        "echo x > other/link/made.txt",
        "echo x > other/leaf.txt",
        "rm other/link/secret.txt",
        "touch other/link/secret.txt",
    )
    more = (
        "mkdir other/link/new",
        "cp doc.md other/link",
        "sed -i s/one/1/ other/link/secret.txt",
        "mv doc.md other/link/x",
    )
    figures, found = await holes(place, PLAIN, *bash(swap + "; ".join((*writes, *more))))

    assert (figures.judged, found) == ({"ask": 1}, [])


@pytest.mark.parametrize(
    "commands",
    [
        ("mv other old && mv pkg other && cat other/link/secret.txt",),
        ("cp -a pkg copy && cat copy/leaf.txt",),
        ("diff other/leaf.txt pkg",),
    ],
    ids=[
        "moved in one command",
        "copied in one command",
        "a folder that stands for a file in it",
    ],
)
async def test_a_command_reads_nothing_outside_through_what_it_moved_itself(
    place: Yard, commands: tuple[str, ...]
) -> None:
    _, found = await holes(place, PLAIN, *bash(*commands))

    assert found == []


async def test_a_call_reads_nothing_outside_through_what_a_call_before_it_moved(place: Yard) -> None:
    _, found = await holes(place, PLAIN, *bash("mv other old", "mv pkg other", "cat other/link/secret.txt"))

    assert found == []


@pytest.mark.xfail(
    strict=False, reason="ripgrep opens folders and files by their names, which may have become links meanwhile"
)
async def test_searching_while_folders_are_swapped_shows_nothing_outside(place: Yard) -> None:
    setting = Setting(name="searching", scope="sandboxed", race=True, commands=False)
    calls = [
        ("Grep", {"pattern": "mark", "path": path, "output_mode": "content"}) for path in ("swap", ".", "swap/dir")
    ]
    _, found = await holes(place, setting, *calls * 30)

    assert found == []
