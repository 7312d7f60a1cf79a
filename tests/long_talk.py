"""A session of very many turns: a model that counts exactly, a person who pastes now and then, and figures about each turn."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from statistics import median

from backstay import open_session, tool
from backstay.ports import EventStore, ModelReply, ModelRequest
from backstay.stores.memory import MemoryStore
from backstay.testing.checked_model import check_shape
from backstay.testing.clock import ObedientClock
from backstay.testing.crash.process import WrappedStore
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.events.limits import Compacted, CompactionFailed
from backstay.vocab.messages import Message, Text, ToolCall, ToolResult
from backstay.vocab.specs import ModelFacts, Usage

WINDOW = 32_000
FORMATS = ("anthropic", "openai-responses", "openai-chat", "google")


@tool(effect="pure")
async def page(number: int) -> str:
    """Read a page."""
    return f"page {number}: " + "it was a dark and stormy night; " * (5 + number % 200)


class Chatty:
    """Answers at some length, reads a page in every seventh turn, and checks what it is sent."""

    name = "chatty:one"
    format = "anthropic"
    facts = ModelFacts(window=WINDOW, max_output=2_000, known=True)

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.lengths: list[int] = []
        self.summaries = 0
        self.wrong: list[str] = []
        self.last: tuple[Message, ...] = ()
        self.cpu = 0.0
        """What the model itself took: it looks at everything that it is sent."""
        self._turn = 0

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Answer, or summarise."""
        begun = time.process_time()
        size = self._look_at(request)
        self.cpu += time.process_time() - begun
        if "max_output" in request.parameters and not request.instructions:
            self.summaries += 1
            parts: tuple[Text | ToolCall, ...] = (Text(text=f"Summary {self.summaries}: they read and talked. " * 8),)
        else:
            self.last = request.messages
            parts = self._answer(request)
        said = " ".join(part.text if isinstance(part, Text) else part.args for part in parts)
        for part in parts:
            if isinstance(part, Text):
                yield TextDelta(text=part.text)
        usage = Usage(input=size, output=tokens(said))
        yield ModelReply(parts=parts, stop="tool_calls" if len(parts) == 2 else "end", usage=usage, model=self.name)

    def _answer(self, request: ModelRequest) -> tuple[Text | ToolCall, ...]:
        asked = request.messages[-1].role == "user"
        self._turn += asked
        text = Text(text=f"Answer {self._turn}. " + "so it goes, and on it goes. " * (10 + self._turn % 97))
        if asked and self._turn % 7 == 0:
            return (text, ToolCall(id="", name="page", args=f'{{"number": {self._turn}}}', provider_id="p"))
        return (text,)

    def _look_at(self, request: ModelRequest) -> int:
        size = tokens(request.instructions) + sum(tokens(text_in(message)) + 4 for message in request.messages)
        wanted = request.parameters.get("max_output", 0)
        if size + (wanted if isinstance(wanted, int) else 0) > WINDOW:
            self.wrong.append(f"{size:,} tokens")
        if len(self.sizes) % 10 == 0:
            self.wrong += [broken for each in FORMATS for broken in check_shape(each, request.messages)]
        self.sizes.append(size)
        self.lengths.append(len(request.messages))
        return size


def tokens(text: str) -> int:
    """Tokens as this model counts them."""
    return len(text) * 2 // 7


def text_in(message: Message) -> str:
    """Everything that a message says."""
    found: list[str] = []
    for part in message.parts:
        for each in part.content if isinstance(part, ToolResult) else (part,):
            if isinstance(each, Text):
                found.append(each.text)
            elif isinstance(each, ToolCall):
                found.append(each.args)
    return "\n".join(found)


class Counting(WrappedStore):
    """A store that counts its appends."""

    def __init__(self, inner: EventStore) -> None:
        super().__init__(inner)
        self.appends = 0

    async def through(self, name, call):  # type: ignore[no-untyped-def]  # as the store around it has it
        """Count, and pass on."""
        self.appends += name == "append"
        return await call()


@dataclass
class Talk:
    """What came of a long talk."""

    model: Chatty
    pasted: dict[int, str]
    outcomes: list[str] = field(default_factory=list)
    appends: list[int] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    compactions: int = 0
    failures: list[str] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    """The turns whose pasted text is not word for word in the last request."""

    def figures(self) -> str:
        """The figures in a few lines."""
        most = min(100, len(self.cpu) // 3)
        first, last = median(self.cpu[:most]) * 1000, median(self.cpu[-most:]) * 1000
        return (
            f"{len(self.cpu):,} turns, {len(self.model.sizes):,} requests (largest {max(self.model.sizes):,} of {WINDOW:,} "
            f"tokens), {self.compactions} compactions, {self.model.summaries} summaries; CPU of a turn, median of {most}: "
            f"first {first:.2f} ms, last {last:.2f} ms, ratio {last / first:.2f}"
        )


async def long_talk(turns: int, store: EventStore | None = None, pastes: tuple[int, ...] = (3, 500, 1_500)) -> Talk:
    """Talk for so many turns; texts of 2 KB are pasted at `pastes`."""
    clock = ObedientClock()
    counting = Counting(store or await MemoryStore.open(clock=clock))
    talk = Talk(Chatty(), {at: paste(at) for at in pastes if at < turns})
    options = {"only_tools": True, "tools": [page], "max_session_turns": turns + 1, "system_prompt": "Talk."}
    async with open_session(model=talk.model, store=counting, clock=clock, **options) as session:  # type: ignore[arg-type]
        for number in range(turns):
            before, begun = counting.appends, time.process_time() - talk.model.cpu
            result = await session.result(talk.pasted.get(number, f"Question {number}: what about it?"))
            talk.cpu.append(time.process_time() - talk.model.cpu - begun)
            talk.appends.append(counting.appends - before)
            talk.outcomes.append(result.outcome or "")
        records = await session.events()
    talk.compactions = sum(isinstance(r.event, Compacted) for r in records)
    talk.failures = [r.event.message for r in records if isinstance(r.event, CompactionFailed)]
    sent = "\n".join(map(text_in, talk.model.last))
    talk.lost = [at for at, text in talk.pasted.items() if sent.count(text) != 1]
    return talk


def paste(number: int) -> str:
    """A text of 2 KB that is like no other."""
    return "".join(f"{number}/{row}: {(number * 7919 + row * 104729) % 99991:05} was measured\n" for row in range(70))[
        :2_048
    ]
