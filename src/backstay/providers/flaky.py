"""A model that fails on purpose: it wraps another one and breaks its streams, the same way each time."""

import random
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Annotated, Literal, cast

import anyio
import msgspec
from msgspec import Meta
from msgspec.structs import replace

from backstay.ports import Clock, Model, ModelReply, ModelRequest
from backstay.providers.wrapper import ModelAround
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import ErrorKind, ProviderError

FaultKind = Literal["error", "cut", "double", "stall"]


class ProviderFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of one answer: it happens once `after` deltas have come through, or just before its reply.

    `error` raises a `ProviderError`, `cut` ends the stream without a reply, `double` sends a delta twice, `stall`
    waits.
    """

    kind: FaultKind
    after: Annotated[int, Meta(ge=0)] = 0
    error: ErrorKind = "transport"
    retry_after_s: float | None = None
    stall_s: float | None = None
    """How long a stall lasts; for ever when it is not said."""

    @property
    def fails(self) -> bool:
        """Whether no reply comes."""
        return self.kind in ("error", "cut")


FaultPlan = Callable[[int], ProviderFault | None]
"""What goes wrong at a position of the session."""


def fault_plan(*faults: ProviderFault | None) -> FaultPlan:
    """Return a plan that hurts the answers one after another; those under None, and all after the last, go well."""

    def plan(position: int) -> ProviderFault | None:
        return faults[position] if position < len(faults) else None

    return plan


def seed_plan(seed: int, *, rate: float = 0.3, kinds: tuple[FaultKind, ...] = ("error", "cut", "double")) -> FaultPlan:
    """Return a plan that hurts a share of the answers by chance; the same seed gives the same plan."""

    def plan(position: int) -> ProviderFault | None:
        chance = random.Random(f"{seed}/{position}")
        if chance.random() >= rate:
            return None
        return ProviderFault(
            kind=chance.choice(kinds),
            after=chance.randrange(8),
            error=chance.choice(_PASSING),
        )

    return plan


class FlakyModel(ModelAround):
    """Passes on what `inner` streams, hurt by a plan.

    The plan goes by the request's place, so a restart changes nothing. Attempts that it fails are not counted in the
    place that `inner` sees: a script loses no reply.
    """

    def __init__(self, inner: Model, faults: FaultPlan, *, clock: Clock | None = None) -> None:
        super().__init__(inner)
        self._faults = faults
        self._clock = clock

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Answer as the wrapped model does, or as the plan says."""
        place = request.position if request.place is None else request.place
        fault = self._faults(place)
        failed = sum(1 for before in range(place) if (each := self._faults(before)) and each.fails)
        passed = 0
        async with self._open_stream(
            replace(request, position=request.position - failed, place=place - failed)
        ) as stream:
            async for item in stream:
                if fault is not None and (passed == fault.after or isinstance(item, ModelReply)):
                    if fault.kind == "cut":
                        return
                    if fault.kind == "double" and isinstance(item, Delta):
                        yield item
                    await self._suffer(fault)
                    fault = None
                passed += 1
                yield item

    async def _suffer(self, fault: ProviderFault) -> None:
        if fault.kind == "error":
            message = f"A fault was put in on purpose: {fault.error!r}."
            raise ProviderError(fault.error, message, retry_after_s=fault.retry_after_s)
        if fault.kind == "stall":
            await self._sleep(fault.stall_s)

    async def _sleep(self, seconds: float | None) -> None:
        if seconds is None:
            await anyio.sleep_forever()
        elif self._clock is None:
            await anyio.sleep(seconds)
        else:
            await self._clock.sleep(seconds)


_PASSING: tuple[ErrorKind, ...] = ("rate_limit", "overloaded", "timeout", "transport")
"""Kinds that a second attempt may cure."""

if TYPE_CHECKING:
    _: Model = FlakyModel(cast("Model", None), fault_plan())
