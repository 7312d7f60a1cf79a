"""The tool `Read`: a text file as numbered lines."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import anyio.to_thread
from msgspec import Meta

from holdfast.ports import ToolContext, ToolOutput
from holdfast.tools.define import tool
from holdfast.tools.files import PROBE, Refused, in_words, locate, require_regular

LINES: Final = 2000
"""Lines that one call shows when it does not say how many."""
LINE_CHARS: Final = 2000
"""Characters of a line that are shown."""
TOTAL_CHARS: Final = 120_000
"""Characters that one call shows at most, so that one file cannot fill a model's window."""


@tool(name="Read", effect="pure", touches="reads")
async def read_file(
    context: ToolContext,
    file_path: Annotated[str, "The file. A relative path starts at the working folder; `~` is the home folder."],
    offset: Annotated[int, Meta(ge=1, description="The first line to show, counted from 1.")] = 1,
    limit: Annotated[int, Meta(ge=1, description="How many lines to show.")] = LINES,
) -> ToolOutput:
    """Read a text file. Lines come numbered as `cat -n` does; the number and the tab are not part of the file."""
    try:
        path = locate(context.cwd, file_path)
        text = await anyio.to_thread.run_sync(_read, path, offset, limit, abandon_on_cancel=True)
    except Refused as refused:
        return refused.output
    return ToolOutput(text=text)


@dataclass(frozen=True)
class _Line:
    text: str
    cut: int
    """Bytes left out."""


def _read(path: Path, offset: int, limit: int) -> str:
    try:
        require_regular(path)
        with path.open("rb") as file:
            return _show(path, file, offset, limit)
    except OSError as exc:
        raise in_words(path, exc) from exc


def _show(path: Path, file: BinaryIO, offset: int, limit: int) -> str:
    if b"\0" in file.read(PROBE):
        raise Refused("binary", f"{str(path)!r} is binary. Look at it with a program, such as `file` or `xxd | head`.")
    file.seek(0)
    skipped = _skip(file, offset - 1)
    shown: list[str] = []
    size = 0
    while len(shown) < limit and size < TOTAL_CHARS and (line := _next_line(file)) is not None:
        text = line.text.removeprefix("\ufeff") if offset + len(shown) == 1 else line.text
        cut = f" [{line.cut} bytes of this line are left out]" if line.cut else ""
        shown.append(f"{offset + len(shown):>6}\t{text}{cut}")
        size += len(shown[-1])
    if not shown:
        return _nothing(path, skipped, offset)
    following = offset + len(shown)
    more = f"\n(The file goes on: read it with offset={following}.)" if file.read(1) else ""
    return "\n".join(shown) + more


def _nothing(path: Path, lines: int, offset: int) -> str:
    if lines == 0:
        return f"(The file {str(path)!r} is empty.)"
    raise Refused("past_end", f"{str(path)!r} has {lines} lines; offset={offset} is past its end.")


def _skip(file: BinaryIO, lines: int) -> int:
    """Pass over `lines` lines; return how many there were."""
    passed = 0
    while passed < lines and (piece := file.readline(PROBE)):
        while not piece.endswith(b"\n") and (more := file.readline(PROBE)):
            piece = more
        passed += 1
    return passed


def _next_line(file: BinaryIO) -> _Line | None:
    """The next line without its end; of a very long one only the beginning, so that memory stays bounded."""
    piece = file.readline(LINE_CHARS * 4)
    if not piece:
        return None
    rest = 0
    last = piece
    while not last.endswith(b"\n") and (more := file.readline(PROBE)):
        last = more
        rest += len(more.rstrip(b"\r\n"))
    text = piece.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
    return _Line(text[:LINE_CHARS], rest + len(text[LINE_CHARS:].encode("utf-8", "replace")))
