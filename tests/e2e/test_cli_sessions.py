"""Sessions over several processes: continued, resumed, copied, crashed and finished, and the commands that look after them."""

import json

import pytest

from tests.e2e.door import Door, Ran, finish, kinds

ONE = {"text": "one"}
TWO = {"text": "two"}
CRASHES = {
    "text": "I try.",
    "calls": [{"name": "Bash", "args": {"command": "echo x >> ledger; kill -9 $PPID; sleep 9"}}],
}
"""The command kills the process that runs it."""


def crash(door: Door, *more: str) -> str:
    """Let a session die in the middle of a command and return the model."""
    model = door.script(CRASHES, {"text": "It is known.", "expect": {"contains": "Outcome unknown"}}, ONE)
    flags = ("--model", model, "--session-id", "s1", "--permission-mode", "bypassPermissions", "--input-id", "k1")
    assert door.spawn("-p", "go", *flags, *more).code == -9
    return model


@pytest.mark.contract("ST-13", "ST-29", "RB-8")
def test_continue_means_the_newest_session_of_the_project_in_which_something_was_said(door: Door) -> None:
    model = door.script(ONE, TWO)
    door.run("-p", "hi", "--model", model, "--session-id", "mine", "--permission-mode", "plan")
    elsewhere = door.folder / "elsewhere"
    elsewhere.mkdir()
    door.run("-p", "hi", "--model", model, "--session-id", "other", cwd=elsewhere)

    ran = door.run("-c", "-p", "more", "--output-format", "json")

    assert (ran.code, ran.json["session_id"], ran.json["result"]) == (0, "mine", "two")
    shown = door.run("sessions", "show", "mine", "--json").json
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant"] * 2
    assert shown["mode"] == "plan"
    nothing = door.run("-c", "-p", "x", cwd=door.folder)
    assert (nothing.code, nothing.out) == (1, "")
    assert "can be continued yet" in nothing.err


def test_a_session_is_resumed_by_name_and_copied_without_touching_it(door: Door) -> None:
    door.run("-p", "hi", "--model", door.script(ONE, TWO, TWO), "--session-id", "s1", "--name", "the name")

    copy = door.run("-r", "the name", "--fork-session", "--session-id", "s2", "-p", "more", "--output-format", "json")
    same = door.run("-r", "the name", "-p", "more", "--name", "new name", "--output-format", "json")

    assert (copy.json["session_id"], copy.json["result"]) == ("s2", "two")
    assert (same.json["session_id"], same.json["result"]) == ("s1", "two")
    listed = {one["id"]: one for one in door.run("sessions", "list", "--json").json}
    assert {key: (one["turns"], one["name"], one["origin"]) for key, one in listed.items()} == {
        "s1": (2, "new name", ""),
        "s2": (2, "", "s1"),
    }


@pytest.mark.contract("RB-7")
def test_no_persist_keeps_nothing(door: Door) -> None:
    ran = door.run("-p", "hi", "--model", door.script(ONE), "--no-session-persistence")

    assert (ran.code, ran.out) == (0, "one\n")
    assert not (door.folder / "data").exists()


def test_a_pipe_is_a_prompt(door: Door) -> None:
    model = door.script({"text": "heard", "expect": {"contains": "from the pipe\n- a list"}})

    piped = door.spawn("--model", model, "--no-persist", text="from the pipe\n- a list\n")
    dashed = door.spawn("-p", "-", "--model", model, "--no-persist", text="from the pipe\n- a list\n")
    empty = door.spawn("-p", "-", "--model", model, "--no-persist", text="  \n")

    assert [(ran.code, ran.out) for ran in (piped, dashed, empty)] == [(0, "heard\n"), (0, "heard\n"), (2, "")]


@pytest.mark.contract("ST-31")
def test_a_turn_that_was_cut_by_a_crash_is_finished(door: Door) -> None:
    crash(door)

    ran = door.run("-r", "s1", "--finish", "--output-format", "json")

    assert (ran.code, ran.json["result"], ran.json["num_turns"]) == (0, "It is known.", 2)
    assert "outcome unknown: Bash" in ran.err
    assert (door.work / "ledger").read_text(encoding="utf-8") == "x\n"
    again = door.run("-r", "s1", "--finish", "--output-format", "json")
    assert (again.code, again.json["result"], again.json["subtype"]) == (0, "", "success")
    assert "Nothing was open" in again.err
    assert door.run("log", "validate", "s1").code == 0


def test_a_new_prompt_waits_for_the_turn_that_a_crash_cut(door: Door) -> None:
    crash(door)

    ran = door.run("-r", "s1", "-p", "next", "--output-format", "json")

    assert (ran.code, ran.json["result"], ran.json["num_turns"]) == (0, "one", 1)
    results = door.run("sessions", "show", "s1", "--json").json["turn_results"]
    assert [(turn["outcome"], turn["text"]) for turn in results] == [
        ("completed", "It is known."),
        ("completed", "one"),
    ]


@pytest.mark.contract("ST-15")
def test_a_turn_that_was_cut_by_a_crash_is_given_up_when_asked(door: Door) -> None:
    crash(door)

    ran = door.run("-c", "--finish", "--on-crash", "abandon")

    assert (ran.code, ran.out) == (0, "")
    assert "given up" in ran.err
    shown = door.run("sessions", "show", "s1", "--json").json
    assert (shown["messages"], shown["open_turn"], len(shown["turn_results"])) == ([], False, 1)


def test_an_input_id_is_taken_once_whatever_happens(door: Door) -> None:
    model = crash(door)
    flags = ("-r", "s1", "--input-id", "k1", "--output-format")

    finished = door.run("-p", "go", *flags, "json")
    recorded = door.run("-p", "go", *flags, "json")
    events = door.run("-p", "go", *flags, "events")
    conflict = door.run("-p", "something else", *flags, "json")

    assert (finished.code, finished.json["result"]) == (0, "It is known.")
    assert (recorded.code, recorded.json) == (0, finished.json)
    assert (conflict.code, conflict.out) == (2, "")
    assert "'k1' was used for another text" in conflict.err
    told = [kind for kind in kinds(events.lines) if not kind.startswith("Session")]
    assert (told[0], told[-1], told.count("model_replied")) == ("input_received", "turn_completed", 2)
    new = door.run("-p", "go", "-r", "s1", "--input-id", "k2", "--model", model)
    assert (new.code, new.out) == (0, "one\n")


def test_the_recorded_result_of_a_failure_is_a_failure_again(door: Door) -> None:
    model = door.script({"error": {"kind": "auth", "message": "No key."}}, ONE)
    flags = ("--model", model, "--session-id", "s1", "--input-id", "k1", "--output-format", "json")

    first = door.run("-p", "go", *flags)
    second = door.run("-p", "go", *flags)

    assert (first.code, first.json["errors"]) == (4, ["No key."])
    assert (second.code, second.json) == (4, first.json)


@pytest.mark.contract("RB-23")
def test_the_commands_that_look_after_sessions(door: Door) -> None:
    model = door.script(ONE, TWO)
    door.run("-p", "the first prompt", "--model", model, "--session-id", "s1")
    door.run("-p", "the second prompt", "--model", model, "--session-id", "s2")

    def told(*arguments: str) -> object:
        ran = door.run("sessions", *arguments, "--json")
        assert (ran.code, ran.err) == (0, "")
        return ran.json

    newest_first = door.run("--store", door.store, "sessions", "list", "--json").json
    assert [one["id"] for one in newest_first] == ["s2", "s1"]
    assert {"id", "cwd", "created", "updated", "prompt", "turns", "model", "project"} <= newest_first[0].keys()
    assert [one["id"] for one in door.run("sessions", "list", "--limit", "1", "--json").json] == ["s2"]
    assert told("list", "--project", str(door.folder)) == []
    assert told("rename", "s1", "a name") == {"id": "s1", "name": "a name"}
    assert told("fork", "a name", "--session-id", "s3") == {"id": "s3", "origin": "s1"}
    hits = told("search", "second prompt")
    assert isinstance(hits, list)
    assert [hit["session"] for hit in hits] == ["s2"]
    assert told("move", "s1", f"sqlite://{door.folder / 'lines'}") == {
        "id": "s1",
        "store": f"sqlite://{door.folder}/lines",
    }
    moved = door.run("--store", f"sqlite://{door.folder / 'lines'}", "-r", "a name", "-p", "more")
    assert (moved.code, moved.out) == (0, "two\n")
    assert told("delete", "s2") == {"deleted": ["s2"]}
    assert told("prune", "--older-than", "0", "--dry-run") == {"would_delete": ["s3"], "dry_run": True}
    assert told("verify") == [{"id": "s3", "ok": True, "problems": []}]
    shown = told("show", "s3")
    assert isinstance(shown, dict)
    assert {"id", "cwd", "createdAt", "updatedAt", "messages", "history", "systemPrompt", "toolSchemas"} <= shown.keys()
    assert (shown["id"], shown["holder"], len(shown["messages"])) == ("s3", None, 2)
    assert told("prune", "--empty", "--older-than", "0") == {"deleted": ["s3"], "dry_run": False}
    assert door.run("sessions", "list").out == "There are no sessions here yet.\n"


def test_people_read_plain_columns_in_a_pipe(door: Door) -> None:
    door.run("-p", "hello there", "--model", door.script(ONE), "--session-id", "s1")

    listed = door.run("sessions", "list").out.splitlines()
    shown = door.run("sessions", "show", "s1").out

    assert listed[0].split() == ["ID", "LAST", "USED", "TURNS", "NAME", "OR", "PROMPT"]
    assert listed[1].startswith("s1  ")
    assert listed[1].endswith("hello there")
    assert "[user] hello there\n\n[assistant] one\n" in shown


def test_a_session_that_somebody_holds_is_refused_before_any_model_call(door: Door) -> None:
    holder = door.start(
        *("-p", "go", "--session-id", "s1", "--model", door.script({"text": "hm", "hang": True}, ONE)),
        *("--output-format", "events"),
    )
    assert holder.stdout is not None
    while "text_delta" not in holder.stdout.readline():
        pass

    refused = door.run("-r", "s1", "-p", "me too")
    deleted = door.run("sessions", "delete", "s1")
    copied = door.run("sessions", "fork", "s1", "--session-id", "s2", "--json")
    held = door.run("sessions", "show", "s1", "--json").json["holder"]

    assert _told(refused) == _told(deleted) == (1, "", True)
    assert f"{holder.pid}" in refused.err
    assert held["pid"] == holder.pid
    assert copied.json == {"id": "s2", "origin": "s1"}
    holder.kill()
    finish(holder)
    taken_over = door.run("-r", "s1", "--finish", "--on-crash", "abandon")
    assert taken_over.code == 0
    assert door.run("-r", "s1", "-p", "x", "--model", door.script(ONE, name="new")).out == "one\n"


def _told(ran: Ran) -> tuple[int, str, bool]:
    return ran.code, ran.out, ran.err.startswith("backstay: ") and "Traceback" not in ran.err


def test_several_sessions_may_start_at_once_on_one_store(door: Door) -> None:
    model = door.script(ONE)
    processes = [door.start("-p", "hi", "--model", model, "--output-format", "json") for _ in range(6)]

    ended = [(process.communicate(timeout=50), process.returncode) for process in processes]

    assert [code for _, code in ended] == [0] * 6
    assert len({json.loads(out)["session_id"] for (out, _), _ in ended}) == 6


@pytest.mark.contract("RV-11")
def test_a_session_is_exported_by_the_ending_of_the_file(door: Door) -> None:
    door.run("-p", "hi there", "--model", door.script(ONE), "--session-id", "s1")
    flow, record = door.folder / "flow.backstay.yaml", door.folder / "s1.json"

    assert door.run("export", "s1", "-o", str(flow)).code == 0
    assert door.run("export", "s1", "-o", str(record)).code == 0

    assert flow.read_text().startswith("edges:\n  - from: input\n    to: turn-1\n")
    assert [message["role"] for message in json.loads(record.read_text())["messages"]] == ["user", "assistant"]
    assert door.run("sessions", "show", "s1", "--json").json["exported"] is True
    assert door.run("export", "nobody", "-o", str(flow)).code == 1
    assert door.run("export", "s1", "-o", str(door.folder / "no" / "such" / "folder.yaml")).code in (1, 2)


def test_a_session_is_not_moved_to_where_it_would_be_gone(door: Door) -> None:
    door.run("-p", "hi", "--model", door.script({"text": "one"}), "--session-id", "s1")

    moved = door.run("sessions", "move", "s1", "memory:")

    assert (moved.code, moved.out) == (2, "")
    assert [one["id"] for one in door.run("sessions", "list", "--json").json] == ["s1"]


def test_what_is_exported_is_for_the_person_alone(door: Door) -> None:
    door.run("-p", "hi", "--model", door.script({"text": "one"}), "--session-id", "s1")

    for name in ("s1.yaml", "s1.json"):
        assert door.run("export", "s1", "-o", name).code == 0
        assert (door.work / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("command", ["delete", "prune"])
def test_the_help_says_that_there_is_no_question_without_a_terminal(door: Door, command: str) -> None:
    shown = " ".join(door.run("sessions", command, "--help").out.split())

    assert (
        "On a terminal you are asked first. Without one, as in a script, they are deleted without a question" in shown
    )
