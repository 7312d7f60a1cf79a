"""`--input-format stream-json`: prompts, answers and interrupts come in as lines."""

import json

import pytest

from tests.e2e.door import WAIT, Door, Line, Ran, finish, kinds, read_until, send

RUNS = {"text": "I run.", "calls": [{"name": "Bash", "args": {"command": "echo ran >> b.txt"}}]}
ONE = {"text": "one"}
TWO = {"text": "two"}
HANGS = {"text": "I think", "hang": True}


def user(text: str, **more: object) -> Line:
    return {"type": "user", "message": {"role": "user", "content": text}, **more}


def run_lines(door: Door, *lines: Line, flags: tuple[str, ...] = ()) -> Ran:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return door.spawn("--input-format", "stream-json", "--no-persist", *flags, text=text)


@pytest.mark.contract("RV-B20")
def test_an_approval_goes_out_as_a_line_and_its_answer_comes_in_as_one(door: Door) -> None:
    model = door.script(RUNS, ONE, RUNS, TWO)
    process = door.start(
        "--model", model, "--input-format", "stream-json", "--output-format", "stream-json", "--no-persist"
    )

    send(process, user("first\nwith two lines and a /slash"))
    question = list(read_until(process, "control_request"))[-1]
    allow = {"behavior": "allow"}
    send(process, {"type": "control_response", "response": {"request_id": question["request_id"], "response": allow}})
    first = list(read_until(process, "result/success"))
    send(process, user("second"))
    question_two = list(read_until(process, "control_request"))[-1]
    send(process, {"type": "answer", "call": question_two["request_id"], "allow": False, "message": "not today"})
    rest = finish(process)

    assert question["request"] == {
        "subtype": "can_use_tool",
        "tool_name": "Bash",
        "input": {"command": "echo ran >> b.txt"},
        "tool_use_id": question["request_id"],
        "decision_reason": f"{str(door.work / 'b.txt')!r} would be changed",
        "decision_reason_type": "mode",
        "permission_suggestions": [
            {
                "type": "addRules",
                "rules": [{"toolName": "Edit", "ruleContent": "/b.txt"}],
                "behavior": "allow",
                "destination": destination,
            }
            for destination in ("session", "localSettings")
        ],
    }
    assert first[-1]["result"] == "one"
    assert (door.work / "b.txt").read_text(encoding="utf-8") == "ran\n"
    refused, last = rest.lines[0], rest.lines[-1]
    assert refused["message"]["content"][0]["content"] == "Not run: not today."
    assert (rest.code, last["result"]) == (0, "two")
    assert [denial["tool_name"] for denial in last["permission_denials"]] == ["Bash"]


def test_when_the_input_ends_nobody_can_answer(door: Door) -> None:
    ran = run_lines(door, user("go"), flags=("--model", door.script(RUNS, ONE), "--output-format", "json"))

    assert (ran.code, ran.json["result"], len(ran.json["permission_denials"])) == (3, "one", 1)
    assert not (door.work / "b.txt").exists()


def test_an_answer_may_be_given_before_the_question_and_for_the_session(door: Door) -> None:
    ran = run_lines(
        door,
        {"type": "answer", "allow": True, "grant": "session"},
        user("go"),
        flags=("--model", door.script(RUNS, RUNS, ONE), "--output-format", "events"),
    )

    assert ran.code == 0
    assert kinds(ran.lines).count("permission_asked") == 1
    assert (door.work / "b.txt").read_text(encoding="utf-8") == "ran\nran\n"


def test_lines_are_turns_in_order_and_the_prompt_of_the_flag_comes_first(door: Door) -> None:
    blocks = [{"type": "text", "text": "se"}, {"type": "text", "text": "cond"}]
    model = door.script({"text": "1", "expect": {"contains": "zero"}}, {"text": "2", "expect": {"contains": "cond"}})
    second = {"type": "user", "message": {"role": "user", "content": blocks}, "input_id": "k2"}

    ran = run_lines(door, second, second, flags=("-p", "zero", "--model", model, "--output-format", "stream-json"))

    results = [line["result"] for line in ran.lines if line["type"] == "result"]
    assert (ran.code, results[:2]) == (0, ["1", "2"])
    assert set(results[1:]) == {"2"}


def test_an_interrupt_stops_the_turn_and_the_next_prompt_goes_on(door: Door) -> None:
    model = door.script(HANGS, TWO)
    process = door.start(
        "--model",
        model,
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--include-partial-messages",
    )

    send(process, {"type": "control_request", "request_id": "r0", "request": {"subtype": "initialize"}}, user("go"))
    started = list(read_until(process, "stream_event"))
    send(process, {"type": "control_request", "request_id": "r1", "request": {"subtype": "interrupt"}})
    stopped = list(read_until(process, "result/error_during_execution"))
    send(process, {"type": "control_request", "request_id": "r2", "request": {"subtype": "fly"}}, user("again"))
    rest = finish(process)

    replies = [line["response"] for line in (*started, *stopped, *rest.lines) if line["type"] == "control_response"]
    assert [(reply["request_id"], reply["subtype"]) for reply in replies] == [
        ("r0", "success"),
        ("r1", "success"),
        ("r2", "error"),
    ]
    assert (stopped[-1]["is_error"], rest.lines[-1]["result"], rest.code) == (True, "two", 0)


def test_a_question_is_withdrawn_when_its_turn_is_interrupted(door: Door) -> None:
    process = door.start(
        *("--model", door.script(RUNS, TWO), "--input-format", "stream-json", "--output-format", "stream-json"),
        "--no-persist",
    )

    send(process, user("go"))
    question = list(read_until(process, "control_request"))[-1]
    send(process, {"type": "interrupt"})
    withdrawn = list(read_until(process, "control_cancel_request"))[-1]
    rest = finish(process)

    assert withdrawn["request_id"] == question["request_id"]
    assert (rest.code, rest.lines[-1]["subtype"]) == (130, "error_during_execution")


def test_a_steer_is_taken_into_the_running_turn(door: Door) -> None:
    waits = {"text": "I wait", "calls": [{"name": "Bash", "args": {"command": WAIT}}]}
    process = door.start(
        *("--model", door.script(waits, {"text": "heard", "expect": {"contains": "by the way"}})),
        *("--input-format", "stream-json", "--output-format", "events", "--no-persist", "--allow", "Bash"),
    )

    send(process, user("go"))
    list(read_until(process, "tool_started"))
    send(process, user("by the way", delivery="steer"))
    list(read_until(process, "input_received"))
    (door.work / "go").touch()
    rest = finish(process)

    assert rest.code == 0
    assert kinds(rest.lines).count("turn_completed") == 1


@pytest.mark.parametrize(
    "line",
    ["not json", "{}", '{"type":3}', '{"type":"user","message":{"role":"system","content":"x"}}', "[]", "\udcff"],
)
def test_a_line_that_cannot_be_understood_ends_the_input_with_2(door: Door, line: str) -> None:
    text = "\n".join((json.dumps(user("go")), "", line, json.dumps(user("never read")), ""))
    flags = ("--input-format", "stream-json", "--no-persist", "--model", door.script(ONE, TWO))

    ran = door.spawn(*flags, text=text)
    streamed = door.spawn(*flags, "--output-format", "stream-json", text=text)

    assert (ran.code, ran.out) == (streamed.code, "one\n") == (2, "one\n")
    assert ran.err.startswith("backstay: Line 3 of the input: ")
    assert len(ran.err.splitlines()) == 1
    assert "b'" not in ran.err
    results = [line for line in streamed.lines if line["type"] == "result"]
    assert [(result["result"], result["is_error"]) for result in results] == [("one", False), ("", True)]
    assert results[1]["errors"][0].startswith("Line 3 of the input: ")


def test_a_line_of_another_type_is_passed_over_and_noted_once(door: Door) -> None:
    alive = {"type": "keep_alive"}

    ran = run_lines(door, alive, user("go"), alive, user("more"), flags=("--model", door.script(ONE, TWO)))

    assert (ran.code, ran.out) == (0, "one\ntwo\n")
    assert ran.err == "backstay: Lines of the type 'keep_alive' mean nothing here; they are passed over.\n"


def test_each_prompt_has_a_result_on_a_line_of_its_own(door: Door) -> None:
    flags = ("--model", door.script(ONE, TWO), "--output-format", "json")

    ran = run_lines(door, user("go"), user("more"), flags=flags)

    assert [line["result"] for line in ran.lines] == ["one", "two"]


@pytest.mark.parametrize("mode", ["yolo", None, 3])
def test_a_mode_that_does_not_exist_is_an_error_of_its_request_only(door: Door, mode: object) -> None:
    change = {"subtype": "set_permission_mode", "mode": mode}
    ran = run_lines(
        door,
        {"type": "control_request", "request_id": "r1", "request": change},
        {"type": "control_request", "request_id": "r2", "request": change | {"mode": "plan"}},
        user("go"),
        flags=("--model", door.script(ONE), "--output-format", "stream-json"),
    )

    first, second = (line["response"] for line in ran.lines if line["type"] == "control_response")
    assert (ran.code, ran.lines[-1]["result"]) == (0, "one")
    assert (first["request_id"], first["subtype"]) == ("r1", "error")
    assert f"{mode!r} is not a permission mode" in first["error"]
    assert (second["request_id"], second["subtype"]) == ("r2", "success")


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_a_prompt_that_is_empty_has_a_result_of_its_own(door: Door, nothing: str) -> None:
    flags = ("--model", door.script(ONE, TWO), "--output-format", "stream-json")
    ran = run_lines(door, user("go"), user(nothing), user(nothing), user("more"), flags=flags)
    alone = run_lines(door, user(nothing), flags=flags)

    results = [line for line in ran.lines if line["type"] == "result"]
    assert [(line["is_error"], line["result"]) for line in results] == [
        *((False, "one"), (True, ""), (True, ""), (False, "two")),
    ]
    assert results[1]["subtype"] == "error_during_execution"
    assert results[1]["errors"] == ["The prompt is empty. Say something."]
    assert len({line["uuid"] for line in results}) == 4
    assert [line["is_error"] for line in alone.lines[1:]] == [True]
    assert (ran.code, alone.code) == (2, 2)


def test_an_input_id_that_was_used_for_something_else_has_a_result_of_its_own(door: Door) -> None:
    flags = ("--model", door.script(ONE, TWO), "--output-format", "json")
    ran = run_lines(door, user("go", input_id="k"), user("other", input_id="k"), user("more"), flags=flags)

    assert [line["result"] for line in ran.lines] == ["one", "", "two"]
    assert (ran.code, ran.lines[1]["is_error"], "'k'" in ran.lines[1]["errors"][0]) == (2, True, True)
