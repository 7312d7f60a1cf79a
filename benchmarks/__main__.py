"""`python -m benchmarks [NAMES...] [--json] [--quick]`: measure, and say for each aim whether it is met."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks import machine
from benchmarks.frame import Row
from benchmarks.peers import Peers, set_up
from benchmarks.suite import BENCHMARKS, SCRATCH, run_apart
from benchmarks.table import as_json, table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that are named, or all."""
    given = _parse(arguments)
    say = _progress(quiet=given.json)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    known = machine.facts(SCRATCH)
    say("\n".join(known))
    peers = Peers(None, "left out by --quick") if given.quick else set_up(say)
    rows: list[Row] = []
    for name in given.names or BENCHMARKS:
        start = time.monotonic()
        rows += run_apart(name, peers, quick=given.quick)
        say(f"measured {name} in {time.monotonic() - start:.0f} s")
    print(as_json(rows, known) if given.json else f"\n{table(rows)}")
    return 1 if any(row.failed for row in rows) else 0


def _progress(*, quiet: bool) -> Callable[[str], None]:
    stream = sys.stderr if quiet else sys.stdout
    return lambda text: print(text, file=stream, flush=True)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; all when left out")
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--quick", action="store_true", help="small sizes, no peers: shows only that everything works")
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.names) - BENCHMARKS.keys()):
        parser.error(f"there is no benchmark {unknown[0]!r}; choose from {', '.join(BENCHMARKS)}")
    return given


if __name__ == "__main__":
    sys.exit(main())
