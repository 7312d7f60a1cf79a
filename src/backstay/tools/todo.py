"""The tool `TodoWrite`: the list of things to do, for the model to plan with and for the person to watch."""

from collections import Counter
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from backstay.ports import ToolContext, ToolOutput
from backstay.tools.define import tool
from backstay.vocab import events

MOST: Final = 200
"""Things that a list may have."""


class TodoItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing to do, as a model writes it."""

    content: Annotated[str, Meta(min_length=1, max_length=4000, description="What is to be done: `Run the tests`.")]
    status: Literal["pending", "in_progress", "completed"]
    active_form: Annotated[
        str, Meta(max_length=4000, description="The same while it is being done: `Running the tests`.")
    ] = ""


class TodoArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `TodoWrite`."""

    todos: Annotated[
        tuple[TodoItem, ...], Meta(max_length=MOST, description="The whole list; it replaces the one before.")
    ]


@tool(arguments=TodoArguments, name="TodoWrite", effect="idempotent", touches="notes")
async def write_todos(context: ToolContext, given: TodoArguments) -> ToolOutput:
    """Replace the list of things to do. Keep it for work of several steps: one thing in progress at a time, done as soon as it is done."""
    todos = tuple(
        events.Todo(content=each.content, status=each.status, active_form=each.active_form) for each in given.todos
    )
    await context.emit(events.TodosWritten(todos=todos))
    counts = Counter(each.status for each in todos)
    text = ", ".join(
        f"{counts[status]} {status.replace('_', ' ')}" for status in ("completed", "in_progress", "pending")
    )
    busy = " Usually only one is in progress at a time." if counts["in_progress"] > 1 else ""
    return ToolOutput(text=f"The list is kept: {text}.{busy}" if todos else "The list is empty now.")
