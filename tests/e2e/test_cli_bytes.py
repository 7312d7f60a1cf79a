"""Arguments that are not UTF-8 and numbers that are none are said in a line or two, with exit code 2."""

import os

import pytest

from tests.e2e.door import Door

ODD = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-p", ODD),
        ("-p", "hi", "-r", ODD),
        *(("-p", "hi", flag, ODD) for flag in ("--system-prompt", "--append-system-prompt", "--name", "--session-id")),
        ("-p", "hi", "--store", f"sqlite:////tmp/{ODD}.db"),
        *(("sessions", name, ODD) for name in ("show", "search", "delete", "verify", "fork")),
        ("sessions", "list", "--project", ODD),
        *(("log", name, ODD) for name in ("show", "tail", "validate", "repair", "replay")),
        (ODD,),
    ],
    ids=lambda arguments: " ".join(arguments[:-1]),
)
def test_an_argument_that_is_not_utf_8_is_refused(door: Door, arguments: tuple[str, ...]) -> None:
    ran = door.run(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"backstay: Argument {len(arguments)}, ")
    assert "caf\\xe9" in ran.err
    assert "is not UTF-8" in ran.err


@pytest.mark.parametrize("days", ["nan", "inf", "1e400", "1e300", "-1", "-inf"])
def test_days_that_are_no_number_of_days_prune_nothing(door: Door, days: str) -> None:
    door.run("-p", "hi", "--model", door.script({"text": "Hi."}))

    ran = door.run("sessions", "prune", "--older-than", days)

    assert (ran.code, ran.out, "--older-than" in ran.err) == (2, "", True)
    assert len(door.run("sessions", "list", "--json").json) == 1


def test_a_folder_whose_name_no_log_could_hold_is_refused(door: Door) -> None:
    folder = door.folder / ODD
    folder.mkdir()

    ran = door.run("-p", "hi", "--model", door.script({"text": "Hi."}), cwd=folder)

    assert (ran.code, ran.out, "is not UTF-8. Rename it" in ran.err) == (1, "", True)
