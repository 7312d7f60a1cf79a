"""Runs the parts of the torture: `python -m tests.torture [names...] [--scale 0.01] [--seed N] [--state DIR] [--list]`.

Ctrl-C stops it; the same command goes on where it stopped. When everything was done, the next run starts over.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from tests.torture.progress import table

PARTS: Final = (
    "crash_matrix",
    "simulate",
    "history",
    "log_model",
    "io_errors",
    "disk_full",
    "power_loss",
    "zombies",
    "kill9",
    "long_session",
    "proof",
)
"""In this order. A part that is not there is left out, and said so."""


class Run(Protocol):
    """What every part offers. It keeps its own progress in `state_dir` and says whether all is well."""

    def __call__(
        self, report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path
    ) -> bool: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 when anything failed, 130 when it was stopped."""
    asked = _parse(arguments)
    parts, missing = _load(asked.names or PARTS)
    if asked.list:
        return _list(parts, missing)
    state = Path(asked.state).resolve()
    state.mkdir(parents=True, exist_ok=True)
    done = _done(state, asked.seed, asked.scale)
    if all(name in done for name in parts):
        done = {}
        _forget(state, parts)
    try:
        for name, run in parts.items():
            if name not in done:
                done[name] = _one(name, run, asked, state)
                _keep(state, asked.seed, asked.scale, done)
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on from here.", flush=True)
        return 130
    return _final(parts, missing, done, state)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"parts to run: {', '.join(PARTS)}")
    parser.add_argument("--scale", type=float, default=1.0, help="1.0 is the full size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", default=".torture", help="where progress is kept")
    parser.add_argument("--list", action="store_true", help="show the parts and stop")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in PARTS]
    if unknown:
        parser.error(f"no part is called {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    return asked


def _load(names: Sequence[str]) -> tuple[dict[str, Run], list[str]]:
    parts: dict[str, Run] = {}
    missing: list[str] = []
    for name in names:
        try:
            parts[name] = importlib.import_module(f"tests.torture.{name}").run
        except ModuleNotFoundError as exc:
            missing.append(f"{name} ({exc})")
    return parts, missing


def _list(parts: dict[str, Run], missing: Sequence[str]) -> int:
    for name in parts:
        about = (sys.modules[f"tests.torture.{name}"].__doc__ or "").strip().splitlines()
        print(f"{name:<14} {about[0] if about else ''}")
    for name in missing:
        print(f"{name:<14} not there")
    return 0


def _one(name: str, run: Run, asked: argparse.Namespace, state: Path) -> dict[str, object]:
    begun = time.monotonic()
    print(f"{name}: begins (seed {asked.seed}, scale {asked.scale:g})", flush=True)
    passed = run(lambda line: print(f"{name}: {line}", flush=True), scale=asked.scale, seed=asked.seed, state_dir=state)
    took = time.monotonic() - begun
    print(f"{name}: {'passed' if passed else 'FAILED'} in {took:,.0f} s", flush=True)
    return {"passed": passed, "seconds": took}


def _final(parts: dict[str, Run], missing: Sequence[str], done: dict[str, dict[str, object]], state: Path) -> int:
    print("\nTorture")
    for name in parts:
        print(f"{name}: {'passed' if done[name]['passed'] else 'FAILED'} in {done[name]['seconds']:,.0f} s")
        for line in table(state, name):
            print(line)
    for name in missing:
        print(f"{name}: left out")
    return 0 if all(done[name]["passed"] for name in parts) else 1


def _done(state: Path, seed: int, scale: float) -> dict[str, dict[str, object]]:
    """The parts that are finished already, in a run with the same seed and size."""
    try:
        kept = json.loads((state / "done.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return dict(kept["parts"]) if (kept.get("seed"), kept.get("scale")) == (seed, scale) else {}


def _keep(state: Path, seed: int, scale: float, done: dict[str, dict[str, object]]) -> None:
    content = {"seed": seed, "scale": scale, "parts": done}
    (state / "done.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def _forget(state: Path, names: Sequence[str] | dict[str, Run]) -> None:
    for name in names:
        (state / f"{name}.json").unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
