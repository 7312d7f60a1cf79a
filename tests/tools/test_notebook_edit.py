"""The tool `NotebookEdit`."""

import json
from pathlib import Path
from typing import cast

import pytest

from backstay.ports import ToolOutput
from backstay.tools.notebook import notebook_edit
from tests.tools.context import RecordingContext

NOTEBOOK: dict[str, object] = {
    "cells": [
        {
            "cell_type": "code",
            "execution_count": 7,
            "id": "one",
            "metadata": {"tags": ["kept"]},
            "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}],
            "source": ["a = 1\n", "a"],
        },
        {"cell_type": "markdown", "id": "two", "metadata": {}, "source": ["# Ü"]},
        {"cell_type": "code", "execution_count": None, "id": "three", "metadata": {}, "outputs": [], "source": []},
    ],
    "metadata": {"kernelspec": {"name": "python3"}, "x": 1e-05},
    "nbformat": 4,
    "nbformat_minor": 5,
}
STYLES: dict[str, dict[str, object]] = {
    "indented by one": {"indent": 1, "ensure_ascii": False},
    "indented by a tab": {"indent": "\t", "ensure_ascii": False},
    "escaped": {"indent": 2, "ensure_ascii": True},
    "on one line": {"ensure_ascii": False},
    "tight": {"separators": (",", ":"), "ensure_ascii": False},
}


def _dumped(notebook: object, style: str) -> str:
    return json.dumps(notebook, **STYLES[style])  # type: ignore[arg-type]  # options by name


async def _edit(path: Path, **args: object) -> ToolOutput:
    return await notebook_edit.run({"notebook_path": path.name, "new_source": ""} | args, RecordingContext(path.parent))


def _cells(notebook: dict[str, object]) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", notebook["cells"])


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("end", ["\n", ""])
async def test_a_changed_cell_leaves_everything_else_as_it_is(tmp_path: Path, style: str, end: str) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(_dumped(NOTEBOOK, style) + end)
    cell = _cells(NOTEBOOK)[0] | {"source": ["b = 'ü'\n", "b"], "execution_count": None, "outputs": []}

    output = await _edit(path, cell_id="one", new_source="b = 'ü'\nb")

    assert output == ToolOutput(text=f"Changed cell 1 (id one) of {str(path)!r}.")
    assert path.read_text() == _dumped(NOTEBOOK | {"cells": [cell, *_cells(NOTEBOOK)[1:]]}, style) + end


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("at", "after"), [(0, ""), (1, "one"), (3, "three"), (2, "cell-1")])
async def test_a_new_cell_stands_after_the_one_that_is_named(tmp_path: Path, style: str, at: int, after: str) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(_dumped(NOTEBOOK, style))

    await _edit(path, cell_id=after, edit_mode="insert", cell_type="markdown", new_source="new")

    now = json.loads(path.read_text())
    new = now["cells"][at]
    assert new == {"cell_type": "markdown", "id": new["id"], "metadata": {}, "source": ["new"]}
    cells = _cells(NOTEBOOK)
    assert path.read_text() == _dumped(NOTEBOOK | {"cells": [*cells[:at], new, *cells[at:]]}, style)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ["one", "two", "three"])
async def test_a_deleted_cell_is_gone(tmp_path: Path, style: str, name: str) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(_dumped(NOTEBOOK, style))

    await _edit(path, cell_id=name, edit_mode="delete")

    left = [cell for cell in _cells(NOTEBOOK) if cell["id"] != name]
    assert path.read_text() == _dumped(NOTEBOOK | {"cells": left}, style)


async def test_the_last_cell_can_be_deleted_and_a_first_one_inserted(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(_dumped(NOTEBOOK | {"cells": [_cells(NOTEBOOK)[0]]}, "indented by one"))

    await _edit(path, cell_id="one", edit_mode="delete")
    assert path.read_text() == _dumped(NOTEBOOK | {"cells": []}, "indented by one")
    await _edit(path, edit_mode="insert", new_source="x")

    now = json.loads(path.read_text())
    assert [cell["source"] for cell in now["cells"]] == [["x"]]
    assert path.read_text() == _dumped(now, "indented by one")


async def test_a_cell_may_change_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(_dumped(NOTEBOOK, "indented by one"))

    await _edit(path, cell_id="one", cell_type="markdown", new_source="text")
    await _edit(path, cell_id="two", cell_type="code", new_source="1")

    one, two, _ = json.loads(path.read_text())["cells"]
    assert one == {"cell_type": "markdown", "id": "one", "metadata": {"tags": ["kept"]}, "source": ["text"]}
    assert (two["cell_type"], two["outputs"], two["execution_count"]) == ("code", [], None)


@pytest.mark.parametrize(
    ("content", "args", "code"),
    [
        (_dumped(NOTEBOOK, "tight"), {"cell_id": "none"}, "no_match"),
        (_dumped(NOTEBOOK, "tight"), {}, "no_match"),
        (_dumped(NOTEBOOK, "tight"), {"cell_id": "cell-9"}, "no_match"),
        (_dumped(NOTEBOOK, "tight"), {"cell_id": "three"}, "no_change"),
        (_dumped(NOTEBOOK, "tight"), {"cell_id": "one", "edit_mode": "burn"}, "bad_arguments"),
        (_dumped(NOTEBOOK, "tight"), {"cell_id": "one", "new_source": "\ud800"}, "bad_text"),
        ('{"cells": [{"id": "x"}], "cells": [{"id": "y"}]}', {"cell_id": "y", "new_source": "1"}, "not_notebook"),
        ("{}", {"cell_id": "one"}, "not_notebook"),
        ("no json", {"cell_id": "one"}, "not_notebook"),
        ('{"cells": [' + "[" * 100_000, {"cell_id": "one"}, "not_notebook"),
    ],
)
async def test_what_cannot_be_edited_is_left_alone(
    tmp_path: Path, content: str, args: dict[str, object], code: str
) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(content)

    output = await _edit(path, **args)

    assert (output.failed, output.code, path.read_text()) == (True, code, content)
