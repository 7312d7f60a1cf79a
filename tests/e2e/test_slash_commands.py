"""Lines that begin with a slash, without a terminal: `backstay -p "/compact"`, and lines of a program."""

import json
import signal

import pytest

from tests.e2e.door import Door, finish, kinds, read_until, write


@pytest.fixture
def skilled(door: Door) -> Door:
    """A folder with a skill, one that forks, and a command."""
    write(
        door.work / ".claude/skills/greet/SKILL.md",
        "---\nname: greet\ndescription: Greet.\n---\nGreet $ARGUMENTS warmly.\n",
    )
    write(
        door.work / ".claude/skills/audit/SKILL.md",
        "---\nname: audit\ndescription: Audit.\ncontext: fork\nallowed-tools: Read\n---\nAudit $ARGUMENTS.\n",
    )
    write(
        door.work / ".claude/commands/review.md",
        "---\ndescription: Review.\n---\nReview $ARGUMENTS by @docs/style.md\n",
    )
    write(door.work / "docs/style.md", "STYLE-IS-SHORT\n")
    return door


def mute(door: Door) -> str:
    """A model that is not to be asked: its turn would fail."""
    return door.script({"error": {"kind": "bad_request"}})


def user(text: str, **rest: object) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}, **rest}) + "\n"


def test_a_built_in_command_prints_its_message_and_asks_no_model(door: Door) -> None:
    model = mute(door)

    text = door.run("-p", "/mode", "--model", model)
    found = door.run("-p", "/mode", "--model", model, "--output-format", "json")
    stream = door.run("-p", "/mode", "--model", model, "--output-format", "stream-json")
    events = door.run("-p", "/mode", "--model", model, "--output-format", "events")

    assert (text.code, found.code, stream.code, events.code) == (0, 0, 0, 0)
    assert text.out.startswith("The mode is default.")
    assert {
        key: found.json[key] for key in ("subtype", "is_error", "num_turns", "command", "command_data", "errors")
    } == {
        "subtype": "success",
        "is_error": False,
        "num_turns": 0,
        "command": "mode",
        "command_data": {"mode": "default"},
        "errors": [],
    }
    assert found.json["result"] == text.out.removesuffix("\n")
    assert kinds(stream.lines) == ["system/init", "result/success"]
    assert "command_result" in kinds(events.lines)
    assert not any("asked" in kind for kind in kinds(events.lines))


def test_a_command_that_fails_ends_with_4_and_says_so_in_every_format(door: Door) -> None:
    model = mute(door)

    text = door.run("-p", "/undo compact", "--model", model)
    found = door.run("-p", "/undo compact", "--model", model, "--output-format", "json")
    nothing = door.run("-p", "/compact", "--model", model)

    assert (text.code, text.out, found.code) == (4, "", 4)
    assert "compact" in text.err
    assert (nothing.code, nothing.out) == (0, "There is nothing that could be shortened.\n")
    assert (found.json["subtype"], found.json["is_error"]) == ("error_during_execution", True)
    assert found.json["errors"] == [found.json["result"]]


def test_an_unknown_command_is_wrong_usage_and_names_the_nearest(door: Door) -> None:
    ran = door.run("-p", "/comapct now", "--model", mute(door), "--output-format", "json")
    strange = door.run("-p", "/zzzzzzzz", "--model", mute(door))
    bare = door.run("-p", "/cost", "--bare", "--model", mute(door))

    assert (ran.code, strange.code, bare.code) == (2, 2, 2)
    assert "There is no command /comapct. Near it: /compact" in ran.err
    assert ran.json["is_error"] is True
    assert "/help" in strange.err
    assert "this session looks at nothing around it" in bare.err


@pytest.mark.parametrize(
    "prompt", ["/etc/hosts is wrong", "/tmp is full", " /compact", "// what is this comment?", "/ is the root"]
)
def test_what_looks_like_a_path_or_has_a_blank_before_it_is_a_prompt(door: Door, prompt: str) -> None:
    ran = door.run("-p", prompt, "--model", door.script({"expect": {"contains": prompt.strip()}, "text": "I see."}))

    assert (ran.code, ran.out) == (0, "I see.\n")


def test_a_skill_is_sent_to_the_model_and_shown_as_it_was_typed(skilled: Door) -> None:
    model = skilled.script({"expect": {"contains": "Greet Ada\nLovelace warmly."}, "text": "Hello!"})

    ran = skilled.run("-p", "/greet Ada\nLovelace", "--model", model, "--session-id", "one")
    shown = skilled.run("sessions", "show", "one")

    assert (ran.code, ran.out) == (0, "Hello!\n")
    assert "[user] /greet Ada\nLovelace" in shown.out
    assert "warmly" not in shown.out
    assert "[skill] greet" in shown.out


@pytest.mark.contract("RB-63")
def test_hooks_hear_what_was_typed_and_not_what_it_became(skilled: Door) -> None:
    hook = {"type": "command", "command": f"cat > {skilled.folder}/heard.json"}
    settings = {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}
    write(skilled.folder / "config/settings.json", json.dumps(settings))

    skilled.run("-p", "/greet Ada", "--model", skilled.script({"text": "Hello!"}))

    assert json.loads((skilled.folder / "heard.json").read_text())["prompt"] == "/greet Ada"


def test_a_command_of_ones_own_includes_its_file(skilled: Door) -> None:
    model = skilled.script({"expect": {"contains": "STYLE-IS-SHORT"}, "text": "Reviewed."})

    ran = skilled.run("-p", "/review src/", "--model", model, "--trust")

    assert (ran.code, ran.out) == (0, "Reviewed.\n")


@pytest.mark.contract("RB-113")
def test_a_skill_that_forks_answers_from_a_session_of_its_own(skilled: Door) -> None:
    child = skilled.script({"expect": {"contains": "Audit src."}, "text": "All fine."}, name="child")

    ran = skilled.run("-p", "/audit src", "--model", child, "--trust", "--output-format", "json")
    sessions = skilled.run("sessions", "list", "--all", "--json").json

    assert ran.code == 0, ran.err
    assert (ran.json["result"], ran.json["command_data"]) == ("All fine.", {"skill": "audit", "forked": True})
    assert sorted(bool(each["parent"]) for each in sessions) == [False, True]


def test_a_skill_that_cannot_be_had_fails_and_asks_nobody(skilled: Door) -> None:
    write(skilled.work / ".claude/skills/run/SKILL.md", "---\nname: run\ndescription: Run.\n---\nSee !`touch made`\n")

    ran = skilled.run("-p", "/run", "--model", mute(skilled), "--output-format", "json")

    assert ran.code == 4
    assert ran.json["is_error"] is True
    assert not (skilled.work / "made").exists()


@pytest.mark.parametrize(
    ("name", "kind"), [("out.json", "json"), ("out.yaml", "workflow"), ("out.md", "markdown"), ("out.html", "html")]
)
def test_export_writes_the_file_and_notes_it(door: Door, name: str, kind: str) -> None:
    model = door.script({"text": "One."})
    door.run("-p", "Hello.", "--model", model, "--session-id", "one")

    ran = door.run("-r", "one", "-p", f"/export {name}", "--model", model, "--output-format", "json")

    assert ran.code == 0, ran.err
    path = door.work / name
    assert ran.json["command_data"] == {
        "exportRequested": name,
        "file": str(path),
        "format": kind,
        "bytes": path.stat().st_size,
    }
    assert "session:exported" in door.run("log", "show", "one", "--json").out
    assert door.run("sessions", "verify", "one").code == 0


def test_an_export_that_cannot_be_written_fails(door: Door) -> None:
    ending = door.run("-p", "/export out.txt", "--model", mute(door))
    nowhere = door.run("-p", "/export no/such/folder/out.json", "--model", mute(door))

    assert (ending.code, nowhere.code) == (4, 4)
    assert "does not say what to write" in ending.err
    assert "Cannot write" in nowhere.err


@pytest.mark.contract("RB-79")
@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("/resume", 4, "backstay sessions list"),
        ("/resume other", 4, "backstay -r ID"),
        ("/reset", 4, "This run keeps its session."),
        ("/exit", 0, "Goodbye."),
        ("/doctor", 0, "`backstay doctor` says more."),
    ],
)
def test_what_needs_a_person_says_plainly_what_to_do_instead(door: Door, line: str, code: int, words: str) -> None:
    ran = door.run("-p", line, "--model", mute(door))

    assert ran.code == code
    assert words in ran.out + ran.err


def test_a_program_mixes_prompts_and_commands_in_order(door: Door) -> None:
    model = door.script({"text": "One.", "delay_ms": 5, "chunk": 1}, {"text": "Two."})
    lines = user("First.") + user("/cost") + user("/mode plan") + user("Second.") + user("/mode") + user("/nothing")

    ran = door.spawn("--input-format", "stream-json", "--output-format", "json", "--model", model, text=lines)

    assert [each["result"][:24] for each in ran.lines] == [
        "One.",
        ran.lines[1]["result"][:24],
        "Calls are judged in the ",
        "Two.",
        "The mode is plan. The mo",
        "There is no command /not",
    ]
    assert ran.lines[1]["command_data"]["outputTokens"] > 0  # the first turn was over
    assert ran.code == 2


def test_exit_takes_no_more_input(door: Door) -> None:
    lines = user("First.") + user("/exit") + user("Second.")

    ran = door.spawn(
        *("--input-format", "stream-json", "--output-format", "json"),
        *("--model", door.script({"text": "One."})),
        text=lines,
    )

    assert [each["result"] for each in ran.lines] == ["One.", "Goodbye."]
    assert ran.code == 0


def test_a_skill_that_is_sent_again_under_its_id_is_taken_once(skilled: Door) -> None:
    given = ("-p", "/greet Ada", "--session-id", "one", "--input-id", "k", "--output-format", "json")
    model = skilled.script({"text": "Hello!"})
    first = skilled.run(*given, "--model", model)
    write(skilled.work / ".claude/skills/greet/SKILL.md", "---\nname: greet\ndescription: Greet.\n---\nGo away.\n")

    again = skilled.run(*given, "--model", model)
    other = skilled.run(*("-p", "/greet Bob", *given[2:]), "--model", model)

    assert (first.code, again.code, other.code) == (0, 0, 2)
    assert again.json == first.json


def test_a_built_in_command_has_no_input_id(door: Door) -> None:
    ran = door.run("-p", "/clear", "--input-id", "k", "--model", mute(door))

    assert ran.code == 2
    assert "--input-id is for what is said to a model" in ran.err


def test_a_command_of_a_session_whose_model_is_gone_still_works(door: Door) -> None:
    model = door.script({"text": "One."})
    door.run("-p", "Hello.", "--model", model, "--session-id", "one")
    (door.folder / "script.json").unlink()

    ran = door.run("-r", "one", "-p", "/cost")

    assert (ran.code, "tokens in" in ran.out) == (0, True)


def test_what_strangers_write_does_not_reach_the_terminal_as_it_is(door: Door) -> None:
    write(door.work / ".claude/commands/red.md", '---\ndescription: "Be \\x1b[31mred"\n---\nRed.\n')

    ran = door.run("-p", "/help red", "--model", mute(door))

    assert "red" in ran.out
    assert "\x1b" not in ran.out


def test_memory_is_added_without_a_model(door: Door) -> None:
    added = door.run("-p", "/memory add The harbour is north.", "--model", mute(door))
    shown = door.run("-p", "/memory list", "--model", mute(door), "--output-format", "json")

    assert (added.code, shown.code) == (0, 0), added.err
    assert "harbour" in shown.out


def test_an_interrupt_stops_a_skill_that_forks(skilled: Door) -> None:
    given = ("-p", "/audit src", "--trust", "--session-id", "one", "--model", skilled.script({"hang": True}))
    process = skilled.start(*given, "--output-format", "events")
    for _ in read_until(process, "entry_added"):
        pass

    ran = finish(process, signal.SIGINT)

    assert ran.code == 130
    assert "It was interrupted." in ran.err
    assert skilled.run("-r", "one", "-p", "/cost").code == 0
