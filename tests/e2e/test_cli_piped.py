"""What is piped in beside a prompt comes before it, and an input that says nothing holds up nobody."""

import os
import socket
import subprocess
import sys

import pytest

from tests.e2e.door import SOURCE, Door, Line, finish, send

HI = {"text": "Hi."}


def said(door: Door) -> Line:
    """What the newest session was told."""
    session = door.run("sessions", "list", "--json").json[0]["id"]
    events = door.run("log", "show", session, "--json").lines
    (received,) = (line["data"] for line in events if line["type"] == "session:input_received")
    return {part["type"]: part["text"] for part in received["parts"]}


@pytest.mark.parametrize(
    ("piped", "prompt", "heard"),
    [
        ("some data\n", "Sum it up.", "some data\n\nSum it up."),
        ("  one\n\ntwo", "-", "  one\n\ntwo"),
        ("", "Hello?", "Hello?"),
        ("\n \n", "Hello?", "Hello?"),
        ("data", "- a list", "data\n\n- a list"),
    ],
)
def test_what_is_piped_in_comes_before_the_prompt(door: Door, piped: str, prompt: str, heard: str) -> None:
    ran = door.spawn("-p", prompt, "--model", door.script(HI), text=piped)

    assert (ran.code, ran.out, ran.err) == (0, "Hi.\n", "")
    assert said(door) == {"text": heard}


def test_a_file_is_read_too_and_no_device_is(door: Door) -> None:
    (door.work / "a.txt").write_text("from a file\n", encoding="utf-8")

    read = door.redirected("< a.txt", "-p", "q", "--model", door.script(HI))
    heard = said(door)
    nothing = door.redirected("< /dev/zero", "-p", "q", "--model", door.script(HI))

    assert (read.code, read.err, heard) == (0, "", {"text": "from a file\n\nq"})
    assert (nothing.code, nothing.err, said(door)) == (0, "", {"text": "q"})


def test_a_pipe_that_is_a_socket_is_read_too(door: Door) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"from a socket")
        ours.shutdown(socket.SHUT_WR)
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-m", "backstay", "-p", "q", "--model", door.script(HI)],
            stdin=theirs.fileno(),
            capture_output=True,
            check=False,
            timeout=50,
            cwd=door.work,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )

    assert (ran.returncode, ran.stderr, said(door)) == (0, b"", {"text": "from a socket\n\nq"})


def test_a_pipe_that_stays_silent_is_not_waited_for_and_that_is_said(door: Door) -> None:
    process = door.start("-p", "q", "--model", door.script(HI))
    assert process.stdout is not None

    answer = process.stdout.readline()  # the input is open all the while
    ran = finish(process)

    assert (answer, ran.code) == ("Hi.\n", 0)
    assert "nothing came for 1 second" in ran.err
    assert said(door) == {"text": "q"}


def test_lines_of_json_stay_lines_beside_a_prompt(door: Door) -> None:
    process = door.start("-p", "q", "--model", door.script(HI, HI), "--input-format", "stream-json")
    send(process, {"type": "user", "message": {"role": "user", "content": "and this"}})

    assert finish(process).out == "Hi.\nHi.\n"


def test_a_command_takes_what_is_piped_in_as_its_arguments(door: Door) -> None:
    skill = door.work / ".claude" / "skills" / "review"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: review\ndescription: d\n---\nLook at: $ARGUMENTS\n", encoding="utf-8")
    model = door.script(HI | {"expect": {"contains": "Look at: the diff"}})

    ran = door.spawn("-p", "/review", "--trust", "--model", model, text="the diff\n")

    assert (ran.code, ran.out) == (0, "Hi.\n")


def test_more_than_a_prompt_may_be_is_refused(door: Door) -> None:
    ran = door.spawn("-p", "q", "--model", door.script(HI), text="x" * (10 * 1024 * 1024 + 1))

    assert (ran.code, "has more than 10485760 bytes" in ran.err) == (2, True)
