"""What a repository's settings do to the sessions that are opened there: rules, hooks, profiles, modes; nothing of it before trust."""

from pathlib import Path

import pytest

from backstay import Session, UserError, hook
from backstay.vocab.events import CallJudged, ToolFinished
from tests.contracts.kit import call, calls
from tests.session.project.repository import Repository, named

ORDER = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty repository."""
    return Repository(tmp_path, monkeypatch)


def noting(*events: str) -> dict[str, object]:
    """Hooks that write down that they were heard."""
    return {
        event: [{"hooks": [{"type": "command", "command": f"echo {event} >> $BACKSTAY_PROJECT_DIR/heard"}]}]
        for event in events
    }


async def decisions(session: Session) -> list[str]:
    return [each.decision for each in named(await session.events(), CallJudged)]


@pytest.mark.contract("RB-54")
async def test_the_hooks_of_the_settings_are_heard_at_their_moments_beside_those_of_the_program(
    repository: Repository,
) -> None:
    repository.write(".backstay/settings.json", {"hooks": noting(*ORDER[:3])})
    repository.write(repository.config / "settings.json", {"hooks": noting(*ORDER[3:])})
    own: list[str] = []

    @hook("PreToolUse")
    def mine(told: dict[str, object]) -> None:
        own.append(str(told["tool_name"]))

    async with repository.open(call("Read", file_path="a.txt"), "Read.", "Two.", hooks=[mine]) as session:
        repository.write("a.txt", "one")
        await session.run("Read it.")
        await session.run("Again.")

    heard = (repository.root / "heard").read_text(encoding="utf-8").split()
    assert heard == [*ORDER[:5], "UserPromptSubmit", "Stop", "SessionEnd"]
    assert own == ["Read"]


@pytest.mark.contract("RB-84")
async def test_a_change_of_a_projects_settings_holds_for_the_next_session(repository: Repository) -> None:
    script = (calls(("Bash", {"command": "touch a"}), ("Bash", {"command": "touch b"})), "Done.")
    async with repository.open(*script) as session:
        await session.run("Go.")
        assert await decisions(session) == ["ask", "ask"]

    rules = {"allow": ["Bash(touch *)"], "deny": ["Bash(touch b)"]}
    repository.write(".backstay/settings.json", {"permissions": rules, "language": "Danish"})
    async with repository.open(*script) as session:
        await session.run("Go.")
        assert await decisions(session) == ["allow", "deny"]
        spoken = await session.command("language")
    assert spoken is not None
    assert spoken.data == {"language": "Danish"}
    assert ((repository.root / "a").exists(), (repository.root / "b").exists()) == (True, False)


@pytest.mark.contract("RB-84")
async def test_rb_w8_a_project_that_is_not_trusted_allows_runs_and_redirects_nothing_and_its_denials_hold(
    repository: Repository,
) -> None:
    profile = {"type": "openai-chat", "base_url": "http://127.0.0.1:9/v1", "model": "theirs"}
    rules = {"allow": ["Bash(touch *)"], "deny": ["Read(secret.txt)"], "defaultMode": "bypassPermissions"}
    content = {"permissions": rules, "hooks": noting(*ORDER), "providers": {"p": profile}, "currentProvider": "p"}
    repository.write(".backstay/settings.json", content)
    repository.write("secret.txt", "x")
    script = (calls(("Bash", {"command": "touch a"}), ("Read", {"file_path": "secret.txt"})), "Done.")
    async with repository.open(*script, trust=None) as session:
        await session.run("Go.")
        assert (await decisions(session), session.permission_mode) == (["ask", "deny"], "default")
        assert session.hooks == ()
    with pytest.raises(UserError, match="No model"):
        async with repository.open(model=None, trust=None):
            pytest.fail("must not open with a model of the workspace")
    assert not (repository.root / "heard").exists()
    assert not (repository.root / "a").exists()


@pytest.mark.contract("RB-84")
async def test_rb_w9_no_layer_takes_away_what_another_denies_or_guards(repository: Repository) -> None:
    repository.write(
        repository.config / "settings.json",
        {"permissions": {"deny": ["Bash(rm *)"]}, "hooks": noting("PreToolUse")},
    )
    repository.write(
        ".backstay/settings.json", {"permissions": {"allow": ["Bash(*)"], "deny": []}, "hooks": {"PreToolUse": []}}
    )
    async with repository.open(call("Bash", command="rm -rf x"), call("Bash", command="true"), "Done.") as session:
        await session.run("Go.")
        assert await decisions(session) == ["deny", "allow"]
    assert (repository.root / "heard").read_text(encoding="utf-8").split() == ["PreToolUse"] * 2


@pytest.mark.contract("RB-84")
async def test_rb_w10_settings_that_are_broken_keep_the_denials_that_were_there(repository: Repository) -> None:
    path = repository.write(".backstay/settings.json", {"permissions": {"deny": ["Bash(touch *)"]}})
    script = (call("Bash", command="touch a"), "Done.")
    async with repository.open(*script, permission_mode="acceptEdits") as session:
        await session.run("Go.")
        assert await decisions(session) == ["deny"]
    path.write_text('{"permissions": {"deny": [', encoding="utf-8")
    async with repository.open(*script, permission_mode="bypassPermissions") as session:
        await session.run("Go.")
        assert await decisions(session) == ["deny"]
    assert not (repository.root / "a").exists()


@pytest.mark.contract("RB-51")
async def test_the_folders_of_instructions_are_read_without_asking_even_where_nothing_else_is(
    repository: Repository,
) -> None:
    for folder in (".agents", ".claude", ".backstay"):
        repository.write(f"{folder}/notes.md", "Mind the rocks.")
    reads = [("Read", {"file_path": f"{folder}/notes.md"}) for folder in (".agents", ".claude", ".backstay")]
    write = ("Write", {"file_path": ".claude/notes.md", "content": "Obey."})
    async with repository.open(calls(*reads, write), "Done.", permission_mode="dontAsk") as session:
        await session.run("Go.")
        log = await session.events()
    assert sorted(each.outcome for each in named(log, ToolFinished)) == ["denied", "ok", "ok", "ok"]
    assert [(each.decision, each.reason) for each in named(log, CallJudged)][:3] == [("allow", "rule")] * 3


@pytest.mark.contract("RB-84")
async def test_settings_that_change_under_an_open_session_hold_from_its_next_turn_on(repository: Repository) -> None:
    script = (call("Bash", command="touch a"), "One.", call("Bash", command="touch b"), "Two.")
    repository.write(repository.config / "settings.json", {"permissions": {"allow": ["Bash(touch *)"]}})
    async with repository.open(*script) as session:
        await session.run("Go.")
        repository.write(repository.config / "settings.json", {"permissions": {"deny": ["Bash(touch *)"]}})
        await session.run("Again.")
        assert await decisions(session) == ["allow", "deny"]
    assert not (repository.root / "b").exists()
