"""The tool `NotebookEdit`: change, insert or delete one cell of a notebook."""

import json
import os
import re
from typing import Annotated, Literal

from msgspec import Struct

from backstay.ports import ToolContext, ToolOutput
from backstay.tools.define import tool
from backstay.tools.encoding import decode
from backstay.tools.files import Refused, Target, require_text
from backstay.tools.notebook import Fields, cell_name, cells_of
from backstay.tools.notebook_text import Cells, find_cells
from backstay.tools.revising import Rewritten, revise

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

    def rewrite(self, target: Target, content: bytes) -> Rewritten:
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

    def _apply(self, target: Target, cells: Cells, found: list[Fields]) -> tuple[str, str]:
        if self.mode == "insert":
            at = self._position(target, found) + 1 if self.cell else 0
            new = self._new(cells, found)
            return cells.insert(at, new), f"Inserted cell {at + 1} (id {cell_name(at + 1, new)}) into"
        at = self._position(target, found)
        name = cell_name(at + 1, found[at])
        if self.mode == "delete":
            return cells.remove(at), f"Deleted cell {at + 1} (id {name}) of"
        return cells.replace(at, self._changed(found[at])), f"Changed cell {at + 1} (id {name}) of"

    def _position(self, target: Target, found: list[Fields]) -> int:
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
