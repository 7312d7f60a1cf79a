"""The tool `Read` on notebooks and PDF files."""

import base64
import json
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfWriter

from backstay.ports import ToolOutput
from backstay.tools.files import pdf
from backstay.tools.files.read import read_file
from backstay.tools.notebook import OUTPUT_CHARS
from tests.tools.context import RecordingContext

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def _read(folder: Path, **args: object) -> ToolOutput:
    return await read_file.run(args, RecordingContext(folder))


def _pdf(*pages: str) -> bytes:
    """A small PDF file with a line of text on each page."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b""]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
        kids.append(f"{len(objects) + 1} 0 R")
        font = b"<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources%s/Contents %d 0 R>>" % (font, len(objects) + 2)
        )
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream))
    objects[1] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(pages)}>>".encode()
    written = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj%s endobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return written + b"xref\n0 %d\n0000000000 65535 f \n%strailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        size,
        table,
        size,
        len(written),
    )


async def test_pages_of_a_pdf_file_come_as_text(tmp_path: Path) -> None:
    (tmp_path / "a.dat").write_bytes(_pdf("first", "second", "third"))

    everything = await _read(tmp_path, file_path="a.dat")
    some = await _read(tmp_path, file_path="a.dat", pages="2-2")

    assert everything.text == "[page 1 of 3]\nfirst\n[page 2 of 3]\nsecond\n[page 3 of 3]\nthird"
    assert some.text == '[page 2 of 3]\nsecond\n(The document goes on: read it with pages="3-3".)'


@pytest.mark.parametrize(
    ("content", "pages", "code", "words"),
    [
        (_pdf("one"), "2", "past_end", "has 1 pages"),
        (_pdf("one"), "x", "bad_arguments", "names no pages"),
        (_pdf("one"), "0", "bad_arguments", "names no pages"),
        (_pdf("one"), "5-2", "bad_arguments", "names no pages"),
        (_pdf("one"), "1-9999", "bad_arguments", "Ask for fewer"),
        (b"%PDF-1.4\nnothing of the kind", "", "broken", "cannot be read"),
        (b"%PDF-1.4\n" + b"<<" * 20_000, "", "broken", "cannot be read"),
        (_pdf("one").replace(b"/Root", b"/Encrypt<</Filter/Standard/V 9/R 9>>/Root"), "", "broken", "cannot be read"),
    ],
)
async def test_a_pdf_file_that_cannot_be_read_is_said_in_words(
    tmp_path: Path, content: bytes, pages: str, code: str, words: str
) -> None:
    (tmp_path / "a.pdf").write_bytes(content)

    output = await _read(tmp_path, file_path="a.pdf", pages=pages)

    assert (output.failed, output.code) == (True, code)
    assert words in output.text


async def test_a_module_in_the_workspace_does_not_read_the_pdf_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pypdf", "msgspec", "io"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "a.pdf").write_bytes(_pdf("one"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    output = await _read(tmp_path, file_path="a.pdf")

    assert (output.text, (tmp_path / "ran").exists()) == ("[page 1 of 1]\none", False)


async def test_a_library_in_the_workspace_does_not_read_the_pdf_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libc.so.6").write_text("no library", encoding="utf-8")  # a program that meets it does not start
    (tmp_path / "a.pdf").write_bytes(_pdf("one"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/x:")
    assert (await _read(tmp_path, file_path="a.pdf")).text == "[page 1 of 1]\none"


async def test_an_encrypted_pdf_file_is_said_to_be_encrypted(tmp_path: Path) -> None:
    writer = PdfWriter(clone_from=BytesIO(_pdf("secret")))
    writer.encrypt("password", algorithm="RC4-128")
    writer.write(tmp_path / "a.pdf")

    output = await _read(tmp_path, file_path="a.pdf")

    assert (output.failed, output.code) == (True, "encrypted")


async def test_a_pdf_file_that_unpacks_to_far_too_much_is_given_up(tmp_path: Path) -> None:
    packing = zlib.compressobj(1)
    bomb = b"".join(packing.compress(b"x" * 1024 * 1024) for _ in range(100)) + packing.flush()
    text = _pdf("one").replace(b"/Length ", b"/Filter/FlateDecode/Length ")
    head, _, rest = text.partition(b"stream\n")
    (tmp_path / "a.pdf").write_bytes(head + b"stream\n" + bomb + b"\nendstream" + rest.partition(b"endstream")[2])

    output = await _read(tmp_path, file_path="a.pdf")

    assert (output.failed, output.code) == (True, "broken")


async def test_a_pdf_file_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "SECONDS", 0.01)
    (tmp_path / "a.pdf").write_bytes(_pdf("one"))

    output = await _read(tmp_path, file_path="a.pdf")

    assert (output.code, "too long" in output.text) == ("broken", True)


def _cell(source: list[str] | str, **more: object) -> dict[str, object]:
    return {
        "cell_type": "code",
        "id": "abc",
        "execution_count": 3,
        "metadata": {},
        "outputs": [],
        "source": source,
    } | more


async def test_cells_of_a_notebook_come_with_their_outputs(tmp_path: Path) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["out\n", "more\n"]},
        {"output_type": "execute_result", "data": {"text/html": "<b>", "text/plain": ["4"]}},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(PNG).decode(), "text/plain": "Figure"}},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mTrace\x1b[0m", "E: v"]},
    ]
    cells = [_cell(["a = 1\n", "a"], outputs=outputs), {"cell_type": "markdown", "metadata": {}, "source": "# Hi"}]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))

    output = await _read(tmp_path, file_path="n.ipynb")

    assert output.text == (
        "[cell 1: code, id abc, run 3]\na = 1\na\n[output of cell 1]\nout\nmore\n4\n(image/png, shown)\nFigure\n"
        "Trace\nE: v\n[cell 2: markdown, id cell-1]\n# Hi"
    )
    assert [medium.media_type for medium in output.media if hasattr(medium, "media_type")] == ["image/png"]


async def test_a_long_notebook_is_shown_in_parts(tmp_path: Path) -> None:
    cells = [_cell(f"cell {n}", outputs=[{"output_type": "stream", "text": "x" * 9000}]) for n in range(1, 51)]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))

    first = await _read(tmp_path, file_path="n.ipynb")
    window = await _read(tmp_path, file_path="n.ipynb", offset=50, limit=1)
    past = await _read(tmp_path, file_path="n.ipynb", offset=51)

    assert f"[{9000 - OUTPUT_CHARS} characters are left out here]" in first.text
    assert first.text.endswith("(The notebook goes on: read it with offset=31.)")
    assert window.text.startswith("[cell 50: code")
    assert (past.failed, past.code) == (True, "past_end")


@pytest.mark.parametrize("content", ["not json", "[]", '{"cells": 1}', '{"cells": [1]}', "[" * 100_000])
async def test_what_is_no_notebook_is_shown_as_text(tmp_path: Path, content: str) -> None:
    (tmp_path / "n.ipynb").write_text(content)

    assert (await _read(tmp_path, file_path="n.ipynb")).text.startswith("     1\t")
