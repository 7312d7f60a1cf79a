"""The examples of the documents run, and do what the text says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import backstay

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples(name: str) -> list[str]:
    """The pieces of Python in a document."""
    return _BLOCK.findall((ROOT / "docs" / name).read_text(encoding="utf-8"))


def run(folder: Path, *arguments: str) -> str:
    """Run Python in a folder of its own, and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "BACKSTAY_DATA_DIR": str(folder / "data")}
    ran = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        cwd=folder,
        env=environment,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_tests_of_the_testing_page_pass(tmp_path: Path) -> None:
    charge, store = examples("testing.md")
    (tmp_path / "test_charge.py").write_text(charge, encoding="utf-8")
    (tmp_path / "test_store.py").write_text(
        f'{store}\n\n@pytest.fixture\ndef anyio_backend() -> str:\n    return "asyncio"\n'.replace(
            "from pathlib", "import pytest\nfrom pathlib", 1
        ),
        encoding="utf-8",
    )

    said = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path))

    assert re.search(r"^(\d+) passed", said, re.MULTILINE), said


def test_the_tools_of_the_page_about_tools_do_what_it_says(tmp_path: Path) -> None:
    (script,) = examples("own-tools.md")
    (tmp_path / "rooms.py").write_text(script, encoding="utf-8")

    lines = run(tmp_path, "rooms.py").splitlines()

    assert lines == [
        'free_rooms ok  ["101","102"]',
        "book ok  101 is booked",
        "floor_plan failed no_such_floor There is no floor 3. Floors are 1 and 2.",
        "101 is yours.",
    ]


def test_the_package_lists_its_public_names_and_no_others() -> None:
    assert dir(backstay) == sorted(backstay.__all__)
    assert all(hasattr(backstay, name) for name in dir(backstay))
