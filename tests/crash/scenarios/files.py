"""The scenario of the crash matrix about files: they are kept, changed, and put back, and the process dies anywhere on the way.

`REWINDING` goes on after a crash and then puts the files back to the end of every turn that was seen to end: they must be
what they were.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final
from weakref import WeakKeyDictionary

import anyio.lowlevel

from backstay.checkpoints.capture import FileCapture
from backstay.ports import ToolContext
from backstay.session.options import Options
from backstay.session.session import Session
from backstay.testing.crash.recovery import Way
from backstay.testing.crash.rehearsed_model import rehearsed
from backstay.testing.crash.stage import SESSION, Scenario, Stage
from backstay.tools.define import tool
from backstay.tools.files.write import write_file
from backstay.vocab.errors import TurnError
from tests.contracts.kit import replace_services
from tests.crash.scenarios.cast import call

Trees = dict[str, Mapping[str, bytes]]
"""What the folder held at the end of each turn that was seen to end."""

_seen: "WeakKeyDictionary[object, Trees]" = WeakKeyDictionary()
"""By trial: what its processes saw."""


@tool(name="meddle", touches="runs")
async def meddle(context: ToolContext, n: Annotated[int, "Which change."]) -> str:
    """Change files as a program would."""
    folder = Path(context.cwd) / "work"
    folder.mkdir(exist_ok=True)
    await anyio.lowlevel.checkpoint()
    (folder / f"made-{n}").write_text(f"by a program {n}")
    (folder / "a.txt").unlink(missing_ok=True)
    (folder / "both").write_text(str(n))
    return "meddled"


class _Kept(list[Session]):
    """The sessions of a stage, each with its files kept."""

    def append(self, session: Session) -> None:
        """Keep the files of one more."""
        services = session._services
        replace_services(session, files=FileCapture(services, (str(Path(services.cwd) / "work"),)))
        super().append(session)


def _options(stage: Stage) -> Options:
    stage.sessions = _Kept()
    work = stage._trial.folder / "work"
    work.mkdir(exist_ok=True)
    return Options(
        model=rehearsed(
            [
                {"calls": [call("Write", file_path="work/a.txt", content="one")]},
                {"text": "Written."},
                {"calls": [call("meddle", n=1)]},
                {"calls": [call("Write", file_path="work/deep/b.txt", content="two")]},
                {"text": "Meddled."},
                {"calls": [call("meddle", n=2)]},
            ],
            stage,
        ),
        tools=[write_file, meddle],
        permission_mode="bypassPermissions",
    )


async def _act(stage: Stage) -> None:
    async with stage.open() as session:
        for prompt in ("One.", "Two."):
            await session.run(prompt)
            note(stage, session)
        first, second = (each.turn for each in session.turns[:2])
        await session.restore_files(to=first)
        check(stage, session, first)
        await session.restore_files(before=second)  # nothing has to change for that
        await session.run("Two, but differently.")
        note(stage, session)
        await session.restore_files(undo="latest")


FILES: Final = Scenario(name="files", options=_options, act=_act)
"""The scenario."""


async def _rewind(stage: Stage) -> None:
    async with stage.open(session_id=SESSION) as session:
        try:
            await session.run("Go on.")
        except TurnError:
            return
        note(stage, session)
        ended = list(trees_of(stage))
        for turn in reversed(ended):
            await session.restore_files(to=turn)
            check(stage, session, turn)
        if session._services.state.progress.restore is not None:
            stage.wrong.append("a restore is open although everything is over")


REWINDING: Final = Way(name="rewind", act=_rewind)
"""Goes on, then puts the files back to every turn."""


def trees_of(stage: Stage) -> Trees:
    """What the folder of a stage held after each turn."""
    return _seen.setdefault(stage._trial, {})


def note(stage: Stage, session: Session) -> None:
    """Take down what the folder holds at the end of the newest turn."""
    stage.process.check()
    trees_of(stage)[session.turns[-1].turn] = _tree(stage)


def check(stage: Stage, session: Session, turn: str) -> None:
    """Note it when the folder does not hold what it held at the end of `turn`."""
    stage.process.check()
    now, then = _tree(stage), trees_of(stage)[turn]
    if now != then:
        stage.wrong.append(f"the files are not as they were at the end of turn {turn}: {now!r}, and not {then!r}")


def _tree(stage: Stage) -> Mapping[str, bytes]:
    work = stage._trial.folder / "work"
    found: dict[str, bytes] = {}
    for here, folders, files in os.walk(work):
        found |= {os.path.relpath(os.path.join(here, name), work): b"a folder" for name in folders}
        for name in files:
            path = Path(here, name)
            found[str(path.relative_to(work))] = path.read_bytes()
    return found
