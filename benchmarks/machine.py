"""What the figures were measured on."""

import os
import platform
import sqlite3
import time
from pathlib import Path

from benchmarks.frame import Figure


def facts(folder: Path, probes: int = 50) -> list[str]:
    """The machine in a few words, and how long its disk takes to sync."""
    return [
        f"{os.cpu_count()} cores ({_processor()}), {platform.system()} {platform.release()}",
        f"load average {' '.join(f'{load:.1f}' for load in os.getloadavg())}: above the cores, every time is too long",
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        f"disk: write 1 KB and fdatasync {sync_latency(folder, probes)}; it swings, so compare within a row",
    ]


def sync_latency(folder: Path, probes: int) -> Figure:
    """How long it takes to bring 1 KB to the disk."""
    taken = []
    handle = os.open(folder / "probe", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for _ in range(probes):
            start = time.perf_counter()
            os.write(handle, b"x" * 1024)
            os.fdatasync(handle)
            taken.append((time.perf_counter() - start) * 1000)
    finally:
        os.close(handle)
    return Figure(tuple(taken), "ms")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
