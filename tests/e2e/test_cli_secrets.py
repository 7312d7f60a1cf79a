"""`backstay secrets`: what it counts, what it asks, what it says, and how it ends."""

import json
from pathlib import Path

import pytest

from tests.e2e.door import Door

TOKEN, OTHER = (f"ghp_{n}q7Zk3Vt9QwLr7XyB2NmHc8PdSfGaJe5U1o" for n in "12")


@pytest.fixture
def talked(door: Door) -> Door:
    model = door.script({"calls": [{"name": "Bash", "args": {"command": f"echo {OTHER}"}}]}, {"text": "Done."})
    done = door.run("-p", f"Use {TOKEN}.", "--model", model, "--allow", "Bash", "--session-id", "s1", "--name", "work")
    assert done.code == 0, done.err
    assert door.run("-p", "Hello.", "--model", door.script({"text": "Hi."}), "--session-id", "s2").code == 0
    return door


def _in_files(door: Door, *secrets: str) -> list[str]:
    files = [path for path in (door.folder / "data").rglob("*") if path.is_file()]
    return [str(path) for path in files if any(secret.encode() in path.read_bytes() for secret in secrets)]


def test_scan_counts_by_session_and_shows_no_secret(talked: Door) -> None:
    done = talked.run("secrets", "scan", "--json")
    assert done.code == 1
    assert TOKEN not in done.out
    assert OTHER not in done.out
    assert len({each["session"] for each in done.json}) == len(done.json)
    by_session = {each["session"]: each for each in done.json}
    assert by_session["s2"]["count"] == 0
    assert by_session["s1"]["count"] >= 3
    assert {spot["where"] for spot in by_session["s1"]["spots"]} >= {"event"}
    words = talked.run("secrets", "scan", "--session", "work")
    assert words.code == 1
    assert "s1  work" in words.out
    assert "event 2" in words.out or "event 3" in words.out
    assert TOKEN not in words.out
    assert talked.run("secrets", "scan", "--session", "s2").code == 0


def test_scan_does_not_show_a_secret_in_the_name_of_a_session(door: Door) -> None:
    model = door.script({"text": "Hi."})
    assert door.run("-p", "Hello.", "--model", model, "--name", f"with {TOKEN}").code == 0
    for form in ((), ("--json",)):
        done = door.run("secrets", "scan", *form)
        assert done.code == 1
        assert "with [REDACTED]" in done.out
        assert TOKEN not in done.out


def test_erase_needs_a_yes(talked: Door) -> None:
    done = talked.run("secrets", "erase")
    assert done.code == 3
    assert "--yes" in done.err
    assert talked.run("secrets", "scan").code == 1


def test_erase_leaves_nothing_and_the_session_goes_on(talked: Door) -> None:
    assert _in_files(talked, TOKEN, OTHER)
    done = talked.run("secrets", "erase", "--yes", "--json", "--reason", "typed by mistake")
    assert done.code == 0, done.err
    assert [each["session"] for each in done.json] == ["s1"]
    assert _in_files(talked, TOKEN, OTHER) == []
    assert talked.run("secrets", "scan").code == 0
    assert talked.run("sessions", "verify").code == 0
    assert talked.run("log", "validate", "s1").code == 0
    shown = talked.run("log", "show", "s1", "--json").lines
    assert shown[-1]["type"] == "session:secrets_erased"
    assert shown[-1]["data"]["reason"] == "typed by mistake"
    assert talked.run("-r", "s1", "-p", "More.", "--model", talked.script(*[{"text": "Yes."}] * 9)).out == "Yes.\n"
    again = talked.run("secrets", "erase", "--yes")
    assert (again.code, again.out) == (0, "No session has a secret.\n")


def test_what_a_deleted_session_left_goes_too(talked: Door) -> None:
    assert talked.run("sessions", "delete", "s1", "--yes").code == 0
    assert talked.run("secrets", "scan").code == 0
    assert talked.run("secrets", "erase", "--yes").code == 0
    assert _in_files(talked, TOKEN, OTHER) == []


def test_a_value_that_a_variable_names_is_found_wherever_it_stands(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "correct horse battery")
    assert door.run("-p", "I say correct horse battery.", "--model", door.script({"text": "Hm."})).code == 0
    assert door.run("secrets", "scan").code == 1
    assert door.run("secrets", "erase", "--yes").code == 0
    assert _in_files(door, "correct horse") == []


@pytest.mark.parametrize("rule", [None, "Bash(echo *)"])
@pytest.mark.parametrize(
    "command",
    [
        "echo $DATABASE_URL",
        'echo "${DATABASE_URL}"',
        "echo $STRIPE_SK",
        "echo ${STRIPE_SK:-x}",
        "echo $EXTRA_HDR",
        "printenv DATABASE_URL",
        "printenv",
        "env",
        "set",
        "export -p",
        "cat /proc/self/environ",
    ],
)
def test_sec_l4_names_of_secrets_ask(command: str, rule: str | None, door: Door) -> None:
    rules = ("--allow", rule) if rule else ()
    done = door.run("permissions", "check", "Bash", json.dumps({"command": command}), *rules)
    assert done.json["decision"] == "ask"


@pytest.mark.parametrize("command", ["echo $HOME", "printenv PATH", "printenv USER"])
def test_sec_l4_what_every_program_knows_does_not_ask(command: str, door: Door) -> None:
    done = door.run("permissions", "check", "Bash", json.dumps({"command": command}))
    assert done.json["decision"] == "allow"


def test_every_store_is_looked_through_unless_one_is_named(talked: Door) -> None:
    other = f"sqlite://{talked.folder}/data/beside.db"
    model = talked.script({"text": "Hm."})
    assert talked.run("-p", f"Use {OTHER}.", "--model", model, "--store", other, "--session-id", "s3").code == 0
    found = {each["session"]: each["count"] for each in talked.run("secrets", "scan", "--json").json}
    assert set(found) == {"s1", "s2", "s3"}
    assert found["s3"]
    assert talked.run("secrets", "erase", "--yes", "--store", other).code == 0
    assert talked.run("secrets", "scan", "--store", other).code == 0
    assert talked.run("secrets", "scan").code == 1


def test_what_cannot_be_done_is_said(talked: Door, tmp_path: Path) -> None:
    for command in (("scan",), ("erase", "--yes")):
        done = talked.run("secrets", *command, "--session", "nobody")
        assert done.code == 1
        assert "'nobody'" in done.err
    done = talked.run("secrets", "erase", "--yes", "--store", "memory:x")
    assert done.code == 1
    assert "memory" in done.err
    missing = talked.run("secrets", "scan", "--store", f"sqlite://{tmp_path}/none.db")
    assert missing.code == 1
    assert json.dumps(missing.out) == '""'
