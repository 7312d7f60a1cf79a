"""What a text may include without asking is the text's own, whatever it is invoked with."""

from pathlib import Path

import pytest

from backstay.vocab.events import ToolFinished
from tests.contracts.kit import calls
from tests.session.project.repository import Repository, named


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    return Repository(tmp_path, monkeypatch)


@pytest.mark.parametrize("args", ["x; touch made", "x $(touch made)", "x\ntouch made", "-e x; touch made"])
async def test_an_argument_of_the_model_makes_no_other_command_of_a_skill(repository: Repository, args: str) -> None:
    repository.skill("look", "Found: !`echo $ARGUMENTS`", allowed_tools="Bash")
    plain, odd = (calls(("Skill", {"skill": "look", "args": each})) for each in ("x", args))

    async with repository.open(plain, odd, "Done.") as session:
        await session.run("Look.")
        log = await session.events()

    assert [each.outcome for each in named(log, ToolFinished)] == ["ok", "failed"]
    assert not (repository.root / "made").exists()
