"""A session on a real model on this machine: the model is pulled and checked, asked, and asked again by another process."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import anyio

from backstay.cli.models_pull import pull_shown
from backstay.demo.screen import Screen
from backstay.ports import Answer, Question
from backstay.providers.local.engine import fitting, require_engine
from backstay.providers.local.model import find_local
from backstay.providers.local.pins import LOCAL, list_pins
from backstay.runtime.bus import follow
from backstay.session.assemble import open_with
from backstay.session.options import Options
from backstay.session.session import Session
from backstay.system.folders import data_dir
from backstay.tools.files.read import read_file
from backstay.tools.files.write import write_file
from backstay.tools.shell.bash import run_command
from backstay.vocab.errors import BackstayError, TurnError

FIRST: Final = "Which port does the server use? Look into server.ini."
SECOND: Final = "How many lines does harbour.txt have?"
SESSION: Final = "demo-local"
HELP: Final = """\
A real session on a small model on this machine, without a key: a question, a tool call, and the same session in a new process.
The first time it fetches the model, about 1.1 GB (491 MB where memory is short), and checks it by its hash.

  --keep    keep the session's folder, to look at it afterwards
  --help    say this and stop

With make: make demo-local DEMO_FLAGS=--keep"""
_TOOLS: Final = {each.spec.name: each for each in (run_command, read_file, write_file)}
_FILES: Final = {
    "server.ini": "[server]\nhost = 127.0.0.1\nport = 8431\n",
    "harbour.txt": "The boats are in.\nThe nets are dry.\nThe lamp is lit.\nGood night.\n",
}


def main() -> None:
    """Play the demo, or one part of it: `ask FOLDER MODEL` and `resume FOLDER MODEL` are the processes that the whole starts."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] in (["ask"], ["resume"]):
            part, folder, model = arguments
            sys.exit(anyio.run(_part, part, Path(folder), model))
        if "--help" in arguments or "-h" in arguments:
            print(HELP)
            sys.exit(0)
        if unknown := [each for each in arguments if each != "--keep"]:
            print(f"backstay: {unknown[0]!r} means nothing here.\n\n{HELP}", file=sys.stderr)
            sys.exit(2)
        sys.exit(play(keep=bool(arguments)))
    except BackstayError as exc:
        print(f"backstay: {exc}", file=sys.stderr)
        sys.exit(1)


def play(*, keep: bool = False) -> int:
    """Pull the model, run a session with a tool call in a temporary folder, and go on with it in a new process."""
    screen = Screen()
    require_engine()
    pin, why = fitting(list_pins())
    screen.remark(f"This is a real language model on this machine: {pin.name}, of demonstration grade. It {pin.can}.")
    screen.remark("Nothing of what it says or does is scripted. It makes mistakes; what it answers may be wrong.")
    if why:
        screen.remark(why, "yellow")
    screen.heading("1  The model: fetched once, checked by its hash")
    began = time.monotonic()
    pulled = pull_shown(pin)
    screen.remark(f"{pulled.path}: {pulled.source}, SHA-256 as pinned ({time.monotonic() - began:.1f} s)", "green")
    folder = Path(tempfile.mkdtemp(prefix="backstay-demo-local-"))
    try:
        return _session(folder, pin.name, screen, keep=keep)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _session(folder: Path, model: str, screen: Screen, *, keep: bool) -> int:
    work = _work(folder)
    work.mkdir()
    for name, content in _FILES.items():
        (work / name).write_text(content, encoding="utf-8")
    screen.heading("2  A session in a temporary folder")
    screen.remark(f"The folder is {work}. {_judging()}")
    if _run(folder, "ask", model):
        screen.remark("The session did not come to its end; see above.", "red")
        return 1
    screen.heading("3  The same session in a new process, with another question")
    if _run(folder, "resume", model):
        screen.remark("The session did not come to its end; see above.", "red")
        return 1
    screen.heading("What to type next")
    if keep:
        screen.remark(f"  backstay --store {_store(folder)} log show {SESSION}")
    screen.remark(
        f'  backstay -p "..." --model local:{model}      a session of your own, with the usual permission rules'
    )
    return 0


def _judging() -> str:
    """Say what keeps the model from doing harm here."""
    free = "Reading it is free, with tools and with commands that only read"
    if sys.stdin.isatty():
        return f"{free}; before anything else runs or a file is written, you are asked."
    return f"{free}. Nobody is here to be asked, so nothing else runs."


def _run(folder: Path, part: str, model: str) -> int:
    return subprocess.run(
        [sys.executable, "-m", "backstay.demo.local", part, str(folder), model], check=False
    ).returncode


async def _part(part: str, folder: Path, name: str) -> int:
    """Open the session, ask the question of this part, and show what happens."""
    screen = Screen()
    person = sys.stdin.isatty() and screen.is_terminal
    model = find_local(f"local:{name}", data_dir() / "models")
    options = Options(
        model=model,
        session_id=SESSION if part == "ask" else None,
        resume=SESSION if part == "resume" else None,
        cwd=_work(folder),
        store=_store(folder),
        tools=[_TOOLS[tool] for tool in LOCAL.tools],
        only_tools=True,
        system_prompt=LOCAL.system_prompt,
        max_rounds=LOCAL.max_rounds,
        idle_timeout_s=LOCAL.idle_timeout_s,
        asker=_Person(screen).ask if person else _refuse,
    )
    began = time.monotonic()
    async with open_with(options) as session:
        if session.report is not None:
            screen.remark(f"Opened again: {len(session.history)} messages are in the log.", "yellow")
        done = await _ask(session, FIRST if part == "ask" else SECOND, screen)
    await model.aclose()
    screen.line("", f"{time.monotonic() - began:.1f} s, loading the model included", "dim")
    return 0 if done else 1


async def _ask(session: Session, prompt: str, screen: Screen) -> bool:
    """Ask, show what happens, and return whether an answer came after at least one tool."""
    screen.line("you", prompt)
    before = len(session.history)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_show, session, screen)
        try:
            await session.run(prompt)
        except TurnError as exc:
            screen.remark(str(exc), "red")
            return False
        finally:
            await session.close("the question is answered")
    return any(message.role == "tool" for message in session.history[before:])


async def _show(session: Session, screen: Screen) -> None:
    async for item in follow(session.subscribe(), session.store, session.id):
        screen.show(item)


class _Person:
    """Ask the person at the terminal. Without a clear yes nothing runs."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    async def ask(self, question: Question) -> Answer:
        what = question.args.get("command") or question.args.get("file_path")
        self._screen.question(f"May it use {question.tool} on {what!r}?  y: yes   anything else: no ")
        await anyio.wait_readable(sys.stdin)
        allowed = os.read(sys.stdin.fileno(), 1024).strip().lower().startswith(b"y")
        self._screen.answer("yes" if allowed else "no")
        return Answer(allowed=allowed)


async def _refuse(question: Question) -> Answer:
    """Refuse every call that needs an approval: no person can be asked."""
    words = f"{question.tool} is not allowed here: {question.reason}. Use commands that only read, such as cat, grep, ls, wc."
    return Answer(allowed=False, message=words)


def _work(folder: Path) -> Path:
    return folder / "work"


def _store(folder: Path) -> str:
    return f"sqlite://{folder / 'sessions.db'}"


if __name__ == "__main__":
    main()
