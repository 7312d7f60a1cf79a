"""Waits, fallbacks, compaction, budgets and schemas through the command line: what is printed, and how it ends."""

import json

import pytest

from tests.e2e.door import Door, Line, finish, kinds, read_until, send

BUSY = {"error": {"kind": "rate_limit", "retry_after_s": 0.01}}
DEAR = {"text": "dear", "usage": {"input": 10_000, "output": 1_000}}
"""Costs $0.045 at the price of a script."""
CALL = {"calls": [{"name": "Read", "args": {"file_path": "a.txt"}}], "usage": DEAR["usage"]}
"""As dear, and not the end."""
FULL = {"text": "full", "usage": {"input": 190_000, "output": 10}}
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'


def of_kind(lines: list[Line], kind: str) -> list[Line]:
    """The lines of a kind, without what every line has."""
    common = ("type", "subtype", "session_id", "uuid")
    found = [line for line, name in zip(lines, kinds(lines), strict=True) if name == kind]
    return [{key: value for key, value in line.items() if key not in common} for line in found]


def test_a_wait_is_told_and_the_answer_comes(door: Door) -> None:
    model = door.script(BUSY, BUSY, {"text": "one"})

    shown = door.run("-p", "hi", "--model", model)
    lines = door.run("-p", "hi", "--model", model, "--output-format", "stream-json").lines

    assert (shown.code, shown.out) == (0, "one\n")
    assert shown.err.splitlines() == [
        "backstay: rate limited; trying again in 0.01 s (2 of 4)",
        "backstay: rate limited; trying again in 0.01 s (3 of 4)",
    ]
    retry = {"max_retries": 3, "retry_delay_ms": 10, "error_status": None, "error": "rate_limit", "model": model}
    assert of_kind(lines, "system/api_retry") == [{"attempt": 1} | retry, {"attempt": 2} | retry]


def test_the_settings_say_how_often_it_is_tried(door: Door) -> None:
    settings = door.folder / "s.json"
    settings.write_text('{"retries": 0}', encoding="utf-8")

    ran = door.run("-p", "hi", "--model", door.script(BUSY, {"text": "one"}), "--settings", str(settings))

    assert (ran.code, ran.out) == (4, "")


def test_the_next_model_answers_when_the_first_cannot(door: Door) -> None:
    first = door.script({"error": {"kind": "auth"}}, name="first")
    second = door.script({"error": {"kind": "auth"}}, name="second")
    third = door.script({"text": "third"}, name="third")
    flags = ("-p", "hi", "--model", first, "--fallback-model", second, "--fallback-model", third)

    shown = door.run(*flags)
    lines = door.run(*flags, "--output-format", "stream-json").lines

    assert (shown.code, shown.out) == (0, "third\n")
    assert shown.err.splitlines()[0] == f"backstay: {first}: the key was refused; {second} answers"
    assert of_kind(lines, "system/model_fallback") == [
        {"from": first, "to": second, "error": "auth"},
        {"from": second, "to": third, "error": "auth"},
    ]
    assert list(lines[-1]["modelUsage"]) == [third]


@pytest.mark.contract("RV-B7")
def test_a_budget_is_kept_to_the_micro_cent_and_ends_the_run(door: Door) -> None:
    model = door.script(DEAR, DEAR, DEAR)
    first = door.run("-p", "hi", "--model", model, "--session-id", "s1", "--max-budget-usd", "0.045")
    second = door.run("-p", "hi", "-r", "s1", "--output-format", "json")
    raised = door.run("-p", "hi", "-r", "s1", "--max-budget-usd", "1", "--output-format", "json")

    assert (first.code, first.out, first.err) == (0, "dear\n", "")
    assert (second.code, second.json["subtype"], second.json["is_error"]) == (3, "error_max_budget_usd", True)
    assert second.json["errors"] == ["The budget of $0.0450 is used up: $0.0450 are spent. Raise it to go on."]
    assert (raised.code, raised.json["total_cost_usd"]) == (0, 0.045)
    shown = door.run("sessions", "show", "s1")
    assert "context:   11,000 of 200,000 tokens (5.5 %)\n" in shown.out
    assert "cost:      $0.0900\n" in shown.out
    assert "budget:    $1.00, the turn fails when it is spent\n" in shown.out
    found = door.run("sessions", "show", "s1", "--json").json
    assert (found["cost_microcents"], found["budget"]["limit_usd"], found["context"]["used"]) == (9_000_000, 1, 11_000)


def test_a_budget_that_only_warns_goes_on(door: Door) -> None:
    flags = ("--max-budget-usd", "0.04", "--on-exceed", "warn")

    ran = door.run("-p", "hi", "--model", door.script(CALL, DEAR), *flags)
    lines = door.run("-p", "hi", "--model", door.script(CALL, DEAR), *flags, "--output-format", "stream-json").lines

    assert (ran.code, ran.out) == (0, "dear\n")
    assert ran.err == "backstay: budget: $0.0450 of $0.0400 spent, going on\n"
    assert of_kind(lines, "system/budget_warning") == [{"spent_usd": 0.045, "limit_usd": 0.04}]


@pytest.mark.contract("RV-B7")
def test_a_paused_turn_says_how_to_go_on_and_goes_on(door: Door) -> None:
    flags = ("--model", door.script(CALL, DEAR, DEAR), "--max-budget-usd", "0.04", "--on-exceed", "pause")
    paused = door.run("-p", "hi", "--session-id", "s1", *flags, "--output-format", "stream-json")
    still = door.run("-r", "s1", "--finish")
    queued = door.run("-r", "s1", "-p", "and this?", "--output-format", "json")
    done = door.run("-r", "s1", "--finish", "--max-budget-usd", "0.085")

    last = paused.lines[-1]
    assert (paused.code, last["subtype"], last["total_cost_usd"]) == (3, "error_max_budget_usd", 0.045)
    assert of_kind(paused.lines, "system/budget_paused") == [{"spent_usd": 0.045, "limit_usd": 0.04}]
    how = "`backstay -r s1 --finish --max-budget-usd 0.085` goes on."
    assert last["errors"] == [
        "The turn is paused: $0.0450 are spent and the budget is $0.0400. Raise the budget and finish the turn. " + how
    ]
    assert (still.code, still.out) == (3, "")
    assert "budget: $0.0450 spent, paused\n" in still.err
    assert (queued.code, queued.json["subtype"]) == (3, "error_max_budget_usd")
    assert "The prompt is queued" in queued.json["errors"][0]
    assert door.run("sessions", "show", "s1", "--json").json["budget"]["paused"] is True
    assert (done.code, done.out) == (3, "")  # the first turn is answered; the queued one has no money left
    assert door.run("-r", "s1", "--finish", "--max-budget-usd", "1").out == "dear\n"
    results = door.run("sessions", "show", "s1", "--json").json["turn_results"]
    assert [turn["outcome"] for turn in results] == ["completed", "completed"]


def test_a_program_answers_the_question_about_money(door: Door) -> None:
    flags = ("--max-budget-usd", "0.045", "--on-exceed", "pause", "--session-id", "s1")
    process = door.start(
        *("--input-format", "stream-json", "--output-format", "stream-json", "--model", door.script(CALL, DEAR)), *flags
    )
    send(process, {"type": "user", "message": {"role": "user", "content": "hi"}})
    *_, question = read_until(process, "control_request")
    assert (question["request"]["tool_name"], question["request"]["input"]) == (
        "Budget",
        {"spent_usd": 0.045, "limit_usd": 0.045},
    )
    body = {"behavior": "allow", "updatedInput": question["request"]["input"]}
    send(
        process,
        {"type": "control_response", "response": {"request_id": question["request_id"], "response": body}},
    )
    ran = finish(process)

    assert (ran.code, ran.lines[-1]["result"]) == (0, "dear")
    assert door.run("sessions", "show", "s1", "--json").json["budget"]["limit_usd"] == 0.09


def test_a_model_without_a_price_needs_a_word(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    model = "openai-chat:nobody-knows-it@http://127.0.0.1:9/v1"
    flags = ("-p", "hi", "--model", model, "--max-budget-usd", "1", "--settings", str(door.folder / "s.json"))
    (door.folder / "s.json").write_text('{"retries": 0}', encoding="utf-8")

    refused = door.run(*flags)
    allowed = door.run(*flags, "--allow-unpriced")

    assert (refused.code, "has no known price" in refused.err) == (1, True)
    assert "--allow-unpriced" in refused.err
    assert (allowed.code, allowed.err.count("Nothing is known of the model")) == (4, 1)


def test_turns_of_a_session_are_counted(door: Door) -> None:
    model = door.script({"text": "one"}, {"text": "two"})
    door.run("-p", "hi", "--model", model, "--session-id", "s1", "--max-session-turns", "1")

    ran = door.run("-p", "hi", "-r", "s1", "--max-session-turns", "1", "--output-format", "json")

    assert (ran.code, ran.json["subtype"]) == (3, "error_max_turns")
    assert door.run("-p", "hi", "-r", "s1").out == "two\n"


def test_an_answer_that_fits_the_schema_is_there_as_an_object(door: Door) -> None:
    (door.work / "schema.json").write_text(SCHEMA, encoding="utf-8")
    model = door.script({"text": "twelve"}, {"text": '```json\n{"n": 12}\n```'})

    inline = door.run("-p", "hi", "--model", model, "--json-schema", SCHEMA, "--output-format", "json")
    file = door.run(
        *("-p", "hi", "--model", f"{model}@2", "--json-schema", "schema.json", "--output-format", "stream-json"),
        *("--session-id", "s1", "--effort", "high"),
    )
    without = door.run("-p", "hi", "--model", f"{model}@2", "--output-format", "json")

    assert (inline.code, inline.json["structured_output"], inline.json["num_turns"]) == (0, {"n": 12}, 2)
    assert (file.code, file.lines[-1]["structured_output"]) == (0, {"n": 12})
    assert "structured_output" not in without.json
    log = [json.loads(line) for line in door.run("log", "show", "s1", "--json").out.splitlines()]
    asked = next(line for line in log if line["type"] == "session:model_asked")
    assert asked["data"]["parameters"] == {"effort": "high", "schema": json.loads(SCHEMA)}


def test_answers_that_never_fit_fail_the_turn(door: Door) -> None:
    ran = door.run(
        *("-p", "hi", "--model", door.script(*[{"text": "no"}] * 9), "--json-schema", SCHEMA),
        *("--output-format", "json"),
    )

    assert (ran.code, ran.json["subtype"]) == (4, "error_max_structured_output_retries")
    assert "structured_output" not in ran.json


def test_a_full_context_is_compacted_and_told(door: Door) -> None:
    model = door.script(FULL, {"text": "again"})
    door.run("-p", "a" * 4000, "--model", model, "--session-id", "s1")
    door.run("sessions", "fork", "s1", "--session-id", "s2")
    door.run("sessions", "fork", "s1", "--session-id", "s3")

    shown = door.run("-r", "s1", "-p", "and?")
    lines = door.run("-r", "s2", "-p", "and?", "--output-format", "stream-json").lines
    never = door.run("-r", "s3", "-p", "and?", "--no-auto-compact")

    assert (shown.code, shown.out) == (0, "again\n")
    assert shown.err.startswith("backstay: compacted: 190,0")
    (boundary,) = of_kind(lines, "system/compact_boundary")
    assert boundary["compact_metadata"]["trigger"] == "auto"
    assert boundary["compact_metadata"]["pre_tokens"] > boundary["compact_metadata"]["post_tokens"] > 0
    assert "compacted" not in never.err


def test_sessions_compact_and_its_undoing(door: Door) -> None:
    model = door.script(*[{"text": "b" * 2000}] * 8)
    for _ in range(4):
        door.run("-p", "a" * 200, "--model", model, "--session-id", "s1")
    before = door.run("sessions", "show", "s1", "--json").json

    nothing = door.run("sessions", "compact", "s1", "--undo")
    done = door.run("sessions", "compact", "s1", "--instructions", "the names", "--json")
    after = door.run("sessions", "show", "s1", "--json").json
    undone = door.run("sessions", "compact", "s1", "--undo")
    again = door.run("sessions", "show", "s1", "--json").json

    assert (nothing.code, "is not compacted" in nothing.err) == (1, True)
    assert (done.code, done.json["trigger"], done.json["messages"] < 8) == (0, "manual", True)
    assert done.json["before"] > done.json["after"]
    assert len(after["messages"]) == done.json["messages"]
    assert after["context"]["used"] < before["context"]["used"]
    assert (undone.code, "8 messages" in undone.out) == (0, True)
    assert again["messages"] == before["messages"]
    assert door.run("sessions", "compact", "missing").code == 1
    assert door.run("sessions", "compact", "s1", "--undo", "--instructions", "x").code == 2


def test_a_session_that_is_shown_is_as_full_as_it_says_itself(door: Door) -> None:
    door.run("-p", "hi", "--model", door.script({"text": "Hi."}, {"text": "Hi."}), "--session-id", "s1")

    itself = door.run("-r", "s1", "-p", "/context", "--output-format", "json").json["command_data"]
    shown = door.run("sessions", "show", "s1", "--json").json["context"]

    assert shown["used"] == itself["usedTokens"] > 1_000
    assert f"context:   about {shown['used']:,} of 200,000 tokens" in door.run("sessions", "show", "s1").out
