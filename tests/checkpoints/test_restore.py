"""Files go back to a point and come forward again; nothing is lost, and nothing outside is touched."""

import functools
import os
import subprocess
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from backstay.catalog import sessions
from backstay.checkpoints.tree import FileChange, RestorePlan, Tree, TreeEntry, pack
from backstay.logic.stored_content import digest, find_cited_blobs
from backstay.session.session import Session
from backstay.stores.owners import this_process
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from backstay.vocab.errors import IllegalTransition, UserError
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.events import EntryAdded, Rewound, Started, ToolFinished, TurnStarted
from backstay.vocab.events.files import FileKept, FileProblem, RestoreFinished, RestoreStarted, TreeKept
from backstay.vocab.messages import text_of
from tests.checkpoints.kept import bash, call, kept_session, tree_of, turn

CLOCK = SystemClock()


def write(path: str, content: str) -> dict[str, object]:
    """A call of `Write`."""
    return dict(call("Write", file_path=path, content=content))


async def finished(session: Session) -> list[RestoreFinished]:
    """How the restores ended."""
    return [record.event for record in await session.events() if isinstance(record.event, RestoreFinished)]


@pytest.mark.contract("RB-72")
async def test_a_restore_is_refused_while_a_turn_runs(tmp_path: Path) -> None:
    refused: list[str] = []
    async with kept_session(tmp_path, [*turn(write("a.txt", "x")), {"text": "slow", "chunk": 1}]) as session:
        await session.run("Go.")
        first = session.turns[0].turn
        async for _ in session.send("Talk."):
            if session.is_running and not refused:
                with pytest.raises(IllegalTransition) as info:
                    await session.restore_files(before=first)
                refused.append(str(info.value))
                with pytest.raises(IllegalTransition):
                    await session.purge_checkpoints()

        assert "A turn of session" in refused[0]
        assert (tmp_path / "a.txt").exists()
        await session.restore_files(before=first)
        assert not (tmp_path / "a.txt").exists()


@pytest.mark.contract("RB-72")
async def test_a_restore_adds_a_system_entry_that_the_model_and_the_person_see(tmp_path: Path) -> None:
    async with kept_session(tmp_path, [*turn(write("a.txt", "x")), {"text": "I see."}]) as session:
        await session.run("Go.")
        report = await session.restore_files(before=session.turns[0].turn)
        last = session.history[-1]
        entries = [each.event for each in await session.events() if isinstance(each.event, EntryAdded)]

        assert last.role == "system"
        assert text_of(last.content).startswith(
            "The person put the files back to the start of turn 1: 0 paths written, 1 removed"
        )
        assert str(tmp_path / "a.txt") in text_of(last.content)
        assert [each.kind for each in entries] == ["files-restored"]
        assert (report.written, report.removed, report.paths) == (0, 1, (str(tmp_path / "a.txt"),))
        assert await session.run("Did you see that?") == "I see."


async def test_files_that_are_as_they_should_be_need_no_restore(tmp_path: Path) -> None:
    async with kept_session(tmp_path, turn(bash("true"))) as session:
        await session.run("Go.")
        seq = session.seq
        report = await session.restore_files(before=session.turns[0].turn)

        assert (report.restore, report.written, report.removed) == ("", 0, 0)
        assert [e for e in await session.events(seq) if isinstance(e.event, RestoreStarted)] == []


async def test_what_the_person_changed_is_named_put_back_and_comes_again(tmp_path: Path) -> None:
    async with kept_session(tmp_path, [*turn(write("a.txt", "one")), *turn(write("b.txt", "x"))]) as session:
        await session.run("Go.")
        await session.run("More.")
        (tmp_path / "a.txt").write_text("by the person")
        report = await session.restore_files(before=session.turns[0].turn)

        assert report.changed_by_others == (str(tmp_path / "a.txt"),)
        assert not (tmp_path / "a.txt").exists()
        await session.restore_files(undo=report.restore)
        assert (tmp_path / "a.txt").read_text() == "by the person"


async def test_rb_w29_siblings_are_part_of_what_happened_to_the_files(tmp_path: Path) -> None:
    replies = [each for word in ("one", "two", "three", "other") for each in turn(write("a.txt", word))]
    async with kept_session(tmp_path, replies) as session:
        for prompt in ("One.", "Two.", "Three."):
            await session.run(prompt)
        first, second, third = (each.turn for each in session.turns)
        await session.rewind(to=first)  # the conversation alone: the files stay as the third turn left them
        await session.run("Two, otherwise.")
        fourth = session.turns[-1].turn

        for point, content in ((second, "two"), (third, "three"), (first, "one"), (fourth, "other"), (third, "three")):
            await session.restore_files(to=point)
            assert (tmp_path / "a.txt").read_text() == content
        await session.restore_files(before=fourth)
        assert (tmp_path / "a.txt").read_text() == "three", "that is what the turn found, whichever branch it is on"
        numbers = [each.number for each in await session.checkpoints()]
        assert numbers == [1, 2, 3, 2]
        assert len({each.turn for each in await session.checkpoints()}) == 4


async def test_rb_w16_a_plan_that_points_outside_is_refused_by_name(tmp_path: Path) -> None:
    work, victim = tmp_path / "work", tmp_path / "victim.txt"
    work.mkdir()
    victim.write_text("mine")
    (work / "way").symlink_to(tmp_path)
    evil = b"evil"
    wants = [
        TreeEntry(os.fsencode(path), "file", 0o644, bytes.fromhex(digest(evil)))
        for path in (victim, work / ".." / "victim.txt", work / "way" / "victim.txt", work / ".git" / "config")
    ]
    gone = TreeEntry(os.fsencode(victim), "absent")
    plan = pack(RestorePlan((b"/",), "a made-up point", tuple(map(FileChange, (gone, *wants)))))
    async with kept_session(work, [{"text": "Hi."}]) as session:
        await session.run("Hi.")
        started = RestoreStarted(to="", plan=digest(plan), files=5)
        await session._deliver(Draft(event=started), blobs={digest(plan): plan, digest(evil): evil})
        await session._services.inbox.deliver()
        while not await finished(session):
            await anyio.sleep(0.01)
        (done,) = await finished(session)

        assert victim.read_text() == "mine"
        assert not (work / ".git").exists()
        assert (done.written, done.removed) == (0, 0)
        outside = "it lies outside the folders of this session"
        assert set(done.problems) == {
            FileProblem(path=str(victim), problem=outside),
            FileProblem(path=str(work / ".." / "victim.txt"), problem=outside),
            FileProblem(path=str(work / ".git" / "config"), problem=outside),
            FileProblem(
                path=str(work / "way" / "victim.txt"), problem="a folder on the way to it is a link or no folder now"
            ),
        }


async def test_rb_w16_an_event_that_points_outside_is_refused_by_name(tmp_path: Path) -> None:
    work, victim = tmp_path / "work", tmp_path / "victim.txt"
    work.mkdir()
    victim.write_text("mine")
    async with kept_session(work, turn(write("a.txt", "x"))) as session:
        await session.run("Go.")
        planted = FileKept(path=str(victim), kind="absent", call="planted")
        await session._deliver(Draft(event=planted), wakes=False)
        report = await session.restore_files(before=session.turns[0].turn)

        assert report.problems == (
            FileProblem(path=str(victim), problem="it lies outside the folders of this session"),
        )
        assert victim.read_text() == "mine"
        assert not (work / "a.txt").exists()


async def test_a_tree_of_another_folder_is_not_put_here(tmp_path: Path) -> None:
    async with kept_session(tmp_path, [*turn(bash("true")), {"text": "Hi."}]) as session:
        await session.run("Go.")
        await session.run("Hi.")
        trees = [each.event for each in await session.events() if isinstance(each.event, TreeKept)]
        other = pack(Tree(b"/elsewhere", 0, ()))
        swapped = TreeKept(root=trees[0].root, tree=digest(other), call="x")
        await session._deliver(Draft(event=swapped), blobs={digest(other): other}, wakes=False)

        with pytest.raises(UserError, match="what was kept is of '/elsewhere'"):
            await session.restore_files(to=session.turns[1].turn)


async def test_a_restore_that_a_crash_cut_off_is_finished_before_the_next_turn(tmp_path: Path) -> None:
    work, url = tmp_path / "work", f"sqlite://{tmp_path / 'store'}"
    work.mkdir()
    replies = [
        *turn(write("a.txt", "one"), write("b.txt", "one")),
        *turn(bash("echo two > a.txt; rm b.txt")),
        {"text": "Hi."},
    ]
    async with kept_session(work, replies, store=url, session_id="cut") as session:
        await session.run("One.")
        await session.run("Two.")
        first = session.turns[0].turn
        two = tree_of(work)
        await session.restore_files(to=first)
        one = tree_of(work)
        log = await session.events()
    started = next(place for place, each in enumerate(log) if isinstance(each.event, RestoreStarted))
    await _begin_again(tmp_path / "cut", tmp_path / "store", log[: started + 1])
    (work / "a.txt").write_text("two\n")  # half of it is done: one of the two files is as it was before
    assert tree_of(work) not in (one, two)

    async with kept_session(work, replies, store=f"sqlite://{tmp_path / 'cut'}", resume="cut") as session:
        await session.run("Go on.")
        assert tree_of(work) == one
        done = [each for each in await session.events() if isinstance(each.event, RestoreStarted | RestoreFinished)]
        assert [type(each.event) for each in done] == [RestoreStarted, RestoreStarted, RestoreFinished]
        await session.restore_files(undo="latest")
        assert tree_of(work) == two


async def test_a_restore_that_a_crash_cut_off_is_finished_before_another_one(tmp_path: Path) -> None:
    work, url = tmp_path / "work", f"sqlite://{tmp_path / 'store'}"
    work.mkdir()
    replies = [*turn(write("a.txt", "one")), *turn(write("a.txt", "two"))]
    async with kept_session(work, replies, store=url, session_id="cut") as session:
        await session.run("One.")
        await session.run("Two.")
        first, second = (each.turn for each in session.turns)
        await session.restore_files(before=first)
        log = await session.events()
    started = next(place for place, each in enumerate(log) if isinstance(each.event, RestoreStarted))
    await _begin_again(tmp_path / "cut", tmp_path / "store", log[: started + 1])
    async with kept_session(work, replies, store=f"sqlite://{tmp_path / 'cut'}", resume="cut") as session:
        assert session.is_restoring
        await session.restore_files(to=second)
        assert not session.is_restoring
        assert (work / "a.txt").read_text() == "two"


async def test_restores_that_are_asked_for_at_once_happen_one_after_the_other(tmp_path: Path) -> None:
    replies = [each for word in ("one", "two", "three") for each in turn(write("a.txt", word))]
    async with kept_session(tmp_path, replies) as session:
        for prompt in ("One.", "Two.", "Three."):
            await session.run(prompt)
        async with anyio.create_task_group() as tasks:
            for each in session.turns[:2]:
                tasks.start_soon(functools.partial(session.restore_files, to=each.turn))
        log = [each for each in await session.events() if isinstance(each.event, RestoreStarted | RestoreFinished)]

        kinds = [type(each.event) for each in log]
        assert kinds == [RestoreStarted, RestoreFinished] * 2
        assert [each.cause for each in log[1::2]] == [each.id for each in log[::2]]


async def test_input_that_comes_while_files_are_put_back_waits_for_them(tmp_path: Path) -> None:
    replies = [*turn(write("a.txt", "one")), *turn(call("Read", file_path="a.txt")), {"text": "Late."}]
    async with kept_session(tmp_path, replies) as session:
        await session.run("One.")
        first = session.turns[0].turn
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: session.restore_files(before=first))
            while not session.is_restoring:
                await anyio.lowlevel.checkpoint()
            await session.run("Read.")
        log = await session.events()
        finished_at = next(each.seq for each in log if isinstance(each.event, RestoreFinished))
        turns = [each.seq for each in log if isinstance(each.event, TurnStarted)]

        assert turns[1] > finished_at


async def _begin_again(folder: Path, source: Path, records: tuple[Recorded, ...]) -> None:
    """Make a store that holds `records`, as a process that died would have left it."""
    old, new = await SqliteStore.open(source, clock=CLOCK), await SqliteStore.open(folder, clock=CLOCK)
    try:
        cited = {sha for record in records for sha in find_cited_blobs(record.event)}
        blobs = {sha: await old.blob(sha) for sha in sorted(cited)}
        first = records[0].event
        assert isinstance(first, Started)
        lease = await new.lease("cut", this_process())
        begun = replace(records[0], event=replace(first, store=new.identity))
        await new.append(lease, 0, (begun, *records[1:]), blobs)
        await new.release(lease)
    finally:
        await old.close()
        await new.close()


async def test_after_a_restore_of_files_alone_the_model_must_look_again(tmp_path: Path) -> None:
    replies = [*turn(write("a.txt", "one")), *turn(write("a.txt", "two")), *turn(write("a.txt", "three"))]
    async with kept_session(tmp_path, replies) as session:
        await session.run("One.")
        await session.run("Two.")
        await session.restore_files(to=session.turns[0].turn)
        await session.run("Three.")
        last = [each.event for each in await session.events() if isinstance(each.event, ToolFinished)][-1]

        assert (last.outcome, last.code) == ("failed", "changed")
        assert (tmp_path / "a.txt").read_text() == "one"


async def test_after_files_and_conversation_went_back_the_model_knows_what_it_knew(tmp_path: Path) -> None:
    (tmp_path / "unseen.txt").write_text("old")
    replies = [
        *turn(write("a.txt", "one")),
        *turn(write("a.txt", "two"), write("unseen.txt", "new")),
        *turn(write("a.txt", "three"), write("unseen.txt", "newer")),
    ]
    async with kept_session(tmp_path, replies) as session:
        await session.run("One.")
        await session.run("Two.")
        first = session.turns[0].turn
        end = session._services.state.transcript.turn_end(first)
        assert end
        report = await session.restore_files(to=first, along=(Draft(event=Rewound(to=end, turns=1), by="user"),))
        assert report.written == 2
        assert [each.role for each in session.history] == ["user", "assistant", "tool", "assistant", "system"]
        await session.run("Three.")
        done = [each.event for each in await session.events() if isinstance(each.event, ToolFinished)][-2:]

        assert [each.outcome for each in done] == ["ok", "ok"], done
        assert (tmp_path / "a.txt").read_text() == "three"


async def test_a_file_that_the_person_had_changed_by_then_is_still_unknown_to_the_model(tmp_path: Path) -> None:
    replies = [
        *turn(write("a.txt", "one")),
        *turn(bash("echo x > b.txt"), bash("echo y > a.txt")),
        *turn(write("a.txt", "three")),
    ]
    async with kept_session(tmp_path, replies) as session:
        await session.run("One.")
        (tmp_path / "a.txt").write_text("by the person")
        await session.run("Two.")
        first = session.turns[0].turn
        end = session._services.state.transcript.turn_end(first)
        assert end
        await session.restore_files(to=first, along=(Draft(event=Rewound(to=end, turns=1), by="user"),))
        assert (tmp_path / "a.txt").read_text() == "by the person"
        await session.run("Three.")

        assert (tmp_path / "a.txt").read_text() == "by the person"


async def test_what_was_purged_cannot_come_back_and_later_turns_can(tmp_path: Path) -> None:
    replies = [*turn(write("a.txt", "one")), *turn(bash("echo two > a.txt")), *turn(bash("echo three > a.txt"))]
    async with kept_session(tmp_path, replies) as session:
        await session.run("One.")
        await session.run("Two.")
        await session.purge_checkpoints()
        await session.run("Three.")
        found = await session.checkpoints()

        assert [each.restorable for each in found] == [False, False, True]
        with pytest.raises(UserError, match="what was kept of it was purged"):
            await session.restore_files(before=found[1].turn)
        await session.restore_files(before=found[2].turn)
        assert (tmp_path / "a.txt").read_text() == "two\n"


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ({}, "Say one of"),
        ({"to": "a", "before": "b"}, "Say one of"),
        ({"to": "nothing"}, "There is no turn 'nothing'"),
        ({"undo": "latest"}, "there is nothing to undo"),
        ({"undo": "x"}, "There is no restore 'x'"),
    ],
)
async def test_a_point_that_is_none_is_refused_in_words(point: dict[str, str], words: str, tmp_path: Path) -> None:
    async with kept_session(tmp_path, [{"text": "Hi."}]) as session:
        await session.run("Hi.")
        with pytest.raises(UserError, match=words):
            await session.restore_files(**point)  # type: ignore[arg-type]  # each is a text


async def test_what_git_ignores_and_git_itself_stay_as_they_are(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "out").write_text("1")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("1")
    (tmp_path / "code.py").write_text("1")
    command = "echo 2 | tee build/out logs/a.log code.py logs/plain.txt; git add code.py"
    replies = turn(bash(command), write("build/out", "3"), write("build/more", "new"))
    async with kept_session(tmp_path, replies) as session:
        await session.run("Go.")
        index = (tmp_path / ".git" / "index").read_bytes()
        report = await session.restore_files(before=session.turns[0].turn)

        assert report.problems == ()
        assert (tmp_path / "code.py").read_text() == "1"
        assert (tmp_path / "build" / "out").read_text() == "2\n", (
            "what a program did to it is not known, what a tool did is"
        )
        assert not (tmp_path / "build" / "more").exists()
        assert (tmp_path / "logs" / "a.log").read_text() == "2\n"
        assert not (tmp_path / "logs" / "plain.txt").exists()
        assert (tmp_path / ".git" / "index").read_bytes() == index
        await session.restore_files(undo="latest")
        assert (tmp_path / "build" / "out").read_text() == "3"
        assert (tmp_path / "build" / "more").read_text() == "new"


async def test_a_moved_session_and_a_fork_can_still_put_files_back(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("zero")
    replies = [*turn(bash("echo one > a.txt")), *turn(write("a.txt", "two")), {"text": "Hi."}]
    source = await SqliteStore.open(tmp_path / "sessions.db", clock=CLOCK)
    target = await SqliteStore.open(tmp_path / "there", clock=CLOCK)
    try:
        async with kept_session(work, replies, store=source, session_id="moved") as session:
            await session.run("One.")
            await session.run("Two.")
            first, second = (each.turn for each in session.turns)
            fork = await session.fork(at=first)
            await session.restore_files(to=second)
        await sessions.move(source, target, "moved", clock=CLOCK)
        assert await target.verify("moved") == ()
        assert await source.verify(fork) == (), "the fork keeps what it cites"
        for store, name in ((target, "moved"), (source, str(fork))):
            async with kept_session(work, replies, store=store, resume=name) as session:
                await session.restore_files(before=first)
                assert (work / "a.txt").read_text() == "zero"
                await session.restore_files(to=first)
                assert (work / "a.txt").read_text() == "one\n"
    finally:
        await source.close()
        await target.close()
