"""Run the benchmarks of two trees in turns: `python scripts/measure/compare_bench.py OLD NEW [--rounds 7] [NAMES...]`.

Each tree is a checkout with its own `.venv`. In every round each benchmark runs once in each tree, without peers, and the tree that goes
first changes with the round. Printed are the medians over the rounds of each row's median, and how they compare.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Final

WORK: Final = """
import json, sys
from benchmarks.peers import Peers
from benchmarks.suite import run
if __name__ == "__main__":
    rows = run(sys.argv[1], Peers(None, "left out"), quick=False)
    print(json.dumps([[row.what, row.figure.median, row.figure.unit] for row in rows if row.figure]))
"""
NAMES: Final = "startup append kit opening listing turn requests first-delta size streaming memory search".split()


def main() -> None:
    """Measure both trees and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: {"old": [], "new": []})
    units: dict[str, str] = {}
    for number in range(given.rounds):
        for name in given.names:
            trees = [("old", given.old), ("new", given.new)]
            for label, tree in trees if number % 2 == 0 else reversed(trees):
                for what, median, unit in _measure(tree, name):
                    key = f"{name}: {what}"
                    found[key][label].append(median)
                    units[key] = unit
        print(f"round {number + 1}", file=sys.stderr, flush=True)
    for key, both in found.items():
        if not both["old"] or not both["new"]:
            print(f"{key}: only in one tree")
            continue
        old, new = (statistics.median(both[label]) for label in ("old", "new"))
        change = (new / old - 1) * 100 if old else 0.0
        print(f"{change:+7.1f} %  {old:12.3f} -> {new:12.3f} {units[key]:8} {key}")


def _measure(tree: Path, name: str) -> list[tuple[str, float, str]]:
    python = (tree / ".venv" / "bin" / "python").absolute()
    ran = subprocess.run([python, "-c", WORK, name], cwd=tree, capture_output=True, text=True, check=False)
    if ran.returncode:
        print(f"{tree} {name}: {ran.stderr.strip().splitlines()[-1:]}", file=sys.stderr, flush=True)
        return []
    package = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]  # it may differ
    rows = json.loads(ran.stdout.splitlines()[-1])
    return [(what.replace(package, "PACKAGE"), median, unit) for what, median, unit in rows]


if __name__ == "__main__":
    main()
