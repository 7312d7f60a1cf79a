"""A command that a message quotes can be copied and does what it says, whatever store is meant."""

import re
import shlex
from pathlib import Path

from tests.e2e.door import WAIT, Door, finish, read_until
from tests.stores.sqlite_kit import damage

WAITS = {"calls": [{"name": "Bash", "args": {"command": WAIT}}]}
DONE = {"text": "Done."}
QUOTED = re.compile(r"`backstay ([^`]*)`")


def test_a_session_that_is_at_work_elsewhere_can_be_followed_as_it_is_said(door: Door) -> None:
    store = f"sqlite://{door.folder / 'my sessions'}"
    flags = ("--session-id", "s1", "--store", store, "--allow", "Bash", "--output-format", "events")
    process = door.start("-p", "go", "--model", door.script(WAITS, DONE), *flags)
    list(read_until(process, "tool_started"))

    ran = door.run("-r", "s1", "-p", "more", "--store", store)
    (command,) = QUOTED.findall(ran.err)
    tail = door.start(*shlex.split(command), "--json")
    first = next(read_until(tail, "turn_started"))
    (door.work / "go").touch()

    assert (ran.code, finish(process).code, finish(tail).code) == (1, 0, 0)
    assert command == f"log tail s1 --store '{store}'"
    assert first["session"] == "s1"


def test_a_damaged_session_is_mended_as_it_is_said(door: Door) -> None:
    store = f"sqlite://{door.folder / 'store.db'}"
    model = door.script(DONE, DONE, DONE)
    door.run("--store", store, "-p", "hello", "--model", model, "--session-id", "s1")
    damage(door.folder / "store.db", 3)

    refused = door.run("--store", store, "-r", "s1", "-p", "more", "--model", model)
    (command,) = set(QUOTED.findall(refused.err))
    mended = door.run(*shlex.split(command))

    assert (refused.code, command, mended.code) == (1, f"log repair s1 --store {store}", 0)


def test_a_name_that_is_not_there_is_looked_up_as_it_is_said_and_the_usual_store_needs_no_words(door: Door) -> None:
    store = f"sqlite://{door.folder / 'other.db'}"
    door.run("-p", "hi", "--model", door.script(DONE), "--store", store)

    there = door.run("sessions", "show", "missing", "--store", store)
    (command,) = QUOTED.findall(there.err)

    assert command == f"sessions list --store {store}"
    assert door.run(*shlex.split(command)).code == 0
    assert QUOTED.findall(door.run("sessions", "show", "missing").err) == ["sessions list"]
    assert QUOTED.findall(door.run("sessions", "show", "missing", "--store", door.store).err) == ["sessions list"]


def test_a_turn_that_is_paused_goes_on_as_its_result_says(door: Door) -> None:
    store = f"sqlite://{door.folder / 'other.db'}"
    dear = {"text": "dear", "usage": {"input": 10_000, "output": 1_000}}
    budget = ("--max-budget-usd", "0.045", "--on-exceed", "pause")
    door.run("-p", "hi", "--model", door.script(dear, dear), "--session-id", "s1", "--store", store, *budget)

    paused = door.run("-r", "s1", "-p", "more", "--store", store, "--output-format", "json")
    (command,) = QUOTED.findall(paused.json["errors"][0])

    assert (paused.code, command.endswith(f"--store {store}")) == (3, True)
    assert door.run(*shlex.split(command)).out == "dear\n"


def test_an_empty_text_too_many_is_named(door: Door) -> None:
    ran = door.run("sessions", "list", "")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "backstay: Got unexpected extra argument: an empty text")


def test_a_recorded_model_that_is_gone_can_be_replaced_as_the_message_says(door: Door) -> None:
    script = door.script({"text": "one"}, {"text": "two"})
    assert door.run("-p", "hi", "--model", script, "--session-id", "s1").code == 0
    path = Path(script.removeprefix("scripted:"))
    there = path.rename(path.with_name("there.json"))
    gone = door.run("-r", "s1", "-p", "more")
    assert (gone.code, gone.err.splitlines()[-1].endswith("To go on with another model: --model.")) == (1, True)
    assert door.run("-r", "s1", "-p", "more", "--model", f"scripted:{there}").code == 0
