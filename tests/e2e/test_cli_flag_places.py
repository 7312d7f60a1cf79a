"""`--store` and `--cwd` are taken wherever a person or a program puts them: before a command, within it, behind it."""

import json

import pytest

from tests.e2e.door import Door, write

EVERYWHERE = (
    *(("config", "show"), ("config", "path"), ("permissions", "lint"), ("plugins", "list"), ("memory", "list")),
    *(("models", "list"), ("skills", "list"), ("agents", "list"), ("hooks", "list"), ("trust", "show"), ("usage",)),
    *(("sessions", "list"), ("plugins", "marketplace", "list"), ("permissions", "check", "Read", '{"file_path": "a"}')),
)


@pytest.mark.parametrize("command", EVERYWHERE, ids=" ".join)
def test_both_flags_may_stand_behind_every_command(door: Door, command: tuple[str, ...]) -> None:
    door.run("-p", "hi", "--model", door.script({"text": "Hi."}))

    plain = door.run(*command)
    behind = door.run(*command, "--store", door.store, "--cwd", str(door.work))
    within = door.run(command[0], "--store", door.store, "--cwd", str(door.work), *command[1:])

    assert (behind.code, behind.out, behind.err) == (plain.code, plain.out, plain.err)
    assert (within.code, within.out, within.err) == (plain.code, plain.out, plain.err)


def test_a_store_within_a_group_is_the_one_that_is_looked_at(door: Door) -> None:
    url = f"sqlite://{door.folder}/other.db"
    door.run("-p", "hi", "--model", door.script({"text": "Hi."}), "--store", url, "--session-id", "there")

    listed = door.run("sessions", "--store", url, "list", "--json").json

    assert [each["id"] for each in listed] == ["there"]
    assert door.run("--store", "sqlite:///no/such.db", "sessions", "--store", url, "list", "--json").json == listed


def test_the_rules_of_another_folder_are_looked_over(door: Door) -> None:
    other = door.folder / "other"
    write(other / ".backstay" / "settings.json", json.dumps({"permissions": {"allow": ["((("]}}))

    assert door.run("permissions", "lint").code == 0
    for arguments in (("lint", "--cwd", str(other)), ("--cwd", str(other), "lint")):
        ran = door.run("permissions", *arguments)
        assert (ran.code, "(((" in ran.out) == (1, True)


def test_a_folder_that_is_not_there_is_said_behind_every_command(door: Door) -> None:
    ran = door.run("models", "list", "--cwd", "/no/such/folder")

    assert (ran.code, "does not exist" in ran.err) == (2, True)
