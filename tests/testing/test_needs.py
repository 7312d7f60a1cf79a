"""A run of the tests says what it lacks."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_with(path: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run one file of tests where only the programs of `path` are found."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "tests/sandbox/test_git.py"],
        cwd=ROOT,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_says_first_what_is_missing_and_last_what_that_cost(tmp_path: Path) -> None:
    ran = run_with(str(tmp_path), BACKSTAY_NEEDS="")

    assert ran.returncode == 0
    assert "missing: git, bash, dash, strace, bwrap, npx; the tests that need them are skipped" in ran.stdout
    count = next(line for line in ran.stdout.splitlines() if "for want of git" in line).split(" ")[0]
    assert int(count) > 10


def test_a_missing_program_fails_the_run_where_all_must_be_there(tmp_path: Path) -> None:
    ran = run_with(str(tmp_path), BACKSTAY_NEEDS="all")

    assert ran.returncode != 0
    assert "Tests need git, bash, dash, strace, bwrap, npx." in ran.stderr
