"""What the full history tells of a turn: its tools and what they changed, its skills, its usage, and all of it in one value."""

from pathlib import Path
from typing import Any

import pytest

from backstay import Session, UserError
from backstay.hooks.decorator import hook
from backstay.logic.state.file_diffs import DiffLine
from backstay.logic.state.results import ToolSummary, UsageSnapshot
from backstay.runtime.callbacks import ToolEnd
from backstay.vocab.messages import text_of
from tests.contracts.kit import call, calls, look, talk

Plain = dict[str, Any]


def work(cwd: Path) -> Plain:
    return {"cwd": cwd, "permission_mode": "bypassPermissions"}


async def notes(session: Session, kind: str) -> list[Plain]:
    return [entry.data for entry in await session.full_history() if entry.type == kind and isinstance(entry.data, dict)]


def signs(lines: list[Plain]) -> list[str]:
    return [f"{line['type']}:{line['text']}" for line in lines]


@pytest.mark.contract("RB-65", "RB-66")
async def test_an_edit_leaves_a_start_an_end_with_its_lines_and_a_sum(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    edit = {"file_path": "a.txt", "old_string": "three", "new_string": "3\n3½"}
    live: list[ToolEnd] = []
    async with talk(call("Edit", **edit), "done", **work(tmp_path)) as session:
        session.on("tool_end", live.append)  # type: ignore[arg-type]  # it is told a ToolEnd
        await session.run("edit")
        full = await session.full_history()
    assert [entry.type for entry in full] == [
        *("user", "assistant", "tool-start", "tool", "tool-end", "assistant", "tool-summary"),
    ]
    start, end, total = (entry.data for entry in full if entry.category == "event")
    assert isinstance(start, dict)
    assert isinstance(end, dict)
    assert isinstance(total, dict)
    assert (start["tool"], start["call"]) == ("Edit", end["call"])
    assert (end["outcome"], end["diffFile"]) == ("ok", "a.txt")
    assert end["diffLines"] == [
        {"type": "hunk", "text": "@@ -1,5 +1,6 @@"},
        {"type": "context", "text": "one", "line": 1},
        {"type": "context", "text": "two", "line": 2},
        {"type": "remove", "text": "three", "line": 3},
        {"type": "add", "text": "3", "line": 3},
        {"type": "add", "text": "3½", "line": 4},
        {"type": "context", "text": "four", "line": 5},
        {"type": "context", "text": "five", "line": 6},
    ]
    summary = {"call": end["call"], "tool": "Edit", "outcome": "ok", "code": "", "shown": "a.txt", "files": ["a.txt"]}
    assert (total["calls"], total["ok"], total["tools"]) == (1, 1, [summary])
    assert live[0].diff_file == "a.txt"
    assert live[0].diff_lines[3] == DiffLine(type="remove", text="three", line=3)


@pytest.mark.contract("RB-66")
async def test_every_tool_that_changes_files_says_which_lines(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("x\ny\n")
    patch = "*** Begin Patch\n*** Update File: b.txt\n@@\n-z\n+Z\n*** Add File: c.txt\n+c\n*** End Patch"
    edits = [{"old_string": "x", "new_string": "X"}, {"old_string": "y", "new_string": "z"}]
    replies = (
        call("Write", file_path="a.txt", content="new\n"),
        call("MultiEdit", file_path="b.txt", edits=edits),
        call("apply_patch", patch=patch),
        call("Edit", file_path="nowhere.txt", old_string="a", new_string="b"),
        "done",
    )
    async with talk(*replies, **work(tmp_path)) as session:
        await session.run("work")
        write, multi, patched, failed = await notes(session, "tool-end")
    assert (write["diffFile"], signs(write["diffLines"])) == ("a.txt", ["hunk:@@ -0,0 +1 @@", "add:new"])
    assert signs(multi["diffLines"])[1:] == ["remove:x", "remove:y", "add:X", "add:z"]
    assert [each["diffFile"] for each in patched["diffs"]] == ["b.txt", "c.txt"]
    assert patched["diffLines"] == patched["diffs"][0]["diffLines"]
    assert signs(patched["diffs"][0]["diffLines"])[1:] == ["context:X", "remove:z", "add:Z"]
    assert (failed["outcome"], "diffLines" in failed) == ("failed", False)


async def test_the_lines_are_those_of_the_arguments_that_ran(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")

    @hook("PreToolUse", matcher="Edit")
    def other(told: Plain) -> Plain:
        changed = {**told["tool_input"], "new_string": "uno"}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": changed}}

    edit = {"file_path": "a.txt", "old_string": "one", "new_string": "eins"}
    async with talk(call("Edit", **edit), "done", hooks=[other], **work(tmp_path)) as session:
        await session.run("edit")
        (end,) = await notes(session, "tool-end")
        (start,) = await notes(session, "tool-start")
    assert signs(end["diffLines"])[1:] == ["remove:one", "add:uno"]
    assert "uno" in start["args"]


@pytest.mark.contract("RB-65")
async def test_commands_carry_what_they_gave_back(tmp_path: Path) -> None:
    replies = (calls(("Bash", {"command": "echo hi"}), ("Bash", {"command": "echo no; exit 3"})), "done")
    async with talk(*replies, **work(tmp_path)) as session:
        await session.run("run")
        good, bad = (end["toolResultData"] for end in await notes(session, "tool-end"))
    assert (good["output"].strip(), good["exitCode"]) == ("hi", 0)
    assert ("no" in bad["output"], bad["exitCode"]) == (True, 3)


@pytest.mark.contract("RB-67")
async def test_the_use_of_a_skill_is_an_entry_with_its_name_and_what_was_typed() -> None:
    async with talk("done") as session:
        await session.note_skill("review", "/review src", status="started")
        await session.run("Review src.", display="/review src")
        await session.note_skill("review", "/review src", mode="fork", by="model", status="completed")
        full = await session.full_history()
        assert [entry.type for entry in full] == ["skill-invocation", "user", "assistant", "skill-invocation"]
        assert await notes(session, "skill-invocation") == [
            {"skill": "review", "displayInput": "/review src", "mode": mode, "by": by, "status": status}
            for mode, by, status in (("inject", "user", "started"), ("fork", "model", "completed"))
        ]
        assert [text_of(message.content) for message in session.history] == ["Review src.", "done"]
        with pytest.raises(UserError, match="needs a kind"):
            await session.add_entry("", {})


@pytest.mark.contract("RB-68", "RB-69")
async def test_an_execution_gives_answer_history_tools_context_and_usage_at_once() -> None:
    replies = (
        {"usage": {"input": 100, "output": 10}, **call("look", at="sky")},
        {"text": "blue", "usage": {"input": 150, "output": 20}},
    )
    async with talk(*replies, tools=[look]) as session:
        done = await session.execute("colour?", display="/colour")
        assert done.history == await session.full_history()
        assert done.context_state == session.context_state
    assert done.response == "blue"
    assert (done.history[0].type, done.history[0].display) == ("user", "/colour")
    assert [entry.type for entry in done.history][-3:] == ["assistant", "tool-summary", "usage-summary"]
    (used,) = done.tool_summaries
    assert used == ToolSummary(call=used.call, tool="look", outcome="ok")
    assert isinstance(done.usage, UsageSnapshot)
    assert (done.usage.kind, done.usage.scope, done.usage.input, done.usage.output) == ("exact", "turn", 250, 30)


async def test_the_history_is_the_same_after_the_session_was_opened_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    options: Plain = {**work(tmp_path), "store": f"sqlite:///{tmp_path}/s.db"}
    edit = call("Edit", file_path="a.txt", old_string="one", new_string="two")
    async with talk(edit, "done", **options) as session:
        await session.run("edit", display="/edit")
        await session.note_skill("s", "/s")
        before = await session.full_history()
    async with talk("x", resume=session.id, **options) as again:
        assert await again.full_history() == before
