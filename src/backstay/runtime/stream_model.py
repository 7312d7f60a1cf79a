"""One model call as it comes in: deltas on the way, one reply at the end, and no longer a silence than was allowed."""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import anyio

from backstay.ports import Model, ModelReply, ModelRequest
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import ProviderError

Show = Callable[[Delta], None]


async def stream_model(model: Model, request: ModelRequest, *, idle_s: float | None, show: Show) -> ModelReply:
    """Ask, show every delta, return the reply. Any sign of life moves the deadline; a stream without its reply was cut."""
    patience = math.inf if idle_s is None else idle_s
    reply: ModelReply | None = None
    stream = model.ask(request)
    with anyio.CancelScope(deadline=anyio.current_time() + patience) as idle:
        try:
            reply = await _read(stream, idle, patience, show)
        finally:
            if isinstance(stream, AsyncGenerator):  # whatever went wrong here, its connection is closed now
                with anyio.CancelScope(shield=True):
                    await stream.aclose()
    if idle.cancelled_caught:
        raise ProviderError("timeout", f"{model.name} was silent for {patience:g} seconds.")
    if reply is None:
        raise ProviderError("transport", f"The stream of {model.name} ended without its final event: it was cut.")
    return reply


async def _read(
    stream: AsyncIterator[Delta | ModelReply], idle: anyio.CancelScope, patience: float, show: Show
) -> ModelReply | None:
    reply: ModelReply | None = None
    async for item in stream:
        if idle.deadline < (due := anyio.current_time() + patience):
            idle.deadline = due + patience / 100  # a little later, so that a burst does not move it every time
        if isinstance(item, ModelReply):
            reply = item
        elif type(item) is not Delta:  # a bare delta only says that something came
            show(item)
    return reply
