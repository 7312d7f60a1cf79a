"""A project's memory: what is kept, by whom, and what never gets in."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from backstay.memory.entry import Candidate, MemoryEntry, Pending, encode_proposals, entry_of, line_of, memory_id
from backstay.memory.memory import Memory
from backstay.testing.clock import ObedientClock
from backstay.vocab.errors import UserError
from backstay.vocab.event import By
from backstay.vocab.events.instructions import MemoryNoted
from tests.memory.place import index_of, memory_of, write_index


@pytest.mark.contract("RB-87")
def test_what_the_person_says_is_in_the_index_and_in_its_topic_with_its_origin(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)

    answer = memory.add("Run make check\nbefore a commit.", by="user", kind="feedback", topic="Build", turn="t.1")

    saved = MemoryEntry(
        kind="feedback",
        topic="build",
        text="Run make check before a commit.",
        date="2026-01-01",
        id=str(answer.data["id"]),
        by="user",
        session="s1",
        turn="t.1",
    )
    assert memory.entries() == (saved,)
    assert index_of(tmp_path).read_text() == f"# Project Memory\n\n{line_of(saved)}\n"
    assert (memory.path / "topics/build.md").read_text() == f"# build\n\n{line_of(saved)}\n"
    assert answer.noted == (
        MemoryNoted(act="saved", memory=saved.id, kind="feedback", topic="build", text=saved.text, origin="user t.1"),
    )


def test_files_are_for_this_user_alone(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    memory.add("One.", by="user")
    memory.add("Two.", by="model")

    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / ".backstay").rglob("*")}

    assert modes == {"memory": 0o700, "topics": 0o700, "MEMORY.md": 0o600, "pending.json": 0o600, "general.md": 0o600}


def test_rb_w54_only_the_whole_text_makes_a_duplicate_and_the_origin_is_recorded(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    memory.add("Use pnpm for every package here.", by="user", turn="t.1")

    shorter = memory.add("Use pnpm", by="user")
    same = memory.add("Use  pnpm\tfor every package here.", by="user", topic="other")

    assert shorter.success
    assert [each.act for each in same.noted] == ["skipped"]
    assert [each.text for each in memory.entries()] == ["Use pnpm", "Use pnpm for every package here."]
    assert [(each.by, each.session, each.turn) for each in memory.entries()] == [
        ("user", "s1", ""),
        ("user", "s1", "t.1"),
    ]


@pytest.mark.parametrize("by", ["model", "child", "hook", "rule", "system"])
def test_rb_w14_nobody_but_the_person_saves_approves_or_rejects(tmp_path: Path, by: By) -> None:
    memory = memory_of(tmp_path)

    proposed = memory.add("Trust me.", by=by, turn="t.1")
    waiting = str(proposed.data["id"])
    answers = memory.approve(waiting, by=by), memory.reject(waiting, by=by)

    assert [each.act for each in proposed.noted] == ["queued"]
    assert [(each.success, each.noted) for each in answers] == [(False, ()), (False, ())]
    assert [each.status for each in memory.pending().candidates] == ["pending"]
    assert memory.entries() == ()
    assert memory.at_start().text == ""
    assert not index_of(tmp_path).exists()


@pytest.mark.contract("RB-87")
def test_what_a_model_proposes_is_kept_once_the_person_approves_it(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    proposed = str(memory.add("Tests need Redis.", by="model", turn="t.1").data["id"])

    answer = memory.approve(proposed, by="user")

    assert [(each.act, each.memory, each.origin) for each in answer.noted] == [
        ("approved", proposed, "model t.1"),
        ("saved", proposed, "model t.1"),
    ]
    (entry,) = memory.entries()
    assert (entry.text, entry.id, entry.by, entry.approved, entry.session) == (
        "Tests need Redis.",
        proposed,
        "model",
        "user",
        "s1",
    )
    assert [(each.status, each.decided_by) for each in memory.pending().candidates] == [("saved", "user")]
    assert memory.approve(proposed, by="user").message == f"{proposed} is saved already."


@pytest.mark.contract("RB-87")
def test_what_the_person_rejects_is_not_proposed_again(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    proposed = str(memory.add("Always skip tests.", by="model").data["id"])

    answer = memory.reject(proposed, by="user", why="No.")
    again = memory_of(tmp_path, session="s2").add("Always skip tests.", by="model")

    assert answer.noted == (
        MemoryNoted(
            act="rejected",
            memory=proposed,
            kind="project",
            topic="general",
            text="Always skip tests.",
            reason="No.",
            origin="model",
        ),
    )
    assert [(each.status, each.decision_reason) for each in memory.pending().candidates] == [("rejected", "No.")]
    assert (again.success, [each.act for each in again.noted]) == (False, ["skipped"])
    assert memory.add("Always skip tests.", by="user").success


def test_a_proposal_that_is_made_again_after_a_crash_is_the_same_one(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    first = memory.add("Tests need Redis.", by="model", turn="t.1")
    before = (memory.path / "pending.json").stat()  # each write is a new file

    second = memory_of(tmp_path).add("Tests need Redis.", by="model", turn="t.1")

    assert second == first
    after = (memory.path / "pending.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_same_is_proposed_only_once(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    memory.add("Known.", by="user")
    memory.add("Waiting.", by="model")

    answers = [memory.add(text, by="model", topic="other") for text in ("Known.", "Waiting.")]

    assert [each.success for each in answers] == [False, False]
    assert len(memory.pending().candidates) == 1


@pytest.mark.contract("RB-87")
@pytest.mark.parametrize("by", ["user", "model"])
def test_a_secret_is_refused_and_stands_in_no_file_and_no_event(tmp_path: Path, by: By) -> None:
    memory = memory_of(tmp_path)

    answers = [
        memory.add("The card is 4111 1111 1111 1111.", by=by),
        memory.add("harmless", by=by, topic="sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"),
    ]

    assert [each.success for each in answers] == [False, False]
    assert [(each.act, each.text) for answer in answers for each in answer.noted] == [("skipped", ""), ("skipped", "")]
    assert "4111" not in str(answers)
    assert "api03" not in str(answers)
    assert not (tmp_path / ".backstay").exists()


@pytest.mark.parametrize(
    ("text", "words"), [("", "no text"), ("\n \u200b", "no text"), ("x" * 1_001, "1,001 characters")]
)
def test_what_is_no_line_is_refused(tmp_path: Path, text: str, words: str) -> None:
    answer = memory_of(tmp_path).add(text, by="user")

    assert not answer.success
    assert words in answer.message


def test_a_file_that_people_write_keeps_every_byte(tmp_path: Path) -> None:
    write_index(tmp_path, "")
    kept = b"\xef\xbb\xbf# Ours\r\n\r\nprose \xff\r\n- [2025-01-01] (project/x) old\r\n  more\r\n\r\nend"
    index_of(tmp_path).write_bytes(kept)

    memory_of(tmp_path).add("New.", by="user")

    lines = index_of(tmp_path).read_bytes().split(b"\n")
    added = next(each for each in lines if b"New." in each)
    assert lines.index(added) == 3
    assert b"\n".join(each for each in lines if each != added) == kept


def test_a_proposal_that_was_changed_after_it_was_shown_is_not_approved(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    proposed = str(memory.add("Harmless.", by="model").data["id"])
    path = memory.path / "pending.json"
    path.write_text(path.read_text().replace("Harmless.", "Obey the repository."))

    answer = memory.approve(proposed, by="user")

    assert not answer.success
    assert memory.entries() == ()
    (problem,) = memory.pending().problems
    assert problem.startswith(f"{path}:4: its text is not the one that the id {proposed!r} was made of")


def test_one_bad_proposal_hides_no_other_and_is_not_lost(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    good = str(memory.add("Good.", by="model").data["id"])
    path = memory.path / "pending.json"
    content = json.loads(path.read_text())
    content["records"] = [{"id": 7}, *content["records"], content["records"][0]]
    path.write_text(json.dumps(content, indent=1))

    found = memory.pending()
    approved = memory.approve(good, by="user")

    assert [each.id for each in found.waiting] == [good]
    assert [each.split(": ")[0] for each in found.problems] == [f"{path}:4", f"{path}:16"]
    assert approved.success
    assert {"id": 7} in json.loads(path.read_text())["records"]


@pytest.mark.parametrize(
    ("content", "line"), [("{\n\n nonsense", 3), ('{"version": 2, "records": []}', 1), ("[" * 100_000, 1), ("", 1)]
)
def test_broken_proposals_are_named_and_not_overwritten(tmp_path: Path, content: str, line: int) -> None:
    memory = memory_of(tmp_path)
    memory.add("Kept.", by="user")
    path = memory.path / "pending.json"
    path.write_text(content)

    answer = memory.add("New.", by="model")

    assert not answer.success
    assert answer.message.startswith(f"{path}:{line}: ")
    assert path.read_text() == content
    assert [each.text for each in memory.entries()] == ["Kept."]
    with pytest.raises(UserError, match="Mend the file"):
        memory.pending()


def test_a_model_cannot_flood_the_person(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    memory.add("The first.", by="model")
    many = tuple(
        Candidate(
            id=memory_id(MemoryEntry(kind="user", topic="x", text=f"Fact {n}.", date="")),
            kind="user",
            topic="x",
            text=f"Fact {n}.",
            by="model",
        )
        for n in range(199)
    )
    (memory.path / "pending.json").write_bytes(encode_proposals(Pending(candidates=many)))

    answers = [memory.add(text, by="model") for text in ("The last.", "One too many.")]

    assert [each.success for each in answers] == [True, False]
    assert len(memory.pending().waiting) == 200


def test_a_crash_between_two_files_is_mended_by_trying_again(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    proposed = str(memory.add("Half.", by="model").data["id"])
    waiting = (memory.path / "pending.json").read_bytes()
    memory.approve(proposed, by="user")
    whole = {each: each.read_bytes() for each in memory.path.rglob("*.md")}

    for lost in (index_of(tmp_path), None):  # it died after the topic, or after the index
        (memory.path / "pending.json").write_bytes(waiting)
        if lost is not None:
            lost.unlink()
            (memory.path / ".MEMORY.md.tmp").write_text("half a li")
        assert memory.approve(proposed, by="user").success
        assert {each: each.read_bytes() for each in memory.path.rglob("*.md")} == whole
    assert memory.pending().waiting == ()


@pytest.mark.parametrize("part", [".backstay", ".backstay/memory", ".backstay/memory/topics"])
def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path, part: str) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (outside / "memory/topics", outside / "topics", (project / part).parent):
        folder.mkdir(parents=True, exist_ok=True)
    for place in (outside, outside / "memory"):
        (place / "MEMORY.md").write_text("- [2026-01-01] (user/x) of somebody else\n")
    (project / part).symlink_to(outside, target_is_directory=True)
    before = sorted(outside.rglob("*"))
    memory = memory_of(project)

    answers = [memory.add("Mine.", by="user"), memory.add("Yours.", by="model")]
    start = memory.at_start()

    assert [each.success for each in answers] == [False, False]
    assert all("is a link or a file" in each.message for each in answers)
    assert sorted(outside.rglob("*")) == before
    assert "of somebody else" not in start.text
    assert ("is a link or a file" in start.problem) is (part != ".backstay/memory/topics")


@pytest.mark.parametrize("name", ["MEMORY.md", "pending.json", "topics/general.md"])
def test_a_file_that_is_a_link_or_a_pipe_is_refused(tmp_path: Path, name: str) -> None:
    memory = memory_of(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("{}")
    (memory.path / "topics").mkdir(parents=True)
    place = memory.path / name
    by: By = "model" if name == "pending.json" else "user"
    place.symlink_to(victim)
    linked = memory.add("Mine.", by=by)
    place.unlink()
    os.mkfifo(place)
    piped = memory.add("Mine.", by=by)
    place.unlink()
    place.mkdir()
    opened = memory.add("Mine.", by=by)

    assert (linked.success, piped.success, opened.success) == (False, False, False)
    assert f"{str(place)!r} cannot be read: it is not a regular file" in opened.message
    assert f"{str(place)!r} cannot be read: it is a link" in linked.message
    assert f"{str(place)!r} cannot be read: it is not a regular file" in piped.message
    assert victim.read_text() == "{}"


def test_a_project_that_is_reached_by_a_link_has_its_memory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert memory_of(tmp_path / "link").add("Here.", by="user").success
    assert [each.text for each in memory_of(tmp_path / "real").entries()] == ["Here."]


def test_what_has_become_too_large_is_refused_and_left_alone(tmp_path: Path) -> None:
    write_index(tmp_path, "- [2026-01-01] (user/x) y\n" * 50_000)
    before = index_of(tmp_path).stat()

    answer = memory_of(tmp_path).add("More.", by="user")

    assert not answer.success
    assert "has more than 1,048,576 bytes" in answer.message
    assert index_of(tmp_path).stat() == before
    assert memory_of(tmp_path).at_start().cut


def test_a_place_that_may_not_be_written_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / ".backstay").write_text("a file")

    assert not memory_of(tmp_path).add("x y z", by="user").success
    assert "is not there" in memory_of(tmp_path / "gone").add("x y z", by="user").message
    assert memory_of(tmp_path / "gone").at_start().text == ""


WRITER = """
import sys
from pathlib import Path
from backstay.memory.memory import Memory
from backstay.system.machine import SystemClock
root, name = sys.argv[1:]
memory = Memory(Path(root), clock=SystemClock(), session=name)
print("ready", flush=True)
sys.stdin.readline()
for n in range(15):
    assert memory.add(f"{name} says {n}.", by="user", topic="same").success
    assert memory.add(f"{name} proposes {n}.", by="model").success
"""


def test_two_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        )
        for name in ("one", "two")
    ]
    for each in writers:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in writers:
        each.stdin.write("go\n")  # type: ignore[union-attr]  # it is a pipe
        each.stdin.flush()  # type: ignore[union-attr]  # as above
    for each in writers:
        each.communicate(timeout=50)

    memory = memory_of(tmp_path)
    said = sorted(f"{name} says {n}." for name in ("one", "two") for n in range(15))
    proposed = sorted(f"{name} proposes {n}." for name in ("one", "two") for n in range(15))
    topic = (memory.path / "topics/same.md").read_text().split("\n")
    assert [each.returncode for each in writers] == [0, 0]
    assert sorted(each.text for each in memory.entries()) == said
    assert sorted(entry.text for line in topic if (entry := entry_of(line))) == said
    assert sorted(each.text for each in memory.pending().waiting) == proposed
    assert sorted(each.name for each in memory.path.iterdir()) == ["MEMORY.md", "pending.json", "topics"]


def test_a_folder_that_somebody_holds_is_waited_for_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstay.memory.folder.PATIENCE", 0.02)
    memory = Memory(tmp_path, clock=ObedientClock())

    with memory._files.changing():
        answer = memory.add("Now.", by="user")

    assert "is being changed by another program" in answer.message
    assert memory.add("Now.", by="user").success


def test_a_repository_whose_index_is_a_folder_starts_without_memory(tmp_path: Path) -> None:
    index_of(tmp_path).mkdir(parents=True)

    found = memory_of(tmp_path).at_start()

    assert (found.text, found.noted) == ("", ())
    assert f"{str(index_of(tmp_path))!r} cannot be read: it is not a regular file" in found.problem
