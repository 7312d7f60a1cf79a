"""The examples run, and do what they say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("01_hello.py", ["Hello! I am a script", "Every word of this was written down", "2 turns are kept"]),
        ("02_tools.py", ["-> word_count", "May Write run", "-> Write", "Done.\nREADME.md has 5 words."]),
        (
            "04_rules_and_hooks.py",
            ["Bash: notes", "denied by the rule", "not to main", "Some of that was not"],
        ),
        (
            "05_a_repository_of_ones_own.py",
            [
                "Commands found here: changelog, greet",
                "/greet you: Hello, you!",
                "/changelog the new sails: The changelog has the new sails.",
                "# Changes\n- New sails.",
                "/undo: The conversation goes on from there. 1 file written, 0 removed (the start of turn 2).\n# Changes\n",
                "Instructions:",
                "AGENTS.md",
            ],
        ),
        ("03_resume_after_crash.py", ["died: -9", "outcome unknown: charge", "charged once", "charged: ['1200']"]),
    ],
)
def test_an_example_does_what_it_says(name: str, words: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "BACKSTAY_DATA_DIR": str(tmp_path / "data")}

    ran = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        cwd=tmp_path,
        env=environment,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    places = [ran.stdout.find(each) for each in words]
    assert -1 not in places, ran.stdout
    assert places == sorted(places)


def test_every_example_is_run_here() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == {
        "01_hello.py",
        "02_tools.py",
        "03_resume_after_crash.py",
        "04_rules_and_hooks.py",
        "05_a_repository_of_ones_own.py",
    }
