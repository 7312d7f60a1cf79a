"""The real clock."""

import secrets
import time

import anyio

from backstay.vocab.ids import base36


class SystemClock:
    """Time from the operating system, chance from its generator."""

    def now(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1000

    def nonce(self) -> str:
        """Five random digits in base 36."""
        return base36(secrets.randbelow(36**5 - 36**4) + 36**4)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await anyio.sleep(seconds)
