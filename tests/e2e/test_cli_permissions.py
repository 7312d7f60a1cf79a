"""What people are told about rules and denied calls, and approvals that come after a crash."""

import json
import shlex
import signal

import pytest

from tests.e2e.door import Door, Line, Process, finish, read_until, send, write

RUNS = {"text": "I run.", "calls": [{"name": "Bash", "args": {"command": "echo ran >> b.txt", "timeout": 30000}}]}
DONE = {"text": "Done."}
LINES = ("--input-format", "stream-json", "--output-format", "stream-json")


def asks(door: Door, *flags: str) -> tuple[Process, Line]:
    """Start a session that asks, and return its question."""
    process = door.start("-p", "go", "--model", door.script(RUNS, DONE), "--session-id", "s1", *LINES, *flags)
    return process, list(read_until(process, "control_request"))[-1]


def allow(question: Line, **more: object) -> Line:
    answer = {"request_id": question["request_id"], "response": {"behavior": "allow", **more}}
    return {"type": "control_response", "response": {"subtype": "success", **answer}}


def test_an_answer_with_the_same_input_runs_it(door: Door) -> None:
    process, question = asks(door)
    send(process, allow(question, updatedInput=dict(reversed(question["request"]["input"].items()))))
    rest = finish(process)

    assert (rest.code, rest.lines[-1]["permission_denials"]) == (0, [])
    assert (door.work / "b.txt").read_text(encoding="utf-8") == "ran\n"


@pytest.mark.parametrize(("flags", "kind"), [((), "mode"), (("--ask", "Bash"), "rule")])
def test_a_question_says_what_kind_of_reason_it_has(door: Door, flags: tuple[str, ...], kind: str) -> None:
    process, question = asks(door, *flags)
    finish(process)

    assert question["request"]["decision_reason_type"] == kind


def test_an_approval_that_a_crash_left_open_is_asked_again_and_answered(door: Door) -> None:
    process, question = asks(door)
    process.send_signal(signal.SIGKILL)
    finish(process)

    again = door.start("-r", "s1", "--finish", *LINES)
    asked = list(read_until(again, "control_request"))[-1]
    send(again, {"type": "user", "message": {"role": "user", "content": "not now"}}, allow(asked))
    assert again.wait(timeout=50) == 2  # it does not wait for the end of the input
    rest = finish(again)

    assert asked["request"] == question["request"]
    assert (rest.lines[-1]["result"], rest.lines[-1]["permission_denials"]) == ("Done.", [])
    assert (door.work / "b.txt").read_text(encoding="utf-8") == "ran\n"
    assert "--finish takes no prompt" in rest.err


def test_an_approval_that_nobody_gives_after_a_crash_halts(door: Door) -> None:
    process, _ = asks(door)
    process.send_signal(signal.SIGKILL)
    finish(process)

    ran = door.run("-r", "s1", "--finish", *LINES)
    again = door.run("-r", "s1", "--finish", *LINES)

    assert (ran.code, ran.lines[-1]["result"]) == (3, "Done.")
    assert "the input ended without an answer" in ran.err
    assert (again.code, "Nothing was open" in again.err) == (0, True)


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ((), 3, "Allow it with --allow 'Edit(/b.txt)', or answer with --input-format stream-json."),
        (("--deny", "Bash"), 0, "Bash (echo ran >> b.txt) was not run: denied by the rule 'Bash'."),
        (
            ("--permission-mode", "plan"),
            0,
            "Bash (echo ran >> b.txt) was not run: the mode is plan: '{work}/b.txt' is not changed.",
        ),
        (
            ("--permission-mode", "dontAsk"),
            3,
            "Bash (echo ran >> b.txt) was not run: '{work}/b.txt' would be changed; and the mode never asks. "
            "Allow it with --allow 'Edit(/b.txt)'.\n",
        ),
    ],
)
def test_every_denied_call_is_told_to_who_reads_text(door: Door, flags: tuple[str, ...], code: int, words: str) -> None:
    ran = door.run("-p", "hi", "--no-persist", "--model", door.script(RUNS, DONE), *flags)

    assert (ran.code, ran.out, len(ran.err.splitlines())) == (code, "Done.\n", 1)
    assert words.format(work=door.work) in ran.err


@pytest.mark.parametrize(
    ("call", "rules"),
    [
        ({"name": "Read", "args": {"file_path": ".env"}}, ("Read(.env)",)),
        ({"name": "Grep", "args": {"pattern": "K", "path": "conf/.env"}}, ("Read(conf/.env)",)),
        ({"name": "Bash", "args": {"command": "cat .env"}}, ("Read(.env)",)),
        ({"name": "Bash", "args": {"command": "cat conf/.en[v] | frob"}}, ("Bash(frob)", "Read(conf/.env)")),
        ({"name": "Write", "args": {"file_path": ".env", "content": "K=1"}}, ("Edit(.env)",)),
    ],
)
def test_a_rule_that_would_allow_a_sensitive_file_is_named(door: Door, call: Line, rules: tuple[str, ...]) -> None:
    for name in (".env", "conf/.env"):
        write(door.work / name, "K=1\n")
    model = door.script({"text": "I look.", "calls": [call]}, DONE)
    ran = door.run("-p", "hi", "--no-persist", "--model", model)
    flags = tuple(flag for rule in rules for flag in ("--allow", rule))

    assert ran.code == 3
    assert f"Allow it with {shlex.join(flags)}, or answer with" in ran.err
    assert door.run("-p", "hi", "--no-persist", "--model", model, *flags).code == 0


def test_a_line_about_a_call_has_the_beginning_of_its_command_with_nothing_that_a_terminal_obeys(door: Door) -> None:
    commands = (
        "curl -H 'Authorization: Bearer abcdefghijklmnop1234' http://a.test",
        "frob\t1 \x1b[31m\n" + "x" * 100,
        "rm -rf /",
    )
    model = door.script({"calls": [{"name": "Bash", "args": {"command": each}} for each in commands]}, DONE)
    ran = door.run("-p", "hi", "--no-persist", "--model", model)

    critical, secret, long = ran.err.splitlines()
    assert critical.startswith("backstay: Bash (rm -rf /) was not run: this would remove the whole file system")
    excerpt = secret.partition(" was not run")[0]
    assert ("abcdefgh" in excerpt, excerpt.startswith("backstay: Bash (curl -H 'Authorization: ")) == (False, True)
    assert long.startswith(f"backstay: Bash (frob 1 \u241b[31m {'x' * 47}...) was not run: ")


@pytest.mark.parametrize(
    ("command", "flags", "by", "kind", "offers", "remedies", "code"),
    [
        ("cargo build", (), "nobody", "mode", ["Bash(cargo build *)"], [], 3),
        ("cargo build", ("--permission-mode", "dontAsk"), "mode", "mode", ["Bash(cargo build *)"], [], 3),
        ("cat .env", (), "nobody", "sensitive", [], ["Read(.env)"], 3),
        ("cat .env", ("--permission-mode", "dontAsk"), "mode", "sensitive", [], ["Read(.env)"], 3),
        ("cargo build", ("--deny", "Bash(cargo *)"), "policy", "rule", [], [], 0),
        ("rm -rf /", (), "policy", "critical", [], [], 0),
        ("touch b.txt", ("--permission-mode", "plan"), "policy", "mode", [], [], 0),
    ],
)
def test_programs_are_told_why_a_call_was_denied_and_what_would_allow_it(
    door: Door,
    command: str,
    flags: tuple[str, ...],
    by: str,
    kind: str,
    offers: list[str],
    remedies: list[str],
    code: int,
) -> None:
    write(door.work / ".env", "K=1\n")
    model = door.script({"calls": [{"name": "Bash", "args": {"command": command}}]}, DONE)
    for output in ("json", "stream-json"):
        ran = door.run("-p", "hi", "--no-persist", "--model", model, "--output-format", output, *flags)
        (denial,) = ran.lines[-1]["permission_denials"]

        assert (ran.code, denial["denied_by"], denial["reason"]["kind"]) == (code, by, kind)
        assert (denial["offers"], denial["remedies"], bool(denial["reason"]["detail"])) == (offers, remedies, True)
        assert denial["tool_input"] == {"command": command}
    allowed = tuple(flag for rule in offers + remedies for flag in ("--allow", rule))
    assert not allowed or door.run("-p", "hi", "--no-persist", "--model", model, *flags, *allowed).code == 0


@pytest.mark.parametrize("by", ["person", "hook"])
def test_programs_are_told_of_a_refusal_by_a_person_or_a_hook(door: Door, by: str) -> None:
    if by == "hook":
        decision = {"hookEventName": "PermissionRequest", "decision": {"behavior": "deny", "message": "Not here."}}
        hook = {"type": "command", "command": f"echo '{json.dumps({'hookSpecificOutput': decision})}'"}
        settings = {"hooks": {"PermissionRequest": [{"hooks": [hook]}]}}
        write(door.folder / "config" / "settings.json", json.dumps(settings)).chmod(0o600)
        process = door.start("-p", "go", "--model", door.script(RUNS, DONE), *LINES)
    else:
        process, question = asks(door)
        refusal = {"request_id": question["request_id"], "response": {"behavior": "deny", "message": "Not here."}}
        send(process, {"type": "control_response", "response": refusal})
    rest = finish(process)

    (denial,) = rest.lines[-1]["permission_denials"]
    assert (rest.code, denial["denied_by"], denial["reason"]["detail"].rstrip(".")) == (0, by, "Not here")


def test_programs_are_told_of_a_refusal_by_a_hook_before_the_call(door: Door) -> None:
    hook = {"type": "command", "command": "echo 'Not here.' >&2; exit 2"}
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}
    write(door.folder / "config" / "settings.json", json.dumps(settings)).chmod(0o600)
    ran = door.spawn("-p", "hi", "--no-persist", "--model", door.script(RUNS, DONE), "--output-format", "json")

    (denial,) = ran.json["permission_denials"]
    assert (ran.code, denial["denied_by"], denial["reason"]["kind"]) == (0, "hook", "hook")
    assert "Not here." in denial["reason"]["detail"]


def test_a_call_that_no_named_rule_would_allow_is_told_so(door: Door) -> None:
    command = {"command": "cat .env; rm -rf $x"}
    ran = door.run(
        "-p", "hi", "--no-persist", "--model", door.script({"calls": [{"name": "Bash", "args": command}]}, DONE)
    )

    assert (ran.code, "No rule is offered for it. Answer with" in ran.err) == (3, True)


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        (text, (f"Bash({text})",))
        for text in (
            "[[ -d src ]] && ls",
            "git ls-files | xargs wc -l",
            "for i in 1 2; do ls; done",
            "echo $((1+2))",
            "ls &",
            "find -name '*.py' -exec wc -l {} +",
        )
    ]
    + [
        ("grep -r NEEDLE .", ("Read(.env)",)),
        ("[[ -f x ]]; cat .env", ("Bash([[ -f x ]]; cat .env)", "Read(.env)")),
    ],
)
def test_the_exact_command_and_files_that_are_found_below_a_folder_are_named_where_that_helps(
    door: Door, command: str, rules: tuple[str, ...]
) -> None:
    write(door.work / ".env", "NEEDLE=1\n")
    call = {"name": "Bash", "args": {"command": command}}
    ran = door.run("-p", "hi", "--no-persist", "--model", door.script({"calls": [call]}, DONE))
    flags = tuple(flag for rule in rules for flag in ("--allow", rule))
    asked = ("permissions", "check", "Bash", json.dumps(call["args"]))

    assert (ran.code, f"Allow it with {shlex.join(flags)}, or answer with" in ran.err) == (3, True)
    assert door.run(*asked).json["remedies"] == list(rules)
    assert door.run(*asked, *flags).json["decision"] == "allow"


@pytest.mark.parametrize("command", ["cat <<EOF\na\nEOF", "git -c a=b log *", "[[ -d src ]] && echo " + "x" * 300])
def test_no_exact_rule_is_named_that_means_more_than_the_command_or_is_long(door: Door, command: str) -> None:
    found = door.run("permissions", "check", "Bash", json.dumps({"command": command})).json

    assert (found["decision"], found.get("remedies")) == ("ask", None)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ("--deny", "Bsh", "--deny", "Bsh"),
            "The rule --deny 'Bsh' is about no tool that is here. The tools are Read, ",
        ),
        (("--allowedTools", "Read,Task"), "The rule --allow 'Task' is about no tool that is here."),
        (("--allow", "bash"), "must name its tool exactly, such as Bash."),
        (("--allow", "Gr*"), "must name its tool exactly, such as Grep."),
        (("--allow", "Write(src/**)"), "Write with a path allows nothing: write Edit(src/**)."),
        (("--allow", "Read(/etc/hosts)"), "for the file system's root write Read(//etc/hosts)."),
        (("--allow", "Bash(ls *)", "--deny", "Bash"), "a denial always wins: this rule allows nothing."),
    ],
)
def test_a_rule_that_does_not_do_what_it_says_is_told_once(door: Door, flags: tuple[str, ...], words: str) -> None:
    ran = door.run("-p", "hi", "--no-persist", "--model", door.script(DONE), *flags)

    assert (ran.code, ran.out, len(ran.err.splitlines())) == (0, "Done.\n", 1)
    assert words in ran.err


@pytest.mark.parametrize(
    "flags",
    [
        *(("--deny", rule) for rule in ("ba*", "*", "Bash(rm *)", "bash(rm *)", "Read(/etc/hosts)", "Cd(..)")),
        *(("--allow", rule) for rule in ("*", "Bash(ls *)", "Bash(git *)", "Edit(src/**)", "Read(~/notes/**)")),
        *(("--ask", rule) for rule in ("Bash(*)", "Bash(rm *)", "Edit")),
    ],
)
def test_a_rule_that_does_what_it_says_is_not_remarked_on(door: Door, flags: tuple[str, ...]) -> None:
    ran = door.run("-p", "hi", "--no-persist", "--model", door.script(DONE), *flags)

    assert (ran.code, ran.err) == (0, "")


def test_rules_of_settings_are_not_remarked_on_at_every_run(door: Door) -> None:
    settings = door.folder / "config" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"permissions": {"allow": ["Write(src/**)", "Tsk"], "deny": ["Bash"]}}', encoding="utf-8")
    settings.chmod(0o600)

    ran = door.run("-p", "hi", "--no-persist", "--model", door.script(RUNS, DONE), "--output-format", "json")

    assert (ran.code, ran.err) == (0, "")
    assert [denial["tool_name"] for denial in ran.json["permission_denials"]] == ["Bash"]


def test_lists_of_tools_are_taken_as_people_write_them(door: Door) -> None:
    rules = ("--allowedTools", "Read", "Bash", "--disallowedTools", "WebFetch", "WebSearch")
    ran = door.run("-p", "go", "--model", door.script(RUNS, DONE), *rules)

    assert (ran.code, ran.out) == (0, "Done.\n")
    assert (door.work / "b.txt").exists()


@pytest.fixture
def granted(door: Door) -> Door:
    """A person who allowed things for longer than a session: for this project, everywhere, and for another project."""
    (door.work / ".git").mkdir()
    book = {str(door.work): ["Bash(npm test *)", "Bash(make)"], "*": ["Read(~/notes)"], "/elsewhere": ["Bash(make)"]}
    write(door.folder / "data" / "grants.json", json.dumps(book)).chmod(0o600)
    return door


def test_what_was_allowed_for_longer_is_shown_wherever_rules_are(granted: Door) -> None:
    listed = granted.run("permissions", "grants")
    linted = granted.run("permissions", "lint").out
    shown = granted.run("config", "show").out
    looked = granted.run("doctor").out
    said = granted.spawn("-p", "/permissions", "--model", granted.script(DONE), "--no-persist").out

    assert [line for line in listed.out.splitlines() if line.startswith("allow")] == [
        f"allow Bash(npm test *)  ({granted.work})",
        f"allow Bash(make)  ({granted.work})",
        "allow Read(~/notes)  (everywhere)",
    ]
    assert "Allowed for longer than a session: Bash(npm test *), Bash(make), Read(~/notes)." in linted
    assert "grants.json: allow 'Bash(make)': allows this very command" in linted
    assert f"  allow Bash(make)  ({granted.work})" in shown
    assert granted.run("config", "show", "--json").json["grants"][2] == {"rule": "Read(~/notes)", "where": "everywhere"}
    assert "3 allowed for longer than a session: Bash(npm test *), Bash(make), Read(~/notes)" in looked
    assert "Bash(make)  (grant)" in said


def test_what_was_allowed_for_longer_is_taken_back_by_a_person_alone(granted: Door) -> None:
    kept = granted.folder / "data" / "grants.json"
    before = kept.read_text()
    program = granted.spawn("permissions", "grants", "--clear", env={"BACKSTAY_CALL": "c1"})
    wrong = granted.run("permissions", "grants", "--remove", "Bash(make)", "--remove", "Bash(mak)")

    assert (program.code, "Only a person may" in program.err) == (1, True)
    assert (wrong.code, "'Bash(mak)' was not granted here." in wrong.err) == (1, True)
    assert kept.read_text() == before
    gone = granted.run("permissions", "grants", "--remove", "Bash(make)").out
    assert gone.startswith(f"taken back: allow Bash(make)  ({granted.work})")
    assert granted.run("permissions", "grants", "--clear").code == 0
    assert json.loads(kept.read_text()) == {"/elsewhere": ["Bash(make)"]}
    assert granted.run("permissions", "grants").out == "Nothing was allowed here for longer than a session.\n"


def test_a_grant_is_taken_back_by_what_is_printed(door: Door) -> None:
    book = {str(door.work): ["Bash(echo a\nls)", "Bash(make)"]}
    kept = write(door.folder / "data" / "grants.json", json.dumps(book))
    kept.chmod(0o600)
    printed = door.run("permissions", "grants", "--json").json[0]["rule"]

    assert door.run("permissions", "grants", "--remove", printed).code == 0
    assert json.loads(kept.read_text()) == {str(door.work): ["Bash(make)"]}


def test_a_refusal_by_a_hook_ends_with_one_period(door: Door) -> None:
    command = """echo '{"decision": "block", "reason": "No evil."}'"""
    hook = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}
    write(door.folder / "config" / "settings.json", json.dumps({"hooks": hook})).chmod(0o600)
    ran = door.spawn("-p", "hi", "--no-persist", "--model", door.script(RUNS, DONE))

    assert "No evil.\n" in ran.err
    assert "No evil.." not in ran.out + ran.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ls\x00x", "has the invisible character U+0000: call again without it"),
        ("ls\rrm x", "has the invisible character U+000D: call again without it"),
        ("ls\u200bx", "has the invisible character U+200B: call again without it"),
        ("", "a command is missing where one should stand"),
    ],
)
def test_what_cannot_be_run_as_it_is_says_what_to_change(door: Door, command: str, words: str) -> None:
    found = door.run("permissions", "check", "Bash", json.dumps({"command": command})).json

    assert (found["decision"], words in found["reason"]["detail"]) == ("ask", True)


def test_a_check_of_a_mistyped_tool_says_which_was_meant(door: Door) -> None:
    ran = door.run("permissions", "check", "Bsh", '{"command": "ls"}')

    assert "No tool 'Bsh' comes with backstay, so nobody knows what it does. Did you mean 'Bash'?" in ran.err
