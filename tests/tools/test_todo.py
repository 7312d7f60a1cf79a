"""The tool `TodoWrite`."""

import pytest

from backstay.tools.todo import write_todos
from backstay.vocab.events.tools import Todo, TodosWritten
from tests.tools.context import RecordingContext

pytestmark = pytest.mark.anyio


async def test_the_list_is_written_down_and_counted() -> None:
    context = RecordingContext()
    todos = [
        {"content": "Build", "status": "completed"},
        {"content": "Test", "status": "in_progress", "activeForm": "Testing", "priority": "high"},
        {"content": "Ship", "status": "pending", "activeForm": "Shipping"},
    ]

    output = await write_todos.run({"todos": todos}, context)

    assert output.text == "The list is kept: 1 completed, 1 in progress, 1 pending."
    assert context.noted == [
        TodosWritten(
            todos=(
                Todo(content="Build", status="completed"),
                Todo(content="Test", status="in_progress", active_form="Testing"),
                Todo(content="Ship", status="pending", active_form="Shipping"),
            )
        )
    ]


async def test_an_empty_list_and_a_busy_one_are_allowed() -> None:
    context = RecordingContext()
    busy = [{"content": each, "status": "in_progress"} for each in "ab"]

    assert (await write_todos.run({"todos": []}, context)).text == "The list is empty now."
    assert (await write_todos.run({"todos": busy}, context)).text.endswith("Usually only one is in progress at a time.")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "Missing argument 'todos' (array)."),
        ({"todos": "x"}, "Argument 'todos': Expected `array`, got `str`."),
        ({"todos": [{"content": "a"}]}, "Missing argument 'status' in 'todos[0]'."),
        (
            {"todos": [{"content": "", "status": "pending"}]},
            "Argument 'todos[0].content': Expected `str` of length >= 1.",
        ),
        ({"todos": [{"content": "a", "status": "done"}]}, "expected one of 'completed', 'in_progress', 'pending'."),
        ({"todos": [], "merge": True}, "Unknown argument 'merge'. The tool takes argument 'todos'."),
        ({"todos": [{"content": "a", "status": "pending"}] * 201}, "length <= 200"),
    ],
)
async def test_a_list_that_cannot_be_kept_is_explained(args: dict[str, object], words: str) -> None:
    context = RecordingContext()

    output = await write_todos.run(args, context)

    assert (output.failed, output.code, context.noted) == (True, "bad_arguments", [])
    assert words in output.text


def test_the_schema_is_in_one_piece() -> None:
    schema = write_todos.spec.schema

    assert "$ref" not in str(schema)
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["todos"]
    assert (write_todos.spec.touches, write_todos.spec.effect) == ("notes", "idempotent")
