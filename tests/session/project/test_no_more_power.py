"""What a session finds around it never gives it more power than it had."""

import os
from pathlib import Path

import pytest

from backstay.system.folders import git_ref
from backstay.vocab.events import ToolFinished
from tests.contracts.kit import calls
from tests.session.project.repository import Listener, Repository, named


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    return Repository(tmp_path, monkeypatch)


def outcomes(log: tuple[object, ...]) -> list[str]:
    return [each.outcome for each in named(log, ToolFinished)]


@pytest.mark.contract("RB-84")
async def test_a_model_that_empties_the_settings_is_denied_what_they_denied(repository: Repository) -> None:
    path = repository.write(".backstay/settings.json", {"permissions": {"deny": ["Read(secret.txt)"]}})
    repository.write("secret.txt", "The sea is salt.")
    empties = calls(("Write", {"file_path": str(path), "content": "{}"}))
    reads = calls(("Read", {"file_path": str(repository.root / "secret.txt")}))
    replies = (calls(("Read", {"file_path": str(path)})), empties, "Emptied.", reads, "Done.")

    async with repository.open(*replies, permission_mode="bypassPermissions") as session:
        await session.run("Empty them.")
        await session.run("Read it.")
        log = await session.events()

    assert path.read_text(encoding="utf-8") == "{}"
    assert outcomes(log) == ["ok", "ok", "denied"]


async def test_a_rule_that_is_added_while_the_session_is_open_holds_from_the_next_turn_on(
    repository: Repository,
) -> None:
    repository.write("notes.txt", "The sea is salt.")
    reads = calls(("Read", {"file_path": str(repository.root / "notes.txt")}))

    async with repository.open(reads, "One.", reads, "Two.") as session:
        await session.run("Read it.")
        repository.write(repository.config / "settings.json", {"permissions": {"deny": ["Read(notes.txt)"]}})
        await session.run("Read it again.")
        log = await session.events()

    assert outcomes(log) == ["ok", "denied"]


async def test_a_fork_that_only_denies_tools_has_the_others_and_its_agents_limits(repository: Repository) -> None:
    repository.skill("plain", "Look around.", context="fork", disallowed_tools="Bash")
    repository.skill("careful", "Look carefully.", context="fork", agent="Explore")
    model = Listener("Hi.", **{"Look around": ("Looked.",), "Look carefully": ("Looked twice.",)})

    async with repository.open(model=model) as session:
        plain = await session.command("plain")
        careful = await session.command("careful")

    assert [each.message for each in (plain, careful) if each is not None] == ["Looked.", "Looked twice."]
    first, second = ({tool.name for tool in request.tools} for request in model.heard)
    assert "Bash" not in first
    assert "Write" in first
    assert not {"Bash", "Write", "Edit"} & second
    assert "Read" in second


def test_a_strange_file_where_git_keeps_its_branch_is_no_branch(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    head = tmp_path / ".git" / "HEAD"
    os.mkfifo(head)
    assert git_ref(tmp_path) is None
    head.unlink()
    head.symlink_to("/dev/zero")
    assert git_ref(tmp_path) is None
    head.unlink()
    head.write_bytes(b"ref: refs/heads/\xff\n")
    assert git_ref(tmp_path) == "\ufffd"
    for line in ("the first line of a private note", "ref: refs/heads/a b", "ref: /etc"):
        head.write_text(line)
        assert git_ref(tmp_path) is None
    private = tmp_path / "private"
    private.write_text("ref: refs/heads/private")
    head.unlink()
    head.symlink_to(private)
    assert git_ref(tmp_path) is None


async def test_a_program_is_told_what_was_left_out_because_nobody_trusts_the_workspace(repository: Repository) -> None:
    repository.write(".claude/settings.json", {"permissions": {"allow": ["Bash(make *)"]}, "colour": "red"})

    async with repository.open("Hi.", trust=None) as session:
        told = "\n".join(session.notes)

    assert "not trusted" in told
    assert "allow" in told
