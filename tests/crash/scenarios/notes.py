"""The scenario of the crash matrix about notes of folders: results bring them along, and the process dies anywhere on the way."""

from typing import Final

from backstay.instructions.inputs import find_inputs
from backstay.instructions.notes import SubfolderNotes
from backstay.session.options import Options
from backstay.session.session import Session
from backstay.testing.crash.rehearsed_model import rehearsed
from backstay.testing.crash.stage import Scenario, Stage
from backstay.tools.files.read import read_file
from tests.contracts.kit import replace_services
from tests.crash.scenarios.cast import call


class _Told(list[Session]):
    """The sessions of a stage, each told of the notes of folders that it goes to."""

    def append(self, session: Session) -> None:
        """Tell one more."""
        services = session._services
        place = find_inputs(services.cwd, trusted=True)
        find = SubfolderNotes(lambda: place, services.state, report=print).find
        replace_services(session, read_folder_notes=find)
        super().append(session)


def _options(stage: Stage) -> Options:
    stage.sessions = _Told()
    for folder in ("api", "api/deep", "web"):
        (stage._trial.folder / folder).mkdir(exist_ok=True)
        (stage._trial.folder / folder / "AGENTS.md").write_text(f"Notes of {folder}.")
        (stage._trial.folder / folder / "file").write_text(f"A file of {folder}.")
    return Options(
        model=rehearsed(
            [
                {"calls": [call("Read", file_path="api/file"), call("Read", file_path="api/deep/file")]},
                {"calls": [call("Read", file_path="api/deep/file")]},
                {"text": "Read."},
                {"calls": [call("Read", file_path="web/file")]},
                {"text": "More."},
                {"calls": [call("Read", file_path="web/file"), call("Read", file_path="api/file")]},
                {"text": "Again."},
            ],
            stage,
        ),
        tools=[read_file],
        permission_mode="bypassPermissions",
    )


async def _act(stage: Stage) -> None:
    async with stage.open() as session:
        await session.run("Look around.")
        first = session.turns[-1].turn
        await session.run("Look there.")
        await session.rewind(to=first)
        await session.run("Look again.")


NOTED: Final = Scenario(name="noted", options=_options, act=_act)
"""The scenario."""
