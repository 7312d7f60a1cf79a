"""How long a program waits before it can do anything."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.frame import Aim, Bench, Figure, Row

VERSION = "import sys; from holdfast.cli import main; sys.argv[:] = ['holdfast', '--version']; sys.exit(main())"
"""What the installed command does."""


def measure(bench: Bench) -> Iterator[Row]:
    """Import and `--version`, each as what it adds to a Python that does nothing."""
    programs = {"pass": "pass", "import": "import holdfast", "open": "from holdfast import open_session"}
    if _works(VERSION):
        programs["version"] = VERSION
    taken = _interleaved(list(programs.values()), bench.pick(15, 1))
    floor = Figure(tuple(taken["pass"]), "ms")
    over = {name: _over(taken[program], floor) for name, program in programs.items()}
    empty = {"python -c pass": floor}
    yield Row(what="import holdfast", figure=over["import"], aim=Aim(most=150), beside=empty)
    agents = bench.peers.measure("import_time", statement="import agents", times=bench.pick(5, 1))
    graph = bench.peers.measure("import_time", statement="import langgraph.graph", times=bench.pick(5, 1))
    imported = {"import agents": agents.get("over"), "import langgraph.graph": graph.get("over")}
    beside = {name: Figure(tuple(values), "ms") for name, values in imported.items() if values}
    yield Row(what="from holdfast import open_session", figure=over["open"], aim=Aim(most=150), beside=beside)
    if "version" in over:
        yield Row(what="holdfast --version, over python -c pass", figure=over["version"], aim=Aim(most=100), beside=empty)
    else:
        yield Row(what="holdfast --version, over python -c pass", note="the command line does not work")


def _interleaved(programs: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Each program once a round, so that a slow moment of the machine meets all; the first round only warms up."""
    taken: dict[str, list[float]] = {program: [] for program in programs}
    for _ in range(rounds + 1):
        for program in programs:
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
            taken[program].append((time.perf_counter() - start) * 1000)
    return {program: times[1:] for program, times in taken.items()}


def _works(program: str) -> bool:
    return subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode == 0


def _over(taken: Sequence[float], floor: Figure) -> Figure:
    return Figure(tuple(value - floor.median for value in taken), "ms")
