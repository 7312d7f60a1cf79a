"""`backstay hooks`: which hooks there are, and what they would say."""

import json
from pathlib import Path

import pytest

from tests.e2e.door import Door


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only the settings of the test count."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("BACKSTAY_MANAGED_SETTINGS", raising=False)


def person(door: Door, **settings: object) -> None:
    """Write the person's settings."""
    write(door.folder / "config" / "settings.json", settings)


def write(path: Path, settings: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings), encoding="utf-8")


def call(command: str, matcher: str = "Bash", **more: object) -> dict[str, object]:
    """Settings with one hook before a call."""
    return {"PreToolUse": [{"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}]}


def test_hooks_are_tried_with_a_sample_and_their_verdict_is_shown(door: Door) -> None:
    person(door, hooks=call("cat; echo 'not here' >&2; exit 2"))

    ran = door.run("hooks", "test", "PreToolUse")

    assert ran.code == 0
    for words in ("exit 2", "output: {", "errors: not here", "PreToolUse of 'Bash': deny; reason: not here"):
        assert words in ran.out


def test_what_a_hook_prints_is_shown_from_its_beginning(door: Door) -> None:
    person(door, hooks=call("seq 5000 >&2; exit 2"))

    shown = door.run("hooks", "test", "PreToolUse")

    assert len(shown.out.splitlines()) < 150
    assert "characters more; --json has all of them]" in shown.out
    assert "4999" in door.run("hooks", "test", "PreToolUse", "--json").out


def test_what_is_given_is_laid_over_the_sample(door: Door) -> None:
    person(door, hooks=call("cat", "Write"))

    ran = door.run("hooks", "test", "PreToolUse", '{"tool_name": "Write", "tool_input": {"file_path": "/x"}}', "--json")

    (one,) = ran.json["runs"]
    told = json.loads(one["stdout"])
    assert (told["tool_name"], told["tool_input"], told["hook_event_name"]) == (
        "Write",
        {"file_path": "/x"},
        "PreToolUse",
    )
    assert told["cwd"] == str(door.work)
    assert (one["exit_code"], one["source"], one["where"]) == (0, "person", "hooks.PreToolUse[0].hooks[0]")
    assert ran.json["verdict"]["decision"] is None
    assert ran.json["input"] == told


def test_the_input_may_come_from_standard_input(door: Door) -> None:
    person(door, hooks=call("grep -q secret && exit 2 || exit 0"))

    refused, passed = (
        door.spawn("hooks", "test", "PreToolUse", "-", "--json", text=json.dumps({"tool_input": {"command": text}}))
        for text in ("cat secret", "ls")
    )

    assert (refused.json["verdict"]["decision"], passed.json["verdict"]["decision"]) == ("deny", None)


def test_matching_nothing_is_said_with_the_near_misses(door: Door) -> None:
    person(door, hooks={**call("exit 2", "bash"), "Stop": [{"hooks": [{"type": "command", "command": "x"}]}]})

    shown = door.run("hooks", "test", "PreToolUse")
    printed = door.run("hooks", "test", "PreToolUse", "--json")

    assert "No hook matches PreToolUse of 'Bash'. There are 1 for PreToolUse, 1 for other events." in shown.out
    assert "near miss: exit 2" in shown.out
    assert "upper and lower case count" in shown.out
    assert printed.json["runs"] == []
    assert [each["matcher"] for each in printed.json["near_misses"]] == ["bash"]


def test_a_failure_shows_that_it_refuses_and_how_to_let_it_pass(door: Door) -> None:
    person(door, hooks=call("no-such-guard"))
    closed = door.run("hooks", "test", "PreToolUse")
    person(door, hooks=call("no-such-guard", onFailure="continue"))
    opened = door.run("hooks", "test", "PreToolUse")

    assert "PreToolUse of 'Bash': deny" in closed.out
    assert "it was not found" in closed.out
    assert "'onFailure': 'continue'" in closed.out
    assert "PreToolUse of 'Bash': no objection" in opened.out


def test_the_hooks_of_a_workspace_do_nothing_until_it_is_trusted(door: Door) -> None:
    write(door.work / ".backstay" / "settings.json", {"hooks": call("touch ran; exit 2")})

    before = door.run("hooks", "test", "PreToolUse")
    ran_before = (door.work / "ran").exists()
    after = door.run("hooks", "test", "PreToolUse", "--trust")

    listed = door.run("hooks", "list")

    assert "No hook matches" in before.out
    assert "One hook of this workspace waits for trust: backstay trust." in before.out
    assert (
        listed.out
        == "There are no hooks that count here. One hook of this workspace waits for trust: backstay trust.\n"
    )
    assert door.run("hooks", "list", "--json").json["held"] == 1
    assert door.run("hooks", "list", "--trust", "--json").json["held"] == 0
    assert "not trusted" in before.err
    assert not ran_before
    assert "PreToolUse of 'Bash': deny" in after.out
    assert (door.work / "ran").exists()


@pytest.mark.parametrize("command", ["python3 -E -m guard", "env -i python3 -m guard"])
def test_a_hook_that_waits_for_trust_in_a_session_is_not_tried_either(door: Door, command: str) -> None:
    write(door.work / ".backstay" / "settings.json", {"hooks": call(command)})
    write(door.work / "guard.py", 0)
    (door.work / "guard.py").write_text("open('ran', 'w')\n", encoding="utf-8")
    door.run("trust", "--yes")

    held = door.run("hooks", "test", "PreToolUse")
    before = (door.work / "ran").exists()
    door.run("hooks", "test", "PreToolUse", "--trust")

    assert (held.code, held.out) == (1, "")
    assert f"Nothing was run: the hook '{command}' waits for --trust" in held.err
    assert (before, (door.work / "ran").exists()) == (False, True)


def test_a_file_can_be_tried_before_it_is_used(door: Door) -> None:
    person(door, hooks=call("exit 0"))
    write(door.work / "mine.json", {"hooks": call("echo mine >&2; exit 2")})

    ran = door.run("hooks", "test", "PreToolUse", "--settings", "mine.json", "--json")

    assert sorted(each["source"] for each in ran.json["runs"]) == ["flag", "person"]
    assert ran.json["verdict"]["reason"] == "mine"


def test_hooks_that_ask_a_model_are_named_and_not_run(door: Door) -> None:
    person(door, hooks={"Stop": [{"hooks": [{"type": "prompt", "prompt": "All done?"}]}]})

    ran = door.run("hooks", "test", "Stop")

    assert "All done?" in ran.out
    assert "not run here: it asks a model" in ran.out


def test_what_a_hook_prints_cannot_move_the_cursor(door: Door) -> None:
    person(door, hooks=call("printf '\\033[2J'; printf '\\033]0;x\\007' >&2; exit 2"))

    assert "\x1b" not in door.run("hooks", "test", "PreToolUse").out


def test_a_list_shows_every_hook_and_what_is_wrong(door: Door) -> None:
    header = {"type": "http", "url": "https://u:pw@h.example/x?key=abc", "headers": {"X-Key": "abc"}}
    person(
        door,
        hooks={**call("guard"), "Stop": [{"hooks": [header]}], "PreTool": [], "Notification": [{"hooks": [{}]}]},
    )

    shown = door.run("hooks", "list")
    printed = door.run("hooks", "list", "--json")

    assert [line.split()[0] for line in shown.out.splitlines()] == ["event", "PreToolUse", "Stop"]
    assert "pw" not in shown.out
    assert "'PreTool' is not an event" in shown.err
    assert "hooks.Notification[0].hooks[0]" in shown.err
    assert [(each["event"], each["label"]) for each in printed.json["hooks"]] == [
        ("PreToolUse", "guard"),
        ("Stop", "https://h.example/x"),
    ]
    assert printed.json["hooks"][1]["handler"]["headers"] == [["X-Key", "..."]]
    assert len(printed.json["warnings"]) == 2


def test_nothing_to_list_is_said(door: Door) -> None:
    assert door.run("hooks", "list").out == "There are no hooks.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("PreToolUsed",), "There is no event 'PreToolUsed'. Did you mean PreToolUse?"),
        (("pretooluse",), "Did you mean PreToolUse?"),
        (("xyz",), "Known are"),
        (("FileChanged",), "no moment for 'FileChanged' yet"),
        (("Stop", "{"), "is not JSON"),
        (("Stop", "[]"), "not a JSON object"),
    ],
)
def test_what_is_typed_wrong_exits_2(door: Door, arguments: tuple[str, ...], words: str) -> None:
    ran = door.run("hooks", "test", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_a_file_that_cannot_be_read_exits_1(door: Door) -> None:
    ran = door.run("hooks", "list", "--settings", "missing.json")

    assert (ran.code, ran.out) == (1, "")
    assert "missing.json" in ran.err


@pytest.mark.parametrize("command", ["hooks list", "hooks test PreToolUse", "doctor"])
def test_sec_l6_a_matcher_that_could_take_for_ever_is_named_with_its_file(door: Door, command: str) -> None:
    person(door, hooks=call("exit 0", "^(a+)+$"))

    ran = door.run(*command.split())

    assert "settings.json: hooks.PreToolUse[0].matcher: '^(a+)+$' cannot be read" in ran.out + ran.err


def test_sec_l6_hooks_are_tried_at_once_whatever_their_matcher(door: Door) -> None:
    person(door, hooks=call("echo no >&2; exit 2", "^(a+)+$"))

    ran = door.run("hooks", "test", "PreToolUse", json.dumps({"tool_name": "a" * 60 + "!"}))

    assert "deny; reason: no" in ran.out


def reply(command: str) -> dict[str, object]:
    return {"text": "I run.", "calls": [{"name": "Bash", "args": {"command": command}}]}


def test_a_refusal_by_a_hook_that_failed_names_the_hook_without_its_secrets(door: Door) -> None:
    token = "ghp_1q7Zk3Vt9QwLr7XyB2NmHc8PdSfGaJe5U1o"
    person(door, hooks=call(f"no-such-guard --token {token} {'x' * 80}"))
    shown, told = (
        door.run("-p", "go", "--model", door.script(reply("ls"), {"text": "Done."}), "--output-format", form)
        for form in ("text", "stream-json")
    )

    words = "The hook 'no-such-guard --token [REDACTED] xxx"
    assert f"was not run: a hook refused the call: {words}" in shown.err
    assert words in str([line for line in told.lines if line["type"] == "user"])
    assert token not in shown.out + shown.err + told.out


def test_a_guard_of_a_mistyped_event_refuses(door: Door) -> None:
    person(door, hooks={"PreToolUs": call("exit 0")["PreToolUse"]})
    ran = door.run("-p", "go", "--model", door.script(reply("touch made"), {"text": "Done."}), "--allow", "Bash")

    assert "'PreToolUs' is not an event that this version knows. Did you mean 'PreToolUse'?" in ran.err
    assert (
        "was not run: a hook refused the call: The hook 'hooks.PreToolUs[0].hooks[0]' of PreToolUse failed" in ran.err
    )
    assert not (door.work / "made").exists()


@pytest.mark.parametrize(("matcher", "meant"), [("bash", "Bash"), ("Write|edti", "Edit"), ("webfetch", "WebFetch")])
def test_a_guard_whose_matcher_names_no_tool_is_told_wherever_hooks_are_read(
    door: Door, matcher: str, meant: str
) -> None:
    person(door, hooks=call("exit 2", matcher))
    words = f"so the hook is never due. Did you mean {meant!r}?"

    assert words in door.run("hooks", "list").err
    assert words in door.run("doctor").out
    assert words in door.spawn("-p", "hi", "--no-persist", "--model", door.script({"text": "Done."})).err


@pytest.mark.parametrize("matcher", ["Bash", "Task", "mcp__a__b", "frobnicate", "Shell|Edit", "^bash$"])
def test_a_matcher_that_may_be_meant_so_is_not_remarked_on(door: Door, matcher: str) -> None:
    person(door, hooks=call("exit 0", matcher))

    assert door.run("hooks", "list").err == ""
