"""The tool `Read`: text as numbered lines, images to look at, notebooks and PDF files as text."""

import os
from functools import partial
from typing import Annotated, BinaryIO, Final

import anyio.to_thread
from msgspec import Meta, Struct

from backstay.ports import ToolContext, ToolOutput
from backstay.system.files import version_of
from backstay.tools.define import tool
from backstay.tools.files.encoding import ByteLines, TextLines, decode, show
from backstay.tools.files.media_type import LARGEST_IMAGE, describe_binary, detect_image_type, read_image
from backstay.tools.files.pdf import pdf_text
from backstay.tools.files.target import (
    LARGEST,
    PROBE,
    FilePath,
    FileTarget,
    Refused,
    explain_os_error,
    find_target,
    reach,
)
from backstay.tools.notebook import show_notebook
from backstay.vocab import events

LINES: Final = 2000
"""Lines that one call shows when it does not say how many."""

_WIDE: Final = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
"""Byte order marks of encodings with more than one byte for every character."""


@tool(name="Read", effect="pure", touches="reads")
async def read_file(
    context: ToolContext,
    file_path: FilePath,
    offset: Annotated[
        int, Meta(ge=1, description="The first line to show, counted from 1; of a notebook, the cell.")
    ] = 1,
    limit: Annotated[int, Meta(ge=1, description="How many lines, or cells, to show.")] = LINES,
    pages: Annotated[str, "Of a PDF file, the pages to show: `3` or `1-5`. The first 20 when it is not said."] = "",
) -> ToolOutput:
    """Read a text file, an image, a notebook or a PDF file. Lines come numbered as `cat -n` does; the number and the tab are not
    part of the file.
    """
    try:
        target = find_target(context, file_path)
        work = partial(_read, target, offset, limit)
        found = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        output = found.output or ToolOutput(text=await pdf_text(target.shown, found.pdf, pages))
    except Refused as refused:
        return refused.output
    context.note(events.FileSeen(path=target.real_path, version=found.version))
    return output


class _FileContent(Struct, frozen=True):
    """The content of a file, and the version that was read."""

    version: str
    output: ToolOutput | None = None
    pdf: bytes = b""
    """A PDF file, still to be read."""


def _read(target: FileTarget, offset: int, limit: int) -> _FileContent:
    try:
        with reach(target) as place, open(place.open(), "rb") as file:
            facts = os.fstat(file.fileno())
            head = file.read(PROBE) or b""
            file.seek(0)
            version = version_of(facts)
            if b"%PDF-" in head[:1024] and head.lstrip()[:5] == b"%PDF-":
                return _FileContent(version, pdf=_whole(target, file, facts.st_size))
            return _FileContent(version, _show(target, file, head, offset, limit))
    except OSError as exc:
        raise explain_os_error(target.shown, exc) from exc


def _show(target: FileTarget, file: BinaryIO, head: bytes, offset: int, limit: int) -> ToolOutput:
    size = os.fstat(file.fileno()).st_size
    if kind := detect_image_type(head):
        return _image(target, file, kind, size)
    if head.startswith(_WIDE):
        document = decode(target.shown, _whole(target, file, size))
        return ToolOutput(text=show(target.shown, TextLines(document), offset, limit))
    if b"\0" in head:
        raise _binary(target, head, size)
    if target.shown.endswith(".ipynb") and size <= LARGEST:
        notebook = show_notebook(file.read(LARGEST + 1), offset, limit)
        if notebook is not None:
            return notebook
        file.seek(0)
    return ToolOutput(text=show(target.shown, ByteLines(target.shown, file), offset, limit))


def _image(target: FileTarget, file: BinaryIO, kind: str, size: int) -> ToolOutput:
    shown = target.shown
    if size > LARGEST_IMAGE:
        raise Refused(
            "too_large", f"The image {shown!r} has {size} bytes; at most {LARGEST_IMAGE} can be shown. Make it smaller."
        )
    picture = read_image(file.read(LARGEST_IMAGE + 1), os.path.basename(shown))
    if picture is None:
        raise Refused("changed", f"{shown!r} changed while it was read. Read it again.")
    return ToolOutput(text=f"(The image {shown!r}: {kind}, {len(picture.content)} bytes.)", media=(picture,))


def _whole(target: FileTarget, file: BinaryIO, size: int) -> bytes:
    content = file.read(LARGEST + 1) if size <= LARGEST else b""
    if size > LARGEST or len(content) > LARGEST:
        raise Refused("too_large", f"{target.shown!r} has more than {LARGEST} bytes. Use a program to look at parts.")
    return content


def _binary(target: FileTarget, head: bytes, size: int) -> Refused:
    kind = describe_binary(head)
    guess = f", probably {kind}" if kind else ""
    return Refused(
        "binary",
        f"{target.shown!r} is binary{guess} ({size} bytes). Look at it with a program, such as `file` or `xxd | head`.",
    )
