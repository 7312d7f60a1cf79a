"""How far a part of the torture has come: counted, kept in a file, taken up again after Ctrl-C."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

NEEDS_ZERO: Final = "must be 0"
"""Figures that end with this in the table are failures when they are not zero."""


class Progress:
    """The figures of one part. A figure that must stay zero is counted with `fault`."""

    def __init__(self, state_dir: Path, name: str, seed: int) -> None:
        self._path = state_dir / f"{name}.json"
        state_dir.mkdir(parents=True, exist_ok=True)
        kept = _read(self._path)
        again = kept.get("seed") == seed and not kept.get("over")
        self.seed = seed
        self.figures: dict[str, float] = _numbers(kept.get("figures")) if again else {}
        self.faults: dict[str, float] = _numbers(kept.get("faults")) if again else {}
        found = kept.get("failures") if again else None
        self.failures: list[str] = [str(each) for each in found] if isinstance(found, list) else []
        self._since = time.monotonic()

    def count(self, name: str, more: float = 1) -> None:
        """Add to a figure."""
        self.figures[name] = self.figures.get(name, 0) + more

    def fault(self, name: str, more: float = 0, story: str = "") -> None:
        """Add to a figure that must stay zero; `story` says how to see it again."""
        self.faults[name] = self.faults.get(name, 0) + more
        if more and story:
            self.failures.append(story)

    def faulted(self, found: Mapping[str, list[str]], story: str) -> None:
        """Count every list of wrongs, empty ones too, so that the table shows their zero."""
        for name, wrongs in found.items():
            self.fault(name, len(wrongs), f"{story}: {name}: {wrongs[:3]}" if wrongs else "")

    def done(self, name: str) -> int:
        """A figure so far."""
        return int(self.figures.get(name, 0))

    @property
    def sound(self) -> bool:
        """Whether nothing went wrong."""
        return not any(self.faults.values()) and not self.failures

    def save(self, *, over: bool = False) -> None:
        """Put everything away; `over` says that the part is finished."""
        now = time.monotonic()
        self.count("seconds", now - self._since)
        self._since = now
        content = {
            "seed": self.seed,
            "over": over,
            "figures": self.figures,
            "faults": self.faults,
            "failures": self.failures,
        }
        partial = self._path.with_suffix(".new")
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
        partial.replace(self._path)

    def line(self) -> str:
        """The figures in one line, with everything that must stay zero in one sum."""
        shown = [f"{name} {value:,.0f}" for name, value in self.figures.items()]
        return ", ".join([*shown, f"wrong {sum(self.faults.values()):,.0f}"])


def table(state_dir: Path, name: str) -> list[str]:
    """The lines of the final table for one part."""
    kept = _read(state_dir / f"{name}.json")
    lines = [f"  {key:<44} {value:>12,.0f}" for key, value in _numbers(kept.get("figures")).items()]
    lines += [f"  {key:<44} {value:>12,.0f}  {NEEDS_ZERO}" for key, value in _numbers(kept.get("faults")).items()]
    failures = kept.get("failures")
    return [*lines, *(f"  FAILED {each}" for each in (failures if isinstance(failures, list) else [])[:20])]


def _read(path: Path) -> dict[str, object]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _numbers(found: object) -> dict[str, float]:
    return {str(key): float(value) for key, value in found.items()} if isinstance(found, dict) else {}
