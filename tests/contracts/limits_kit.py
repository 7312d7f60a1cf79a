"""What the tests about waits, windows and money share: a model that says what it is told to, and a process that dies."""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import msgspec

from backstay import Session, open_session
from backstay.ports import EventStore, Model, ModelReply, ModelRequest
from backstay.stores.memory import MemoryStore
from backstay.testing.checked_model import check_shape
from backstay.testing.clock import ObedientClock
from backstay.testing.crash.process import EffectLedger, MortalModel, MortalProcess, MortalStore
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.errors import ErrorKind, ProviderError
from backstay.vocab.event import Event, Recorded
from backstay.vocab.messages import InFlightPart, InlineMedia, Message, Text, ToolCall, ToolResult
from backstay.vocab.specs import ModelFacts, Prices, Usage

E = TypeVar("E", bound=Event)

CHEAP = Prices(input=1_000_000, output=2_000_000)
"""One micro-cent for a token that is sent, two for one that comes back."""


@dataclass(frozen=True, kw_only=True)
class Broken:
    """An answer that fails after some of it was shown."""

    kind: ErrorKind
    after: str = ""
    retry_after_s: float | None = None
    message: str = "on purpose"


@dataclass(frozen=True, kw_only=True)
class Silent:
    """An answer that stops coming."""

    after: str = ""


@dataclass(frozen=True, kw_only=True)
class Raises:
    """An adapter that breaks."""

    message: str = "the adapter broke"


Act = str | ModelReply | Broken | Silent | Raises


def calling(name: str, text: str = "", **args: object) -> ModelReply:
    """An answer that calls one tool."""
    said: tuple[InFlightPart, ...] = (Text(text=text),) if text else ()
    call = ToolCall(id="", name=name, args=msgspec.json.encode(args).decode(), provider_id="p")
    return ModelReply(parts=(*said, call), stop="tool_calls")


def is_summary_request(request: ModelRequest) -> bool:
    """Whether somebody wants a summary, not an answer."""
    return not request.instructions and "max_output" in request.parameters


def content_of(message: Message) -> str:
    """Everything that a message says, results and calls included."""
    texts: list[str] = []
    for part in message.parts:
        for each in part.content if isinstance(part, ToolResult) else (part,):
            match each:
                case Text():
                    texts.append(each.text)
                case ToolCall():
                    texts.append(each.args)
                case InlineMedia():
                    texts.append("#" * 400)
                case _:
                    pass
    return "\n".join(texts)


def own_count(request: ModelRequest) -> int:
    """Tokens of a request as our pretended provider counts them: not as the estimator does."""
    texts = [request.instructions, *(content_of(message) for message in request.messages)]
    return sum(map(own_tokens, texts)) + 5 * len(texts) + 40 * len(request.tools)


def own_tokens(text: str) -> int:
    """Tokens of a text as our pretended provider counts them."""
    plain = len(text.encode("ascii", "ignore"))
    return plain // 4 + len(text) - plain


class Fake:
    """Answers as told, one act after another, then with `ok`; counts exactly; remembers what it was asked."""

    def __init__(
        self,
        *acts: Act,
        name: str = "fake:one",
        format: str = "anthropic",
        facts: ModelFacts = ModelFacts(known=True),  # noqa: B008  # frozen
        summary: Callable[[ModelRequest], Act] = lambda _: "a short summary",
        counts: bool = True,
    ) -> None:
        self.name, self.format, self.facts = name, format, facts
        self.asked: list[ModelRequest] = []
        self.summaries: list[ModelRequest] = []
        self.too_big: list[int] = []
        self.refused: list[str] = []
        self._acts = list(acts)
        self._summary = summary
        self._counts = counts

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Play the next act."""
        self._check(request)
        if is_summary_request(request):
            self.summaries.append(request)
            act = self._summary(request)
        else:
            self.asked.append(request)
            act = self._acts.pop(0) if self._acts else "ok"
        await anyio.lowlevel.checkpoint()
        if isinstance(act, Raises):
            raise RuntimeError(act.message)
        if isinstance(act, str):
            act = ModelReply(parts=(Text(text=act),))
        if isinstance(act, ModelReply):
            for part in act.parts:
                if isinstance(part, Text) and part.text:
                    yield TextDelta(text=part.text)
            yield msgspec.structs.replace(act, usage=act.usage or self._usage(request, act), model=self.name)
            return
        if act.after:
            yield TextDelta(text=act.after)
        if isinstance(act, Silent):
            await anyio.sleep_forever()
        else:
            raise ProviderError(act.kind, act.message, retry_after_s=act.retry_after_s)

    def _usage(self, request: ModelRequest, reply: ModelReply) -> Usage | None:
        said = content_of(Message(role="assistant", parts=reply.parts))
        return Usage(input=own_count(request), output=own_tokens(said) + 1) if self._counts else None

    def _check(self, request: ModelRequest) -> None:
        """What a real provider would refuse."""
        wanted = request.parameters.get("max_output", 0)
        size = own_count(request) + (wanted if isinstance(wanted, int) else 0)
        if size > self.facts.window:
            self.too_big.append(size)
        self.refused += check_shape(self.format, request.messages)


def of_kind(records: Iterable[object], kind: type[E]) -> list[E]:
    """The events of one kind, in order."""
    return [r.event for r in records if isinstance(r, Recorded) and isinstance(r.event, kind)]


async def log_of(session: Session, kind: type[E]) -> list[E]:
    """The session's events of one kind, in order."""
    return of_kind(await session.events(), kind)


async def memory(clock: ObedientClock) -> MemoryStore:
    """A store whose owners are always thought dead, so that the next process takes everything over."""
    return await MemoryStore.open(clock=clock, is_dead=lambda owner: True)


async def die_when(
    moment: Callable[[Recorded], bool],
    prompt: str,
    *,
    store: EventStore,
    clock: ObedientClock,
    model: Model,
    **options: Any,
) -> None:
    """Say `prompt` in a process of its own, and kill it as soon as `moment` is durable."""
    process = MortalProcess("mortal")

    async def live() -> None:
        mine = MortalStore(store, process, EffectLedger())
        asked = MortalModel(model, process)
        async with open_session(store=mine, model=asked, clock=clock, owner=process.owner, **options) as session:
            async for item in session.send(prompt):
                if isinstance(item, Recorded) and moment(item):
                    process.kill()
                    await anyio.sleep_forever()

    fault = await process.live(live)
    assert process.killed, f"it never came to that moment: {fault}"


async def quiet() -> None:
    """Let everybody go on until all of them wait."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()
    await anyio.wait_all_tasks_blocked()


async def stop_at(session: Session, prompt: str, kind: type[Event]) -> None:
    """Say `prompt` and interrupt the turn as soon as there is an event of that kind."""
    async for item in session.send(prompt):
        if isinstance(item, Recorded) and isinstance(item.event, kind):
            await session.abort("enough")
