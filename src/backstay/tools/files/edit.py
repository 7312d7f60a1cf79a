"""The tools `Edit` and `MultiEdit`: replace exact text in a file, and nothing else of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final

import anyio.to_thread
import msgspec
from msgspec import Struct

from backstay.ports import ToolContext, ToolOutput
from backstay.tools.define import tool
from backstay.tools.files.encoding import decode
from backstay.tools.files.locked_file import LockedFile, change_file
from backstay.tools.files.replace_text import Change, refuse_pointless, replace, show_difference
from backstay.tools.files.target import FilePath, FileTarget, Refused, find_target, require_text
from backstay.vocab import events

HAD_CHANGED: Final = "The file had changed since you last saw it; the change was made to its present content."


class Rewritten(Struct, frozen=True):
    """The new content, and what to say of it."""

    content: bytes
    text: str


Rewrite = Callable[[FileTarget, bytes], Rewritten]
"""Makes the new content from the present one; raises `Refused` when it cannot."""


async def revise(context: ToolContext, file_path: str, rewrite: Rewrite) -> ToolOutput:
    """Change an existing file with `rewrite` and tell the session which version it has now."""
    try:
        target = find_target(context, file_path)
        seen = context.version_of(target.real_path)

        def change(held: LockedFile) -> tuple[str, str]:
            changed = seen and held.version != seen
            rewritten = rewrite(target, held.read())
            held.replace(rewritten.content)
            return f"{rewritten.text}\n{HAD_CHANGED}" if changed else rewritten.text, held.version

        text, version = await anyio.to_thread.run_sync(change_file, target, change)
    except Refused as refused:
        return refused.output
    context.note(events.FileSeen(path=target.real_path, version=version))
    return ToolOutput(text=text)


class Replacement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of several replacements."""

    old_string: Annotated[
        str, msgspec.Meta(description="The exact text to replace, as the replacements before left it.")
    ]
    new_string: Annotated[str, msgspec.Meta(description="What stands there instead.")]
    replace_all: Annotated[bool, msgspec.Meta(description="Replace every occurrence.")] = False


@tool(name="Edit", touches="edits")
async def edit_file(
    context: ToolContext,
    file_path: FilePath,
    old_string: Annotated[str, "The exact text to replace, indentation included. Must occur once, unless replace_all."],
    new_string: Annotated[str, "What stands there instead."],
    replace_all: Annotated[bool, "Replace every occurrence."] = False,
) -> ToolOutput:
    """Replace exact text in a file. Line ends, encoding and every other byte stay as they are."""
    return await _edit(context, file_path, [Change(old_string, new_string, replace_all)])


@tool(name="MultiEdit", touches="edits")
async def multi_edit(
    context: ToolContext,
    file_path: FilePath,
    edits: Annotated[
        list[Replacement], msgspec.Meta(min_length=1, description="The replacements, made in this order.")
    ],
) -> ToolOutput:
    """Replace several exact texts in one file, one after the other: all of them or, when one fails, none."""
    changes = [Change(each.old_string, each.new_string, each.replace_all) for each in edits]
    return await _edit(context, file_path, changes)


async def _edit(context: ToolContext, file_path: str, changes: Sequence[Change]) -> ToolOutput:
    try:
        for number, change in enumerate(changes, 1):
            with _number_refusal(number, len(changes)):
                refuse_pointless(change)
                require_text("old_string", change.old)
                require_text("new_string", change.new)
    except Refused as refused:
        return refused.output
    return await revise(context, file_path, lambda target, content: _rewrite(target, content, changes))


def _rewrite(target: FileTarget, content: bytes, changes: Sequence[Change]) -> Rewritten:
    document = decode(target.shown, content)
    text = document.text
    count = 0
    for number, change in enumerate(changes, 1):
        with _number_refusal(number, len(changes)):
            document.require(change.new)
            changed = replace(target.shown, text, change)
        text = changed.text
        count += changed.count
    if text == document.text:
        raise Refused("no_change", "Nothing would change: what would stand there stands there already.")
    after = document.encode(text)
    line, shown = show_difference(document.text, text)
    times = "" if count == 1 else f" ({count} times)"
    spoken = f", as {document.named}" if document.guessed and document.codec != "utf-8" else ""
    return Rewritten(after, f"Edited {target.shown!r} at line {line}{times}{spoken}.\n{shown}")


@contextmanager
def _number_refusal(number: int, of: int) -> Iterator[None]:
    """Say which of several replacements was refused."""
    try:
        yield
    except Refused as refused:
        if of == 1:
            raise
        raise Refused(refused.code, f"Edit {number} of {of}: {refused} Nothing was changed.") from refused
