"""How much memory is free, and which model fits into it."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from backstay.providers.local.pins import ModelPin

PLENTY: Final = 4_000_000_000
"""Free bytes from which on the best model is taken."""


def fitting(pins: Sequence[ModelPin], free: int | None = None) -> tuple[ModelPin, str]:
    """The best of `pins`, best first, that the free memory is enough for; and why it is not the first, when it is not."""
    free = free_memory() if free is None else free
    if free is None or free >= PLENTY or len(pins) == 1:
        return pins[0], ""
    least = pins[-1]
    return least, (
        f"{free / 1e9:.1f} GB of memory are free, and {pins[0].name} wants {PLENTY / 1e9:.0f} GB: "
        f"{least.name} is taken instead. It {least.can}."
    )


def free_memory() -> int | None:
    """Bytes of memory that programs can still get, by the machine and by the group this process is limited to; None when unknown."""
    known = [size for size in (_machine(), _group()) if size is not None]
    return min(known, default=None)


def _machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    if sys.platform == "win32":
        return None
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _group() -> int | None:
    """What a container may still take."""
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii").strip()
        return None if limit == "max" else max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return None
