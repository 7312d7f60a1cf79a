"""Notebooks: their cells and outputs as text for `Read`, and the tool `NotebookEdit`, which changes one cell."""

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, TypeGuard, cast

from msgspec import Struct

from backstay.ports import ToolContext, ToolOutput
from backstay.tools.define import tool
from backstay.tools.files.edit import Rewritten, revise
from backstay.tools.files.encoding import TOTAL_CHARS, decode
from backstay.tools.files.media_type import read_image
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
    """Show the cells from number `offset` on, with their outputs; return None when the bytes are no notebook."""
    notebook = read_notebook(content)
    if notebook is None:
        return None
    cells = _cells(notebook)
    if not cells:
        return ToolOutput(text="(The notebook has no cells.)")
    if offset > len(cells):
        text = f"The notebook has {len(cells)} cells; offset={offset} is past its end."
        return ToolOutput(text=text, failed=True, code="past_end")
    texts: list[str] = []
    media: list[InlineMedia] = []
    size = 0
    for number, cell in enumerate(cells[offset - 1 : offset - 1 + limit], offset):
        texts.append(_show_cell(number, cell, media))
        size += len(texts[-1])
        if size > TOTAL_CHARS:
            break
    following = offset + len(texts)
    if following <= len(cells):
        texts.append(f"(The notebook goes on: read it with offset={following}.)")
    return ToolOutput(text="\n".join(texts).encode("utf-8", "replace").decode(), media=tuple(media))


def read_notebook(content: str | bytes) -> Fields | None:
    """Read a notebook with its list of cells; return None for anything else, and where a name stands twice in one object."""
    try:
        notebook: object = json.loads(content, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    return notebook if isinstance(notebook, dict) and _all_fields(notebook.get("cells")) else None


def write_notebook(notebook: Fields, like: str) -> str:
    """Write a notebook with the indentation, separators, escapes and line ends of the text `like`."""
    indented = re.match(r"\s*\{\r?\n([ \t]+)", like)
    tight = not indented and '": ' not in like
    text = json.dumps(
        notebook,
        ensure_ascii=like.isascii() and "\\u" in like,
        indent=indented[1] if indented else None,
        separators=(",", ":") if tight else None,
    )
    text = text.replace("\n", "\r\n") if "\r\n" in like else text
    return like[: len(like) - len(like.lstrip())] + text + like[len(like.rstrip()) :]


def _unique(pairs: list[tuple[str, object]]) -> Fields:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a name stands in an object twice")
    return fields


def join_lines(value: object) -> str:
    """Return a text that a notebook keeps whole or as a list of lines."""
    if isinstance(value, list):
        return "".join(str(line) for line in value)
    return value if isinstance(value, str) else ""


def name_cell(number: int, cell: Fields) -> str:
    """Name a cell by its own id or, counted from 0 in notebooks without ids, as `cell-N`."""
    own = cell.get("id")
    return own if isinstance(own, str) and own else f"cell-{number - 1}"


def _all_fields(value: object) -> TypeGuard[list[Fields]]:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _cells(notebook: Fields) -> list[Fields]:
    return cast("list[Fields]", notebook["cells"])


def _show_cell(number: int, cell: Fields, media: list[InlineMedia]) -> str:
    count = cell.get("execution_count")
    run = f", run {count}" if isinstance(count, int) else ""
    head = f"[cell {number}: {cell.get('cell_type', 'code')}, id {name_cell(number, cell)}{run}]"
    outputs = cell.get("outputs")
    shown = "\n".join(_outputs(outputs if _all_fields(outputs) else [], media))
    shown = f"\n[output of cell {number}]\n{_cut(shown, OUTPUT_CHARS)}" if shown else ""
    return f"{head}\n{_cut(join_lines(cell.get('source')), SOURCE_CHARS)}{shown}"


def _outputs(outputs: Sequence[Fields], media: list[InlineMedia]) -> Iterator[str]:
    for output in outputs:
        bundle = output.get("data")
        if isinstance(bundle, dict):
            yield from _bundle(bundle, media)
        elif output.get("output_type") == "error":
            trace = join_lines([f"{line}\n" for line in _as_list(output.get("traceback"))])
            yield _COLOUR.sub("", trace or f"{output.get('ename')}: {output.get('evalue')}").rstrip("\n")
        else:
            yield _COLOUR.sub("", join_lines(output.get("text"))).rstrip("\n")


def _bundle(bundle: Fields, media: list[InlineMedia]) -> Iterator[str]:
    """Show one output that comes in several forms: its pictures and its plainest text."""
    for kind, value in bundle.items():
        if kind.startswith("image/") and kind != "image/svg+xml":
            picture = _picture(join_lines(value)) if len(media) < PICTURES else None
            if picture is not None:
                media.append(picture)
            yield f"({kind}, {'shown' if picture else 'not shown'})"
    text = next(
        (join_lines(bundle[kind]) for kind in ("text/plain", "text/markdown", "text/html") if kind in bundle), ""
    )
    if text:
        yield text.rstrip("\n")


def _picture(text: str) -> InlineMedia | None:
    try:
        return read_image(base64.b64decode(text))
    except (binascii.Error, ValueError):
        return None


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _cut(text: str, most: int) -> str:
    left = len(text) - most
    return f"{text[:most]}\n[{left} characters are left out here]" if left > 0 else text


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
    """Change one cell of a notebook. A code cell whose source changes loses its outputs. Everything else stays as it is."""
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
        """Return the notebook after the edit."""
        document = decode(target.shown, content)
        notebook = read_notebook(document.text)
        if notebook is None:
            raise Refused("not_notebook", f"{target.shown!r} is not a notebook.")
        words = self._apply(target, notebook)
        return Rewritten(document.encode(write_notebook(notebook, document.text)), f"{words} {target.shown!r}.")

    def _apply(self, target: FileTarget, notebook: Fields) -> str:
        cells = _cells(notebook)
        if self.mode == "insert":
            at = self._position(target, cells) + 1 if self.cell else 0
            cells.insert(at, self._new_cell(notebook))
            return f"Inserted cell {at + 1} (id {name_cell(at + 1, cells[at])}) into"
        at = self._position(target, cells)
        name = name_cell(at + 1, cells[at])
        if self.mode == "delete":
            del cells[at]
            return f"Deleted cell {at + 1} (id {name}) of"
        cell = self._change_cell(cells[at])
        if cell == cells[at]:
            raise Refused("no_change", "The cell has this source already. Nothing would change.")
        cells[at] = cell
        return f"Changed cell {at + 1} (id {name}) of"

    def _position(self, target: FileTarget, found: list[Fields]) -> int:
        names = [name_cell(number, cell) for number, cell in enumerate(found, 1)]
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

    def _change_cell(self, old: Fields) -> Fields:
        kind = self.kind or old.get("cell_type", "code")
        lines = _lines(self.source) if isinstance(old.get("source", []), list) else self.source
        changed = old | {"cell_type": kind, "source": lines}
        if kind == "code":
            return changed | {"execution_count": None, "outputs": []}
        return {name: value for name, value in changed.items() if name not in ("execution_count", "outputs")}

    def _new_cell(self, notebook: Fields) -> Fields:
        kind = self.kind or "code"
        new: Fields = {"cell_type": kind}
        if kind == "code":
            new["execution_count"] = None
        if _has_ids(notebook):
            new["id"] = os.urandom(4).hex()
        new["metadata"] = {}
        if kind == "code":
            new["outputs"] = []
        return new | {"source": _lines(self.source)}


def _lines(source: str) -> list[str]:
    """Split a source as notebooks keep it: lines with their ends."""
    return re.findall(r"[^\n]*\n|[^\n]+", source)


def _has_ids(notebook: Fields) -> bool:
    """Return whether cells of this notebook have ids: format 4.5 and later."""
    if cells := _cells(notebook):
        return any("id" in cell for cell in cells)
    minor = notebook.get("nbformat_minor")
    return notebook.get("nbformat") == 4 and isinstance(minor, int) and minor >= 5
