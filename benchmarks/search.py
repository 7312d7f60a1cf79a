"""Grep and Glob beside ripgrep itself, on a tree of 100,000 files."""

import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio

from backstay.ports import Sandbox, Tool
from backstay.tools.ripgrep import find_ripgrep
from backstay.tools.search import make_glob, make_grep
from backstay.vocab.event import Event
from benchmarks.frame import Aim, Bench, Figure, Row

KINDS = ("py", "ts", "md", "json", "txt")
FOLDER_FILES = 100


def measure(bench: Bench) -> Iterator[Row]:
    """The tools and rg, turn by turn, so that a swing of the machine meets both."""
    tree = bench.folder / "tree"
    files = bench.pick(100_000, 300)
    _grow(tree, files)
    yield from anyio.run(_rows, tree, files, bench.pick(9, 1))


async def _rows(tree: Path, files: int, times: int) -> list[Row]:
    grep, glob = make_grep(), make_glob()
    found = f"{files // 20:,}"
    rows = []
    compared: tuple[tuple[str, Tool, dict[str, object], list[str]], ...] = (
        (f"Grep, files with matches ({found} of {files:,})", grep, {"pattern": "needle"}, ["-l", "needle"]),
        (
            "Grep, content",
            grep,
            {"pattern": "needle", "output_mode": "content"},
            ["-n", "--no-heading", "needle"],
        ),
        ("Grep, nothing found", grep, {"pattern": "haystack"}, ["-l", "haystack"]),
        ("Glob, 1 file of 100", glob, {"pattern": "**/file7.*"}, ["--files", "-g", "**/file7.*"]),
        (
            "Glob, 1 file of 5, newest first",
            glob,
            {"pattern": "**/*.py"},
            ["--files", "--sortr=modified", "-g", "**/*.py"],
        ),
        ("Glob, 1 file of 5, beside rg in no order", glob, {"pattern": "**/*.py"}, ["--files", "-g", "**/*.py"]),
    )
    for what, tool, args, words in compared:
        rows += await _compared(what, tool, args, words, tree, times)
    return rows


async def _compared(
    what: str, tool: Tool, args: dict[str, object], words: list[str], tree: Path, times: int
) -> list[Row]:
    program = find_ripgrep(str(tree))
    context = _Context(str(tree))

    async def ours() -> None:
        output = await tool.run(args, context)
        assert not output.failed, output.text

    async def theirs() -> None:
        await anyio.run_process([program, *words, "./"], cwd=tree, check=False, stdin=subprocess.DEVNULL)

    mine, rg = [], []
    for _ in range(times + 1):
        mine.append(await _timed(ours))
        rg.append(await _timed(theirs))
    mine, rg = mine[1:], rg[1:]  # the first round warms the caches
    ratio = Figure(tuple(a / b for a, b in zip(mine, rg, strict=True)), "times rg")
    aim = None if "no order" in what else Aim(most=1.3)
    beside = {"Backstay": Figure(tuple(mine), "ms"), f"rg {' '.join(words)}": Figure(tuple(rg), "ms")}
    return [Row(what=what, figure=ratio, aim=aim, beside=beside)]


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    start = time.perf_counter()
    await work()
    return (time.perf_counter() - start) * 1000


def _grow(tree: Path, files: int) -> None:
    """Folders of a hundred small files, one in twenty of which has the word."""
    plain, found = "a line\nand another\n" * 20, "a line\nneedle\n" * 2
    for folder in range(files // FOLDER_FILES):
        place = tree / f"package{folder % 50}" / f"module{folder}"
        place.mkdir(parents=True)
        for number in range(FOLDER_FILES):
            content = found if number % 20 == 7 else plain
            (place / f"file{number}.{KINDS[number % 5]}").write_text(content, encoding="utf-8")


class _Context:
    """As much of a session as the tools need."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.call = self.key = "bench"
        self.links: dict[str, str] = {}
        self.sandbox: Sandbox | None = None

    def version_of(self, path: str) -> str:
        """Nothing was."""
        return ""

    def show(self, text: str) -> None:
        """Nobody watches."""

    def note(self, event: Event) -> None:
        """Nobody writes."""

    async def emit(self, event: Event) -> None:
        """Nobody writes."""
