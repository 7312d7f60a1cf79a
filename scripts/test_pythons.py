"""Run the fast tests on every Python from 3.11 on that this machine has, each in an environment of its own below `.pythons`.

    make test-pythons                              all of them
    python3 scripts/test_pythons.py 3.13 -- -x     one of them, with arguments for pytest

Interpreters are looked for on PATH, in pyenv and where uv keeps those that it fetched. Only the standard library is used here: this
program runs before there is any environment.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / ".pythons"
LOCK: Final = ROOT / "requirements" / "dev.lock"
MINORS: Final = range(11, 16)
"""The versions of Python 3 that are looked for; a later one on PATH is tested too."""
FAST: Final = "commands contracts hooks logic mcp permissions providers/http runtime session stores wire".split()
"""The folders of `tests` that are run: what depends on the interpreter (event loop, SQLite, Unicode, the structs), without long proofs."""


class Result(NamedTuple):
    """How the tests of one interpreter ended."""

    version: str
    python: str
    summary: str
    seconds: float
    is_good: bool


def main(arguments: Sequence[str]) -> int:
    """Test the interpreters that are named, or all; return the exit code."""
    cut = list(arguments).index("--") if "--" in arguments else len(arguments)
    wanted, options = arguments[:cut], arguments[cut + 1 :]
    found = find_interpreters()
    missing = [f"3.{minor}" for minor in MINORS if minor not in found]
    print(
        "found:  ",
        ", ".join(f"3.{minor} ({path})" for minor, path in sorted(found.items())) or "no Python from 3.11 on",
    )
    print("missing:", ", ".join(missing) or "none", flush=True)
    chosen = [minor for minor in sorted(found) if not wanted or f"3.{minor}" in wanted]
    if unknown := [each for each in wanted if each not in {f"3.{minor}" for minor in found}]:
        print(f"{', '.join(unknown)}: not on this machine. Install it with pyenv, or put it on PATH.", file=sys.stderr)
        return 2
    results = [run_tests(f"3.{minor}", found[minor], options) for minor in chosen]
    print(f"\n{'Python':10}{'result':44}{'seconds':>8}")
    for result in results:
        print(f"{result.version:10}{result.summary:44}{result.seconds:8.0f}")
    for version in missing:
        print(f"{version:10}{'not on this machine':44}")
    return 0 if results and all(result.is_good for result in results) else 1


def find_interpreters() -> dict[int, str]:
    """Return the newest interpreter of each minor version from 3.11 on."""
    found: dict[int, tuple[tuple[int, ...], str]] = {}
    for path in _candidates():
        version = _version_of(path)
        if version[:1] == (3,) and version[1] >= MINORS[0] and version > found.get(version[1], ((),))[0]:
            found[version[1]] = version, path
    return {minor: path for minor, (_, path) in found.items()}


def run_tests(version: str, python: str, options: Sequence[str]) -> Result:
    """Run the tests on one interpreter, with what pytest says in a log."""
    folder, begin = FOLDER / version, time.monotonic()
    if failure := _set_up(folder, python):
        return Result(version, python, failure, time.monotonic() - begin, is_good=False)
    log = FOLDER / f"{version}.log"
    workers = os.environ.get("WORKERS", "2")
    command = [str(folder / "bin" / "python"), *f"-m pytest -q -p no:cacheprovider -n {workers}".split()]
    with log.open("w", encoding="utf-8") as out:
        code = subprocess.run(
            [*command, *options, *(f"tests/{part}" for part in FAST)], cwd=ROOT, stdout=out, stderr=out, check=False
        ).returncode
    lines = log.read_text(encoding="utf-8").splitlines()
    summary = next(
        (line for line in reversed(lines) if re.search(r"\d+ (passed|failed|error)", line)), "pytest did not run"
    )
    summary = re.sub(r" in [\d.]+s.*", "", summary.strip("= "))
    print(*(line for line in lines if line.startswith(("FAILED", "ERROR"))), sep="\n", end="", flush=True)
    return Result(
        version,
        python,
        summary if not code else f"{summary}: see .pythons/{version}.log",
        time.monotonic() - begin,
        not code,
    )


def _candidates() -> Iterator[str]:
    home = Path.home()
    for minor in range(MINORS[0], 30):
        if found := shutil.which(f"python3.{minor}"):
            yield found
    yield sys.executable
    for folder in (Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions", home / ".local/share/uv/python"):
        yield from (str(path) for path in sorted(folder.glob("*/bin/python3")))


def _version_of(python: str) -> tuple[int, ...]:
    """Return the version of an interpreter; empty when it does not run (a shim of pyenv without a version) or is not CPython."""
    code = "import sys; print(*sys.version_info[:3]) if sys.implementation.name == 'cpython' else None"
    ran = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
    return tuple(map(int, ran.stdout.split())) if ran.returncode == 0 else ()


def _set_up(folder: Path, python: str) -> str:
    """Make the environment at `folder`, unless it is there with the dependencies of today; return what went wrong."""
    ready, state = folder / ".ready", _state_of(python)
    if ready.is_file() and ready.read_text() == state:
        return ""
    print(f"Setting up {folder.relative_to(ROOT)} ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "-qq", "install"]
    for command, failure in (
        ([python, "-m", "venv", str(folder)], "no environment can be made"),
        ([*pip, "--require-hashes", "-r", str(LOCK)], "the dependencies cannot be installed"),
        ([*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], "Backstay cannot be installed"),
    ):
        if subprocess.run(command, check=False).returncode:
            return failure
    ready.write_text(state)
    return ""


def _state_of(python: str) -> str:
    parts = (os.path.realpath(python).encode(), LOCK.read_bytes(), (ROOT / "pyproject.toml").read_bytes())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
