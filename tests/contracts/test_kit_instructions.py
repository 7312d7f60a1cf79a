"""The instructions of an open session: the same bytes all along, and others only when a file changed or a compaction made room."""

from pathlib import Path

import pytest

from backstay import Rule, Session
from backstay.instructions import base_prompt
from backstay.vocab.events.instructions import InstructionsRead
from backstay.vocab.events.limits import Compacted, CompactionStarted
from tests.session.project.repository import Listener, Repository, named

LONG = "word " * 2_000


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with notes."""
    made = Repository(tmp_path, monkeypatch)
    made.write("AGENTS.md", "Run make test.")
    return made


async def whys(session: Session) -> list[str]:
    return [each.why for each in named(await session.events(), InstructionsRead)]


@pytest.mark.contract("RB-85")
async def test_they_are_read_once_recorded_with_their_sources_and_stay_byte_for_byte(repository: Repository) -> None:
    model = Listener("One.", "Two.", "Three.")
    async with repository.open(model=model) as session:
        for prompt in ("a", "b", "c"):
            await session.run(prompt)
        (read,) = named(await session.events(), InstructionsRead)
        text = await session.store.blob(read.sha256)

    assert {request.instructions for request in model.heard} == {text.decode()}
    assert "Run make test." in text.decode()
    assert read.why == "start"
    (notes,) = [part for part in read.parts if part.name == "agent-instructions"]
    assert notes.sources == (str(repository.root / "AGENTS.md"),)


@pytest.mark.contract("RB-85")
async def test_a_file_that_changes_between_turns_is_told_from_the_next_turn_on_with_an_event(
    repository: Repository,
) -> None:
    model = Listener("One.", "Two.", "Three.")
    async with repository.open(model=model) as session:
        await session.run("a")
        repository.write("AGENTS.md", "Run make check instead.")
        await session.run("b")
        await session.run("c")
        found = await whys(session)
        events = named(await session.events(), InstructionsRead)

    assert found == ["start", "changed"]
    assert events[0].sha256 != events[1].sha256
    assert [("make check" in each.instructions) for each in model.heard] == [False, True, True]


@pytest.mark.contract("RB-85")
async def test_a_file_that_is_written_again_with_the_same_bytes_is_no_event(repository: Repository) -> None:
    model = Listener("One.", "Two.")
    async with repository.open(model=model) as session:
        await session.run("a")
        (repository.root / "AGENTS.md").unlink()
        repository.write("AGENTS.md", "Run make test.")
        repository.write("unrelated.txt", "x")
        await session.run("b")
        assert await whys(session) == ["start"]
    assert len({request.instructions for request in model.heard}) == 1


@pytest.mark.contract("RB-85")
async def test_a_file_that_comes_and_goes_is_noticed(repository: Repository) -> None:
    model = Listener("One.", "Two.", "Three.")
    async with repository.open(model=model) as session:
        await session.run("a")
        repository.write("CLAUDE.md", "See @docs/style.md\n")
        repository.write("docs/style.md", "Short sentences.")
        await session.run("b")
        (repository.root / "docs/style.md").unlink()
        await session.run("c")
        assert await whys(session) == ["start", "changed", "changed"]
    assert [("Short sentences." in each.instructions) for each in model.heard] == [False, True, False]


@pytest.mark.contract("RB-85")
@pytest.mark.parametrize("changed", [False, True])
async def test_a_resumed_session_reads_them_again_and_says_so_only_when_they_are_others(
    repository: Repository, changed: bool
) -> None:
    async with repository.open(model=Listener("One.", "Two.")) as session:
        await session.run("a")
    if changed:
        repository.write("AGENTS.md", "Run make check instead.")
    model = Listener("One.", "Two.")
    async with repository.open(model=model, resume=session.id) as again:
        await again.run("b")
        assert await whys(again) == (["start", "resumed"] if changed else ["start"])
    assert ("make check" in model.heard[0].instructions) == changed


@pytest.mark.contract("RB-85")
@pytest.mark.parametrize("way", ["session.compact()", "/compact"])
async def test_after_a_compaction_they_are_read_again_once_with_what_the_notes_say_about_summaries(
    repository: Repository, way: str
) -> None:
    repository.write("CLAUDE.md", "Notes.\n\n## Compact Instructions\n\nKeep every number.\n")
    model = Listener(*[LONG] * 6, "After.")
    async with repository.open(model=model) as session:
        for number in range(6):
            await session.run(f"{number} {LONG}")
        if way == "/compact":
            result = await session.command("compact")
            assert result is not None
            assert result.success
        else:
            await session.compact()
        assert await session.run("And now?") == "After."
        log = await session.events()

    assert [each.why for each in named(log, InstructionsRead)] == ["start", "compacted"]
    assert len(named(log, Compacted)) == 1
    assert [each.instructions for each in named(log, CompactionStarted)] == ["Keep every number."]


@pytest.mark.contract("RB-85")
async def test_a_file_that_changed_before_a_compaction_is_in_the_instructions_after_it(repository: Repository) -> None:
    model = Listener(*[LONG] * 6, "After.")
    async with repository.open(model=model) as session:
        for number in range(6):
            await session.run(f"{number} {LONG}")
        repository.write("AGENTS.md", "Run make check instead.")
        await session.compact()
        await session.run("And now?")
        found = await whys(session)
    assert "make check" in model.heard[-1].instructions
    assert found == ["start", "compacted"]


@pytest.mark.contract("RB-85")
async def test_a_mode_or_a_language_that_a_person_takes_is_in_the_instructions_at_once(repository: Repository) -> None:
    model = Listener("One.", "Two.")
    async with repository.open(model=model) as session:
        await session.run("a")
        await session.command("mode", "plan")
        await session.command("language", "Danish")
        await session.run("b")
        assert await whys(session) == ["start", "changed", "asked"]
    before, after = (request.instructions for request in model.heard)
    assert "Danish" in after
    assert "Danish" not in before
    assert before != after


@pytest.mark.contract("RB-85")
async def test_rb_w51_a_mode_or_a_model_that_the_program_sets_is_in_the_instructions_of_the_next_turn(
    repository: Repository,
) -> None:
    model = Listener("One.", "Two.", "Three.")
    async with repository.open(model=model, find=lambda name: model) as session:
        await session.run("a")
        await session.set_permission_mode("plan")
        await session.run("b")
        await session.set_model("scripted:other")
        await session.run("c")
        assert await whys(session) == ["start", "changed", "changed"]
    first, second, third = (request.instructions for request in model.heard)
    assert base_prompt.MODES["plan"] in second
    assert base_prompt.MODES["plan"] not in first
    assert "Model: scripted:other" in third
    assert "Model: scripted:listener" in second


async def test_a_new_skill_is_listed_from_the_next_turn_on_and_one_that_nobody_trusted_is_not(
    repository: Repository,
) -> None:
    repository.skill("tidy", "Sweep.")
    model = Listener("One.", "Two.", "Three.")
    async with repository.open(model=model) as session:
        await session.run("a")
        repository.write(
            repository.config / "skills/scrub/SKILL.md", "---\nname: scrub\ndescription: About scrub.\n---\nScrub.\n"
        )
        await session.run("b")
        repository.skill("sly", "Obey.")
        await session.run("c")
        assert await whys(session) == ["start", "changed"]
        assert {"tidy", "scrub"} <= {spec.name for spec in session.list_commands()}
        assert session.project is not None
        assert any("sly/SKILL.md:1: It was not looked at" in note for note in session.project.notices)
    assert [("About scrub." in each.instructions) for each in model.heard] == [False, True, True]
    assert "About sly." not in model.heard[-1].instructions


@pytest.mark.parametrize("written", ["@secret/plan.md", "@./docs/link.md"])
async def test_a_note_does_not_bring_what_a_rule_denies_to_read(repository: Repository, written: str) -> None:
    repository.write("secret/plan.md", "The launch is on Friday.")
    (repository.root / "docs").mkdir()
    (repository.root / "docs/link.md").symlink_to("../secret/plan.md")
    repository.write("AGENTS.md", f"Run make test. See {written}")
    model = Listener("One.")
    async with repository.open(model=model, rules=[Rule.parse("deny", "Read(secret/**)")]) as session:
        await session.run("a")
        assert session.project is not None
        notes = session.project.notices

    (request,) = model.heard
    assert "Run make test." in request.instructions
    assert "Friday" not in request.instructions
    assert any("denies reading it" in words for words in notes)


async def test_a_denial_that_is_added_while_a_session_is_open_takes_it_out_of_the_instructions(
    repository: Repository,
) -> None:
    repository.write("secret/plan.md", "The launch is on Friday.")
    repository.write("AGENTS.md", "Run make test. See @secret/plan.md")
    repository.write(".backstay/settings.json", {"permissions": {"deny": ["Bash(rm *)"]}})
    model = Listener("One.", "Two.")
    async with repository.open(model=model) as session:
        await session.run("a")
        repository.write(".backstay/settings.json", {"permissions": {"deny": ["Bash(rm *)", "Read(secret/**)"]}})
        await session.run("b")

    assert ["Friday" in request.instructions for request in model.heard] == [True, False]
