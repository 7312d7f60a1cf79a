"""Extract the text of PDF files in a process of its own: a hostile file costs some seconds and nothing else."""

import io
import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from backstay.system.programs import run_program
from backstay.tools.files.target import Refused
from backstay.vocab.env_keys import without_loading

PAGES: Final = 20
"""Pages that are shown when the call does not say which."""
MOST_PAGES: Final = 200
"""Pages of one call."""
SECONDS: Final = 30.0
"""Time for the pages of one call."""
TOTAL_CHARS: Final = 120_000
"""Characters that one call shows at most."""

_ESCAPED: Final = 6
"""Bytes of JSON that a character may take."""
_BESIDES: Final = 64 * 1024
"""Bytes of an answer beside the texts."""
_RANGE: Final = re.compile(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})?\s*)?")
_START: Final = "import sys; sys.path.append(sys.argv.pop(1)); from backstay.tools.files.pdf import main; main()"


class PdfPages(msgspec.Struct, frozen=True):
    """The answer of the reading process."""

    problem: str = ""
    """The reason why there is no text: `encrypted`, `broken`, `slow`, or empty."""
    detail: str = ""
    total: int = 0
    texts: list[str] = []
    """The pages asked for, as many as there was room for."""


async def pdf_text(shown: str, content: bytes, pages: str) -> str:
    """Extract the text of the pages `pages` (`3`, `1-5`, `7-`), each under its number."""
    first, last = _page_range(pages)
    answer = await read_pdf(content, first, last)
    if answer.problem == "slow":
        raise Refused("broken", f"The PDF file {shown!r} takes too long to read. Ask for fewer pages.")
    if answer.problem == "encrypted":
        raise Refused("encrypted", f"The PDF file {shown!r} is encrypted. Decrypt it first (`qpdf --decrypt`).")
    if answer.problem:
        raise Refused("broken", f"The PDF file {shown!r} cannot be read: {answer.detail}.")
    if first > answer.total:
        raise Refused("past_end", f"The PDF file {shown!r} has {answer.total} pages; page {first} is past its end.")
    texts = [
        f"[page {number} of {answer.total}]\n{text.strip() or '(no text on this page; it may be an image)'}"
        for number, text in enumerate(answer.texts, first)
    ]
    following = first + len(texts)
    if following <= answer.total:
        texts.append(
            f'(The document goes on: read it with pages="{following}-{min(following + PAGES - 1, answer.total)}".)'
        )
    return "\n".join(texts)


def _page_range(pages: str) -> tuple[int, int]:
    if not pages.strip():
        return 1, PAGES
    found = _RANGE.fullmatch(pages)
    first = int(found[1]) if found else 0
    last = first if found and "-" not in pages else int(found[2]) if found and found[2] else first + PAGES - 1
    if first < 1 or last < first:
        raise Refused("bad_arguments", f"pages={pages!r} names no pages. Write a page or a range: `3`, `1-5`.")
    if last - first >= MOST_PAGES:
        raise Refused("bad_arguments", f"pages={pages!r} are more than {MOST_PAGES} pages. Ask for fewer.")
    return first, last


async def read_pdf(content: bytes, first: int, last: int, *, most: int = TOTAL_CHARS) -> PdfPages:
    """Have a process of its own read some pages, at most `most` characters of them. The answer holds every failure."""
    here = str(Path(__file__).parents[3])  # and not our whole search path: the working folder may be on it
    # what says where libraries are may name the workspace; Python finds its own all the same
    environment = without_loading(os.environ) | {"LD_LIBRARY_PATH": os.path.join(sys.base_prefix, "lib")}
    command = [sys.executable, "-I", "-c", _START, here, str(first), str(last), str(most)]
    try:
        ran = await run_program(
            command, env=environment, given=content, most=most * _ESCAPED + _BESIDES, deadline_s=SECONDS
        )
    except TimeoutError:
        return PdfPages(problem="slow", detail=f"it takes more than {SECONDS:g} seconds")
    except OSError as exc:
        return PdfPages(problem="broken", detail=f"no reader can be started: {exc}")
    try:
        return msgspec.json.decode(ran.out, type=PdfPages)
    except msgspec.DecodeError:
        errors = ran.err.decode("utf-8", "replace").strip().splitlines()
        return PdfPages(problem="broken", detail=(errors[-1] if errors else f"the reader ended with {ran.code}")[:200])


MEMORY: Final = 1024 * 1024 * 1024
"""Bytes of address space; a file that unpacks to more ends the process."""
CPU_SECONDS: Final = 30


def main() -> None:
    """Read the pages named by the arguments: first, last, and the most characters of all together."""
    first, last, most = map(int, sys.argv[1:4])
    for kind, most_of_it in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, CPU_SECONDS)):
        with suppress(ValueError, OSError):  # some systems do not limit this
            resource.setrlimit(kind, (most_of_it, most_of_it))
    answer = read_pages(sys.stdin.buffer.read(), first, last, most)
    sys.stdout.buffer.write(msgspec.json.encode(answer))


def read_pages(content: bytes, first: int, last: int, most: int) -> PdfPages:
    """Extract the texts of the pages, at least one and as many as have room."""
    from pypdf import PdfReader  # noqa: PLC0415 - heavy, and only this process needs it
    from pypdf.errors import DependencyError, PyPdfError  # noqa: PLC0415

    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            return PdfPages(problem="encrypted")
        total = len(reader.pages)
        texts: list[str] = []
        for number in range(first, min(last, total) + 1):
            text = reader.pages[number - 1].extract_text()
            texts.append(text[:most].encode("utf-8", "replace").decode())
            most -= len(text)
            if most <= 0:
                break
        return PdfPages(total=total, texts=texts)
    except DependencyError:
        return PdfPages(problem="encrypted")  # with a cipher that is not installed
    except PyPdfError as exc:
        return PdfPages(problem="broken", detail=f"{exc}")
