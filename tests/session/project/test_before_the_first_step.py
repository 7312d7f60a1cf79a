"""What a person uses before the first step of an opening is judged as this opening says, not as the last one did."""

from pathlib import Path

import pytest

from backstay import UserError
from backstay.ports import SessionQuery
from backstay.session.project.mentions import read_mentions
from backstay.vocab.events import Started
from tests.session.project.repository import Listener, Repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    return Repository(tmp_path, monkeypatch)


async def bypassed(repository: Repository) -> None:
    """A session whose last opening bypassed permissions."""
    async with repository.open("Hi.", session_id="s1", permission_mode="bypassPermissions") as session:
        await session.run("Go.")


async def test_a_file_that_a_prompt_mentions_is_judged_in_the_mode_of_this_opening(repository: Repository) -> None:
    repository.write(".env", "PASSWORD=zebra-stripe-99\n")
    await bypassed(repository)

    async with repository.open("Hi.", resume="s1") as session:
        assert session.project is not None
        found = await read_mentions(session.project, "Look at @.env")

    assert "zebra" not in found.block
    assert "may hold secrets" in found.notes[0]


@pytest.mark.parametrize("flags", [{}, {"permission_mode": "plan"}])
async def test_a_command_in_a_skill_is_judged_in_the_mode_of_this_opening(
    repository: Repository, flags: dict[str, str]
) -> None:
    repository.skill("run", "Say !`touch made.txt`.")
    await bypassed(repository)

    async with repository.open("Hi.", "Hi.", resume="s1", **flags) as session:
        with pytest.raises(UserError, match=r"changes files|made\.txt"):
            await session.command("run")

    assert not (repository.root / "made.txt").exists()


async def test_a_skill_in_a_session_of_its_own_has_the_mode_and_scope_of_this_opening(repository: Repository) -> None:
    repository.skill("plain", "Look around.", context="fork")
    await bypassed(repository)
    model = Listener("Hi.", **{"Look around": ("Looked.",)})

    async with repository.open(model=model, resume="s1") as session:
        await session.command("plain")
        metas = await session.store.list(SessionQuery(include_children=True))
        child = (await session.store.read(next(each.id for each in metas if each.parent), 0, 1)).records[0].event

    assert isinstance(child, Started)
    assert (child.mode, child.context.fs_scope) == ("default", "sandboxed")
