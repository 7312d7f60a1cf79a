"""`backstay -p` in its four formats, and the exit code of each way a run can end."""

from typing import Any

import pytest

from backstay.version import VERSION
from tests.e2e.door import Door, Line, kinds

READS = {"text": "I look.", "chunk": 4, "calls": [{"name": "Read", "args": {"file_path": "a.txt"}}]}
RUNS = {"text": "I run.", "calls": [{"name": "Bash", "args": {"command": "echo ran > b.txt"}}]}
DONE = {"text": "Done.", "usage": {"input": 10, "output": 2}}


def test_text_is_the_final_text_and_nothing_else(door: Door) -> None:
    (door.work / "a.txt").write_text("hello\n", encoding="utf-8")

    ran = door.spawn("-p", "hi", "--model", door.script(READS, DONE | {"expect": {"contains": "hello"}}))

    assert (ran.code, ran.out, ran.err) == (0, "Done.\n", "")


def test_json_is_one_result_object(door: Door) -> None:
    ran = door.spawn("-p", "hi", "--model", door.script(DONE), "--output-format", "json", "--session-id", "s1")

    result = ran.json
    assert (ran.code, ran.err) == (0, "")
    assert result.pop("duration_ms") >= result.pop("duration_api_ms") >= 0
    model = f"scripted:{door.folder / 'script.json'}"
    tokens = {"inputTokens": 10, "outputTokens": 2, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0}
    limits = {"contextWindow": 200_000, "maxOutputTokens": 16_384}
    assert result == {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "num_turns": 1,
        "result": "Done.",
        "stop_reason": "end_turn",
        "session_id": "s1",
        "total_cost_usd": 0.00006,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 2,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        },
        "modelUsage": {model: tokens | {"webSearchRequests": 0, "costUSD": 0.00006} | limits},
        "permission_denials": [],
        "errors": [],
        "uuid": result["uuid"],
    }


def test_stream_json_has_one_block_a_line_and_ends_with_the_result(door: Door) -> None:
    (door.work / "a.txt").write_text("hello\n", encoding="utf-8")
    model = door.script(READS | {"reasoning": "hm"}, DONE)

    ran = door.spawn("-p", "hi", "--model", model, "--output-format", "stream-json", "--verbose", "--session-id", "s1")

    lines = ran.lines
    assert kinds(lines) == ["system/init", *["assistant"] * 3, "user", "assistant", "result/success"]
    assert {line["session_id"] for line in lines} == {"s1"}
    assert len({line["uuid"] for line in lines}) == len(lines)
    assert lines[0]["cwd"] == str(door.work)
    assert {"Read", "Write", "Edit", "Glob", "Grep", "Bash", "AskUserQuestion"} <= set(lines[0]["tools"])
    assert (lines[0]["model"], lines[0]["permissionMode"]) == (model, "default")
    assert lines[0]["version"] == lines[0]["claude_code_version"] == VERSION
    assert len({line["message"]["id"] for line in lines[1:4]}) == 1
    call = lines[3]["message"]["content"][0]
    assert [line["message"]["content"] for line in (*lines[1:5], lines[5])] == [
        [{"type": "thinking", "thinking": "hm", "signature": ""}],
        [{"type": "text", "text": "I look."}],
        [{"type": "tool_use", "id": call["id"], "name": "Read", "input": {"file_path": "a.txt"}}],
        [{"type": "tool_result", "tool_use_id": call["id"], "content": "     1\thello", "is_error": False}],
        [{"type": "text", "text": "Done."}],
    ]


def test_partial_messages_add_up_to_the_message(door: Door) -> None:
    ran = door.run(
        *("-p", "hi", "--model", door.script(READS | {"reasoning": "hm"}, DONE), "--no-persist"),
        *("--output-format", "stream-json", "--include-partial-messages"),
    )

    events: list[Line] = [line["event"] for line in ran.lines if line["type"] == "stream_event"]
    first = events[: 1 + [event["type"] for event in events].index("message_stop")]
    assert [event["type"] for event in first if event["type"] != "content_block_delta"] == [
        "message_start",
        *["content_block_start", "content_block_stop"] * 3,
        "message_delta",
        "message_stop",
    ]
    pieces: dict[int, str] = {}
    for event in first:
        if event["type"] == "content_block_delta":
            piece: Any = next(value for key, value in event["delta"].items() if key != "type")
            pieces[event["index"]] = pieces.get(event["index"], "") + piece
    assert pieces == {0: "hm", 1: "I look.", 2: '{"file_path":"a.txt"}'}


@pytest.mark.contract("RV-34", "ST-32", "ST-33", "ST-34", "ST-35", "ST-36", "ST-37", "ST-38")
def test_events_are_the_whole_stream_without_gaps_over_restarts(door: Door) -> None:
    model = door.script(READS, DONE, DONE)

    first = door.spawn("-p", "hi", "--model", model, "--output-format", "events", "--session-id", "s1").lines
    second = door.spawn("-r", "s1", "-p", "more", "--output-format", "events").lines

    sequence = [line["seq"] for line in (*first, *second) if "seq" in line]
    assert sequence == list(range(1, len(sequence) + 1))
    assert [kind for kind in kinds(first) if kind.startswith("Session")] == [
        *("SessionStarted", "SessionTurnStart", "SessionTurnEnd", "SessionPersisted", "SessionClosed"),
    ]
    assert [kind for kind in kinds(second) if kind.startswith("Session")] == [
        *("SessionResumeStarted", "SessionResumed", "SessionTurnStart", "SessionTurnEnd", "SessionPersisted"),
        "SessionClosed",
    ]
    assert (kinds(first)[0], kinds(first)[-2:]) == ("started", ["closed", "SessionClosed"])
    deltas = [line for line in first if line["type"] == "session:text_delta"]
    assert "".join(line["data"]["text"] for line in deltas) == "I look.Done."
    assert all({"session", "at", "by", "cause", "data", "id"} <= line.keys() for line in first if "seq" in line)
    assert door.run("log", "show", "s1", "--json").lines == [line for line in (*first, *second) if "seq" in line]


def test_a_call_that_nobody_can_approve_is_denied_reported_and_exits_3(door: Door) -> None:
    ran = door.run("-p", "hi", "--model", door.script(RUNS, DONE), "--output-format", "json")

    (denial,) = ran.json["permission_denials"]
    assert ran.code == 3
    assert (denial["tool_name"], denial["tool_input"]) == ("Bash", {"command": "echo ran > b.txt"})
    assert denial["tool_use_id"]
    assert (ran.json["result"], ran.json["is_error"]) == ("Done.", False)
    assert "Bash (echo ran > b.txt) was not run" in ran.err
    assert not (door.work / "b.txt").exists()


@pytest.mark.parametrize(
    ("flags", "code", "runs"),
    [
        (("--allow", "Bash"), 0, True),
        (("--allowedTools", "Read,Bash Edit"), 0, True),
        (("--permission-mode", "bypassPermissions"), 0, True),
        (("--permission-mode", "dontAsk"), 3, False),
        (("--permission-mode", "plan", "--allow", "Bash"), 0, False),
        (("--permission-mode", "acceptEdits"), 0, True),
        (("--allow", "Edit(/b.txt)"), 0, True),
        (("--allow", "Bash(echo *)"), 3, False),
        (("--allow", "Bash", "--disallowedTools", "Bash(rm *),WebFetch"), 0, True),
        (("--allow", "Bash", "--disallowedTools", "Bash(rm *),Write"), 0, False),
        (("--allow", "Bash", "--disallowedTools", "Bash(echo *),WebFetch"), 0, False),
        (("--allow", "Bash", "--deny", "Edit"), 0, False),
        (("--allow", "Bash", "--deny", "Bash"), 0, False),
        (("--allow", "Bash", "--ask", "Bash"), 3, False),
    ],
)
def test_rules_and_modes_decide_what_runs(door: Door, flags: tuple[str, ...], code: int, runs: bool) -> None:
    ran = door.run("-p", "hi", "--no-persist", "--model", door.script(RUNS, DONE), *flags)

    assert (ran.code, ran.out) == (code, "Done.\n")
    assert (door.work / "b.txt").exists() == runs


@pytest.mark.contract("RB-10")
def test_a_ceiling_on_rounds_exits_3(door: Door) -> None:
    ran = door.run("-p", "hi", "--model", door.script(READS, READS), "--max-turns", "1", "--output-format", "json")

    assert ran.code == 3
    assert (ran.json["subtype"], ran.json["is_error"], ran.json["num_turns"]) == ("error_max_turns", True, 1)
    assert "limit of 1 model call." in ran.json["errors"][0]


def test_a_script_that_runs_out_fails_the_turn_with_4(door: Door) -> None:
    model = door.script(DONE)
    door.run("-p", "one", "--model", model, "--session-id", "s1")

    ran = door.run("-r", "s1", "-p", "two", "--output-format", "json")

    assert ran.code == 4
    assert (ran.json["subtype"], ran.json["result"]) == ("error_during_execution", "")
    assert "has 1 reply and reply 2 was asked for" in ran.json["errors"][0]
    assert "has 1 reply and" in ran.err
    assert "Traceback" not in ran.err
    after = door.run("-r", "s1", "-p", "three", "--model", door.script(DONE, DONE, DONE, name="longer"))
    assert (after.code, after.out) == (0, "Done.\n")


def test_a_long_answer_is_printed_whole(door: Door) -> None:
    long = "word " * 20_000

    ran = door.run("-p", "hi", "--model", door.script({"text": long, "chunk": 5000}), "--output-format", "text")

    assert ran.out == long + "\n"


def test_prompts_of_the_system_reach_the_session_and_the_folder_is_chosen(door: Door) -> None:
    (door.folder / "other").mkdir()
    (door.folder / "other" / "a.txt").write_text("from there", encoding="utf-8")
    door.run(
        *(
            "-p",
            "hi",
            "--model",
            door.script(READS, DONE | {"expect": {"contains": "from there"}}),
            "--session-id",
            "s1",
        ),
        *("--cwd", str(door.folder / "other"), "--system-prompt", "Be kind.", "--append-system-prompt", "Be short."),
        "--bare",
    )

    shown = door.run("sessions", "show", "s1", "--json").json

    assert shown["systemPrompt"] == "Be kind.\n\nBe short."
    assert (shown["cwd"], shown["answer"]) == (str(door.folder / "other"), "Done.")
