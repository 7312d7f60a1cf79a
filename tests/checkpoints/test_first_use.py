"""What a person reads and gets who uses `/undo` and `/rewind` for the first time."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from backstay.checkpoints.capture import FileCapture
from backstay.checkpoints.contents_at import find_foreign_changes
from backstay.checkpoints.walk_tree import SANDBOX_PLACEHOLDERS, WalkLimits
from backstay.commands.registry import CommandResult
from backstay.sandbox.seals import _OWN
from backstay.session.session import Session
from backstay.vocab.errors import UserError
from backstay.vocab.event import Recorded
from backstay.vocab.events import ChildStarted, Rewound
from backstay.vocab.events.tools import FileSeen
from tests.checkpoints.kept import Reply, bash, call, kept_session, tree_of, turn
from tests.checkpoints.test_walk_tree import listed, take
from tests.contracts.kit import replace_services, settings_with
from tests.session.project.repository import Listener, Repository, named


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty repository."""
    return Repository(tmp_path, monkeypatch)


@asynccontextmanager
async def working(
    repository: Repository, *replies: Reply, limits: WalkLimits | None = None, **more: Any
) -> AsyncIterator[Session]:
    """A session that may do everything, whose files are kept within `limits`."""
    async with repository.open(*replies, **{"permission_mode": "bypassPermissions", **more}) as session:
        replace_services(
            session, files=FileCapture(session._services, (str(repository.root),), limits=limits or WalkLimits())
        )
        yield session


def git_init(folder: Path) -> None:
    """Make a repository of a folder."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


async def typed(session: Session, line: str) -> CommandResult:
    """What a command answers."""
    name, _, args = line[1:].partition(" ")
    result = await session.command(name, args)
    assert result is not None
    return result


# --- what git ignores ----------------------------------------------------------------------------------------------------------------


async def test_undo_says_that_what_git_ignores_and_a_program_deleted_does_not_come_back(repository: Repository) -> None:
    git_init(repository.root)
    repository.write(".gitignore", "build/\n*.log\n")
    repository.write("build/out", "1")
    for number in range(7):
        repository.write(f"{number}.log", "1")
    async with working(repository, *turn(bash("rm -r build; echo h > h.txt"))) as session:
        await session.run("Go.")
        undone = await typed(session, "/undo")

    assert undone.message.splitlines()[-1] == (
        "What git ignores is not kept: what programs did to build, 0.log, 1.log, 2.log, 3.log and 3 more "
        f"in {str(repository.root)!r} stays as it is."
    )
    assert not (repository.root / "h.txt").exists()


async def test_what_git_ignores_is_not_spoken_of_when_no_program_ran_or_there_is_nothing(tmp_path: Path) -> None:
    plain, ignoring = tmp_path / "plain", tmp_path / "ignoring"
    for folder in (plain, ignoring):
        folder.mkdir()
        git_init(folder)
    (ignoring / ".gitignore").write_text("*.log\n")
    (ignoring / "a.log").write_text("1")
    for folder, made in ((plain, bash("echo x > a.txt")), (ignoring, call("Write", file_path="a.txt", content="x"))):
        async with kept_session(folder, turn(made)) as session:
            await session.run("Go.")
            report = await session.restore_files(before=session.turns[0].turn)
            assert (report.removed, report.warnings) == (1, ())
            assert (await session.restore_files(undo="latest")).warnings == ()


# --- folders that are too large ------------------------------------------------------------------------------------------------------


async def test_the_conversation_stays_where_the_files_of_programs_cannot_go_back(repository: Repository) -> None:
    for number in range(8):
        repository.write(f"{number}.txt", "x")
    replies = [*turn(bash("rm 1.txt")), *turn(call("Write", file_path="new.txt", content="y"))]
    async with working(repository, *replies, limits=WalkLimits(files=5)) as session:
        await session.run("Go.")
        problem = f"{str(repository.root)!r} is not kept: it has more than 5 files"
        refused = await typed(session, "/undo")
        assert (refused.success, refused.message) == (
            False,
            f"The files cannot go back to the start of turn 1: programs ran, and {problem}. Nothing was moved; "
            "`/rewind 0 conversation` moves the conversation alone. `/rewind 0 files` puts back what can be.",
        )
        assert not (await typed(session, "/rewind 0 both")).success
        with pytest.raises(UserError, match="programs ran, and"):
            await session.rewind(before=session.turns[0].turn, files=True)
        assert named(await session.events(), Rewound) == []

        await session.run("More.")
        assert (await typed(session, "/undo")).success, "no program ran in this turn: its file goes back"
        assert not (repository.root / "new.txt").exists()
        assert (await typed(session, "/rewind 0 conversation")).success
        assert "user" not in {each.role for each in session.history}


async def test_the_conversation_stays_when_a_program_made_more_files_than_can_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    replies = turn(bash("for i in 1 2 3 4 5 6; do echo > $i; done"))
    async with kept_session(tmp_path, replies, limits=WalkLimits(files=5)) as session:
        await session.run("Go.")
        with pytest.raises(UserError, match="it has more than 5 files"):
            await session.rewind(before=session.turns[0].turn, files=True)
        assert named(await session.events(), Rewound) == []


# --- whose change it was -------------------------------------------------------------------------------------------------------------


async def test_what_a_restore_wrote_is_not_somebody_elses_in_the_next_process(repository: Repository) -> None:
    kept = repository.write("a.txt", "one")
    other = repository.write("b.txt", "one")
    edits = [call(name, **args) for path in ("a.txt", "b.txt") for name, args in _edit(path)]
    async with working(repository, *turn(*edits), session_id="two") as session:
        await session.run("Go.")
    async with working(repository, resume="two") as session:
        undone = await typed(session, "/undo")
        assert (kept.read_text(), "Somebody else" in undone.message) == ("one", False)
    async with working(repository, resume="two") as session:
        back = await typed(session, "/rewind back")
    assert (kept.read_text(), other.read_text()) == ("two", "two")
    assert back.message == "2 files written, 0 removed (before files were put back)."


def _edit(path: str) -> tuple[tuple[str, dict[str, str]], ...]:
    return ("Read", {"file_path": path}), ("Write", {"file_path": path, "content": "two"})


def test_a_file_that_was_forgotten_is_not_said_to_have_changed() -> None:
    seen = [FileSeen(path="/a", version="1:1:1"), FileSeen(path="/a", version=""), FileSeen(path="/b", version="1:1:1")]
    log = [Recorded(id=str(seq), seq=seq, at=0, event=event, by="system") for seq, event in enumerate(seen, 1)]

    assert find_foreign_changes(log, {"/a": "2:2:2", "/b": "2:2:2"}) == ("/b",)


# --- the list ------------------------------------------------------------------------------------------------------------------------


async def test_the_list_says_what_changed_which_turns_were_left_and_which_is_the_newest(repository: Repository) -> None:
    write = call("Write", file_path="a.txt", content="x")
    replies = [*turn(bash("true")), *turn(write), *turn(write, bash("true")), {"text": "Hi."}]
    async with working(repository, *replies) as session:
        for prompt in ("One.", "Two.", "Three."):
            await session.run(prompt)
        await typed(session, "/undo")
        await typed(session, "/rewind 1")
        await session.run("Other.")
        shown = await typed(session, "/rewind list")
        ids = [each.turn for each in await session.checkpoints()]
        await typed(session, "/rewind 0")
        begun = await typed(session, "/rewind list")

    assert begun.message.splitlines()[5].startswith("The conversation is at its beginning;")
    assert shown.message.splitlines()[:6] == [
        "Turn  ID            What changed          Prompt",
        f"   1  {ids[0]:<14}programs              One.",
        f"   2  {ids[1]:<14}1 file                Two.  [not in the conversation any more]",
        f"   3  {ids[2]:<14}1 file + programs     Three.  [not in the conversation any more]",
        f"*  2  {ids[3]:<14}0 files               Other.",
        "* is the newest; `/rewind 0` goes to before the first turn.",
    ]
    points: Any = shown.data["checkpoints"]
    assert [(each["inConversation"], each["newest"]) for each in points] == [
        (True, False),
        (False, False),
        (False, False),
        (True, True),
    ]


async def test_the_list_says_why_files_cannot_go_back(repository: Repository) -> None:
    repository.write("a.txt", "x")
    repository.write("b.txt", "x")
    async with working(repository, *turn(bash("true")), {"text": "Hi."}, limits=WalkLimits(files=1)) as session:
        await session.run("One.")
        (first,) = await session.checkpoints()
        large = await typed(session, "/rewind list")
        await session.purge_checkpoints()
        await session.run("Two.")
        purged = await typed(session, "/rewind list")
        refused = await typed(session, "/rewind 1")

    assert large.message.splitlines()[2] == f"      files cannot go back to before it: {first.why_not}"
    assert "it has more than 1 files" in first.why_not
    assert purged.message.splitlines()[2] == "      files cannot go back to it: what was kept of it was purged"
    points: Any = purged.data["checkpoints"]
    assert [each["restorable"] for each in points] == [False, True]
    assert refused.message.endswith("Nothing was moved; `/rewind 1 conversation` moves the conversation alone.")


@pytest.mark.contract("RB-72")
@pytest.mark.parametrize("what", ["both", "files", "conversation"])
async def test_rewind_to_zero_goes_to_before_the_first_turn(repository: Repository, what: str) -> None:
    before = tree_of(repository.root)
    async with working(repository, *turn(bash("echo 1 > a")), *turn(bash("echo 2 > b"))) as session:
        assert (await typed(session, "/rewind 0")).message == "There is no turn '0'. `/rewind list` shows them."
        await session.run("One.")
        await session.run("Two.")
        gone = await typed(session, f"/rewind 0 {what}")

        assert gone.success
        assert (tree_of(repository.root) == before) == (what != "conversation")
        assert ("user" in {each.role for each in session.history}) == (what == "files")


async def test_a_number_means_the_turn_of_the_conversation_before_a_newer_one_that_was_left(
    repository: Repository,
) -> None:
    async with working(repository, *({"text": text} for text in ("One.", "Two.", "Other.", "Again."))) as session:
        await session.run("1")
        await session.run("2")
        first, second = (each.turn for each in session.turns)
        await session.rewind(to=first)
        await session.run("2, otherwise")
        await session.rewind(to=second)
        await session.run("3")

        assert (await typed(session, "/rewind 2 conversation")).data == {"turn": second}


# --- folders that a sandbox left ---------------------------------------------------------------------------------------------------------


def test_the_folders_that_hold_a_place_are_those_that_a_sandbox_makes() -> None:
    assert {name.encode() for name in _OWN} == SANDBOX_PLACEHOLDERS


def test_an_empty_folder_that_held_a_place_is_not_part_of_a_tree_and_a_used_one_is(tmp_path: Path) -> None:
    for name in (".claude", ".backstay", "inner/.claude", "repository/.claude", "repository/.git"):
        (tmp_path / name).mkdir(parents=True, mode=0o700)
    walk = take(tmp_path)
    assert walk.tree is not None
    assert set(listed(walk.tree)) == {b"inner", b"inner/.claude", b"repository"}
    assert walk.tree.left_out == (b"repository/.git",)

    (tmp_path / ".claude" / "settings.json").write_text("{}")
    (tmp_path / ".backstay" / "settings.json").write_text("{}")
    used = take(tmp_path).tree
    assert used is not None
    assert {b".claude", b".claude/settings.json"} < set(listed(used))
    assert b".backstay" in used.left_out


async def test_folders_that_a_killed_process_left_are_neither_removed_nor_spoken_of(tmp_path: Path) -> None:
    async with kept_session(tmp_path, turn(bash("mkdir -m 700 .claude .backstay; echo x > a"))) as session:
        await session.run("Go.")
        report = await session.restore_files(before=session.turns[0].turn)

        assert (report.paths, report.problems, report.warnings) == ((str(tmp_path / "a"),), (), ())


async def test_a_folder_of_a_person_that_a_program_emptied_comes_back(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir(mode=0o755)
    (tmp_path / ".claude" / "notes.md").write_text("mine")
    before = tree_of(tmp_path)
    async with kept_session(tmp_path, turn(bash("rm .claude/notes.md; chmod 700 .claude"))) as session:
        await session.run("Go.")
        await session.restore_files(before=session.turns[0].turn)

        assert tree_of(tmp_path) == before


# --- skills in sessions of their own -------------------------------------------------------------------------------------------------


async def test_undo_says_in_which_session_a_skill_ran_that_a_person_typed(repository: Repository) -> None:
    repository.skill("w", "Write it down: $0.", context="fork")
    wrote = ({"calls": [call("Write", file_path="w.txt", content="w")]}, "Written.")
    model = Listener("Fine.", "Fine.", **{"Write it down": wrote * 2})
    async with working(repository, model=model, session_id="parent") as session:
        nothing = await typed(session, "/undo")
        await session.interpret("/w it")
        child = named(await session.events(), ChildStarted)[0].child
        alone = await typed(session, "/undo")
        await session.run("And?")
        later = await typed(session, "/undo")
        await session.run("And now?")
        await session.interpret("/w more")
        newest = named(await session.events(), ChildStarted)[-1].child
        both = await typed(session, "/undo")

    told = " The skill 'w' ran in session {0}: `backstay -r {0} -p /undo` takes back what it did."
    assert nothing.message == "There is no turn to take back."
    assert alone.message == f"There is no turn to take back.{told.format(child)}"
    assert "skill" not in later.message, "it ran before the turn that is taken back"
    assert both.message.endswith(told.format(newest))
    assert (repository.root / "w.txt").exists()
    async with repository.open(resume=child) as session:
        assert (await typed(session, "/undo")).success
    assert not (repository.root / "w.txt").exists()


# --- hooks that are programs ---------------------------------------------------------------------------------------------------------


async def test_a_turn_whose_folder_was_first_kept_for_a_hook_is_one_in_which_programs_ran(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text("x")
    before = {"matcher": "Read", "hooks": [{"type": "command", "command": "true"}]}
    settings = settings_with({"PreToolUse": [before]}, tmp_path)
    replies = turn(call("Read", file_path="1.txt"), bash("rm 1.txt"))
    async with kept_session(tmp_path, replies, limits=WalkLimits(files=5), settings=settings) as session:
        await session.run("Go.")
        (point,) = await session.checkpoints()

        assert (point.programs, "it has more than 5 files" in point.why_not) == (True, True)
        with pytest.raises(UserError, match="programs ran, and"):
            await session.rewind(before=point.turn, files=True)
