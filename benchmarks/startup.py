"""How long a program waits before it can do anything."""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.frame import Aim, Bench, Figure, Row

NOTHING = "pass"
OPEN = "from backstay import open_session"
VERSION = "import sys; from backstay.cli import main; sys.argv[:] = ['backstay', '--version']; sys.exit(main())"
"""What the installed command does."""


def measure(bench: Bench) -> Iterator[Row]:
    """Import and `--version`, each as what it adds to a Python that does nothing."""
    programs = ["import backstay", OPEN, *([VERSION] if _works(VERSION) else [])]
    rounds = bench.pick(15, 1)
    over, busy = _over_nothing(sys.executable, programs, rounds, bench.folder)
    peers: dict[str, Figure] = {}
    if bench.peers.python is not None:
        imports = ["import agents", "import langgraph.graph"]
        peers, _ = _over_nothing(str(bench.peers.python), imports, bench.pick(5, 1), bench.folder)
        del peers[NOTHING]
    empty = {f"python -c {NOTHING}": over[NOTHING]}
    yield Row(what="import backstay", figure=over["import backstay"], aim=Aim(most=150), beside=empty)
    beside = {"its CPU": busy[OPEN], **peers}
    yield Row(what=OPEN, figure=over[OPEN], aim=Aim(most=150), beside=beside)
    version = over.get(VERSION)
    note = "" if version else "the command line does not work here"
    yield Row(what="backstay --version, over python -c pass", figure=version, aim=Aim(most=100), note=note)


def _over_nothing(
    python: str, programs: Sequence[str], rounds: int, folder: Path
) -> tuple[dict[str, Figure], dict[str, Figure]]:
    """What each program takes, and what CPU, more than one that does nothing, which is given as it is.

    All run once a round, so that a slow moment of the machine meets all. The first round only compiles: an installed
    program is compiled already, whatever the environment says about writing that down.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    taken: dict[str, list[float]] = {program: [] for program in (NOTHING, *programs)}
    busy: dict[str, list[float]] = {program: [] for program in taken}
    for _ in range(rounds + 1):
        for program, times in taken.items():
            start, cpu = time.perf_counter(), _cpu_of_children()
            subprocess.run([python, "-c", program], check=True, capture_output=True, env=environment)
            times.append((time.perf_counter() - start) * 1000)
            busy[program].append((_cpu_of_children() - cpu) * 1000)
    return _less_the_floor(taken), _less_the_floor(busy)


def _less_the_floor(taken: dict[str, list[float]]) -> dict[str, Figure]:
    floor = statistics.median(taken[NOTHING][1:])
    return {
        program: Figure(tuple(one - (floor if program != NOTHING else 0) for one in times[1:]), "ms")
        for program, times in taken.items()
    }


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _works(program: str) -> bool:
    return subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode == 0
