"""What a session knows of where it began."""

import subprocess
from pathlib import Path

import pytest

from backstay import open_session
from backstay.vocab.events import Started
from backstay.vocab.specs import SessionContext
from tests.contracts.kit import scripted


async def began(**options: object) -> Started:
    """The first event of a session that is opened so."""
    async with open_session(model=scripted("x"), store=None, **options) as session:  # type: ignore[arg-type]  # of many types
        (first,) = [each.event for each in await session.events() if isinstance(each.event, Started)]
    return first


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository on a branch called topic."""
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@x")
    for command in (("init", "-q", "-b", "topic"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    (tmp_path / "src").mkdir()
    return tmp_path


@pytest.mark.contract("RV-19")
async def test_the_context_is_found_where_the_session_is_opened_and_can_be_given_instead(repository: Path) -> None:
    below = repository / "src"

    found = await began(cwd=below)
    given = SessionContext(
        working_dir=str(repository), active_file="a.py", git_ref="v1", fs_scope="full", variables={"a": "b"}
    )
    told = await began(cwd=below, context=given)
    partly = await began(cwd=below, fs_scope="project", variables={"who": "Ada"})

    assert (found.context.working_dir, found.context.fs_scope, found.project) == (
        str(below),
        "sandboxed",
        str(repository),
    )
    assert "topic" in (found.context.git_ref or "")
    assert told.context == given
    assert (partly.context.fs_scope, partly.context.variables) == ("project", {"who": "Ada"})
    assert partly.context.git_ref == found.context.git_ref
