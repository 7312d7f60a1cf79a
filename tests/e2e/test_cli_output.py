"""Standard output that cannot be written: a plain line and an exit code, no traceback, and a session that holds."""

import pytest

from tests.e2e.door import Door

ONE = {"text": "one"}
TWO = {"text": "two"}


@pytest.mark.parametrize("output", ["text", "json", "stream-json", "events"])
def test_a_result_that_cannot_be_written_is_kept_and_exits_1(door: Door, output: str) -> None:
    flags = ("-p", "hi", "--session-id", "s1", "--model", door.script(ONE, TWO), "--output-format", output)

    ran = door.redirected("> /dev/full", *flags)

    assert ran.code == 1
    assert ran.err == (
        "backstay: Standard output could not be written: No space left on device. `backstay sessions show s1` has it.\n"
    )
    assert door.run("-r", "s1", "-p", "more").out == "two\n"
    (first, _) = door.run("sessions", "show", "s1", "--json").json["turn_results"]
    assert (first["outcome"], first["text"]) == ("completed", "one")


@pytest.mark.parametrize("arguments", ["--version", "--help", "sessions list", "sessions list --json", "log show s1"])
def test_a_command_that_cannot_print_says_so(door: Door, arguments: str) -> None:
    door.run("-p", "hi", "--model", door.script(ONE), "--session-id", "s1")

    full = door.redirected("> /dev/full", *arguments.split())
    closed = door.redirected(">&-", *arguments.split())

    assert (full.code, closed.code) == (1, 1)
    assert full.err == "backstay: Standard output could not be written: No space left on device.\n"
    assert closed.err.startswith("backstay: Standard output is closed")
    assert len(closed.err.splitlines()) == 1


def test_nothing_is_begun_when_there_is_nowhere_to_print_to(door: Door) -> None:
    ran = door.redirected(">&-", "-p", "hi", "--model", door.script(ONE))

    assert (ran.code, ran.err.splitlines()[1:]) == (1, [])
    assert door.run("sessions", "list", "--json").json == []


def test_other_closed_streams_disturb_nothing(door: Door) -> None:
    flags = ("-p", "hi", "--model", door.script(ONE), "--deny", "Nothing")

    silent = door.redirected("2>&-", *flags)
    deaf = door.redirected("<&-", *flags)
    nothing_said = door.redirected("<&-", "--model", door.script(ONE))

    assert (silent.code, silent.out, silent.err) == (0, "one\n", "")
    assert (deaf.code, deaf.out) == (0, "one\n")
    assert (nothing_said.code, "prompt is empty" in nothing_said.err) == (2, True)


def unread(door: Door, *arguments: str) -> tuple[int, str]:
    """Run a command whose reader goes away before anything is printed."""
    process = door.start(*arguments)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.close()
    process.stdout.close()
    with process.stderr:
        said = process.stderr.read()
    return process.wait(timeout=50), said


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_turn_that_is_complete_before_its_reader_is_missed_exits_0(door: Door, output: str) -> None:
    flags = ("-p", "hi", "--model", door.script(ONE), "--session-id", "s1", "--output-format", output)

    assert unread(door, *flags) == (0, "")

    (turn,) = door.run("sessions", "show", "s1", "--json").json["turn_results"]
    assert turn["outcome"] == "completed"


@pytest.mark.parametrize(
    "arguments",
    [
        "--version",
        "--help",
        "log --help",
        "sessions list",
        "sessions list --json",
        "log show s1",
        "log show s1 --json",
        "export s1 -o -",
    ],
)
def test_a_reader_that_goes_away_is_no_failure_of_a_command(door: Door, arguments: str) -> None:
    door.run("-p", "hi", "--model", door.script({"text": "much " * 40_000}), "--session-id", "s1")
    more = ("--format", "markdown") if arguments.startswith("export") else ()

    assert unread(door, *arguments.split(), *more) == (0, "")


def test_a_pipe_that_is_closed_early_is_no_error_to_tell(door: Door) -> None:
    door.run("-p", "hi", "--model", door.script(ONE), "--session-id", "s1")

    ran = door.redirected("| true", "log", "show", "s1")

    assert ran.err == ""
