"""docs/exit-codes.md says how commands end; what it says of `--finish` and `--input-id` is so, and no code is missing."""

import re
from pathlib import Path

from holdfast.view import account
from tests.e2e.door import Door

DOCUMENT = Path(__file__).parents[2] / "docs" / "exit-codes.md"
ONE, TWO = {"text": "one"}, {"text": "two"}


def test_every_code_has_its_row() -> None:
    rows = re.findall(r"^\| (\d+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)

    codes = (account.DONE, account.COULD_NOT_START, account.USAGE, account.HALTED, account.FAILED, account.INTERRUPTED)
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
