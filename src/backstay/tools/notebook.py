"""Notebooks: cells and their outputs as text."""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeGuard

from backstay.ports import ToolOutput
from backstay.tools.images import medium
from backstay.tools.lines import TOTAL_CHARS
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
