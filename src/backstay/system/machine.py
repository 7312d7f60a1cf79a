"""Ask the operating system of this machine for its boot, the time, random numbers and its own addresses."""

import functools
import ipaddress
import secrets
import sys
import time
from pathlib import Path
from typing import Final, Literal

import anyio

from backstay.vocab.ids import base36

SYSTEM: Final[Literal["linux", "darwin", "windows"]] = (
    "darwin" if sys.platform == "darwin" else "windows" if sys.platform == "win32" else "linux"
)
"""How paths are written and compared here."""


def boot_id() -> str:
    """Return an id of this boot of the machine; empty where the system has none."""
    try:
        return _read_boot_id()
    except OSError:
        return ""


@functools.cache  # what failed is not kept: the next look may have a file handle
def _read_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class SystemClock:
    """A clock with the time of the operating system and its random numbers."""

    def now(self) -> int:
        """Return the microseconds since 1970."""
        return time.time_ns() // 1000

    def nonce(self) -> str:
        """Return five random digits in base 36."""
        return base36(secrets.randbelow(36**5 - 36**4) + 36**4)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await anyio.sleep(seconds)


def is_loopback(host: str) -> bool:
    """Return whether `host` is this machine."""
    host = host.lower().strip("[]")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
