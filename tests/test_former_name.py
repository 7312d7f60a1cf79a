"""The former name of the product stands where it must, and nowhere else."""

import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
FORMER: Final = "hold" + "fast"
ALLOWED: Final = (
    "CHANGELOG.md",
    "docs/former-name.md",
    "src/backstay/config/former_name.py",
    "tests/*/test_former_name.py",
    "tests/fixtures/*",  # what the former program wrote
)


def test_the_former_name_stands_in_no_file_and_no_path_but_those_that_are_about_it() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("this is no checkout of git, so nobody knows which files belong to it")
    names = [name for name in listed.stdout.decode().split("\0") if name]
    assert len(names) > 1000
    assert [name for name in names if not _is_allowed(name) and _says_it(name)] == []


def _is_allowed(name: str) -> bool:
    return any(fnmatchcase(name, each) for each in ALLOWED)


def _says_it(name: str) -> bool:
    path = ROOT / name
    content = path.read_bytes() if path.is_file() else b""  # a file may be gone and not yet committed so
    return FORMER in name.lower() or FORMER.encode() in content.lower()
