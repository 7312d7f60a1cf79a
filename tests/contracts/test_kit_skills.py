"""Skills through an open session: named only until they are invoked, by the model or by a person, here or in a session of their own."""

from pathlib import Path
from typing import Any

import pytest

from backstay import Rule, Session, UserError
from backstay.commands.registry import CommandResult, Submission
from backstay.ports import SessionQuery
from backstay.vocab.events import ChildFinished, ChildStarted, ModelAsked, Started, ToolFinished
from backstay.vocab.events.tools import HookFinished
from backstay.vocab.messages import text_of
from tests.contracts.kit import call, calls
from tests.session.project.repository import Listener, Repository, named

FORK = {"context": "fork", "allowed_tools": "Read, Glob"}
ANSWER = ({"text": "The hold is dry.", "usage": {"input": 700, "output": 30}},)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty repository."""
    return Repository(tmp_path, monkeypatch)


async def results(session: Session) -> list[tuple[str, str]]:
    return [(each.outcome, text_of(each.content)) for each in named(await session.events(), ToolFinished)]


@pytest.mark.contract("RB-113")
async def test_the_model_knows_names_and_descriptions_and_gets_the_text_when_it_invokes_the_skill(
    repository: Repository,
) -> None:
    repository.skill("tidy", "Sweep $0 from stem to stern.")
    repository.skill("secret", "Never told.", disable_model_invocation="true")
    model = Listener(call("Skill", skill="tidy", args="deck"), call("Skill", skill="secret"), "Done.")
    async with repository.open(model=model) as session:
        await session.run("Go.")
        first, second = await results(session)
        entries = await session.full_history()

    told = model.heard[0].instructions
    assert "tidy: About tidy." in told
    assert "secret" not in told
    assert "stem to stern" not in told
    assert first[0] == "ok"
    assert "Sweep deck from stem to stern." in first[1]
    assert (second[0] == "ok", "'secret'" in second[1], "Never told" in second[1]) == (False, True, False)
    assert any("skill-invocation" in str(entry) and "/tidy deck" in str(entry) for entry in entries)


@pytest.mark.contract("RB-113")
async def test_a_person_types_a_skill_and_the_model_gets_its_text_while_histories_show_what_was_typed(
    repository: Repository,
) -> None:
    repository.skill("tidy", "Sweep $ARGUMENTS.")
    repository.skill("quiet", "Hidden from menus.", user_invocable="false")
    model = Listener("Swept.")
    async with repository.open(model=model) as session:
        meant = await session.interpret("/tidy the deck")
        assert isinstance(meant, Submission)
        assert (meant.skill, meant.display) == ("tidy", "/tidy the deck")
        result = await session.command("tidy", "the deck")
        assert await session.interpret("/quiet") is None
        assert "quiet" not in {spec.name for spec in session.list_commands()}
        entries = await session.full_history()

    assert result == CommandResult(message="Swept.", data={"submitted": True})
    assert "Sweep the deck." in str(model.heard[0].messages)
    assert any("/tidy the deck" in str(entry) for entry in entries)


@pytest.mark.contract("RB-114")
async def test_of_skills_with_one_name_the_first_folder_wins(repository: Repository) -> None:
    def put(folder: Path, words: str) -> None:
        repository.write(folder / "tidy/SKILL.md", f"---\nname: tidy\ndescription: {words}\n---\n{words}\n")

    put(repository.root / ".agents/skills", "last")
    put(repository.config / "skills", "third")
    repository.write(".claude/commands/tidy.md", "second")
    put(repository.root / ".claude/skills", "first")
    texts = []
    for folder in (
        ".claude/skills/tidy/SKILL.md",
        ".claude/commands/tidy.md",
        repository.config / "skills/tidy/SKILL.md",
    ):
        async with repository.open("Done.") as session:
            meant = await session.interpret("/tidy")
            assert isinstance(meant, Submission)
            texts.append(next(word for word in ("first", "second", "third", "last") if word in meant.prompt))
        (repository.root / folder).unlink()
    async with repository.open("Done.") as session:
        meant = await session.interpret("/tidy")
    assert isinstance(meant, Submission)
    assert texts == ["first", "second", "third"]
    assert "last" in meant.prompt


async def child_of(session: Session) -> tuple[str, list[Any]]:
    """The only child, and its log."""
    (meta,) = [each for each in await session.store.list(SessionQuery(include_children=True)) if each.id != session.id]
    return meta.id, list((await session.store.read(meta.id)).records)


@pytest.mark.contract("RB-113")
async def test_a_skill_that_forks_is_run_by_a_child_when_the_model_invokes_it(repository: Repository) -> None:
    repository.skill("inspect", "Look into $0.", **FORK)
    model = Listener(call("Skill", skill="inspect", args="hold"), "It is dry.", **{"Look into hold.": ANSWER})
    async with repository.open(model=model) as session:
        assert await session.run("Go.") == "It is dry."
        child, log = await child_of(session)
        own = await session.events()
        spent = session.usage

    started = log[0].event
    assert isinstance(started, Started)
    assert started.parent == session.id
    (asked,) = [request for request in model.heard if "Look into hold." in str(request.messages)]
    assert sorted(tool.name for tool in asked.tools) == ["Glob", "Read"]
    assert [each.child for each in named(own, ChildStarted)] == [child]
    (finished,) = named(own, ChildFinished)
    assert (finished.outcome, finished.text, finished.spent.input) == ("completed", "The hold is dry.", 700)
    assert "The hold is dry." in str(model.heard[-1].messages)
    assert spent.output >= 30


@pytest.mark.contract("RB-113")
async def test_a_skill_that_forks_is_run_by_a_child_when_a_person_types_it_and_no_model_is_asked_whether(
    repository: Repository,
) -> None:
    repository.skill("inspect", "Look into $0.", **FORK)
    model = Listener({"text": "Fine.", "expect": {"contains": "The hold is dry."}}, **{"Look into hold.": ANSWER})
    async with repository.open(model=model) as session:
        result = await session.interpret("/inspect hold")
        child, log = await child_of(session)
        own = await session.events()
        assert named(own, ModelAsked) == []
        assert (session.usage.input, session.cost > 0) == (700, True)
        assert await session.run("And?") == "Fine."
        entries = str(await session.full_history())

    assert result == CommandResult(message="The hold is dry.", data={"skill": "inspect", "forked": True})
    assert log[0].event.parent == session.id
    assert sorted(tool.name for tool in model.heard[0].tools) == ["Glob", "Read"]
    assert [each.child for each in named(own, ChildStarted)] == [child]
    (finished,) = named(own, ChildFinished)
    assert (finished.skill, finished.outcome, finished.spent.input) == ("inspect", "completed", 700)
    assert entries.count("/inspect hold") >= 1


@pytest.mark.contract("RB-113")
async def test_a_fork_has_the_allowed_tools_without_those_that_are_disallowed_and_its_calls_are_judged(
    repository: Repository,
) -> None:
    repository.skill(
        "inspect", "Look into it.", context="fork", allowed_tools="Read, Bash(git *)", disallowed_tools="Read"
    )
    escape = calls(("Bash", {"command": "touch escaped"}), ("Write", {"file_path": "x", "content": "x"}))
    model = Listener("Ok.", **{"Look into it.": (escape, "Tried.")})
    async with repository.open(model=model) as session:
        result = await session.command("inspect")
        _, log = await child_of(session)

    assert result is not None
    assert result.message == "Tried."
    assert [tool.name for tool in model.heard[0].tools] == ["Bash"]
    assert [each.outcome for each in named(tuple(log), ToolFinished)] != ["ok", "ok"]
    assert not (repository.root / "escaped").exists()
    assert not (repository.root / "x").exists()


async def test_a_fork_that_fails_says_so_and_the_session_goes_on(repository: Repository) -> None:
    repository.skill("inspect", "Look into it.", **FORK)
    failing = ({"error": {"kind": "bad_request", "message": "no"}},)
    async with repository.open(model=Listener("Fine.", **{"Look into it.": failing})) as session:
        result = await session.command("inspect")
        assert result is not None
        assert (result.success, "'inspect' did not finish" in result.message) == (False, True)
        assert await session.run("And?") == "Fine."


@pytest.mark.contract("RB-113")
async def test_rb_w13_an_inclusion_that_is_not_allowed_aborts_and_nothing_of_the_text_ran(
    repository: Repository,
) -> None:
    repository.skill("sly", "First !`touch ran-first`, then !`curl -s example.org`.")
    rules = [Rule.parse("allow", "Bash(touch *)")]
    model = Listener(call("Skill", skill="sly"), "Done.")
    async with repository.open(model=model, rules=rules) as session:
        with pytest.raises(UserError, match=r"'sly' was not invoked: '!`curl -s example.org`' \(line 1"):
            await session.interpret("/sly")
        await session.run("Go.")
        ((outcome, words),) = await results(session)

    assert (outcome, "was not invoked" in words) == ("failed", True)
    assert not (repository.root / "ran-first").exists()


@pytest.mark.contract("RB-113")
@pytest.mark.parametrize("mode", ["plan", "default"])
async def test_rb_w13_a_skill_runs_no_program_that_the_mode_would_ask_about(repository: Repository, mode: str) -> None:
    repository.skill("sly", "Listen: !`touch ran`.")
    repository.skill("fork", "Listen: !`touch ran`.", context="fork")
    model = Listener(calls(("Skill", {"skill": "sly"}), ("Skill", {"skill": "fork"})), "Done.")
    async with repository.open(model=model, permission_mode=mode) as session:
        await session.run("Go.")
        log = await session.events()
        forked = await session.command("fork")

    assert [each.outcome for each in (*named(log, ToolFinished), *named(log, ChildFinished))] == ["failed", "failed"]
    assert forked is not None
    assert not forked.success
    assert not (repository.root / "ran").exists()


async def test_rb_w13_what_is_allowed_is_put_in_and_a_workspace_that_is_not_trusted_runs_nothing(
    repository: Repository,
) -> None:
    repository.skill("honest", "Here: !`echo afloat` and @notes.txt.")
    repository.write("notes.txt", "Mind the rocks.")
    rules = [Rule.parse("allow", "Bash(echo *)")]
    async with repository.open("Done.", rules=rules) as session:
        meant = await session.interpret("/honest")
    assert isinstance(meant, Submission)
    assert "Here: afloat and" in meant.prompt
    assert "Mind the rocks." in meant.prompt

    async with repository.open("Done.", rules=rules, trust=False) as session:
        with pytest.raises(UserError, match="backstay trust"):
            await session.interpret("/honest")


async def test_a_skill_that_changes_under_an_open_session_is_looked_at_anew_between_turns(
    repository: Repository,
) -> None:
    path = repository.skill("tidy", "Sweep.")
    async with repository.open("One.", "Two.") as session:
        await session.run("Hi.")
        path.write_text(path.read_text(encoding="utf-8").replace("Sweep.", "Scrub the deck."), encoding="utf-8")
        with pytest.raises(UserError, match="not as it was"):
            await session.interpret("/tidy")
        await session.run("Again.")
        meant = await session.interpret("/tidy")
    assert isinstance(meant, Submission)
    assert "Scrub the deck." in meant.prompt


async def test_a_skill_that_changed_after_the_workspace_was_trusted_runs_no_program(repository: Repository) -> None:
    path = repository.skill("tidy", "Sweep.")
    async with repository.open("One.", "Two.", rules=[Rule.parse("allow", "Bash(touch *)")]) as session:
        await session.run("Hi.")
        path.write_text(path.read_text(encoding="utf-8").replace("Sweep.", "Sweep !`touch ran`."), encoding="utf-8")
        await session.run("Again.")
        with pytest.raises(UserError, match="not trusted"):
            await session.interpret("/tidy")
    assert not (repository.root / "ran").exists()


@pytest.mark.contract("RB-113")
async def test_what_a_trusted_text_says_it_may_use_it_may_include_unless_something_denies_it_or_the_mode_is_plan(
    repository: Repository,
) -> None:
    repository.skill("count", "There: !`touch counted`.", allowed_tools="Bash(touch *)")
    counted = repository.root / "counted"
    for options in ({"rules": [Rule.parse("deny", "Bash(touch *)")]}, {"permission_mode": "plan"}, {"trust": False}):
        async with repository.open("Done.", **options) as session:
            with pytest.raises(UserError, match="counted"):
                await session.interpret("/count")
        assert not counted.exists(), options
    async with repository.open("Done.") as session:
        assert isinstance(await session.interpret("/count"), Submission)
    assert counted.exists()


async def test_hooks_are_heard_about_what_a_text_includes_and_may_refuse_it(repository: Repository) -> None:
    guard = "grep -q counted && { echo Not that. >&2; exit 2; }; exit 0"
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": guard}]}]}
    repository.write(".backstay/settings.json", {"hooks": hooks})
    repository.skill("count", "There: !`touch counted`.", allowed_tools="Bash(touch *)")
    repository.skill("mark", "There: !`touch marked`.", allowed_tools="Bash(touch *)")
    async with repository.open("Done.") as session:
        with pytest.raises(UserError, match="Not that"):
            await session.command("count")
        result = await session.command("mark")
        log = await session.events()
    assert result is not None
    assert result.message == "Done."
    assert not (repository.root / "counted").exists()
    assert (repository.root / "marked").exists()
    assert len(named(log, HookFinished)) == 2
