"""What is typed wrong is said in a line or two, with exit code 2; what cannot start, with 1."""

import re
import sqlite3
from contextlib import closing
from typing import get_args

import click
import pytest

from backstay.cli.prompt import split_rules
from backstay.cli.root import COMMANDS, FORMATS, MODES, root, run
from backstay.headless.formats import FormatName
from backstay.version import VERSION
from backstay.vocab import specs
from tests.e2e.door import Door

PROMPT = ("-p", "hi", "--model", "scripted:x.yaml")

NO_SCHEMAS = {
    '{"type": "nope"}': 'type is "nope", not one of object, array',
    '{"type": ["string", 3]}': "no JSON Schema: type is",
    '{"properties": {"a": {"type": "strin"}}}': 'properties.a.type is "strin"',
    '{"properties": []}': "properties is [], not an object of schemas",
    '{"properties": {"a": 5}}': "properties.a is 5, not an object, true or false",
    '{"required": "a"}': 'required is "a", not a list of names',
    '{"items": {"enum": 3}}': "items.enum is 3, not a list",
    '{"anyOf": [{"minimum": "1"}]}': 'anyOf[0].minimum is "1", not a number',
    '{"minLength": -1}': "minLength is -1, not a whole number",
    '{"pattern": "("}': 'pattern is "(", not a regular expression',
    '{"$ref": "#/$defs/a"}': "which is not there",
    '{"name": "x", "schema": {"type": "nope"}}': 'type is "nope"',
}
"""JSON that is no JSON Schema, and what is said of it."""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-p", ""), "prompt is empty"),
        (("-p", " \n "), "prompt is empty"),
        (("-p",), "requires an argument"),
        (("--nope",), "No such option"),
        ((*PROMPT, "--output-format", "xml"), "'xml' is not one of"),
        ((*PROMPT, "--input-format", "xml"), "'xml' is not one of"),
        ((*PROMPT, "--permission-mode", "yolo"), "'yolo' is not one of"),
        ((*PROMPT, "--on-crash", "cry"), "'cry' is not one of"),
        ((*PROMPT, "--max-turns", "0"), "'--max-turns'"),
        ((*PROMPT, "--max-turns", "many"), "'--max-turns'"),
        ((*PROMPT, "--allow", "((("), "not a permission rule"),
        ((*PROMPT, "--session-id", "../x"), "'../x' is not a session id"),
        ((*PROMPT, "--cwd", "/no/such/folder"), "does not exist"),
        ((*PROMPT, "-c", "-r", "x"), "cannot be used together"),
        ((*PROMPT, "--fork-session"), "needs -c or -r"),
        ((*PROMPT, "-r", "x", "--session-id", "y"), "needs --fork-session"),
        ((*PROMPT, "-c", "--finish"), "leave -p away"),
        (("--finish",), "--finish needs"),
        (("-c", "--finish", "--input-id", "k"), "--input-id needs a prompt"),
        (("-c", "--finish", "--fork-session"), "No copy was made"),
        ((*PROMPT, "-r", ""), "-r is empty"),
        ((*PROMPT, "-r", " "), "-r is empty"),
        *(
            (("-p", "hi", "--model", model, "--cwd", "/no/such/folder"), "does not exist")
            for model in ("x", "scripted:~/y")
        ),
        *((("-p", "hi", "--name", name), "name") for name in ("", " ", "a\x1b[31mb", "a\nb", "a\u202eb")),
        (("sessions", "search", " "), "the text is empty"),
        ((*PROMPT, "-c", "--no-persist"), "nothing to go on with"),
        ((*PROMPT, "--no-persist", "--store", "memory:"), "cannot be used together"),
        ((*PROMPT, "--include-partial-messages"), "needs --output-format stream-json"),
        ((*PROMPT, "--effort", "much"), "'much' is not one of"),
        ((*PROMPT, "--on-exceed", "cry"), "'cry' is not one of"),
        ((*PROMPT, "--max-session-turns", "-1"), "'--max-session-turns'"),
        *(
            ((*PROMPT, "--max-budget-usd", amount), "is not an amount of dollars")
            for amount in ("", "much", "-1", "inf", "nan")
        ),
        ((*PROMPT, "--max-budget-usd", "0.000000001"), "finer than the smallest amount"),
        ((*PROMPT, "--json-schema", "/no/such/file"), "cannot be read"),
        ((*PROMPT, "--json-schema", '{"type": '), "is not a JSON object"),
        *(((*PROMPT, "--json-schema", schema), words) for schema, words in NO_SCHEMAS.items()),
        ((*PROMPT, "--bare", "--settings", "x.json"), "leave --settings away"),
        ((*PROMPT, "--scope", "everything"), "'everything' is not one of"),
        ((*PROMPT, "--add-dir", "/no/such/folder"), "does not exist"),
        ((*PROMPT, "--mcp-config", "value"), "--mcp-config names 'value', which is no file"),
        ((*PROMPT, "--agent", ""), "--agent is empty"),
        *(((flag, "--model", "x"), "-p needs a prompt, and --model is a flag") for flag in ("-p", "--print")),
        (("-p", "-c"), "-p needs a prompt"),
        (("-p", "--model=x"), "-p needs a prompt"),
        (("serve",), "'serve' is not available yet"),
        (("hello",), "backstay -p 'hello'"),
        (("--model", "x", "sessions", "list"), "--model belongs to -p"),
        (("sessions", "frobnicate"), "No such command"),
        (("sessions", "prune"), "--older-than"),
        (("log", "replay", "x", "--at", "-1"), "--at"),
    ],
)
def test_wrong_usage_exits_2_with_plain_words(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("backstay: ")
    assert words in said.err
    assert len(said.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-p", "hi", "--model", "scripted:good.json", "--settings", "no.json"), 1, "no.json' cannot be read"),
        (("-p", "hi", "--model", "scripted:good.json", "--fallback-model", "nobody:x"), 1, "no model 'nobody:x'"),
        (("-p", "hi", "--model", "scripted:good.json", "--fallback-model", "scripted:no.json"), 1, "cannot be read"),
        (("-p", "hi", "--model", "nobody:x"), 1, "There is no model 'nobody:x'"),
        (("-p", "hi", "--model", "scripted:missing.yaml"), 1, "cannot be read"),
        (("-p", "hi", "--model", "scripted:good.json", "--store", "floppy:a"), 1, "'floppy:a' is not a store"),
        (("-p", "hi", "-r", "missing"), 1, "There is no session with the id or name 'missing'"),
        (("-p", "hi", "-r", "no such name"), 1, "There is no session with the id or name"),
        (("-p", "hi", "-r", "../../etc/passwd"), 2, "neither the id nor the name"),
        (("-p", "hi", "-c"), 1, "can be continued yet"),
        (("sessions", "show", "missing"), 1, "There is no session"),
        (("sessions", "delete", "missing"), 1, "There is no session"),
        (("sessions", "move", "a/b", "sqlite:else"), 2, "neither the id nor the name"),
        (("log", "show", "missing"), 1, "There is no"),
        (("sessions", "list", "--store", "sqlite:///no/such/store.db"), 1, "There is no store"),
    ],
)
def test_what_cannot_start_says_why(door: Door, arguments: tuple[str, ...], code: int, words: str) -> None:
    (door.work / "good.json").write_text('[{"text": "hi"}]', encoding="utf-8")

    ran = door.run(*arguments)

    assert (ran.code, ran.out) == (code, "")
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1


def test_nothing_is_created_for_a_run_that_cannot_start(door: Door) -> None:
    ran = door.run("-p", "hi", "--model", "scripted:missing.yaml")

    assert (ran.code, ran.out) == (1, "")
    assert door.run("sessions", "list", "--json").json == []


@pytest.mark.contract("ST-20")
def test_a_session_of_another_store_is_refused_by_name(door: Door) -> None:
    door.run("-p", "hi", "--model", door.script({"text": "one"}, {"text": "two"}), "--session-id", "s1")
    with closing(sqlite3.connect(door.folder / "data" / "sessions.db")) as db, db:
        db.execute("UPDATE store SET value = 'sqlite-another' WHERE key = 'identity'")

    ran = door.run("-r", "s1", "-p", "more")

    assert (ran.code, ran.out) == (1, "")
    assert "was written by the store" in ran.err
    assert "backstay sessions move" in ran.err


def test_a_session_whose_script_is_gone_can_be_asked_what_it_said(door: Door) -> None:
    flags = ("-p", "hi", "--session-id", "s1", "--input-id", "k1")
    door.run(*flags, "--model", door.script({"text": "one"}))
    (door.folder / "script.json").unlink()

    recorded = door.run(*flags)
    new = door.run("-r", "s1", "-p", "more")

    assert (recorded.code, recorded.out) == (0, "one\n")
    assert (new.code, new.out) == (1, "")
    assert "cannot be read" in new.err


def test_the_version_and_the_help_say_what_there_is(door: Door) -> None:
    version = door.spawn("--version")
    long = door.run("--version", "--bare")
    shown = door.run("--help")
    alone = door.run()

    assert version.code == 0
    assert re.fullmatch(rf"backstay {re.escape(VERSION)}( \([0-9a-f]{{12}}\))?\n", version.out)
    assert long.out == version.out
    assert shown.code == 0
    for words in ("-p, --print PROMPT", "--output-format", "--on-crash", "sessions", "log", "demo", "Permissions:"):
        assert words in shown.out
    assert "--mcp-config" in shown.out
    assert (alone.code, "prompt is empty" in alone.err) == (2, True)


def test_the_help_of_each_command_begins_with_its_line_in_the_help_of_all() -> None:
    ctx = click.Context(root)
    loaded = {name: root.get_command(ctx, name) for name in COMMANDS}

    assert {
        name: " ".join((found.help or "").split())[: len(COMMANDS[name])] for name, found in loaded.items() if found
    } == COMMANDS
    assert list(COMMANDS) == sorted(COMMANDS)


def test_the_choices_of_the_flags_are_those_of_the_program() -> None:
    assert MODES == specs.MODES
    assert get_args(FormatName) == FORMATS


def test_a_list_of_rules_is_split_outside_parentheses() -> None:
    assert split_rules("Read,Edit  Bash(git log *, git diff) Write") == [
        "Read",
        "Edit",
        "Bash(git log *, git diff)",
        "Write",
    ]
