"""A scripted model for scenarios that crash: it plays replies, and has a last word for whatever a crash adds."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import anyio.lowlevel
from msgspec.structs import replace

from backstay.ports import Model, ModelReply, ModelRequest
from backstay.providers.scripted import ScriptedModel
from backstay.testing.crash.stage import Stage
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.messages import Text
from backstay.vocab.specs import ModelFacts, Usage

Reply = Mapping[str, object]
PLAIN: Final = ModelFacts(summarises=False)
"""What is known of a model of which nothing special is known."""


def rehearsed(
    replies: Sequence[Reply], stage: Stage, *, facts: ModelFacts = PLAIN, name: str = "scripted:rehearsed"
) -> Model:
    """Return a model that plays `replies` and has a last word for everything after them.

    Replies that hang do so only in the first process. Whoever wants a summary gets one, unless the facts say otherwise.
    """
    if stage.attempt:
        replies = [{key: value for key, value in reply.items() if key != "hang"} for reply in replies]
    return _Rehearsed(replies, facts, name)


class _Rehearsed:
    def __init__(self, replies: Sequence[Reply], facts: ModelFacts, name: str) -> None:
        self._script = ScriptedModel.of(replies)
        self._length = len(replies)
        self._facts = facts
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def format(self) -> str:
        return "anthropic"

    @property
    def facts(self) -> ModelFacts:
        """What is known of it."""
        return self._facts

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        if request.purpose == "summary":
            await anyio.lowlevel.checkpoint()
            yield ModelReply(parts=(Text(text="They did this and that."),), usage=Usage(input=40, output=6))
            return
        if request.position >= self._length:
            await anyio.lowlevel.checkpoint()
            yield TextDelta(text="That is all.")
            yield ModelReply(parts=(Text(text="That is all."),))
            return
        async for item in self._script.ask(
            replace(request, place=None)
        ):  # all the models of a scenario play one script
            yield item
