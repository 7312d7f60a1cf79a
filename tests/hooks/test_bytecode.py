"""Bytecode in a workspace is not what a person has seen and trusted: programs of hooks do not run it."""

import importlib.util
import marshal
import sys
from pathlib import Path

from tests.hooks.kit import means, program, run

UNCHECKED = b"\1\0\0\0" + b"\0" * 8
"""The flags and the digest of bytecode that Python does not compare with the source."""


async def test_a_hook_runs_the_source_and_not_the_bytecode_beside_it(tmp_path: Path) -> None:
    (tmp_path / "guard.py").write_text("open('source', 'w').close()\n", encoding="utf-8")
    planted = Path(importlib.util.cache_from_source(str(tmp_path / "guard.py")))
    planted.parent.mkdir()
    code = compile("open('planted', 'w').close()", "guard.py", "exec")
    planted.write_bytes(importlib.util.MAGIC_NUMBER + UNCHECKED + marshal.dumps(code))

    await run(program(f"{sys.executable} -m guard"), means(tmp_path))

    assert (tmp_path / "source").exists()
    assert not (tmp_path / "planted").exists()
