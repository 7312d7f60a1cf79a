"""Trace six walks through the package, for a table of how much code each of them touches.

`python scripts/measure/walks.py PACKAGE SRC OUT` runs each walk in a process of its own, offline with a scripted model, and writes
what ran to `OUT/NAME.json`. Give it the interpreter of the tree that is measured, so that two trees are measured by one script. What
runs while a module is imported does not count; each function counts once, where it is first entered.
"""

import asyncio
import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Final

READ: Final = """\
- text: "I look."
  calls:
    - {name: Read, args: {file_path: a.txt}}
- text: "Apples."
"""
KILLED: Final = """\
- text: "I run it."
  calls:
    - {name: Bash, args: {command: "kill -9 $PPID; sleep 1"}}
- text: "It was cut off."
"""
FORK: Final = """\
- text: "I ask."
  calls:
    - {name: Skill, args: {skill: look}}
- text: "Done."
"""
HOOK: Final = {
    "hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}]}
}
SKILL: Final = "---\nname: look\ndescription: Look at it.\ncontext: fork\n---\nLook at a.txt.\n"
WALKS: Final = ("prompt", "hook", "resume", "judge", "compact", "fork")


def measure(package: str, source: Path, out: Path) -> None:
    """Run every walk in a folder of its own and print a line for each."""
    out.mkdir(parents=True, exist_ok=True)
    print(f"{'walk':8} {'functions':>9} {'files':>6} {'folders':>8} {'jumps':>6} {'lines':>7}")
    traced = {name: _trace_apart(name, package, source, out) for name in WALKS}
    for name, order in traced.items():
        print(f"{name:8} {_figures(order, source / package)}")
    seen = {tuple(each) for each in traced["prompt"]}
    for name in ("hook", "fork"):
        more = [each for each in traced[name] if tuple(each) not in seen]
        print(f"{name} on top of prompt: {_figures(more, source / package)}")


def _trace_apart(name: str, package: str, source: Path, out: Path) -> list[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        work, home = Path(folder, "work"), Path(folder, "home")
        home.mkdir()
        _lay_out(work, name, package)
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(source)}
        target = out / f"{name}.json"
        command = [sys.executable, __file__, "--trace", name, package, str(source), str(target.resolve())]
        if name == "resume":  # the process that is killed is not traced
            killed = [sys.executable, "-m", package, "-p", "Run it.", "--model", "scripted:killed.yaml"]
            killed += ["--allowed-tools", "Bash", "--permission-mode", "bypassPermissions"]
            subprocess.run(killed, cwd=work, env=environment, capture_output=True, check=False)
        ran = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
        if not target.exists():
            raise SystemExit(f"{name} did not run:\n{ran.stdout}{ran.stderr}")
        target.with_suffix(".txt").write_text(ran.stdout + ran.stderr, encoding="utf-8")
        return list(json.loads(target.read_text(encoding="utf-8")))


def _lay_out(work: Path, name: str, package: str) -> None:
    work.mkdir()
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / "a.txt").write_text("apples\n", encoding="utf-8")
    for file, text in (("read.yaml", READ), ("killed.yaml", KILLED), ("fork.yaml", FORK)):
        (work / file).write_text(text, encoding="utf-8")
    if name == "hook":
        settings = work / f".{package}" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps(HOOK), encoding="utf-8")
    if name == "fork":
        skill = work / f".{package}" / "skills" / "look" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(SKILL, encoding="utf-8")


def _figures(order: list[list[str]], root: Path) -> str:
    files = {file for file, _ in order}
    folders = [os.path.dirname(file) for file, _ in order]
    jumps = sum(one != other for one, other in itertools.pairwise(folders))
    lines = sum(len((root / file).read_text(encoding="utf-8").splitlines()) for file in files)
    return f"{len(order):9} {len(files):6} {len(set(folders)):8} {jumps:6} {lines:7}"


def trace(name: str, package: str, source: Path, target: Path) -> None:
    """Run one walk in this process and write the functions that it entered, in order."""
    root = str((source / package).resolve()) + os.sep
    main = importlib.import_module(f"{package}.cli").main
    order: dict[tuple[str, str], None] = {}

    def watch(frame: FrameType, event: str, _argument: Any) -> None:  # what sys.setprofile passes on
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(root) or frame.f_code.co_name == "<module>":
            return
        key = (file[len(root) :], frame.f_code.co_qualname)
        if key not in order and not _is_import(frame, root):
            order[key] = None

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        if name == "compact":
            asyncio.run(_compact(package))
        else:
            sys.argv = [package, *_arguments(name)]
            main()
    except SystemExit as ended:
        print(f"exit {ended.code}")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    target.write_text(json.dumps(list(order)), encoding="utf-8")


def _is_import(frame: FrameType, root: str) -> bool:
    caller = frame.f_back
    while caller is not None:
        code = caller.f_code
        if code.co_name == "<module>" and code.co_filename.startswith(root):
            return True
        caller = caller.f_back
    return False


def _arguments(name: str) -> list[str]:
    ask = ["-p", "What is in a.txt?", "--model"]
    return {
        "prompt": [*ask, "scripted:read.yaml"],
        "hook": [*ask, "scripted:read.yaml", "--trust"],
        "fork": [*ask, "scripted:fork.yaml", "--trust"],
        "resume": ["-c", "--finish", "--on-crash", "continue"],
        "judge": ["permissions", "check", "Bash", '{"command": "git status && rm x"}'],
    }[name]


async def _compact(package: str) -> None:
    open_session = importlib.import_module(package).open_session
    async with open_session(model="scripted:read.yaml", store="memory:") as session:
        await session.run("What is in a.txt?")
        await session.compact()


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2], sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5]))
    else:
        shutil.rmtree(sys.argv[3], ignore_errors=True)
        measure(sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]))
