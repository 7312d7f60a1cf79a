"""What files held is in the log, durable, before a call changes them."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest

from backstay.checkpoints.capture import FileCapture
from backstay.checkpoints.walk_tree import WalkLimits
from backstay.ports import ModelReply, ModelRequest, ToolContext
from backstay.providers.scripted import ScriptedModel
from backstay.session.session import Session
from backstay.session.subagents import child_tool
from backstay.stores.memory import MemoryStore
from backstay.system.machine import SystemClock
from backstay.testing.crash.process import WrappedStore
from backstay.tools.define import tool
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import StoreFull
from backstay.vocab.event import Recorded
from backstay.vocab.events import ToolFinished, ToolStarted
from backstay.vocab.events.files import ContentsKept, FileKept, TreeKept
from backstay.vocab.specs import Lease, ModelFacts
from tests.checkpoints.kept import bash, call, kept_session, tree_of, turn
from tests.checkpoints.twenty import NOTEBOOK
from tests.contracts.kit import replace_services


async def kept_by(session: Session) -> list[FileKept]:
    """What the log says of single files."""
    return [record.event for record in await session.events() if isinstance(record.event, FileKept)]


@pytest.mark.contract("RB-56", "RB-57")
async def test_a_tool_that_knows_nothing_of_it_finds_its_files_kept_when_it_begins(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before")
    found: list[tuple[str, bytes]] = []
    sessions: list[Session] = []

    @tool(name="Write", touches="edits")
    async def unaware(
        context: ToolContext, file_path: Annotated[str, "The file."], content: Annotated[str, "The text."]
    ) -> str:
        """Write a file."""
        store = sessions[0].store
        for record in (await store.read(sessions[0].id)).records:
            if isinstance(record.event, FileKept):
                found.append((record.event.path, await store.blob(record.event.sha256)))
        (tmp_path / "a.txt").write_text(content)
        return "written"

    calls = turn(call("Write", file_path="a.txt", content="after"))
    async with kept_session(tmp_path, calls, tools=[unaware], only_tools=True) as session:
        sessions.append(session)
        await session.run("Go.")

        assert found == [(str(tmp_path / "a.txt"), b"before")]
        await session.restore_files(before=session.turns[0].turn)
        assert (tmp_path / "a.txt").read_text() == "before"


PATCH = """*** Begin Patch
*** Update File: a.txt
*** Move to: moved/a.txt
@@
-one
+two
*** Add File: made/here.txt
+new
*** Delete File: gone.txt
*** End Patch"""


@pytest.mark.contract("RB-56")
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (call("Write", file_path="a.txt", content="x"), {"a.txt": "file"}),
        (call("Write", file_path="new/b.txt", content="x"), {"new": "absent", "new/b.txt": "absent"}),
        (call("Edit", file_path="a.txt", old_string="one", new_string="two"), {"a.txt": "file"}),
        (
            call("MultiEdit", file_path="a.txt", edits=[{"old_string": "one", "new_string": "two"}]),
            {"a.txt": "file"},
        ),
        (
            call("NotebookEdit", notebook_path="n.ipynb", cell_id="c1", new_source="1"),
            {"n.ipynb": "file"},
        ),
        (
            call("apply_patch", input=PATCH),
            {
                "a.txt": "file",
                "moved/a.txt": "absent",
                "moved": "absent",
                "made/here.txt": "absent",
                "made": "absent",
                "gone.txt": "file",
            },
        ),
    ],
    ids=lambda value: str(value.get("name", "")) if isinstance(value, dict) else None,
)
async def test_every_path_that_a_file_tool_changes_is_kept_and_comes_back(
    asked: dict[str, Any], expected: dict[str, str], tmp_path: Path
) -> None:
    for name, content in (("a.txt", "one\n"), ("gone.txt", "old\n"), ("n.ipynb", NOTEBOOK)):
        (tmp_path / name).write_text(content)
    before = tree_of(tmp_path)
    async with kept_session(tmp_path, turn(asked)) as session:
        await session.run("Go.")
        done = [record.event for record in await session.events() if isinstance(record.event, ToolFinished)]
        assert [each.outcome for each in done] == ["ok"], done
        after = tree_of(tmp_path)

        assert {os.path.relpath(each.path, tmp_path): each.kind for each in await kept_by(session)} == expected
        assert after != before
        await session.restore_files(before=session.turns[0].turn)
        assert tree_of(tmp_path) == before
        await session.restore_files(undo="latest")
        assert tree_of(tmp_path) == after


@pytest.mark.contract("RB-57")
async def test_a_path_is_kept_once_a_turn_and_again_in_the_next(tmp_path: Path) -> None:
    first = [call("Write", file_path="a.txt", content=str(number)) for number in range(3)]
    async with kept_session(
        tmp_path, [*turn(*first), *turn(call("Write", file_path="a.txt", content="next"))]
    ) as session:
        await session.run("Go.")
        await session.run("Again.")

        kept = await kept_by(session)
        assert [each.kind for each in kept] == ["absent", "file"]
        assert await session.store.blob(kept[1].sha256) == b"2"


@pytest.mark.contract("RB-57")
async def test_a_turn_without_edits_is_a_checkpoint_too(tmp_path: Path) -> None:
    replies = [{"text": "Hello."}, *turn(call("Write", file_path="a.txt", content="x")), *turn(bash("true"))]
    async with kept_session(tmp_path, replies) as session:
        for prompt in ("Hi.", "Write.", "Run."):
            await session.run(prompt)
        found = await session.checkpoints()

    assert [(each.number, each.prompt, len(each.files), each.programs, each.restorable) for each in found] == [
        (1, "Hi.", 0, False, True),
        (2, "Write.", 1, False, True),
        (3, "Run.", 0, True, True),
    ]


@pytest.mark.contract("RB-57")
async def test_a_session_without_a_folder_keeps_nothing(tmp_path: Path) -> None:
    async with kept_session(tmp_path, turn(call("Write", file_path="a.txt", content="x"), bash("true"))) as session:
        replace_services(session, files=FileCapture(session._services, ()))
        await session.run("Go.")

        assert await session.checkpoints() == ()
        assert [
            type(each.event) for each in await session.events() if isinstance(each.event, FileKept | TreeKept)
        ] == []


async def test_a_file_outside_the_session_is_not_kept(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    replies = turn(call("Write", file_path=str(tmp_path / "other.txt"), content="x"))
    async with kept_session(work, replies) as session:
        await session.run("Go.")

        assert (tmp_path / "other.txt").exists()
        assert await kept_by(session) == []


async def test_a_tree_is_durable_before_the_first_program_of_a_turn_and_kept_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before")
    async with kept_session(tmp_path, turn(bash("echo after > a.txt"), bash("echo again > a.txt"))) as session:
        await session.run("Go.")
        log = await session.events()

    kinds = [type(each.event) for each in log if isinstance(each.event, ContentsKept | TreeKept | ToolFinished)]
    assert kinds == [ContentsKept, TreeKept, ToolFinished, ToolFinished]
    starts = [each.seq for each in log if isinstance(each.event, ToolStarted)]
    assert starts[0] < next(each.seq for each in log if isinstance(each.event, TreeKept)) < starts[1]


async def test_an_unchanged_folder_costs_no_second_listing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("same")
    async with kept_session(tmp_path, [*turn(bash("true")), *turn(bash("true"))]) as session:
        await session.run("Go.")
        await session.run("Again.")
        log = await session.events()

    trees = [each.event.tree for each in log if isinstance(each.event, TreeKept)]
    assert len(trees) == 2
    assert trees[0] == trees[1]
    assert sum(isinstance(each.event, ContentsKept) for each in log) == 1


async def test_a_folder_that_is_too_large_is_plainly_not_kept_and_the_person_is_told(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text("x")
    replies = [*turn(bash("rm 1.txt"), bash("true")), *turn(bash("true"))]
    async with kept_session(tmp_path, replies, limits=WalkLimits(files=5)) as session:
        await session.run("Go.")
        await session.run("Again.")
        problems = [each.event.problem for each in await session.events() if isinstance(each.event, TreeKept)]
        assert problems == [f"{str(tmp_path)!r} is not kept: it has more than 5 files"] * 2
        first = (await session.checkpoints())[0]
        assert first.why_not == f"programs ran unwatched in turn 1: {problems[0]}"

        report = await session.restore_files(before=first.turn)
        assert report.warnings == (problems[0], f"{problems[0]}; what is new in it stays")
        assert not (tmp_path / "1.txt").exists()


async def test_a_file_that_a_tool_changes_comes_back_even_where_trees_are_off(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text("x")
    replies = turn(bash("true"), call("Write", file_path="new/1.txt", content="y"))
    async with kept_session(tmp_path, replies, limits=WalkLimits(files=5)) as session:
        before = tree_of(tmp_path)
        await session.run("Go.")
        after = tree_of(tmp_path)
        await session.restore_files(before=session.turns[0].turn)
        assert tree_of(tmp_path) == before
        await session.restore_files(undo="latest")
        assert tree_of(tmp_path) == after


@pytest.mark.contract("RB-57")
async def test_rb_w27_captures_side_by_side_never_write_over_each_other(tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(12)]
    for name in names:
        (tmp_path / name).write_text(f"before {name}")
    async with kept_session(tmp_path, [{"text": "Hi."}]) as session:
        await session.run("Hi.")
        keeping = session._services.files
        assert isinstance(keeping, FileCapture)
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(keeping.keep_files, [str(tmp_path / name)], f"call-{name}", "")
                tasks.start_soon(keeping.keep_files, [str(tmp_path / names[0])], "same", "")
        kept = await kept_by(session)

        assert sorted(each.path for each in kept) == sorted(str(tmp_path / name) for name in names)
        for each in kept:
            assert await session.store.blob(each.sha256) == f"before {Path(each.path).name}".encode()


class _Refusing(WrappedStore):
    """A store that has no space the first time that a file is to be kept."""

    refused = 0

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = {}
    ) -> None:
        """Refuse once."""
        if not self.refused and any(isinstance(each.event, FileKept) for each in records):
            self.refused += 1
            raise StoreFull("There is no space.")
        await super().append(lease, expected_seq, records, blobs)


@pytest.mark.contract("RB-57")
async def test_a_call_whose_files_could_not_be_kept_does_not_run_and_the_next_one_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before")
    store = _Refusing(await MemoryStore.open(clock=SystemClock()))
    write = call("Write", file_path="a.txt", content="after")
    async with kept_session(tmp_path, turn(write, write), store=store) as session:
        await session.run("Go.")
        done = [each.event.outcome for each in await session.events() if isinstance(each.event, ToolFinished)]
        (kept,) = await kept_by(session)

        assert done == ["failed", "ok"]
        assert await session.store.blob(kept.sha256) == b"before"


async def test_the_log_says_what_was_kept_before_the_next_process_goes_on(tmp_path: Path) -> None:
    work, store = tmp_path / "work", f"sqlite://{tmp_path / 'sessions.db'}"
    work.mkdir()
    (work / "a.txt").write_text("first")
    replies = [*turn(bash("echo second > a.txt")), *turn(bash("true"))]
    async with kept_session(work, replies, store=store, session_id="again") as session:
        await session.run("Go.")
    async with kept_session(work, replies, store=store, resume="again") as session:
        await session.run("Again.")
        contents: list[Recorded] = [each for each in await session.events() if isinstance(each.event, ContentsKept)]

        hashes = [sha for each in contents if isinstance(each.event, ContentsKept) for sha in each.event.blobs]
        assert len(hashes) == len(set(hashes)) == 2, "what is stored is not stored again"


async def test_the_files_of_the_store_are_left_out_when_it_lies_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    url = f"sqlite://{tmp_path / 'own.db'}"
    async with kept_session(tmp_path, [*turn(bash("rm a.txt")), {"text": "Yes."}], store=url) as session:
        await session.run("Go.")
        report = await session.restore_files(before=session.turns[0].turn)
        assert report.paths == (str(tmp_path / "a.txt"),)
        assert report.problems == ()
        await session.run("Still there?")


async def test_what_a_program_in_the_background_does_in_a_later_turn_goes_back_too(tmp_path: Path) -> None:
    command = "until [ -e go ]; do sleep 0.01; done; echo x > late; mv late done; sleep 60"
    replies = [
        *turn(call("Bash", command=command, run_in_background=True)),
        *turn(call("Write", file_path="go", content="go")),
    ]
    async with kept_session(tmp_path, replies) as session:
        await session.run("Start.")
        before = tree_of(tmp_path)
        await session.run("Go.")
        with anyio.fail_after(20):
            while not (tmp_path / "done").exists():
                await anyio.sleep(0.01)
        await session.restore_files(before=session.turns[1].turn)

        assert tree_of(tmp_path) == before


class _Family:
    """A model that answers parent and child each from its own script."""

    name, format, facts = "family:1", "anthropic", ModelFacts()

    def __init__(self) -> None:
        self.parent = ScriptedModel.of(turn(call("delegate", prompt="change it")))
        self.child = ScriptedModel.of(turn(call("Write", file_path="a.txt", content="by the child")))

    def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Answer whoever asks."""
        first = getattr(request.messages[0].parts[0], "text", "")
        return (self.child if "change" in first else self.parent).ask(request)


async def test_what_a_child_session_changes_goes_back_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before")
    async with kept_session(tmp_path, model=_Family(), tools=[child_tool()]) as session:
        await session.run("Go.")
        assert (tmp_path / "a.txt").read_text() == "by the child"
        await session.restore_files(before=session.turns[0].turn)
        assert (tmp_path / "a.txt").read_text() == "before"
