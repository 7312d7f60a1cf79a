"""The tools through the command line, one script for each: what a person's agent does all day."""

import json
from pathlib import Path

from tests.e2e.door import Door


def results(
    door: Door, *calls: dict[str, object], flags: tuple[str, ...] = ("--permission-mode", "acceptEdits")
) -> list[str]:
    """What the model is told about each call."""
    script = door.script({"text": "I work.", "calls": list(calls)}, {"text": "Done."})
    ran = door.run("-p", "go", "--no-persist", "--model", script, "--output-format", "stream-json", *flags)
    lines = [json.loads(line) for line in ran.out.splitlines()]
    told = {
        block["tool_use_id"]: block["content"]
        for line in lines
        if line["type"] == "user"
        for block in line["message"]["content"]
        if block["type"] == "tool_result"
    }
    asked = [
        b["id"]
        for line in lines
        if line["type"] == "assistant"
        for b in line["message"]["content"]
        if b["type"] == "tool_use"
    ]
    return [str(told[each]) for each in asked]


def call(name: str, **args: object) -> dict[str, object]:
    return {"name": name, "args": args}


def test_a_file_is_written_read_edited_patched_and_found(door: Door) -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 2\n+x = 3\n*** Add File: b.py\n+y = 1\n*** End Patch\n"
    told = results(
        door,
        call("Write", file_path="a.py", content="x = 1\n"),
        call("Edit", file_path="a.py", old_string="x = 1", new_string="x = 2"),
        call("apply_patch", patch=patch),
        call("Read", file_path="a.py"),
        call("Glob", pattern="*.py"),
        call("Grep", pattern="x = \\d", output_mode="content"),
    )
    assert (door.work / "a.py").read_text(encoding="utf-8") == "x = 3\n"
    assert (door.work / "b.py").read_text(encoding="utf-8") == "y = 1\n"
    assert "x = 3" in told[3]
    assert sorted(told[4].split()) == ["a.py", "b.py"]
    assert "a.py:1:x = 3" in told[5]


def test_a_long_output_is_shown_in_part_and_can_be_read_page_by_page(door: Door) -> None:
    first, _ = results(
        door, call("Bash", command="seq 1 20000"), call("Bash", command="true"), flags=("--allow", "Bash")
    )
    assert "1\n2\n3" in first
    assert "20000" in first
    assert "ReadOutput" in first
    assert len(first) < 60_000


def test_what_runs_in_the_background_goes_when_the_session_goes(door: Door) -> None:
    told = results(
        door,
        call("Bash", command="echo $$ > pid; exec sleep 300", run_in_background=True),
        call("Bash", command="sleep 0.5; cat pid"),
        flags=("--permission-mode", "bypassPermissions"),
    )
    assert "in the background" in told[0]
    pid = int((door.work / "pid").read_text(encoding="utf-8"))
    assert not Path(f"/proc/{pid}").exists()


def test_a_file_outside_is_neither_read_nor_written_without_a_word(door: Door, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("private", encoding="utf-8")
    (door.work / "link").symlink_to(outside)
    told = results(
        door,
        call("Read", file_path=str(outside)),
        call("Read", file_path="link"),
        call("Write", file_path="link", content="x"),
        call("Bash", command="cat link"),
    )
    assert all("Not run" in each for each in told)
    assert outside.read_text(encoding="utf-8") == "private"


def test_no_address_of_this_machine_is_fetched(door: Door) -> None:
    told = results(
        door,
        call("WebFetch", url="http://127.0.0.1:1/x", prompt="what?"),
        call("WebFetch", url="http://169.254.169.254/latest/meta-data/", prompt="what?"),
        flags=("--permission-mode", "bypassPermissions"),
    )
    assert all("Not run" in each or "refused" in each.lower() or "not" in each for each in told)
    assert not any("Connection refused" in each for each in told)
