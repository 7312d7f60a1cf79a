"""The tool `Write`: a whole file, in one step."""

from pathlib import Path
from typing import Annotated

import anyio.to_thread

from holdfast.ports import ToolContext, ToolOutput
from holdfast.tools.define import tool
from holdfast.tools.files import Refused, in_words, locate, replace_content


@tool(name="Write", touches="edits")
async def write_file(
    context: ToolContext,
    file_path: Annotated[str, "The file. A relative path starts at the working folder; `~` is the home folder."],
    content: Annotated[str, "The whole new content."],
) -> ToolOutput:
    """Write a file, replacing what it held. Missing folders are made. Use Edit to change a part of a file."""
    try:
        path = locate(context.cwd, file_path)
        return ToolOutput(text=await anyio.to_thread.run_sync(_write, path, content))
    except Refused as refused:
        return refused.output


def _write(path: Path, content: str) -> str:
    try:
        written = content.encode("utf-8", "surrogateescape")
        new = replace_content(path, written)
    except UnicodeEncodeError as exc:
        raise Refused(
            "bad_text", f"The content cannot be written as UTF-8: {exc.reason} at character {exc.start}."
        ) from exc
    except OSError as exc:
        raise in_words(path, exc) from exc
    return f"{'Created' if new else 'Replaced'} {str(path)!r}: {len(written)} bytes."
