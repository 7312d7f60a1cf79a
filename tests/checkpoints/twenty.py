"""A session of twenty turns that does everything to files, in two processes: the first is killed in the middle of a turn."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio

from backstay.session.session import Session
from tests.checkpoints.kept import Reply, bash, call, kept_session, tree_of, turn

SESSION: Final = "twenty"
PATCH: Final = """*** Begin Patch
*** Update File: src/app.py
*** Move to: src/main.py
@@
-print('two')
+print('three')
*** Add File: docs/new/notes.md
+# Notes
*** Delete File: old.txt
*** End Patch"""
NOTEBOOK: Final = json.dumps(
    {
        "cells": [
            {"cell_type": "code", "id": "c1", "metadata": {}, "outputs": [], "execution_count": None, "source": []}
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)
KILL: Final = "mkdir half; echo half > half/way.txt; rm -f tool.sh; kill -9 $PPID; sleep 30"
"""Changes files, then kills the process that runs it."""

TURNS: Final[Sequence[Sequence[Reply]]] = (
    (call("Write", file_path="src/app.py", content="print('one')\n"),),
    (call("Edit", file_path="src/app.py", old_string="one", new_string="two"),),
    (),
    (bash("echo old > old.txt; mkdir -p empty/inner; chmod 700 empty; ln -s old.txt link; printf '\\0\\1' > bin"),),
    (call("apply_patch", input=PATCH),),
    (call("Write", file_path="a/b/c/d.txt", content="deep"), bash("chmod +x a/b/c/d.txt; mv bin a/bin")),
    (bash("printf '#!/bin/sh\\n' > tool.sh; chmod 755 tool.sh"), call("Write", file_path="tool.sh", content="other")),
    (bash("rm -r docs; mkdir docs; echo x > docs/x"),),
    (call("Write", file_path="a/b/c/d.txt", content="deeper"), bash(KILL)),
    (
        call("Write", file_path="docs/x", content="y"),
        call("Edit", file_path="src/main.py", old_string="three", new_string="four"),
    ),
    (call("Write", file_path="book.ipynb", content=NOTEBOOK),),
    (call("NotebookEdit", notebook_path="book.ipynb", cell_id="c1", new_source="1 + 1"),),
    (bash("rm -r empty; echo now-a-file > empty; rm link; mkdir link; touch link/in"),),
    (
        call(
            "MultiEdit",
            file_path="src/main.py",
            edits=[{"old_string": "four", "new_string": "5"}, {"old_string": "print", "new_string": "show"}],
        ),
    ),
    (bash("rm -r link; ln -s nowhere link; mv src lib; : > 'name with\nnewline'"),),
    (),
    (bash("rm empty; mkdir -p empty/again; find . -name '*.py' -delete; chmod 500 a/b"),),
    (call("Write", file_path="lib/main.py", content="back"), bash("chmod 755 a/b; rm -r a")),
    (call("Write", file_path="a", content="a file now"),),
    (bash("rm -r docs lib tool.sh; echo end > end"),),
)


def replies() -> list[Reply]:
    """What the model says in all turns. The one that is killed goes on with a word about it."""
    return [reply for calls in TURNS for reply in turn(*calls)]


async def play(session: Session, trees: list[dict[str, str]], folder: Path, turns: range) -> None:
    """Do some of the turns and take down what the folder holds after each."""
    for number in turns:
        await session.run(f"Turn {number + 1}.")
        trees.append(tree_of(folder))


async def first_process(folder: Path, store: Path, seen: Path) -> None:
    """Do the turns until one of them kills the process, noting what the folder held after each."""
    trees = [tree_of(folder)]
    async with kept_session(folder, replies(), store=f"sqlite://{store}", session_id=SESSION) as session:
        for number in range(len(TURNS)):
            await play(session, trees, folder, range(number, number + 1))
            seen.write_text(json.dumps(trees))


if __name__ == "__main__":
    anyio.run(first_process, Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
