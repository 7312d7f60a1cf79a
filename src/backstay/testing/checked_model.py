"""A model that looks at what it is asked: wraps another one and checks each request against the rules of every format.

model = CheckedModel(ScriptedModel.of([...]))
... run a session on it ...
assert model.broken == []
"""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from backstay.logic.state.request_rules import RULES, check_shape
from backstay.ports import Model, ModelReply, ModelRequest
from backstay.providers.wrapper import ModelAround
from backstay.vocab.deltas import Delta

FORMATS: Final = tuple(RULES)


class CheckedModel(ModelAround):
    """Passes every request on and collects what a provider would refuse."""

    def __init__(self, inner: Model, *, formats: Sequence[str] = FORMATS) -> None:
        super().__init__(inner)
        self._formats = tuple(formats)
        self.requests: list[ModelRequest] = []
        """Everything that was asked, in order."""
        self.broken: list[str] = []
        """`format: rule: where` for each rule that a request broke."""

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Check the request, then answer as the wrapped model does."""
        self.look_at(request)
        async with self._asked(request) as stream:
            async for item in stream:
                yield item

    def look_at(self, request: ModelRequest) -> None:
        """Remember a request and what is wrong with it."""
        self.requests.append(request)
        for each in self._formats:
            self.broken += [f"{each}: {wrong}" for wrong in check_shape(each, request.messages)]


if TYPE_CHECKING:
    _: Model = CheckedModel(cast("Model", None))
