"""The files of a long session go back to every turn and forward again, byte for byte."""

import json
import subprocess
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from tests.checkpoints.kept import kept_session, tree_of
from tests.checkpoints.twenty import SESSION, TURNS, play, replies

PROJECT = Path(__file__).parents[2]


@pytest.mark.contract("RB-57")
async def test_twenty_turns_with_a_killed_process_are_rewound_to_every_turn_forward_and_back(tmp_path: Path) -> None:
    folder, store, seen = tmp_path / "work", tmp_path / "sessions.db", tmp_path / "trees.json"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.checkpoints.twenty", str(folder), str(store), str(seen)]
    died = await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, cwd=PROJECT, capture_output=True, check=False)
    )
    assert died.returncode == -9, died.stderr.decode()
    trees = json.loads(seen.read_text())
    killed = len(trees) - 1
    assert (folder / "half" / "way.txt").exists(), "it was killed in the middle of the turn"

    async with kept_session(folder, replies(), store=f"sqlite://{store}", resume=SESSION) as session:
        await session.finish()
        trees.append(tree_of(folder))
        await play(session, trees, folder, range(killed + 1, len(TURNS)))
        turns = [each.turn for each in await session.checkpoints()]
        assert len(turns) == len(TURNS) == 20
        assert len({json.dumps(each, sort_keys=True) for each in trees}) == 19, "two turns change nothing"

        way = [*range(19, -1, -1), *range(20), 7, 18, 3, 12, 0, 19]
        for number in way:
            await session.restore_files(before=turns[number])
            assert tree_of(folder) == trees[number], f"the start of turn {number + 1}"
        for number in (4, 14, 19):
            await session.restore_files(to=turns[number])
            assert tree_of(folder) == trees[number + 1], f"the end of turn {number + 1}"
        await session.restore_files(undo="latest")
        assert tree_of(folder) == trees[15]
