"""Notebooks: cells and their outputs as text."""

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, TypeGuard

from msgspec import Struct

from backstay.ports import ToolContext, ToolOutput
from backstay.tools.define import tool
from backstay.tools.files.edit import Rewritten, revise
from backstay.tools.files.encoding import TOTAL_CHARS, decode
from backstay.tools.files.media_type import medium
from backstay.tools.files.target import FileTarget, Refused, require_text
from backstay.vocab.messages import InlineMedia

SOURCE_CHARS: Final = 20_000
"""Characters of a cell's source that are shown."""
OUTPUT_CHARS: Final = 4000
"""Characters of a cell's outputs that are shown."""
PICTURES: Final = 8
"""Pictures that are shown with one call."""

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

Fields = dict[str, object]


def show_notebook(content: bytes, offset: int, limit: int) -> ToolOutput | None:
    """The cells from number `offset` on, with their outputs; None when the bytes are no notebook."""
    cells = cells_of(content)
    if cells is None:
        return None
    if not cells:
        return ToolOutput(text="(The notebook has no cells.)")
    if offset > len(cells):
        text = f"The notebook has {len(cells)} cells; offset={offset} is past its end."
        return ToolOutput(text=text, failed=True, code="past_end")
    texts: list[str] = []
    media: list[InlineMedia] = []
    size = 0
    for number, cell in enumerate(cells[offset - 1 : offset - 1 + limit], offset):
        texts.append(_cell(number, cell, media))
        size += len(texts[-1])
        if size > TOTAL_CHARS:
            break
    following = offset + len(texts)
    if following <= len(cells):
        texts.append(f"(The notebook goes on: read it with offset={following}.)")
    return ToolOutput(text="\n".join(texts).encode("utf-8", "replace").decode(), media=tuple(media))


def cells_of(content: bytes) -> list[Fields] | None:
    """The cells of a notebook; None when the bytes are none."""
    try:
        notebook: object = json.loads(content)
    except (ValueError, RecursionError):
        return None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    return cells if _all_fields(cells) else None


def joined(value: object) -> str:
    """A text as notebooks keep it: whole, or in a list of lines."""
    if isinstance(value, list):
        return "".join(str(line) for line in value)
    return value if isinstance(value, str) else ""


def cell_name(number: int, cell: Fields) -> str:
    """What a cell is called: its own id, or `cell-N`, counted from 0, in notebooks without ids."""
    own = cell.get("id")
    return own if isinstance(own, str) and own else f"cell-{number - 1}"


def _all_fields(value: object) -> TypeGuard[list[Fields]]:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _cell(number: int, cell: Fields, media: list[InlineMedia]) -> str:
    count = cell.get("execution_count")
    run = f", run {count}" if isinstance(count, int) else ""
    head = f"[cell {number}: {cell.get('cell_type', 'code')}, id {cell_name(number, cell)}{run}]"
    outputs = cell.get("outputs")
    said = "\n".join(_outputs(outputs if _all_fields(outputs) else [], media))
    said = f"\n[output of cell {number}]\n{_cut(said, OUTPUT_CHARS)}" if said else ""
    return f"{head}\n{_cut(joined(cell.get('source')), SOURCE_CHARS)}{said}"


def _outputs(outputs: Sequence[Fields], media: list[InlineMedia]) -> Iterator[str]:
    for output in outputs:
        bundle = output.get("data")
        if isinstance(bundle, dict):
            yield from _bundle(bundle, media)
        elif output.get("output_type") == "error":
            trace = joined([f"{line}\n" for line in _listed(output.get("traceback"))])
            yield _COLOUR.sub("", trace or f"{output.get('ename')}: {output.get('evalue')}").rstrip("\n")
        else:
            yield _COLOUR.sub("", joined(output.get("text"))).rstrip("\n")


def _bundle(bundle: Fields, media: list[InlineMedia]) -> Iterator[str]:
    """One output in several forms: its pictures and its plainest text."""
    for kind, value in bundle.items():
        if kind.startswith("image/") and kind != "image/svg+xml":
            picture = _picture(joined(value)) if len(media) < PICTURES else None
            if picture is not None:
                media.append(picture)
            yield f"({kind}, {'shown' if picture else 'not shown'})"
    text = next((joined(bundle[kind]) for kind in ("text/plain", "text/markdown", "text/html") if kind in bundle), "")
    if text:
        yield text.rstrip("\n")


def _picture(text: str) -> InlineMedia | None:
    try:
        return medium(base64.b64decode(text))
    except (binascii.Error, ValueError):
        return None


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _cut(text: str, most: int) -> str:
    left = len(text) - most
    return f"{text[:most]}\n[{left} characters are left out here]" if left > 0 else text


_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


class Cells(Struct, frozen=True):
    """The array of cells in the text."""

    text: str
    start: int
    """Behind its bracket."""
    end: int
    """Before its closing bracket."""
    spans: tuple[tuple[int, int], ...]
    """From where to where each cell stands."""

    @property
    def _around(self) -> str:
        """The blanks before a cell: a line end and the indentation, or nothing."""
        if self.spans:
            return self.text[self.start : self.spans[0][0]]
        unit = self._unit
        return f"\n{unit * 2}" if unit else ""

    @property
    def _unit(self) -> str:
        """One step of indentation; empty when the text has none."""
        found = re.match(r"\s*\{\r?\n([ \t]+)", self.text)
        return found[1] if found else ""

    def replace(self, at: int, cell: dict[str, object]) -> str:
        """The text with another cell in the place of cell `at`."""
        start, end = self.spans[at]
        return self.text[:start] + self._dump(cell) + self.text[end:]

    def insert(self, at: int, cell: dict[str, object]) -> str:
        """The text with a new cell that stands at `at`."""
        new = self._dump(cell)
        if not self.spans:
            close = f"\n{self._unit}" if self._unit else ""
            return f"{self.text[: self.start]}{self._around}{new}{close}{self.text[self.end :]}"
        blanks = self._around or ("" if "," not in self.text or ", " not in self.text else " ")
        if at == 0:
            start = self.spans[0][0]
            return f"{self.text[:start]}{new},{blanks}{self.text[start:]}"
        end = self.spans[at - 1][1]
        return f"{self.text[:end]},{blanks}{new}{self.text[end:]}"

    def remove(self, at: int) -> str:
        """The text without cell `at`."""
        if len(self.spans) == 1:
            return self.text[: self.start] + self.text[self.end :]
        if at + 1 < len(self.spans):
            return self.text[: self.spans[at][0]] + self.text[self.spans[at + 1][0] :]
        return self.text[: self.spans[at - 1][1]] + self.text[self.spans[at][1] :]

    def _dump(self, cell: dict[str, object]) -> str:
        plain = self.text.isascii() and "\\u" in self.text
        if not self._unit:
            tight = '": ' not in self.text
            return json.dumps(cell, ensure_ascii=plain, separators=(",", ":") if tight else None)
        margin = self._around.rpartition("\n")[2]
        end = "\r\n" if "\r\n" in self.text else "\n"
        dumped = json.dumps(cell, ensure_ascii=plain, indent=self._unit)
        return dumped.replace("\n", f"{end}{margin}")


def find_cells(shown: str, text: str) -> Cells:
    """Find the cells in the text of a notebook. Refuse a text that is none."""
    try:
        at = _blank(text, 0)
        at = _expect(text, at, "{")
        while text[at] != "}":
            key, at = _DECODER.raw_decode(text, at)
            at = _blank(text, _expect(text, _blank(text, at), ":"))
            if key == "cells":
                return _array(text, at)
            _, at = _DECODER.raw_decode(text, at)
            at = _blank(text, at)
            at = _blank(text, at + 1) if text[at] == "," else at
    except (ValueError, IndexError, RecursionError) as exc:
        raise Refused("not_notebook", f"{shown!r} is not a notebook: {exc}.") from exc
    raise Refused("not_notebook", f"{shown!r} is not a notebook: it has no cells.")


def _array(text: str, at: int) -> Cells:
    start = _expect(text, at, "[")
    at = _blank(text, start)
    spans: list[tuple[int, int]] = []
    while text[at] != "]":
        if spans:
            at = _blank(text, _expect(text, at, ","))
        _, end = _DECODER.raw_decode(text, at)
        spans.append((at, end))
        at = _blank(text, end)
    return Cells(text, start, at, tuple(spans))


def _blank(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, sign: str) -> int:
    if text[at] != sign:
        raise ValueError(f"{sign!r} was expected at character {at}")
    return _blank(text, at + 1) if sign == "{" else at + 1


CellType = Literal["code", "markdown", "raw"]
EditMode = Literal["replace", "insert", "delete"]


@tool(name="NotebookEdit", touches="edits")
async def notebook_edit(
    context: ToolContext,
    notebook_path: Annotated[str, "The notebook (.ipynb). A relative path starts at the working folder."],
    new_source: Annotated[str, "The cell's new source; empty to delete."],
    cell_id: Annotated[
        str, "The cell's id as Read shows it. For insert: the cell before; none for the beginning."
    ] = "",
    cell_type: Annotated[CellType | None, "code, markdown or raw; `code` for a new cell that does not say."] = None,
    edit_mode: Annotated[EditMode, "replace, insert or delete."] = "replace",
) -> ToolOutput:
    """Change one cell of a notebook. A code cell whose source changes loses its outputs. Everything else stays byte for byte."""
    edit = _Edit(edit_mode, cell_id, cell_type, new_source)
    try:
        require_text("new_source", new_source)
    except Refused as refused:
        return refused.output
    return await revise(context, notebook_path, edit.rewrite)


class _Edit(Struct, frozen=True):
    mode: EditMode
    cell: str
    kind: CellType | None
    source: str

    def rewrite(self, target: FileTarget, content: bytes) -> Rewritten:
        """The notebook after the edit."""
        document = decode(target.shown, content)
        found = cells_of(document.text.encode("utf-8", "surrogatepass"))
        if found is None:
            raise Refused("not_notebook", f"{target.shown!r} is not a notebook.")
        cells = find_cells(target.shown, document.text)
        if [json.loads(document.text[start:end]) for start, end in cells.spans] != found:
            raise Refused("not_notebook", f"{target.shown!r} has its cells twice.")
        text, words = self._apply(target, cells, found)
        if text == document.text:
            raise Refused("no_change", "The cell has this source already. Nothing would change.")
        return Rewritten(document.encode(text), f"{words} {target.shown!r}.")

    def _apply(self, target: FileTarget, cells: Cells, found: list[Fields]) -> tuple[str, str]:
        if self.mode == "insert":
            at = self._position(target, found) + 1 if self.cell else 0
            new = self._new(cells, found)
            return cells.insert(at, new), f"Inserted cell {at + 1} (id {cell_name(at + 1, new)}) into"
        at = self._position(target, found)
        name = cell_name(at + 1, found[at])
        if self.mode == "delete":
            return cells.remove(at), f"Deleted cell {at + 1} (id {name}) of"
        return cells.replace(at, self._changed(found[at])), f"Changed cell {at + 1} (id {name}) of"

    def _position(self, target: FileTarget, found: list[Fields]) -> int:
        names = [cell_name(number, cell) for number, cell in enumerate(found, 1)]
        if names.count(self.cell) == 1:
            return names.index(self.cell)
        by_number = re.fullmatch(r"cell-(\d{1,6})", self.cell)
        if by_number and self.cell not in names and int(by_number[1]) < len(found):
            return int(by_number[1])
        if self.cell in names:
            raise Refused(
                "not_unique", f"{names.count(self.cell)} cells of {target.shown!r} have the id {self.cell!r}."
            )
        known = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise Refused("no_match", f"{target.shown!r} has no cell {self.cell!r}. Its cells are: {known or 'none'}.")

    def _changed(self, old: Fields) -> Fields:
        kind = self.kind or old.get("cell_type", "code")
        lines = _lines(self.source) if isinstance(old.get("source", []), list) else self.source
        changed = old | {"cell_type": kind, "source": lines}
        if kind == "code":
            return changed | {"execution_count": None, "outputs": []}
        return {name: value for name, value in changed.items() if name not in ("execution_count", "outputs")}

    def _new(self, cells: Cells, found: list[Fields]) -> Fields:
        kind = self.kind or "code"
        new: Fields = {"cell_type": kind}
        if kind == "code":
            new["execution_count"] = None
        if _has_ids(cells.text, found):
            new["id"] = os.urandom(4).hex()
        new["metadata"] = {}
        if kind == "code":
            new["outputs"] = []
        return new | {"source": _lines(self.source)}


def _lines(source: str) -> list[str]:
    """A source as notebooks keep it: lines with their ends."""
    return re.findall(r"[^\n]*\n|[^\n]+", source)


def _has_ids(text: str, found: list[Fields]) -> bool:
    """Whether cells of this notebook have ids: format 4.5 and later."""
    if found:
        return any("id" in cell for cell in found)
    notebook = json.loads(text)
    minor = notebook.get("nbformat_minor")
    return notebook.get("nbformat") == 4 and isinstance(minor, int) and minor >= 5
