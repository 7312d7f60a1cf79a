"""The former name at the command line: `doctor` names it, `doctor --move-from` moves it, and nothing is left out in silence."""

import json
from pathlib import Path

import pytest

from backstay.config.trust.trust_store import GrantStore
from tests.e2e.door import Door, write


@pytest.fixture
def former(door: Door, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session, settings and a project's folder of the former name; returns its data folder."""
    monkeypatch.delenv("BACKSTAY_DATA_DIR")
    monkeypatch.delenv("BACKSTAY_CONFIG_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(door.folder / "share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(door.folder / "etc"))
    assert door.run("-p", "hello", "--model", door.script({"text": "from before"})).code == 0
    (door.folder / "share/backstay").rename(door.folder / "share/holdfast")
    for path in (door.folder / "etc/holdfast/settings.json", door.work / ".holdfast/settings.json"):
        path.parent.mkdir(parents=True)
        path.write_text('{"permissions": {"deny": ["Read(secret)"]}}', encoding="utf-8")
    return door.folder / "share/holdfast"


def test_doctor_names_what_it_finds_and_what_to_type(door: Door, former: Path) -> None:
    ran = door.run("doctor", "--json")

    (found,) = (section["findings"] for section in ran.json["sections"] if section["name"] == "former name")
    assert ran.code == 1
    assert [each["text"].partition(":")[0] for each in found] == ["data", "configuration", "project"]
    assert all("Type: backstay doctor --move-from holdfast" in each["todo"] for each in found)


def test_a_move_brings_the_sessions_and_settings_over_and_a_second_finds_nothing(door: Door, former: Path) -> None:
    ran = door.run("doctor", "--move-from", "holdfast")
    again = door.run("doctor", "--move-from", "holdfast")

    assert (ran.code, ran.err) == (0, "")
    assert f"moved data: {former} -> {former.parent}/backstay\n" in ran.out
    assert f"moved project: {door.work}/.holdfast -> {door.work}/.backstay\n" in ran.out
    assert "trusted once more: backstay trust" in ran.out
    assert (again.code, again.out) == (0, "Nothing is left under the name holdfast.\n")
    listed = door.run("sessions", "list", "--json")
    assert [row["answer"] for row in listed.json] == ["from before"]
    assert door.run("-c", "-p", "more", "--model", door.script({"text": "1"}, {"text": "goes on"})).out == "goes on\n"


def test_a_move_tells_programs_what_it_did_and_what_it_left(
    door: Door, former: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DRAIN_S", "3")

    ran = door.run("doctor", "--move-from", "holdfast", "--json")

    assert [each["kind"] for each in ran.json["moved"]] == ["data", "configuration", "project"]
    assert [(each["what"], each["into"]) for each in ran.json["left"]] == [("HOLDFAST_DRAIN_S", None)]
    assert ran.json["blocked"] == []


def test_trust_and_grants_hold_after_a_move(door: Door, former: Path) -> None:
    today, other = former.with_name("backstay"), door.folder / "other"
    former.rename(today)
    hook = {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}
    write(other / ".git/HEAD", "ref: refs/heads/main\n")
    write(other / ".claude/settings.json", json.dumps({"hooks": hook}))
    assert door.run("trust", "--yes", cwd=other).code == 0
    GrantStore(today).add(str(other), ["Bash(make)"])
    today.rename(former)
    assert door.run("trust", "show", "--json", cwd=other).json["state"] == "untrusted"

    door.run("doctor", "--move-from", "holdfast", cwd=other)

    assert door.run("trust", "show", "--json", cwd=other).json["state"] == "trusted"
    assert "Bash(make)" in door.run("permissions", "grants", cwd=other).out


def test_a_store_with_sessions_is_never_written_over(door: Door, former: Path) -> None:
    door.run("-p", "hello", "--model", door.script({"text": "of today"}))

    ran = door.run("doctor", "--move-from", "holdfast")

    assert ran.code == 1
    assert "not moved: '" in ran.out
    assert "has sessions already" in ran.out
    assert [row["answer"] for row in door.run("sessions", "list", "--json").json] == ["of today"]
    store = f"sqlite:///{former}/sessions.db"
    assert [row["answer"] for row in door.run("--store", store, "sessions", "list", "--json").json] == ["from before"]


def test_a_store_whose_sessions_were_moved_one_by_one_goes_with_the_next_move(door: Door, former: Path) -> None:
    door.run("-p", "hello", "--model", door.script({"text": "of today"}))
    assert door.run("doctor", "--move-from", "holdfast").code == 1
    old, new = (f"sqlite:///{former.with_name(name)}/sessions.db" for name in ("holdfast", "backstay"))
    (session,) = (row["id"] for row in door.run("--store", old, "sessions", "list", "--json").json)
    assert door.run("--store", old, "sessions", "move", session, new).code == 0

    ran = door.run("doctor", "--move-from", "holdfast")

    assert (ran.code, former.exists()) == (0, False)
    answers = {row["answer"] for row in door.run("sessions", "list", "--json").json}
    assert answers == {"of today", "from before"}
    assert "holdfast" not in door.run("doctor", "--json").out


def test_sessions_and_settings_of_the_former_name_are_missed_aloud(door: Door, former: Path) -> None:
    listed = door.run("sessions", "list", "--json")
    ran = door.run("-p", "hello", "--model", door.script({"text": "hi"}))

    assert json.loads(listed.out) == []
    assert f"'{former}/sessions.db' are of the former name" in listed.err
    assert "backstay doctor --move-from holdfast" in listed.err
    assert f"{door.work}/.holdfast/settings.json: of the former name, so they do not count." in ran.err


@pytest.mark.parametrize("command", [("sessions", "list"), ("-p", "hello", "--model", "local")])
def test_the_address_of_a_store_that_moved_says_where_it_is(door: Door, former: Path, command: tuple[str, ...]) -> None:
    door.run("doctor", "--move-from", "holdfast")

    ran = door.run("--store", f"sqlite:///{former}/sessions.db", *command)

    assert ran.code == 1
    assert not former.exists()
    assert f"was moved. It is sqlite:///{str(former.parent)[1:]}/backstay/sessions.db now" in ran.err


def test_another_name_was_never_ours(door: Door) -> None:
    ran = door.run("doctor", "--move-from", "sheetanchor")

    assert ran.code == 1
    assert "Backstay was never called 'sheetanchor'" in ran.err


def test_only_a_person_moves_anything(door: Door, former: Path) -> None:
    ran = door.spawn("doctor", "--move-from", "holdfast", env={"BACKSTAY_CALL": "c1"})

    assert ran.code == 1
    assert "Only a person may move data and settings" in ran.err
    assert former.is_dir()
