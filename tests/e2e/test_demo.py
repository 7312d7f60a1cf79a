"""`backstay demo`: the whole show, played to its end."""

import os
import sys
from pathlib import Path

from tests.e2e.door import Door


def test_the_demo_shows_a_crash_and_the_resume_and_leaves_nothing(door: Door) -> None:
    ran = door.spawn("demo", "--fast", env={"TMPDIR": str(door.folder)})

    assert (ran.code, ran.err) == (0, "")
    for words in (
        "The model is a script",
        "you    A test of this project fails",
        "model  I read the code",
        "ask    May it run 'sh check.sh'?",
        "FAILED (failures=1)",
        "+    return sum(prices) * (100 - discount) / 100",
        "this process kills itself",
        "outcome unknown: Bash",
        "published 1 time;",
        "the log is valid",
        "What to type next",
    ):
        assert words in ran.out
    assert "\x1b" not in ran.out
    assert list(door.folder.glob("backstay-*")) == []
    assert running_in(door.folder) == []


def test_the_demo_keeps_its_folder_when_asked(door: Door) -> None:
    ran = door.spawn("demo", "--fast", "--keep", env={"TMPDIR": str(door.folder)})

    (kept,) = door.folder.glob("backstay-demo-*")
    store = f"sqlite://{kept / 'sessions.db'}"
    assert ran.code == 0
    assert f"backstay --store {store} sessions show demo" in ran.out
    assert (kept / "shop" / "published.txt").read_text(encoding="utf-8") == "prices 1.1\n"
    assert door.run("--store", store, "log", "validate", "demo").code == 0


def test_the_demo_says_what_can_be_typed_here(door: Door) -> None:
    found, empty = door.folder / "bin", door.folder / "nothing"
    found.mkdir()
    empty.mkdir()
    (found / "backstay").write_text("#!/bin/sh\n", encoding="utf-8")
    (found / "backstay").chmod(0o755)

    on_path = door.spawn("demo", "--fast", env={"TMPDIR": str(door.folder), "PATH": f"{found}:{os.environ['PATH']}"})
    off_path = door.spawn("demo", "--fast", env={"TMPDIR": str(door.folder), "PATH": f"{empty}:/usr/bin:/bin"})

    assert "\n  backstay demo --keep" in on_path.out
    (typed,) = (
        line.partition(" demo --keep")[0].split() for line in off_path.out.splitlines() if " demo --keep" in line
    )
    assert Path(typed[0]).parent == Path(sys.executable).parent
    assert typed[1:] in ([], ["-m", "backstay"])


def running_in(folder: Path) -> list[str]:
    """The processes that work below a folder."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(f"{folder}/backstay-demo"):
                found.append((process / "cmdline").read_text(encoding="utf-8"))
        except OSError:
            continue
    return found
