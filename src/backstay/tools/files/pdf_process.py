"""The process that reads a PDF file from its standard input and writes the text of some pages to its standard output."""

import io
import resource
import sys
from contextlib import suppress
from typing import Final

import msgspec

from backstay.tools.files.pdf import PdfPages

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
    """The texts of the pages, at least one and as many as have room."""
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
