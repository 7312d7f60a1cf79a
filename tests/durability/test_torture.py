"""`make torture`, as people run it: from the folder they are in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("part", ["zombies", "kill9"])
def test_a_part_runs_from_the_folder_that_one_is_in(tmp_path: Path, part: str) -> None:
    command = [sys.executable, "-m", "tests.torture", part, "--scale", "0.002"]
    ran = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"{part}: passed" in ran.stdout
    assert (tmp_path / ".torture" / "done.json").is_file()
