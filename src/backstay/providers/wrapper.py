"""The base of models that wrap another one: it passes everything on."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from backstay.ports import Model, ModelReply, ModelRequest
from backstay.vocab.deltas import Delta
from backstay.vocab.specs import ModelFacts

Stream = AsyncIterator[Delta | ModelReply]


class ModelAround:
    """A model with the name and the answers of `inner`. Override `ask` to change or watch what passes."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._inner.name

    @property
    def format(self) -> str:
        """The wire format of the wrapped model."""
        return self._inner.format

    @property
    def facts(self) -> ModelFacts:
        """What is known of the wrapped model."""
        return self._inner.facts

    async def ask(self, request: ModelRequest) -> Stream:
        """Answer as the wrapped model does."""
        async with self._open_stream(request) as stream:
            async for item in stream:
                yield item

    @asynccontextmanager
    async def _open_stream(self, request: ModelRequest) -> AsyncIterator[Stream]:
        """Yield the stream of the wrapped model; it is closed however the block is left."""
        stream = self._inner.ask(request)
        try:
            yield stream
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()


if TYPE_CHECKING:
    _: Model = ModelAround(cast(Model, None))
