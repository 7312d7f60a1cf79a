"""Proof by execution: `python -m tests.proof [--count N] [--run N] [--seed N] [--only K] [--source SRC]`."""

import argparse
import math
import platform
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.proof.campaign import Campaign, Violation
from tests.proof.check import Check
from tests.proof.faults import find_all, read_faults
from tests.proof.generate import case_of
from tests.proof.judging import SOURCE


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what was asked for; 1 when there is a violation."""
    asked = _parse(arguments)
    seed = secrets.randbelow(1_000_000) if asked.seed is None else asked.seed
    for line in versions():
        print(line)
    print(f"seed {seed}", flush=True)
    if asked.faults:
        faults = [fault for fault in read_faults() if asked.faults in fault.name]
        return 0 if find_all(faults, seed, lambda line: print(line, flush=True), aimed=asked.aimed) else 1
    with Campaign(seed, Path(asked.source).resolve(), tuple(filter(None, asked.families.split(",")))) as campaign:
        if asked.only is not None:
            return _replay(campaign, asked.only)
        begun = time.monotonic()
        hits = campaign.go(
            asked.count,
            asked.run,
            lambda each: _tell(campaign, each),
            first=asked.first,
            enough=asked.enough,
            seconds=asked.seconds,
            progress=lambda counts: print(f"  judged {counts.judged:,}, run {counts.run:,}", flush=True),
        )
        for line in campaign.counts.lines():
            print(line)
        print(f"violations {hits}; {time.monotonic() - begun:,.0f} s")
    return 1 if hits else 0


def versions() -> list[str]:
    """Name the shells, the tracer and the system."""
    asked = (["bash", "--version"], ["dpkg-query", "-W", "dash"], ["strace", "-V"])
    first = [
        subprocess.run(words, capture_output=True, text=True, check=False).stdout.partition("\n")[0] for words in asked
    ]
    return [*first, f"{platform.system()} {platform.release()}"]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="commands that are judged")
    parser.add_argument("--run", type=int, default=5_000, help="of those that are allowed, how many are run")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0, help="the number of the first command")
    parser.add_argument("--only", type=int, help="replay the command of this number")
    parser.add_argument("--enough", type=int, default=0, help="stop after so many violations")
    parser.add_argument("--families", default="", help="judge commands of these families alone, with commas between")
    parser.add_argument(
        "--aimed", action="store_true", help="with --faults: judge commands of the families that a fault is about"
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument(
        "--faults", nargs="?", const=" ", help="find the planted faults (those with these words in their name)"
    )
    parser.add_argument("--source", default=str(SOURCE), help="the tree whose judge is asked")
    return parser.parse_args(arguments)


def _tell(campaign: Campaign, violation: Violation) -> None:
    counts = campaign.counts
    print(
        f"VIOLATION after {counts.generated:,} generated, {counts.judged:,} judged, {counts.run:,} run: {violation}",
        flush=True,
    )


def _replay(campaign: Campaign, number: int) -> int:
    case = case_of(campaign.seed, number)
    said = campaign.judge.judge([case], why=True)[0]
    print(case)
    print(said)
    check = Check(said, campaign.ground(case))
    status, events = campaign.sandbox.run(case.shell, case.text)
    for event in events:
        print(f"  {event.process} {event.kind} {event.path} {' '.join(event.arguments)}")
    wrong = campaign.look(case, check, events) if said.decision == "allow" else []
    print(f"status {status}; {'; '.join(wrong) or 'nothing that was not named'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
