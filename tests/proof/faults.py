"""Faults planted in the grammar and the tables: each is a change of one place of the sources, made in a copy of the package."""

import shutil
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from tests.proof.campaign import Campaign, Violation
from tests.proof.check import Check, found_by
from tests.proof.judging import SOURCE, Judge

MOST: Final = 100_000
"""Commands within which each must be found."""
RUN: Final = 12_000
_PACKAGE: Final = "backstay/permissions/unasked"


class Fault(msgspec.Struct, frozen=True):
    """What stands in a file, and what is put in its place."""

    name: str
    file: str
    search: str
    replace: str
    families: tuple[str, ...] = ()
    """Families of commands that are about it."""


class Found(msgspec.Struct, frozen=True):
    """The first command that shows a fault."""

    judged: int
    run: int
    seconds: float
    by: Violation | None


def read_faults() -> list[Fault]:
    """Read the list."""
    table = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))
    return msgspec.convert(table["faults"], list[Fault])


@contextmanager
def planted(fault: Fault) -> Iterator[Path]:
    """Give a copy of the sources with the fault in it. Raise `ValueError` when its place is not there exactly once."""
    folder = Path(tempfile.mkdtemp(prefix="fault-"))
    try:
        copy = folder.resolve() / "src"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        file = copy / _PACKAGE / fault.file
        text = file.read_text(encoding="utf-8")
        if text.count(fault.search) != 1:
            raise ValueError(f"{fault.name!r}: {fault.file} has its place {text.count(fault.search)} times")
        file.write_text(text.replace(fault.search, fault.replace), encoding="utf-8")
        yield copy
    finally:
        shutil.rmtree(folder)


def find(fault: Fault, seed: int, *, most: int = MOST, run: int = RUN, aimed: bool = False) -> Found:
    """Run commands until one shows the fault that does not show without it; with `aimed` those of its families alone."""
    begun = time.monotonic()
    shown = list[Violation]()
    with (
        planted(fault) as source,
        Campaign(seed, source, fault.families if aimed else ()) as campaign,
        Judge(campaign.root) as sound,
    ):
        known = set[int]()

        def note(violation: Violation) -> None:
            said = sound.judge([violation.case])[0]
            if said.decision == "allow" and _still(campaign, violation, Check(said, campaign.ground(violation.case))):
                known.add(violation.case.number)
            else:
                shown.append(violation)

        first = 0
        while first < most and not shown:
            campaign.go(1_000, run * 1_000 // most, note, first=first, enough=0)
            first += 1_000
        counts = campaign.counts
    judged = shown[0].case.number + 1 if shown else counts.generated
    return Found(judged, counts.run, time.monotonic() - begun, shown[0] if shown else None)


def _still(campaign: Campaign, violation: Violation, check: Check) -> bool:
    _, events = campaign.sandbox.run(violation.case.shell, violation.case.text)
    campaign.workspace.put_back()
    return bool(found_by(check, events))


def find_all(faults: Sequence[Fault], seed: int, report: Callable[[str], None], *, aimed: bool = False) -> bool:
    """Find each, and say after how many commands."""
    missed = 0
    for number, fault in enumerate(faults):
        found = find(fault, seed + number, aimed=aimed)
        missed += found.by is None
        how = (
            f"found after {found.judged:,} commands ({found.run:,} run)"
            if found.by
            else f"NOT found in {found.judged:,}"
        )
        report(f"{fault.name}: {how}, {found.seconds:,.0f} s{f'; {found.by}' if found.by else ''}")
    report(f"{len(faults) - missed} of {len(faults)} faults found")
    return missed == 0
