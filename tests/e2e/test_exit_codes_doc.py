"""docs/exit-codes.md says how commands end; what it says of `--finish` and `--input-id` is so, and no code is missing."""

import json
import re
from pathlib import Path

import pytest

from backstay.headless import result
from tests.e2e.door import Door, write

DOCUMENT = Path(__file__).parents[2] / "docs" / "exit-codes.md"
ONE, TWO = {"text": "one"}, {"text": "two"}


def test_every_code_has_its_row() -> None:
    rows = re.findall(r"^\| (\d+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)

    codes = (result.DONE, result.COULD_NOT_START, result.USAGE, result.HALTED, result.FAILED, result.INTERRUPTED)
    assert [int(row) for row in rows] == list(codes)


def test_an_input_that_is_sent_again_ends_as_it_did(door: Door) -> None:
    flags = ("--session-id", "s1", "--input-id", "k", "--model", door.script(ONE, TWO))
    fails = ("--session-id", "s2", "--input-id", "k", "--model", door.script({"error": {"kind": "auth"}}, name="bad"))

    assert [door.run("-p", "hi", *flags).code for _ in range(2)] == [0, 0]
    assert door.run("-p", "something else", *flags).code == 2
    assert [door.run("-p", "hi", *fails).code for _ in range(2)] == [4, 4]


def test_finishing_what_is_not_open_is_done(door: Door) -> None:
    door.run("-p", "hi", "--session-id", "s1", "--model", door.script(ONE))

    ran = door.run("-r", "s1", "--finish")

    assert (ran.code, "Nothing was open" in ran.err) == (0, True)


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        *(
            (typed, result.COULD_NOT_START)
            for typed in (
                *(
                    "-r nope -p x",
                    "sessions show nope",
                    "log show nope",
                    "log tail nope",
                    "secrets scan --session nope",
                ),
                *("agents show nope", "skills show nope", "config show --why nope", "sessions delete nope"),
            )
        ),
        *(
            (typed, result.USAGE)
            for typed in (
                *("-p x --agent nope", "-p /nope", "usage --since nope", "log show a/b", "sessions show a/b"),
                *("-p x --no-such-flag", "no-such-command", "permissions check Bash"),
            )
        ),
    ],
)
def test_what_there_is_none_of_could_not_be_done_and_what_means_nothing_was_typed_wrong(
    door: Door, typed: str, code: int
) -> None:
    assert door.run("-p", "hi", "--model", door.script(ONE)).code == 0
    model = ("--model", door.script(ONE)) if "-p" in typed.split() else ()

    ran = door.run(*typed.split(), *model)

    assert (ran.code, ran.out, bool(ran.err)) == (code, "", True)


def test_a_prompt_that_a_hook_refuses_fails_its_turn(door: Door) -> None:
    hook = {"type": "command", "command": "echo 'Not today.' >&2; exit 2"}
    settings = {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}
    write(door.folder / "config" / "settings.json", json.dumps(settings)).chmod(0o600)

    ran = door.spawn("-p", "hi", "--model", door.script(ONE))

    assert (ran.code, "Not today." in ran.err) == (result.FAILED, True)
    assert "a hook refused the prompt" in DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize(("mode", "code"), [("default", 3), ("dontAsk", 3), ("plan", 0)])
def test_a_call_that_needed_an_answer_ends_with_3_in_the_mode_that_asks_nobody_too(
    door: Door, mode: str, code: int
) -> None:
    call = {"calls": [{"name": "Bash", "args": {"command": "touch b.txt"}}]}

    ran = door.run("-p", "hi", "--no-persist", "--permission-mode", mode, "--model", door.script(call, ONE))

    assert (ran.code, ran.out) == (code, "one\n")
