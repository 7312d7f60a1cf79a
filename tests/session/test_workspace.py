"""Where the calls of a session run: the sandbox around programs, and what the person reads where there is none."""

import sys
from pathlib import Path
from typing import Any

import pytest

from backstay import open_session
from backstay.vocab.rules import Rule
from tests.contracts.kit import call, scripted


async def test_only_a_program_has_the_sandbox_probed_and_its_lack_is_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "executable", "/nowhere/at/all/python")  # nothing can be tried behind a wall
    (tmp_path / "data").mkdir()
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("apples", encoding="utf-8")
    model = scripted(call("Read", file_path="a.txt"), "apples", call("Bash", command="echo two"), "two")
    given: dict[str, Any] = {"store": None, "cwd": work, "bare": True, "rules": [Rule.parse("allow", "Bash")]}

    async with open_session(model=model, **given) as session:
        assert await session.run("read") == "apples"
        before = session.warnings
        assert not (tmp_path / "data" / "sandbox.json").exists()
        assert await session.run("run") == "two"
        (warning,) = session.warnings
        assert warning.startswith("Programs run without a sandbox here: ")
        assert before == ()
    async with open_session(model=scripted("done"), **given) as session:
        assert session.warnings == (warning,)
