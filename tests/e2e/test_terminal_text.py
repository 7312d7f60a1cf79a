"""What models, tools and files say is shown without anything that a terminal would obey. A pipe gets every byte."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.e2e.door import Door

NASTY = "a\x1b]52;c;ZXZpbA==\x07b\x9b31mc\u202ed\x7fe\x00f\u200bg\U000e0041h 👩\u200d💻"
SHOWN = "a␛]52;c;ZXZpbA==␇b<U+009B>31mc<U+202E>d␡e␀f<U+200B>g<U+E0041>h 👩\u200d💻"
OBEYED = re.compile("(?!\x1b\\[[0-9;]*m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e\U000e0041]")
"""What must not reach a terminal; our own colours may."""


def in_terminal(door: Door, *arguments: str) -> str:
    """What a command writes to a terminal, on both streams."""
    leader, follower = pty.openpty()
    pieces: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(leader, 65_536):
                pieces.append(piece)
        except OSError:  # the other end is closed
            return

    reader = threading.Thread(target=read)
    reader.start()
    command = (sys.executable, "-m", "backstay", *arguments)
    subprocess.run(
        command, cwd=door.work, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, check=False, timeout=120
    )
    os.close(follower)
    reader.join(30)
    os.close(leader)
    return b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("form", ["text", "json", "stream-json", "events"])
def test_sec_l1_the_text_of_a_model_is_no_order_to_the_terminal(door: Door, form: str) -> None:
    model = door.script({"text": NASTY})
    said = in_terminal(door, "-p", "go", "--model", model, "--output-format", form)
    assert not OBEYED.search(said)
    if form == "text":
        assert said == f"{SHOWN}\n"


def test_a_verdict_that_quotes_a_call_is_no_order_to_the_terminal(door: Door) -> None:
    args = json.dumps({"command": NASTY.replace("\0", "")})
    assert not OBEYED.search(in_terminal(door, "permissions", "check", "Bash", args))


def test_a_pipe_gets_the_text_of_a_model_as_it_is(door: Door) -> None:
    ran = door.run("-p", "go", "--model", door.script({"text": NASTY}))
    assert ran.out == f"{NASTY}\n"


def test_sec_l1_an_error_that_quotes_others_is_no_order_to_the_terminal(door: Door) -> None:
    model = door.script({"error": {"kind": "bad_request", "message": NASTY}})
    ran = door.run("-p", "go", "--model", model)
    assert ran.code != 0
    assert SHOWN in ran.err


@pytest.mark.parametrize(
    "command", ["sessions list", "sessions show ID", "log show ID", "export ID -o - --format json"]
)
def test_sec_l1_what_a_session_holds_is_no_order_to_the_terminal(door: Door, command: str) -> None:
    door.run("-p", NASTY.replace("\x00", ""), "--model", door.script({"text": NASTY}), "--session-id", "s")
    said = in_terminal(door, *command.replace("ID", "s").split())
    assert "52;c" in said
    assert not OBEYED.search(said)


def test_sec_l1_a_hook_that_is_listed_is_no_order_to_the_terminal(door: Door, tmp_path: Path) -> None:
    hook = '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "echo \\u001b]52;c;x\\u202e"}]}]}}'
    (door.work / ".backstay").mkdir()
    (door.work / ".backstay" / "settings.json").write_text(hook)
    for arguments in (("hooks", "list"), ("doctor",), ("hooks", "list", "--json")):
        said = in_terminal(door, *arguments)
        assert not OBEYED.search(said)
