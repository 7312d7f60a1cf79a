"""The model in the box through the port: a real process, a real connection, a stand-in for the engine."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backstay import open_session
from backstay.logic.context_usage import estimate_text
from backstay.ports import ModelReply, ModelRequest
from backstay.providers.local.engine import Engines, fitting, free_memory
from backstay.providers.local.model import CIRCLE, FACTS, LocalModel, choose, find_local, repeats_itself, shorten_tools
from backstay.providers.local.pins import LOCAL, list_pins
from backstay.providers.scripted import ScriptedModel
from backstay.session.limits import profile_of
from backstay.tools.files.edit import edit_file
from backstay.tools.files.read import read_file
from backstay.tools.files.write import write_file
from backstay.tools.shell.bash import run_command
from backstay.vocab.deltas import TextDelta
from backstay.vocab.errors import UserError
from backstay.vocab.messages import Message, Text, ToolCall, ToolResult
from backstay.vocab.specs import Prices, Usage
from tests.providers.local.engine_kit import asked, model_file, stand_in

GB = 1_000_000_000
SPECS = tuple(each.spec for each in (read_file, write_file, edit_file, run_command))


def said(text: str) -> Message:
    return Message(role="user", parts=(Text(text=text),))


def called(args: str, number: int = 1, name: str = "Bash") -> tuple[Message, Message]:
    call = ToolCall(id=f"c{number}", name=name, args=args)
    result = ToolResult(call=call.id, content=(Text(text="out"),))
    return Message(role="assistant", parts=(call,)), Message(role="tool", parts=(result,))


@pytest.fixture
async def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalModel]:
    monkeypatch.setenv("PYTHONPATH", str(stand_in(tmp_path / "package")))
    pin, path = model_file(tmp_path)
    engines = Engines()
    model = LocalModel(pin, path, remark="memory is short", engines=engines)
    yield model
    await model.aclose()
    engines.close()


async def ask(model: LocalModel, *messages: Message) -> list[object]:
    request = ModelRequest(model=model.name, messages=messages, instructions="Be short.", tools=SPECS)
    return [item async for item in model.ask(request)]


async def test_it_streams_and_answers(model: LocalModel, tmp_path: Path) -> None:
    items = await ask(model, said("Hello"))

    assert [item.text for item in items if isinstance(item, TextDelta)] == ["Good ", "day."]
    reply = items[-1]
    assert isinstance(reply, ModelReply)
    assert (reply.parts, reply.stop) == ((Text(text="Good day."),), "end")
    assert reply.usage == Usage(input=7, output=2)
    assert reply.notes[-1:] == ("memory is short",)
    (question,) = asked(tmp_path / "package")
    body = question["body"]
    assert (body["temperature"], body["max_tokens"], body["stream"]) == (0, 1024, True)
    assert body.get("tool_choice", "auto") == "auto"
    again = (await ask(model, said("Hello")))[-1]
    assert isinstance(again, ModelReply)
    assert "memory is short" not in again.notes


async def test_a_repeated_call_takes_the_tools_away(model: LocalModel, tmp_path: Path) -> None:
    same = (*called('{"command": "ls"}', 1), *called('{"command":"ls"}', 2))

    reply = (await ask(model, said("List"), *same))[-1]
    await ask(model, said("List"), *same, said("Now count"))

    first, second = asked(tmp_path / "package")
    assert isinstance(reply, ModelReply)
    assert reply.notes[-1] == CIRCLE
    assert first["body"]["tool_choice"] == "none"
    assert second["body"].get("tool_choice", "auto") == "auto"


async def test_an_engine_that_died_is_started_again(model: LocalModel) -> None:
    await ask(model, said("Hello"))
    engine = model._engines.get(model._path, "tiny")
    os.kill(engine.pid, signal.SIGKILL)
    while engine.alive:
        pass

    assert isinstance((await ask(model, said("Hello")))[-1], ModelReply)


def test_only_the_same_call_twice_since_the_person_spoke_is_a_circle() -> None:
    one, two = called('{"command": "ls"}', 1), called('{"command": "pwd"}', 2)
    bad = called("{broken", 3)

    assert not repeats_itself([said("x")])
    assert not repeats_itself([said("x"), *one])
    assert not repeats_itself([said("x"), *one, *two])
    assert not repeats_itself([said("x"), *one, *two, *one])
    assert not repeats_itself([*one, said("x"), *one])
    assert not repeats_itself([said("x"), *one, *called('{"command": "ls"}', 4, "Other")])
    assert repeats_itself([said("x"), *two, *one, *one])
    assert repeats_itself([said("x"), *bad, *bad])


def test_what_is_known_of_it() -> None:
    assert (FACTS.window, FACTS.max_output, FACTS.known) == (8192, 1024, True)
    assert FACTS.prices == Prices(input=0, output=0)
    assert FACTS.abilities == {"tools"}


def test_the_bare_name_means_the_best_that_was_pulled(tmp_path: Path) -> None:
    best, small = list_pins()

    assert choose("local:", tmp_path, free=8 * GB) == (best, "")
    (tmp_path / small.file).touch()
    assert choose("local:", tmp_path, free=8 * GB) == (small, "")
    (tmp_path / best.file).touch()
    assert choose("local:", tmp_path, free=8 * GB) == (best, "")
    assert choose(f"local:{small.name}", tmp_path, free=8 * GB) == (small, "")
    with pytest.raises(UserError, match=r"There is no local model 'gpt'. The local models are qwen2.5-coder-1.5b, "):
        choose("local:gpt", tmp_path)


def test_where_memory_is_short_the_small_one_is_taken_and_that_is_said(tmp_path: Path) -> None:
    best, small = list_pins()
    pin, why = fitting(list_pins(), free=3 * GB)

    assert pin is small
    assert "3.0 GB of memory are free, and qwen2.5-coder-1.5b wants 4 GB: qwen2.5-coder-0.5b is taken instead" in why
    assert "single tool calls" in why
    assert fitting((best,), free=1 * GB) == (best, "")
    assert (free_memory() or 1) > 0


def test_a_model_that_was_not_pulled_is_refused_before_the_session_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(stand_in(tmp_path / "package"))
    sys.modules.pop("xllamacpp", None)

    with pytest.raises(UserError, match=r"Fetch it once \(1.12 GB\): backstay models pull qwen2.5-coder-1.5b"):
        find_local("local:", tmp_path, free=8 * GB)


def test_tools_are_said_in_few_words_and_the_most_useful_one_last() -> None:
    short = shorten_tools(SPECS)

    assert [spec.name for spec in short] == ["Edit", "Write", "Read", "Bash"]
    assert short[-1].description.startswith("Run a shell command: show a file")
    assert short[0].description == "Replace exact text in a file."
    properties = short[-1].schema["properties"]
    assert isinstance(properties, dict)
    assert list(properties) == ["command"]
    by_name = {spec.name: spec.schema["required"] for spec in short}
    assert by_name == {spec.name: spec.schema["required"] for spec in SPECS}


async def test_the_profile_is_small_and_names_tools_that_exist() -> None:
    assert profile_of("local:qwen2.5-coder-1.5b") is LOCAL
    assert profile_of("anthropic:claude-sonnet-4-6") is None
    assert estimate_text(LOCAL.system_prompt) < 250
    async with open_session(model=ScriptedModel.of([{"text": ""}]), store=None) as session:
        assert set(LOCAL.tools) <= set(session.tools)
    assert LOCAL.max_rounds == 6
