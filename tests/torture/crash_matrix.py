"""The crash matrix at its full size: every point of every scenario on every store, and every await.

`python -m tests.torture crash_matrix` runs it; what was done is kept, so that it can be stopped and goes on later.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import anyio

from backstay.testing.crash.harness import CrashReport, crash_everywhere
from backstay.testing.crash.stage import Scenario, inline_sqlite_store, memory_store, sqlite_store
from backstay.testing.event_loop import run_virtually
from tests.crash.interference import interfere_everywhere
from tests.crash.scenarios import SCENARIOS

PAIRS: Final = 400
"""Crashes during recoveries, for each scenario and store."""
VIRTUAL: Final = {"memory": memory_store, "sqlite, inline": inline_sqlite_store}
THREADED: Final = {"sqlite": sqlite_store}
"""Stores that need real threads, so real time passes."""

Part = Callable[[Path], CrashReport]


def run(report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path) -> bool:
    """Run every part that was not run yet; say what was tried, and return whether nothing was found."""
    state_dir.mkdir(parents=True, exist_ok=True)
    kept = state_dir / f"crash_matrix-{scale:g}-{seed}.json"
    done: dict[str, tuple[int, list[str]]] = json.loads(kept.read_text()) if kept.exists() else {}
    for name, part in _parts(scale, seed):
        if name not in done:
            found = part(state_dir)
            done[name] = (found.tried, [str(problem) for problem in found.problems])
            kept.write_text(json.dumps(done))
        tried, problems = done[name]
        report(f"{name}: {tried} points tried, {len(problems)} problems")
        for problem in problems[:5]:
            report(f"  {problem}")
    report(f"crash matrix: {sum(tried for tried, _ in done.values())} points tried")
    return not any(problems for _, problems in done.values())


def main(arguments: Sequence[str] = ()) -> int:
    """Run it alone: `python -m tests.torture.crash_matrix [SCALE]`."""
    scale = float(arguments[0]) if arguments else 1.0
    return 0 if run(print, scale=scale, state_dir=Path(".torture") / "crash_matrix") else 1


def _parts(scale: float, seed: int) -> Iterator[tuple[str, Part]]:
    for scenario in SCENARIOS:
        yield f"{scenario.name}, every await", _awaits(scenario, scale, seed)
        for name in VIRTUAL:
            yield f"{scenario.name} on {name}", _virtual(scenario, name, scale, seed)
        for name in THREADED:
            yield f"{scenario.name} on {name}", _threaded(scenario, name, scale, seed)


def _awaits(scenario: Scenario, scale: float, seed: int) -> Part:
    def part(folder: Path) -> CrashReport:
        pairs = round(PAIRS * scale)
        return interfere_everywhere(scenario, folder=folder, share=scale, pairs=pairs, seed=seed)

    return part


def _virtual(scenario: Scenario, name: str, scale: float, seed: int) -> Part:
    def part(folder: Path) -> CrashReport:
        async def crash() -> CrashReport:
            stores = {name: VIRTUAL[name]}
            return await crash_everywhere(scenario, folder=folder, stores=stores, pairs=PAIRS, share=scale, seed=seed)

        return run_virtually(crash)

    return part


def _threaded(scenario: Scenario, name: str, scale: float, seed: int) -> Part:
    def part(folder: Path) -> CrashReport:
        async def crash() -> CrashReport:
            stores = {name: THREADED[name]}
            return await crash_everywhere(scenario, folder=folder, stores=stores, pairs=PAIRS, share=scale, seed=seed)

        return anyio.run(crash)

    return part


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
