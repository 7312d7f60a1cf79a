"""Signals: the first interrupt stops the turn and keeps what was said; SIGTERM and SIGHUP let it finish in time."""

import signal
import time

import pytest

from tests.e2e.door import WAIT, Door, Process, finish, kinds, read_until, send

HANGS: dict[str, object] = {"text": "so far", "chunk": 20, "hang": True}
WAITS: dict[str, object] = {"text": "I wait", "calls": [{"name": "Bash", "args": {"command": WAIT}}]}
AFTER: dict[str, object] = {"text": "after"}


def start(door: Door, *replies: dict[str, object], flags: tuple[str, ...] = (), drain_s: str = "10") -> Process:
    """Start a run and wait until the model speaks."""
    process = door.start(
        *("-p", "go", "--session-id", "s1", "--model", door.script(*replies), "--output-format", "events", *flags),
        env={"BACKSTAY_DRAIN_S": drain_s},
    )
    if "--input-format" not in flags and process.stdin is not None:
        process.stdin.close()  # nothing is piped in
    lines = list(read_until(process, "text_delta"))
    assert lines[0]["type"] == "session:started"
    return process


@pytest.mark.contract("RB-43")
def test_an_interrupt_ends_with_130_and_keeps_the_partial_text(door: Door) -> None:
    ran = finish(start(door, HANGS, AFTER), signal.SIGINT)

    reply = next(line for line in ran.lines if line["type"] == "session:model_replied")
    over = next(line for line in ran.lines if line["type"] == "session:turn_completed")
    stopped = next(line for line in ran.lines if line["type"] == "session:interrupted")
    assert (ran.code, over["data"]["outcome"], stopped["by"]) == (130, "interrupted", "user")
    assert (reply["data"]["stop"], reply["data"]["parts"]) == ("interrupted", [{"type": "text", "text": "so far"}])
    assert kinds(ran.lines)[-1] == "SessionClosed"
    after = door.run("-r", "s1", "-p", "more", "--output-format", "json")
    assert (after.code, after.json["result"]) == (0, "after")


def test_a_second_interrupt_at_any_time_ends_with_130_too(door: Door) -> None:
    for pause in (0.02, 0.1, 0.2):
        process = start(door, HANGS, flags=("--no-persist",))
        process.send_signal(signal.SIGINT)
        time.sleep(pause)

        assert finish(process, signal.SIGINT).code == 130


def test_an_interrupt_in_text_prints_what_was_said(door: Door) -> None:
    process = door.start("-p", "go", "--session-id", "s1", "--model", door.script(HANGS))
    tail = door.start("log", "tail", "s1", "--json", "--after", "0")
    while not list(read_until(tail, "text_delta")):  # the session is not there yet
        finish(tail)
        tail = door.start("log", "tail", "s1", "--json", "--after", "0")

    ran = finish(process, signal.SIGINT)

    assert (ran.code, ran.out) == (130, "so far\n")
    assert finish(tail).code == 0


@pytest.mark.contract("ST-12", "ST-30")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_turn_may_finish_after_the_process_was_told_to_end(door: Door, number: signal.Signals) -> None:
    process = start(door, WAITS, AFTER, flags=("--allow", "Bash"), drain_s="300")
    process.send_signal(number)
    assert process.stderr is not None
    told = process.stderr.readline()
    (door.work / "go").touch()
    ran = finish(process)

    over = next(line for line in ran.lines if line["type"] == "session:turn_completed")
    assert (ran.code, over["data"]["outcome"]) == (0, "completed")
    assert f"{number.name}: no more input is taken, and the turn may go on for 300 seconds" in told
    assert kinds(ran.lines)[-4:] == ["SessionTurnEnd", "SessionPersisted", "closed", "SessionClosed"]


def test_a_turn_that_does_not_finish_in_time_is_interrupted(door: Door) -> None:
    ran = finish(start(door, HANGS, drain_s="0.1"), signal.SIGTERM)

    interrupted = next(line for line in ran.lines if line["type"] == "session:interrupted")
    assert (ran.code, interrupted["by"]) == (130, "system")
    assert "did not end within 0.1 seconds" in interrupted["data"]["reason"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_does_not_wait_for_the_turn(door: Door, number: signal.Signals) -> None:
    process = start(door, HANGS, drain_s="300")
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert "may go on for 300 seconds" in process.stderr.readline()

    ran = finish(process, number)

    interrupted = next(line for line in ran.lines if line["type"] == "session:interrupted")
    assert (ran.code, interrupted["by"]) == (130, "system")
    assert interrupted["data"]["reason"] == f"{number.name}, the second signal"


def test_an_interrupt_also_stops_a_command_and_what_it_started(door: Door) -> None:
    command = "echo begun; sleep 60 & sleep 60"
    process = door.start(
        *("-p", "go", "--session-id", "s1", "--output-format", "events", "--allow", "Bash"),
        *("--model", door.script({"calls": [{"name": "Bash", "args": {"command": command}}]}, AFTER)),
    )
    list(read_until(process, "tool_output_delta"))

    ran = finish(process, signal.SIGINT)

    result = next(line for line in ran.lines if line["type"] == "session:tool_finished")
    assert (ran.code, result["data"]["outcome"]) == (130, "interrupted")
    assert "begun" in result["data"]["content"][0]["text"]
    assert door.run("log", "validate", "s1").code == 0


def test_no_more_input_is_taken_while_draining(door: Door) -> None:
    flags = ("--input-format", "stream-json", "--allow", "Bash")
    process = start(door, WAITS, AFTER, AFTER, flags=flags, drain_s="300")
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    process.stderr.readline()
    send(process, {"type": "user", "message": {"role": "user", "content": "more"}})
    (door.work / "go").touch()
    ran = finish(process)

    assert (ran.code, kinds(ran.lines).count("turn_completed")) == (0, 1)
    assert "input_received" not in kinds(ran.lines)


def test_a_reader_that_goes_away_stops_the_turn(door: Door) -> None:
    process = start(door, {"text": "x" * 400, "chunk": 1, "delay_ms": 20}, AFTER)
    assert process.stdout is not None
    process.stdout.close()

    assert process.wait(timeout=50) == 130
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.stdin is not None
    process.stdin.close()
    assert door.run("-r", "s1", "-p", "more").out == "after\n"
