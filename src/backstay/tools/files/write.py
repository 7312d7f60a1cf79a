"""The tool `Write`: a whole file, in one step."""

from functools import partial
from typing import Annotated

import anyio.to_thread

from backstay.ports import ToolContext, ToolOutput
from backstay.system.files import version_of
from backstay.tools.define import tool
from backstay.tools.files.encoding import Document, decode
from backstay.tools.files.locked_file import LockedFile, change_file
from backstay.tools.files.target import LARGEST, FilePath, Refused, find_target, require_text
from backstay.vocab import events


@tool(name="Write", touches="edits")
async def write_file(
    context: ToolContext,
    file_path: FilePath,
    content: Annotated[str, "The whole new content."],
) -> ToolOutput:
    """Write a file, replacing what it held. Missing folders are made. Use Edit to change a part of a file."""
    try:
        require_text("The content", content)
        target = find_target(context, file_path)
        seen = context.version_of(target.real_path)
        work = partial(change_file, target, lambda held: (_write(held, seen, content), held.version), make=True)
        text, version = await anyio.to_thread.run_sync(work)
    except Refused as refused:
        return refused.output
    context.note(events.FileSeen(path=target.real_path, version=version))
    return ToolOutput(text=text)


def _write(held: LockedFile, seen: str, content: str) -> str:
    shown = held.target.shown
    if held.facts is None:
        written = content.encode()
        held.replace(written)
        return f"Created {shown!r}: {len(written)} bytes."
    if seen and version_of(held.facts) != seen:
        raise Refused(
            "changed",
            f"{shown!r} has changed since you last saw it. Read it again, then write it. Nothing was written.",
        )
    size = held.facts.st_size
    before = held.read() if size <= LARGEST else b""
    written, kept = _like(shown, before, content)
    held.replace(written)
    unseen = f" You had not seen it: it held {_amount(size, before)}." if not seen else ""
    return f"Replaced {shown!r}: {len(written)} bytes{kept}.{unseen}"


def _like(shown: str, before: bytes, content: str) -> tuple[bytes, str]:
    """Encode `content` with the encoding and the line ends that the file had, and describe them."""
    try:
        document = decode(shown, before)
    except Refused:
        document = Document("")  # it was binary: nothing to keep
    ends = document.text.count("\n")
    crlf = ends > 0 and document.text.count("\r\n") == ends and "\r" not in content and "\n" in content
    text = content.replace("\n", "\r\n") if crlf else content
    kept = ["CRLF line ends"] if crlf else []
    if document.mark and not content.startswith("\ufeff"):
        return document.encode(text), _as_before([document.named, *kept])
    if document.codec == "latin-1" and not content.isascii():
        try:
            return document.encode(text), _as_before([document.named, *kept])
        except Refused:
            return text.encode(), _as_before(kept) + f"; it was {document.named} and is UTF-8 now"
    return text.encode(), _as_before(kept)


def _as_before(kept: list[str]) -> str:
    return f", with {' and '.join(kept)} as before" if kept else ""


def _amount(size: int, before: bytes) -> str:
    if not before:
        return f"{size} bytes"
    lines = before.count(b"\n") + (not before.endswith(b"\n"))
    return f"{size} bytes in {lines} {'line' if lines == 1 else 'lines'}"
