"""Asks the judge of a tree: a process of its own, so that any tree can be asked."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from tests.proof.check import Said

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A command, and under which rules it is judged."""

    number: int
    family: str
    text: str
    shell: str
    mode: str = "default"
    rules: tuple[str, ...] = ()
    trusted: bool = True


class Judge:
    """The judge of the tree `source`."""

    def __init__(self, root: Path, source: Path = SOURCE) -> None:
        self._place = {"cwd": f"{root}/work", "home": f"{root}/home"}
        self._child = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("judge.py")), str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def judge(self, cases: Sequence[Case], *, why: bool = False) -> list[Said]:
        """Judge some commands."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        line = msgspec.json.encode([{**msgspec.structs.asdict(case), **self._place, "why": why} for case in cases])
        self._child.stdin.write(line + b"\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        if not answer:
            raise RuntimeError("the judge ended")
        return msgspec.json.decode(answer, type=list[Said])

    def __enter__(self) -> "Judge":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait(20)
        if self._child.stdout is not None:
            self._child.stdout.close()
