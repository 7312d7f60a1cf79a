"""Drives the command line as a person or a program does, with a data folder of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

from backstay.cli.root import run
from tests.e2e.warm import COLD, Nest, Running

SOURCE = Path(__file__).parents[2] / "src"
Line = dict[str, Any]  # Any: what a program reads is JSON
Process = subprocess.Popen[str] | Running
WAIT = "until [ -e go ]; do sleep 0.01; done"
"""A command that goes on until a file is there: a turn with it lasts for as long as a test wants."""


@dataclass(frozen=True)
class Ran:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def complaints(self) -> str:
        """Standard error, without the word about servers that are waited for: whether it comes depends on how busy the machine is."""
        lines = self.err.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("backstay: Waiting for MCP servers:"))

    @property
    def json(self) -> Any:  # Any: as above
        """Standard output as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Line]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Door:
    """The command line in a folder. With a `nest`, its processes begin as copies of one that has loaded everything."""

    def __init__(self, folder: Path, nest: Nest | None = None) -> None:
        self.folder = folder
        self._nest = nest
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

    def run(self, *arguments: str, cwd: Path | None = None) -> Ran:
        """Run a command to its end in this process, which is quicker, with nothing on standard input."""
        out, err = TextIOWrapper(BytesIO(), encoding="utf-8"), StringIO()
        before = sys.stdin
        with open(os.devnull, encoding="utf-8") as nothing, contextlib.chdir(cwd or self.work):
            sys.stdin = nothing
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    code = run(arguments)
            finally:
                sys.stdin = before
        out.seek(0)
        return Ran(code, out.read(), err.getvalue())

    def spawn(self, *arguments: str, text: str = "", env: Mapping[str, str] | None = None) -> Ran:
        """Run a command to its end in a process of its own."""
        process = self.start(*arguments, env=env)
        out, err = process.communicate(text, timeout=50)
        return Ran(process.wait(), out, err)

    def redirected(self, where: str, *arguments: str) -> Ran:
        """Run a command with its streams redirected as a shell does it, such as `> /dev/full`."""
        ran = subprocess.run(
            ["sh", "-c", f'exec "$@" {where}', "sh", sys.executable, "-W", "error", "-m", "backstay", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
            cwd=self.work,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> Process:
        """Start a command in a process of its own."""
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), **(env or {})}
        if self._nest is not None and not any(name.startswith(COLD) for name in env or {}):
            return self._nest.start(arguments, folder=self.work, environment=environment)
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "backstay", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.work,
            env=environment,
            preexec_fn=_hear_signals,  # noqa: PLW1509  it only resets signals
        )


def _hear_signals() -> None:
    """Signals that whoever started the tests ignores (`nohup`, a background job) are not ignored by what is tested."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def kinds(lines: Sequence[Line]) -> list[str]:
    """The types of lines; of a notice its name, of a line with a subtype both."""
    return [_kind(line) for line in lines]


def read_until(process: Process, kind: str) -> Iterator[Line]:
    """The lines of a running command up to the first of a kind."""
    assert process.stdout is not None
    for text in process.stdout:
        line = json.loads(text)
        yield line
        if _kind(line) == kind:
            return


def send(process: Process, *lines: Line) -> None:
    """Write lines to a running command."""
    assert process.stdin is not None
    for line in lines:
        process.stdin.write(json.dumps(line) + "\n")
    process.stdin.flush()


def finish(process: Process, number: signal.Signals | None = None) -> Ran:
    """Send a signal, if one is given, end the input, and wait for the end."""
    if number is not None:
        process.send_signal(number)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.close()
    with process.stdout, process.stderr:  # not communicate(): lines were read through the buffers of these
        out, err = process.stdout.read(), process.stderr.read()
    return Ran(process.wait(timeout=50), out, err)


def write(path: Path, text: str) -> Path:
    """Write a file, and the folders that lead to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _kind(line: Line) -> str:
    if line["type"] == "session:lifecycle":
        return str(line["data"]["notice"])
    return "/".join(filter(None, (line["type"].removeprefix("session:"), line.get("subtype", ""))))
