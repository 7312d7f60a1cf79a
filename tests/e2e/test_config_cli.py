"""`backstay config`: every value with its place, who says what about one of them, and the schema."""

import json
from pathlib import Path

import pytest

from backstay.config.settings_schema import settings_schema
from tests.e2e.door import Door
from tests.e2e.test_cli_settings import house, own

PLAIN = "hk-live-5f0c93b1d7e24a68"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def project(door: Door, content: object, name: str = ".backstay/settings.json") -> Path:
    path = door.work / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return path


@pytest.mark.contract("RB-84")
def test_every_value_is_shown_with_its_file_and_line_and_what_is_held_back(door: Door) -> None:
    mine = own(
        door,
        {
            "currentProvider": "house",
            "providers": {"house": {"type": "openai-chat", "apiKey": PLAIN, "model": "m1"}},
            "statusLine": {"type": "command"},
            "env": {"TOKEN": PLAIN},
        },
    )
    theirs = project(door, {"language": "Latin", "permissions": {"deny": ["Bash(rm *)"]}, "env": {"A": "1"}})

    ran = door.run("config", "show")
    shown = door.run("config", "show", "--json")

    for words in (
        "Model: house:m1  (currentProvider)",
        f"deny  Bash(rm *)  (project)  ({theirs}:5)",
        "allow Read(.claude/**)  (default)",
        f"currentProvider = house  ({mine}:1)",
        f"providers.house.api_key = (a secret)  ({mine}:1)",
        f"TOKEN=(a secret)  ({mine}:1)",
        f"Held back until the workspace is trusted:\n  language = Latin  ({theirs}:2)",
        f"Known elsewhere, not used here:\n  statusLine  ({mine}:1)",
    ):
        assert words in ran.out
    assert (ran.code, shown.code) == (0, 0)
    values = {(each["key"], each["counts"], each["line"]) for each in shown.json["values"]}
    assert {("language", False, 2), ("permissions.deny", True, 5), ("env.A", False, 9)} <= values
    assert shown.json["model"] == {"name": "house:m1", "because": "currentProvider"}
    assert PLAIN not in ran.out + ran.err + shown.out


def test_one_value_is_explained_for_people_and_programs(door: Door) -> None:
    mine = own(door, {"retries": 2})
    theirs = project(door, {"retries": 5})

    ran = door.run("config", "show", "--why", "retries", "--trust")
    found = door.run("config", "show", "--why", "retries", "--json").json

    assert ran.out.splitlines() == [
        "retries = 5",
        f"    project, {theirs}:2: counts",
        "retries = 2",
        f"    person, {mine}:1: does not count: overridden by {theirs}:2",
        "retries = 3",
        "    default, default: does not count: a file says something else",
    ]
    assert found[:2] == [
        {
            "key": "retries",
            "value": 5,
            "source": "project",
            "file": str(theirs),
            "line": 2,
            "counts": False,
            "reason": "the workspace is not trusted",
        },
        {
            "key": "retries",
            "value": 2,
            "source": "person",
            "file": str(mine),
            "line": 1,
            "counts": True,
            "reason": "",
        },
    ]
    assert door.run("config", "show", "--why", "chat").out.startswith("No file says anything about chat")
    wrong = door.run("config", "show", "--why", "retrys")
    assert (wrong.code, "Did you mean 'retries'?" in wrong.err) == (1, True)


def test_what_a_workspace_says_cannot_play_with_the_terminal(door: Door) -> None:
    project(door, {"enabledPlugins": {"a\x1b[2J@m": True}, "language": "\x1b]0;x\x07", "hooks": {"\x1b[1m": [1]}})

    for arguments in ((), ("--json",), ("--why", "enabledPlugins"), ("--why", "language", "--json"), ("--trust",)):
        ran = door.run("config", "show", *arguments)
        assert ran.code == 0
        assert not any(each in ran.out + ran.err for each in ("\x1b", "\\u001b", "\x07", "\\u0007"))


def test_the_schema_is_printed(door: Door) -> None:
    ran = door.run("config", "schema")

    assert (ran.code, ran.json) == (0, settings_schema())


def test_the_key_that_is_set_chooses_the_model_and_bare_does_not(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    ran = door.run("config", "show")

    assert "Model: openai:gpt-5.4  (environment)" in ran.out
    assert "OPENAI_API_KEY is set" in ran.err
    assert "No model is configured" in door.run("-p", "hi", "--bare").err


@pytest.mark.contract("RB-84")
@pytest.mark.parametrize("form", ["currentProvider", "provider"])
def test_a_profile_answers_without_a_flag_with_its_options_untouched_and_its_patience(door: Door, form: str) -> None:
    options = {"top_k": 3, "nested": {"a": [1, {"b": None}]}, "service_tier": "flex"}
    with house() as server:
        server.asked.append({})  # it is not the first request
        profile = {"type": "openai-chat", "baseURL": server.address, "apiKey": PLAIN, "model": "m1", "options": options}
        own(door, {"provider": profile} if form == "provider" else {form: "h", "providers": {"h": profile}})
        ran = door.run("-p", "hi", "--output-format", "json")
        (body,) = server.bodies

    assert (ran.code, ran.json["result"]) == (0, "hello from the house")
    assert {key: json.loads(body)[key] for key in options} == options
    assert json.loads(body)["model"] == "m1"
    assert ("is an older way to write a profile" in ran.err) == (form == "provider")
    assert PLAIN not in ran.out + ran.err


def test_a_profile_that_is_not_there_stops_the_run_with_its_line_and_a_flag_goes_before_it(door: Door) -> None:
    mine = own(door, {"currentProvider": "nobody"})

    ran = door.run("-p", "hi")

    assert (ran.code, ran.out) == (1, "")
    assert f"{mine}:1: currentProvider: There is no profile 'nobody'" in ran.err
    assert door.run("-p", "hi", "--model", door.script({"text": "yes"})).out == "yes\n"
    shown = door.run("config", "show")
    assert (shown.code, "There is no profile 'nobody'" in shown.err) == (0, True)


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_c3_no_secret_of_an_address_is_shown(door: Door, flags: tuple[str, ...]) -> None:
    address = f"http://user:{PLAIN[:12]}@host.test/v1?key={PLAIN}&api_key={PLAIN[3:]}&region=eu"
    own(door, {"providers": {"house": {"type": "openai-chat", "baseURL": address, "model": "m1"}}})

    ran = door.run("config", "show", *flags)

    assert PLAIN[3:12] not in ran.out, ran.out
    assert "host.test" in ran.out
    assert "region=eu" in ran.out
