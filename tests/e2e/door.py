"""Drives the command line as a person or a program does: in a process of its own, with a data folder of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"
Line = dict[str, Any]  # Any: what a program reads is JSON


@dataclass(frozen=True)
class Ran:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # Any: as above
        """Standard output as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Line]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Door:
    """The command line in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()

    @property
    def store(self) -> str:
        """The URL of the usual store."""
        return f"sqlite://{self.folder / 'data' / 'sessions.db'}"

    def script(self, *replies: Mapping[str, object], name: str = "script") -> str:
        """Write a script and return the model that plays it."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(replies), encoding="utf-8")
        return f"scripted:{path}"

    def run(
        self, *arguments: str, text: str = "", cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Ran:
        """Run a command to its end."""
        process = self.start(*arguments, cwd=cwd, env=env)
        out, err = process.communicate(text, timeout=50)
        return Ran(process.returncode, out, err)

    def start(
        self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[str]":
        """Start a command."""
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "HOLDFAST_DATA_DIR": str(self.folder / "data")}
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "holdfast", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd or self.work,
            env={**environment, **(env or {})},
        )


def kinds(lines: Sequence[Line]) -> list[str]:
    """The types of lines, with the name of a notice or a subtype behind them."""
    return [_kind(line) for line in lines]


def read_until(process: "subprocess.Popen[str]", kind: str) -> Iterator[Line]:
    """The lines of a running command up to the first of a kind."""
    assert process.stdout is not None
    for text in process.stdout:
        line = json.loads(text)
        yield line
        if _kind(line) == kind:
            return


def finish(process: "subprocess.Popen[str]", sent: int | None = None) -> Ran:
    """Send a signal, if one is given, and wait for the end."""
    if sent is not None:
        process.send_signal(signal.Signals(sent))
    out, err = process.communicate(timeout=50)
    return Ran(process.returncode, out, err)


def _kind(line: Line) -> str:
    if line["type"] == "session:lifecycle":
        return str(line["data"]["notice"])
    return "/".join(filter(None, (line["type"].removeprefix("session:"), line.get("subtype", ""))))
