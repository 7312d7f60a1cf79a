"""A file that a text includes is the very file that was judged."""

from pathlib import Path

import pytest

from backstay import UserError
from backstay.skills.includes import FileInclusion
from tests.session.project.repository import Repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    return Repository(tmp_path, monkeypatch)


@pytest.mark.parametrize("word", ["notes.txt", "docs/notes.txt", "./docs/notes.txt"])
async def test_what_becomes_a_link_after_it_was_judged_is_not_read(repository: Repository, word: str) -> None:
    secret = repository.write(repository.home / ".ssh" / "notes.txt", "zebra stripe")
    path, inclusion = repository.write(word, "Nothing."), FileInclusion(path=word, line=1)

    async with repository.open("Hi.") as session:
        assert session.project is not None
        inclusions = session.project.inclusions
        assert (await inclusions.judge(inclusion)).decision == "allow"
        assert await inclusions.fetch(inclusion) == "Nothing."
        if word == "notes.txt":
            path.unlink()
            path.symlink_to(secret)
        else:
            path.parent.rename(repository.root / "other")
            path.parent.symlink_to(secret.parent)
        with pytest.raises(UserError, match="changed since it was judged"):
            await inclusions.fetch(inclusion)


async def test_a_link_that_was_judged_is_followed(repository: Repository) -> None:
    path = repository.write("notes.txt", "Nothing.")
    (repository.root / "link.txt").symlink_to(path)
    inclusion = FileInclusion(path="link.txt", line=1)

    async with repository.open("Hi.") as session:
        assert session.project is not None
        assert (await session.project.inclusions.judge(inclusion)).decision == "allow"
        assert await session.project.inclusions.fetch(inclusion) == "Nothing."
