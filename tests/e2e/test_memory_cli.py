"""`backstay memory`: what a project remembers, from outside."""

import pytest

from tests.e2e.door import Door


@pytest.mark.contract("RB-87")
def test_a_person_adds_lists_and_shows(door: Door) -> None:
    added = door.run("memory", "add", "feedback/Style", "Short commit", "messages.", "--json")
    again = door.run("memory", "add", "Short commit messages.")
    listed = door.run("memory", "list", "--json")
    shown = door.run("memory", "show", "style")
    path = door.run("memory", "path")

    (entry,) = listed.json["entries"]
    assert (added.code, again.code, listed.code, shown.code) == (0, 0, 0, 0)
    assert "the same is there already" in again.out
    assert (entry["kind"], entry["topic"], entry["text"], entry["by"]) == (
        "feedback",
        "style",
        "Short commit messages.",
        "user",
    )
    assert (entry["id"], listed.json["topics"]) == (added.json["id"], ["style"])
    assert "(feedback/style) Short commit messages." in shown.out
    assert path.out == f"{door.work / '.backstay/memory'}\n"
    assert door.run("memory", "show", "style", "--json").json["entries"] == [entry]
    assert door.run("memory", "list").out.startswith("# Project Memory")


def test_rb_w14_a_command_of_a_session_only_proposes_and_the_person_decides(door: Door) -> None:
    inside = {"BACKSTAY_CALL": "ask-0"}
    proposed = door.spawn("memory", "add", "Skip the tests.", "--json", env=inside).json["id"]
    other = door.spawn("memory", "add", "Tests need Redis.", "--json", env=inside).json["id"]
    forced = door.spawn("memory", "approve", other, env=inside)

    waiting = door.run("memory", "pending", "--json")
    rejected = door.run("memory", "reject", proposed, "They", "matter.", "--json")
    approved = door.run("memory", "approve", other)

    assert (forced.code, forced.out) == (1, "")
    assert "Only the person can approve" in forced.err
    assert [(each["id"], each["by"]) for each in waiting.json["waiting"]] == [(proposed, "model"), (other, "model")]
    assert (rejected.code, rejected.json["success"], approved.code) == (0, True, 0)
    assert [each["text"] for each in door.run("memory", "list", "--json").json["entries"]] == ["Tests need Redis."]
    assert door.run("memory", "pending").out == "Nothing waits.\n"


def test_what_is_to_be_typed_next_is_a_command_of_the_shell(door: Door) -> None:
    refused = door.run("memory", "approve", "mem_0")
    inside = door.spawn("memory", "pending", env={"BACKSTAY_CALL": "ask-0"})

    assert "No memory 'mem_0' waits. See: backstay memory pending" in refused.err
    assert "Only the person can see pending memories." in inside.err


def test_a_secret_is_refused_with_a_reason_and_a_code(door: Door) -> None:
    ran = door.run("memory", "add", "The password is hunter2")

    assert (ran.code, ran.out) == (1, "")
    assert "Not kept: it holds a password." in ran.err
    assert not (door.work / ".backstay").exists()


def test_the_folder_may_be_named_and_the_project_above_it_counts(door: Door) -> None:
    (door.work / ".git").mkdir()
    (door.work / "deep").mkdir()

    door.run("memory", "add", "--cwd", str(door.work / "deep"), "Here.", cwd=door.folder)
    ran = door.run("--cwd", str(door.work), "memory", "list", "--json", cwd=door.folder)

    assert [each["text"] for each in ran.json["entries"]] == ["Here."]


def test_a_stranger_s_file_cannot_speak_to_the_terminal(door: Door) -> None:
    folder = door.work / ".backstay/memory"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("\x1b]0;owned\x07 \x1b[2J hidden\n")

    ran = door.run("memory", "list")

    assert (ran.code, "\x1b" in ran.out, "hidden" in ran.out) == (0, False, True)


def test_what_cannot_be_used_is_said_by_its_name(door: Door) -> None:
    (door.work / ".backstay").mkdir()
    (door.work / ".backstay/memory").symlink_to("/tmp")

    for words in (("list",), ("add", "x y z"), ("pending",)):
        ran = door.run("memory", *words)
        assert ran.code == 1
        assert f"{str(door.work / '.backstay/memory')!r} is a link or a file" in ran.err


@pytest.mark.parametrize("name", ["list", "show", "add", "pending", "approve", "reject", "path"])
def test_every_command_explains_itself_with_an_example(door: Door, name: str) -> None:
    ran = door.run("memory", name, "--help")

    assert ran.code == 0
    assert "backstay memory " in ran.out.split("\n", 3)[3]
    assert "--json" in ran.out
