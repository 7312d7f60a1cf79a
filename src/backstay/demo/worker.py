"""The processes of the demo: the first one kills itself in the middle of a turn, the second one finishes it."""

import os
import signal
import sys
from pathlib import Path
from typing import Final

import anyio

from backstay.demo.screen import Screen
from backstay.demo.workspace import LEDGER, PROMPT, PUBLISH, SESSION, project_of, script_of, store_of
from backstay.ports import Answer, Question
from backstay.runtime.bus import follow
from backstay.session.assemble import open_with
from backstay.session.options import Options
from backstay.session.session import Session
from backstay.vocab.errors import TurnError
from backstay.vocab.messages import ToolCall

ANSWER_S: Final = 8.0
"""Seconds that a person at a terminal has to answer."""
REFUSED: Final = 3


def main() -> None:
    """Play one part of the demo: `start` or `finish` in a folder."""
    folder, part, pace = sys.argv[1:]
    worker = Worker(Path(folder), fast=pace == "fast")
    sys.exit(anyio.run(worker.start if part == "start" else worker.finish))


class Worker:
    """One process with the session open."""

    def __init__(self, folder: Path, *, fast: bool) -> None:
        self._folder = folder
        self._fast = fast
        self._screen = Screen()

    async def start(self) -> int:
        """Begin the work, and die after the publishing and before its result arrives."""
        model = f"scripted:{script_of(self._folder)}"
        async with open_with(self._options(model=model, session_id=SESSION)) as session:
            self._screen.line("you", PROMPT)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._show, session)
                tasks.start_soon(self._die_after_publishing)
                try:
                    await session.run(PROMPT)
                except TurnError:  # a call was refused, and the script has no other way
                    tasks.cancel_scope.cancel()
        return REFUSED

    async def finish(self) -> int:
        """Open the session that the dead process left, say what is known, and go on."""
        async with open_with(self._options(resume=SESSION)) as session:
            assert session.report is not None
            self._screen.remark(session.report.words(), "yellow")
            parts = [part for message in session.history for part in message.content]
            self._screen.remember({part.id: part for part in parts if isinstance(part, ToolCall)})
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._show, session)
                await session.finish()
                await session.close("the demo is over")
        return 0

    def _options(
        self, *, model: str | None = None, session_id: str | None = None, resume: str | None = None
    ) -> Options:
        return Options(
            model=model,
            session_id=session_id,
            resume=resume,
            cwd=project_of(self._folder),
            store=store_of(self._folder),
            permission_mode="acceptEdits",
            asker=self._ask,
        )

    async def _show(self, session: Session) -> None:
        async for item in follow(session.subscribe(), session.store, session.id):
            self._screen.show(item)

    async def _die_after_publishing(self) -> None:
        ledger = anyio.Path(project_of(self._folder) / LEDGER)
        # Another process writes the file, and its shell makes it before there is anything in it.
        while not (await ledger.exists() and await ledger.read_text(encoding="utf-8")):  # noqa: ASYNC110
            await anyio.sleep(0.01)
        await anyio.sleep(0 if self._fast else 1)
        self._screen.remark(
            "The command has run; its result is not here yet. Now this process kills itself.", "bold red"
        )
        os.kill(os.getpid(), signal.SIGKILL)

    async def _ask(self, question: Question) -> Answer:
        command = question.args.get("command")
        publishes = command == PUBLISH
        self._screen.question(f"May it run {command!r}? ({question.reason})")
        if not await self._refuses():
            self._screen.answer("yes" if publishes else "yes, for this session")
            return Answer(allowed=True, grant="once" if publishes else "session")
        self._screen.answer("no")
        return Answer(allowed=False)

    async def _refuses(self) -> bool:
        """Return whether the person says no; without an answer, the demo says yes."""
        if self._fast or not (sys.stdin.isatty() and self._screen.is_terminal):
            await anyio.sleep(0 if self._fast else 1)
            return False
        self._screen.hint(f"Enter: yes   n: no   (yes by itself in {ANSWER_S:g} seconds)")
        with anyio.move_on_after(ANSWER_S):
            await anyio.wait_readable(sys.stdin)
            return os.read(sys.stdin.fileno(), 1024).strip().lower().startswith(b"n")
        return False


if __name__ == "__main__":
    main()
