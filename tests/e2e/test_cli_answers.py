"""What a program may say to a question: other arguments, rules for the session, the answers to what the model asks a person."""

import json

import pytest

from tests.e2e.door import Door, Line, Process, Ran, finish, kinds, read_until, send

LINES = ("--input-format", "stream-json", "--output-format", "stream-json")
DONE = {"text": "Done."}
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "red", "description": "warm"}, {"label": "blue"}],
}
ASKS = {"calls": [{"name": "AskUserQuestion", "args": {"questions": [QUESTION]}}]}


def runs(command: str) -> Line:
    """A reply that calls Bash."""
    return {"text": "I run.", "calls": [{"name": "Bash", "args": {"command": command}}]}


def begin(door: Door, *replies: Line, flags: tuple[str, ...] = ()) -> tuple[Process, Line]:
    """Start a session that asks, and return its first question."""
    process = door.start("-p", "go", "--model", door.script(*replies), "--session-id", "s1", *LINES, *flags)
    return process, list(read_until(process, "control_request"))[-1]


def answer(question: Line, **said: object) -> Line:
    """The answer to a question."""
    response = {"subtype": "success", "request_id": question["request_id"], "response": said}
    return {"type": "control_response", "response": response}


def answered(door: Door, *replies: Line, flags: tuple[str, ...] = (), **said: object) -> Ran:
    """What comes after the first question was answered so, when nobody answers another."""
    process, question = begin(door, *replies, flags=flags)
    send(process, answer(question, **said))
    return finish(process)


def results(ran: Ran) -> list[str]:
    """What the model was told of its calls."""
    return [line["message"]["content"][0]["content"] for line in ran.lines if line["type"] == "user"]


def files(door: Door) -> list[str]:
    """The files of the working folder."""
    return sorted(path.name for path in door.work.iterdir() if path.is_file())


# --- other arguments ---------------------------------------------------------------------------------------------------------------


def test_arguments_that_the_person_changed_run_as_changed_and_the_model_is_told(door: Door) -> None:
    ran = answered(
        door,
        runs("echo ran >> b.txt"),
        DONE | {"expect": {"contains": "The person changed the arguments"}},
        behavior="allow",
        updatedInput={"command": "echo other >> c.txt"},
    )

    (told,) = results(ran)
    assert '{"command":"echo other >> c.txt"}' in told
    assert (ran.code, ran.lines[-1]["result"], ran.lines[-1]["permission_denials"]) == (0, "Done.", [])
    assert files(door) == ["c.txt"]


@pytest.mark.parametrize(
    ("changed", "flags", "words"),
    [
        ({"command": "touch c.txt"}, ("--deny", "Bash(touch *)"), "denied by the rule 'Bash(touch *)'"),
        ({"command": "env touch c.txt"}, ("--deny", "Bash(touch *)"), "denied by the rule 'Bash(touch *)'"),
        ({"command": "rm -rf /"}, (), "this would remove the whole file system"),
        ({}, (), "Missing argument 'command'"),
        ({"command": 3}, (), "'command'"),
        ({"command": "true", "comand": "true"}, (), "'comand'"),
    ],
)
def test_a_change_that_is_denied_or_makes_no_sense_runs_nothing(
    door: Door, changed: Line, flags: tuple[str, ...], words: str
) -> None:
    ran = answered(door, runs("echo ran >> b.txt"), DONE, flags=flags, behavior="allow", updatedInput=changed)

    (told,) = results(ran)
    assert words in told
    assert (ran.code, ran.lines[-1]["result"]) == (0, "Done.")
    assert files(door) == []


def test_a_refusal_runs_nothing_whatever_arguments_it_carries(door: Door) -> None:
    ran = answered(
        door, runs("echo ran >> b.txt"), DONE, behavior="deny", message="no", updatedInput={"command": "touch c.txt"}
    )

    assert results(ran) == ["Not run: no."]
    assert files(door) == []


def test_a_yes_for_a_changed_call_holds_for_this_call_alone(door: Door) -> None:
    process, question = begin(door, runs("touch b.txt"), runs("touch c.txt"), runs("touch b.txt"), DONE)
    change = {"allow": True, "grant": "session", "updatedInput": {"command": "touch c.txt"}}
    send(process, {"type": "answer", "call": question["request_id"], **change})
    rest = finish(process)

    assert [told.startswith("Not run") for told in results(rest)] == [False, True, True]
    assert kinds(rest.lines).count("control_request") == 2
    assert files(door) == ["c.txt"]


def test_an_early_answer_may_change_the_arguments_too(door: Door) -> None:
    process = door.start("--model", door.script(runs("echo ran >> b.txt"), DONE), "--input-format", "stream-json")
    send(process, {"type": "answer", "allow": True, "updatedInput": {"command": "echo other >> c.txt"}})
    send(process, {"type": "user", "message": {"role": "user", "content": "go"}})
    ran = finish(process)

    assert (ran.code, ran.out, ran.err) == (0, "Done.\n", "")
    assert files(door) == ["c.txt"]


def test_a_question_shows_what_would_run_after_a_hook_changed_it(door: Door) -> None:
    change = {"hookEventName": "PreToolUse", "permissionDecision": "ask", "updatedInput": {"command": "touch c.txt"}}
    hook = {"type": "command", "command": f"echo '{json.dumps({'hookSpecificOutput': change})}'"}
    settings = door.folder / "config" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}), encoding="utf-8")
    settings.chmod(0o600)

    process, question = begin(door, runs("touch b.txt"), DONE)
    send(process, answer(question, behavior="allow", updatedInput=question["request"]["input"]))
    finish(process)

    assert question["request"]["input"] == {"command": "touch c.txt"}
    assert files(door) == ["c.txt"]


# --- rules for longer --------------------------------------------------------------------------------------------------------------


def test_what_was_suggested_may_be_granted_for_the_session(door: Door) -> None:
    process, question = begin(door, runs("cargo build a"), runs("cargo build b"), runs("cargo publish"), DONE)
    suggested = question["request"]["permission_suggestions"]
    for_session = [each for each in suggested if each["destination"] == "session"]
    send(process, answer(question, behavior="allow", updatedPermissions=for_session))
    rest = finish(process)

    rules = [{"toolName": "Bash", "ruleContent": "cargo build *"}]
    assert for_session == [{"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}]
    assert [told.startswith("Not run") for told in results(rest)] == [False, False, True]
    (asked,) = (line["request"]["input"] for line in rest.lines if line["type"] == "control_request")
    assert asked == {"command": "cargo publish"}


def test_a_rule_that_was_not_suggested_is_not_granted(door: Door) -> None:
    wide = {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"}
    ran = answered(
        door,
        runs("touch b.txt"),
        runs("touch c.txt"),
        DONE,
        behavior="allow",
        updatedPermissions=[wide],
    )

    assert [told.startswith("Not run") for told in results(ran)] == [False, True]
    assert (ran.code, files(door)) == (3, ["b.txt"])


def test_a_grant_for_the_project_holds_in_the_next_session_and_not_elsewhere(door: Door) -> None:
    process, question = begin(door, runs("touch b.txt"), DONE)
    kept = [each for each in question["request"]["permission_suggestions"] if each["destination"] == "localSettings"]
    send(process, answer(question, behavior="allow", updatedPermissions=kept))
    finish(process)
    elsewhere = door.folder / "elsewhere"
    elsewhere.mkdir()
    again = ("-p", "go", "--model", door.script(runs("touch b.txt"), DONE))

    assert len(kept) == 1
    assert (door.run(*again).code, door.run(*again, "--bare").code) == (0, 3)
    assert door.run(*again, cwd=elsewhere).code == 3


@pytest.mark.parametrize("grant", ["project", "person"])
@pytest.mark.parametrize("early", [False, True])
def test_a_grant_for_longer_without_rules_keeps_exactly_the_call(door: Door, grant: str, early: bool) -> None:
    given = {"type": "answer", "allow": True, "grant": grant}
    if early:
        model = door.script(runs("cargo build -q"), DONE)
        process = door.start("--model", model, "--input-format", "stream-json")
        send(process, given, {"type": "user", "message": {"role": "user", "content": "go"}})
    else:
        process, _ = begin(door, runs("cargo build -q"), DONE)
        send(process, given)
    ran = finish(process)
    place = str(door.work) if grant == "project" else "*"
    again = door.run("permissions", "grants", "--json").json
    flags = ("-p", "go", "--no-persist")

    assert (ran.code, ran.complaints) == (0, "")
    assert json.loads((door.folder / "data/grants.json").read_text()) == {place: ["Bash(cargo build -q)"]}
    assert [each["rule"] for each in again] == ["Bash(cargo build -q)"]
    assert door.run(*flags, "--model", door.script(runs("cargo build -q"), DONE)).code == 0
    assert door.run(*flags, "--model", door.script(runs("cargo build -v"), DONE)).code == 3


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (runs("echo *.py > b.txt"), "no rule means exactly this call"),
        (
            {"calls": [{"name": "Write", "args": {"file_path": "b.txt", "content": "x"}}]},
            '"rules" with any of ["Edit(/b.txt)"]',
        ),
    ],
)
def test_a_grant_for_longer_that_would_keep_nothing_is_refused_and_the_question_stays(
    door: Door, early: bool, call: Line, words: str
) -> None:
    process = door.start("--model", door.script(call, DONE), *LINES)
    given: Line = {"type": "answer", "allow": True, "grant": "project"}
    prompt: Line = {"type": "user", "message": {"role": "user", "content": "go"}}
    send(process, *((given, prompt) if early else (prompt,)))
    list(read_until(process, "control_request"))
    if not early:
        send(process, given)
    send(process, {"type": "answer", "allow": True, "grant": "session"})
    ran = finish(process)

    assert (ran.code, files(door)) == (0, ["b.txt"])
    assert words in ran.complaints
    assert ran.complaints.count("was not used: it would keep nothing for the grant 'project'") == 1
    assert not (door.folder / "data/grants.json").exists()


def test_rules_that_were_not_suggested_are_kept_nowhere_and_the_answer_is_refused(door: Door) -> None:
    process, question = begin(door, runs("touch b.txt"), DONE)
    wide = {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "userSettings"}
    send(process, answer(question, behavior="allow", updatedPermissions=[wide]))
    ran = finish(process)

    assert (ran.code, files(door)) == (3, [])
    assert "none of its rules was suggested" in ran.complaints


@pytest.mark.parametrize("way", ["bare", "damaged"])
def test_a_grant_that_could_not_be_kept_is_told(door: Door, way: str) -> None:
    book = door.folder / "data/grants.json"
    process, _ = begin(door, runs("touch b.txt"), DONE, flags=("--bare",) if way == "bare" else ())
    if way == "damaged":
        book.parent.mkdir(exist_ok=True)
        book.write_text("{", encoding="utf-8")
        book.chmod(0o600)
    send(process, {"type": "answer", "allow": True, "grant": "project"})
    ran = finish(process)

    assert (ran.code, files(door)) == (0, ["b.txt"])
    assert "is not kept: it holds for this session only: " in ran.complaints


def test_a_grant_that_nobody_knows_is_answered_with_those_that_there_are(door: Door) -> None:
    process, _ = begin(door, runs("touch b.txt"), DONE)
    send(process, {"type": "answer", "allow": True, "grant": "forever"})
    ran = finish(process)

    assert (ran.code, files(door)) == (3, [])
    assert "The grants are once, session, project, person." in ran.complaints


# --- questions to the person -------------------------------------------------------------------------------------------------------


def test_the_answers_to_a_question_of_the_model_come_in_as_arguments(door: Door) -> None:
    process, question = begin(door, ASKS, DONE | {"expect": {"contains": "blue"}})
    given = question["request"]["input"] | {"answers": {"Which colour?": "blue"}}
    send(process, answer(question, behavior="allow", updatedInput=given))
    rest = finish(process)

    request = question["request"]
    assert (request["tool_name"], request["input"]) == ("AskUserQuestion", {"questions": [QUESTION]})
    assert request["permission_suggestions"] == []
    assert results(rest) == ["The person answered:\n- Which colour?\n  blue"]
    assert (rest.code, rest.lines[-1]["permission_denials"]) == (0, [])


def test_a_question_is_asked_whatever_is_allowed(door: Door) -> None:
    flags = ("--permission-mode", "bypassPermissions", "--allow", "AskUserQuestion", "--allow", "*")
    process, question = begin(door, ASKS, DONE, flags=flags)
    rest = finish(process)

    assert question["request"]["tool_name"] == "AskUserQuestion"
    (told,) = results(rest)
    assert (rest.code, told.startswith("Not run: nobody could be asked")) == (3, True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"answers": {"Which colour?": "green, a dark one"}}, "green, a dark one"),
        ({"answers": {"Which colour?": ["red", "blue"]}}, "red, blue"),
        ({"answers": {}}, "Nobody answered."),
        ({"answers": {"Which shape?": "round"}}, "'Which shape?', which was not asked"),
    ],
)
def test_an_answer_may_be_free_several_none_or_about_nothing(door: Door, given: Line, words: str) -> None:
    ran = answered(door, ASKS, DONE, behavior="allow", updatedInput={"questions": [QUESTION], **given})

    (told,) = results(ran)
    assert words in told
    assert ran.lines[-1]["result"] == "Done."


def test_a_model_cannot_answer_its_own_question(door: Door) -> None:
    args = {"questions": [QUESTION], "answers": {"Which colour?": "red"}}
    own = {"calls": [{"name": "AskUserQuestion", "args": args}]}

    ran = door.run(
        *("-p", "go", "--model", door.script(own, DONE), "--no-persist", "--permission-mode", "bypassPermissions"),
        *("--output-format", "stream-json"),
    )

    (told,) = results(ran)
    assert "they are the person's to give" in told


# --- one answer a question ---------------------------------------------------------------------------------------------------------


def test_b1_a_second_answer_does_not_change_the_first_nor_answer_the_next_question(door: Door) -> None:
    process, _ = begin(door, runs("touch refused"), runs("touch allowed"), DONE)
    send(process, {"type": "answer", "allow": False}, {"type": "answer", "allow": True})
    ran = finish(process)

    assert files(door) == []
    assert ran.code == 3  # nobody answered the second question
    assert "it was not used" in ran.complaints


@pytest.mark.parametrize(
    ("first", "second", "there"), [("deny", "allow", []), ("allow", "deny", ["b.txt"])], ids=["deny", "allow"]
)
def test_b1_the_first_response_with_an_id_holds_and_another_is_refused(
    door: Door, first: str, second: str, there: list[str]
) -> None:
    process, question = begin(door, runs("touch b.txt"), DONE)
    send(process, answer(question, behavior=first), answer(question, behavior=second))
    ran = finish(process)

    word = "refused" if first == "deny" else "allowed"
    assert (ran.code, files(door)) == (0, there)
    assert ran.complaints.count(f"was answered before: {word}. That holds") == 1


def test_b1_the_same_answer_again_is_the_same_and_nothing_is_said(door: Door) -> None:
    process, question = begin(door, runs("touch b.txt"), DONE)
    same = answer(question, behavior="allow", updatedInput=question["request"]["input"])
    send(process, same, same)
    ran = finish(process)

    assert (ran.code, files(door), ran.complaints) == (0, ["b.txt"], "")


def test_b1_a_late_answer_is_refused_with_the_recorded_one(door: Door) -> None:
    process, question = begin(door, runs("touch b.txt"), runs("touch c.txt"), DONE)
    send(process, answer(question, behavior="deny"))
    following = list(read_until(process, "control_request"))[-1]
    send(process, answer(question, behavior="allow"), answer(following, behavior="allow"))
    ran = finish(process)

    assert (ran.code, files(door)) == (0, ["c.txt"])
    assert ran.complaints.count("was answered before: refused") == 1


def test_b1_one_answer_may_be_early_and_a_second_is_refused(door: Door) -> None:
    process = door.start("--model", door.script(runs("touch b.txt"), DONE), "--input-format", "stream-json")
    send(process, {"type": "answer", "allow": False}, {"type": "answer", "allow": True})
    send(process, {"type": "user", "message": {"role": "user", "content": "go"}})
    ran = finish(process)

    assert files(door) == []
    assert "it was not used" in ran.complaints


def test_b1_an_answer_without_a_call_goes_to_the_next_question_once_that_is_open(door: Door) -> None:
    process, _ = begin(door, runs("touch b.txt"), runs("touch c.txt"), DONE)
    send(process, {"type": "answer", "allow": False})
    list(read_until(process, "control_request"))
    send(process, {"type": "answer", "allow": True})
    ran = finish(process)

    assert (ran.code, files(door), ran.complaints) == (0, ["c.txt"], "")


@pytest.mark.parametrize(
    "answer",
    [
        '{"type": "answer", "allow": false, "allow": true}',
        '{"type": "answer", "allow": false, "grant": "once", "allow": true}',
        '{"type": "control_response", "response": {"request_id": "REQUEST", "response": {"behavior": "deny", "behavior": "allow"}}}',
    ],
)
def test_an_answer_that_says_two_things_allows_nothing(door: Door, answer: str) -> None:
    process, question = begin(door, runs("touch b.txt"), DONE)
    assert process.stdin is not None
    process.stdin.write(answer.replace("REQUEST", question["request_id"]) + "\n")
    process.stdin.flush()
    ran = finish(process)

    assert files(door) == []
    assert "twice" in ran.out + ran.err
