"""Sessions to which everything happens, on models of every format: whatever they ask is looked at as its provider would.

A world follows from its seed and its list of acts. Processes die at any append and others go on; every request that any of them builds,
for a turn, a child or a summary, must keep the shape rules of its format, encode, keep the provider's own rules as JSON, and be the same
bytes whether the encoder knows its beginning or not.
"""

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, get_args

import anyio
from msgspec.structs import replace

from backstay import Rule
from backstay.catalog import sessions
from backstay.logic.state.retries import Retries
from backstay.ports import EventStore, ModelReply, ModelRequest, SessionQuery, Tool, ToolOutput
from backstay.providers.http.model import HttpModel
from backstay.providers.registry import load_format
from backstay.runtime.barrier import Fault, run_guarded
from backstay.session.assemble import open_with
from backstay.session.options import Options
from backstay.session.session import Session
from backstay.session.subagents import child_tool
from backstay.stores.memory import MemoryStore
from backstay.stores.trace import NoTrace
from backstay.testing.checked_model import check_shape
from backstay.testing.crash.process import Blow, EffectLedger, MortalModel, MortalProcess, MortalStore, MortalTool
from backstay.testing.event_loop import Stuck, run_virtually
from backstay.tools.define import tool
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.errors import BackstayError, Bug, ErrorKind, ProviderError
from backstay.vocab.messages import InFlightPart, InlineMedia, MediaLink, Text
from backstay.vocab.specs import Ability, ModelFacts, OnCrash
from tests.providers.native_replies import PNG, Answers
from tests.providers.native_rules import broken
from tests.simulation.stores import Universe

ABLE: Final = frozenset(get_args(Ability))
MODELS: Final[dict[str, tuple[str, frozenset[Ability]]]] = {
    "anthropic:able": ("anthropic", ABLE),
    "anthropic:plain": ("anthropic", frozenset(("tools",))),
    "openai:able": ("openai-responses", ABLE),
    "openai:plain": ("openai-responses", frozenset(("tools",))),
    "openai-chat:able": ("openai-chat", ABLE),
    "mistral:plain": ("openai-chat", frozenset(("tools",))),
    "google:able": ("google", ABLE),
    "google:plain": ("google", frozenset(("tools", "reasoning"))),
}
"""The models, the format of each, and what it can do."""
WINDOW: Final = 4_000
"""So small that conversations are compacted."""
PASTED: Final = "Something that was pasted.\n" * 40
Act = Callable[["World", Session], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What came of a world."""

    wrong: tuple[str, ...]
    requests: Counter[str]
    """How many requests each model was sent."""
    events: Counter[str]
    """How many events of each kind there are."""


def happen(seed: int, acts: Sequence[str]) -> Seen:
    """Let a world happen."""
    world = World(seed, acts)
    try:
        run_virtually(world.happen, seed=seed)
    except Stuck as exc:
        world.wrong.append(str(exc))
    return Seen(wrong=tuple(dict.fromkeys(world.wrong)), requests=world.requests, events=world.events)


class NativeModel:
    """A provider that looks at what it is sent, and answers at random in its own format."""

    def __init__(self, name: str, world: "World") -> None:
        format, abilities = MODELS[name]
        self._name = name
        self._provider = name.partition(":")[0]
        self._services = world
        self._facts = ModelFacts(known=True, window=WINDOW, max_output=800, abilities=abilities)
        self._http = HttpModel(name, format=load_format(format), base_url="http://127.0.0.1:1", facts=self._facts)
        self._reader = f"{self._provider}@http://127.0.0.1:1"
        self._answers = Answers(load_format(format), self._provider, name.partition(":")[2], world.dice)

    @property
    def name(self) -> str:
        """As it is written in the log."""
        return self._name

    @property
    def format(self) -> str:
        """The wire format that it speaks."""
        return self._http.format

    @property
    def facts(self) -> ModelFacts:
        """What is known of it."""
        return self._facts

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Look at the request, then answer or fail."""
        self._services.requests[self._name] += 1
        found = await run_guarded(self._name, lambda: self._look(request))
        wrong = [f"{found.kind}: {found.message}\n{found.trace}"] if isinstance(found, Fault) else found
        self._services.wrong += [f"{self._name}: {each}" for each in wrong]
        dice, luck = self._services.dice, self._services.dice.random()
        if dice.random() < 0.5:
            yield TextDelta(text="Well, ")
        await anyio.sleep(dice.random() * 0.4)
        if luck < 0.06:
            raise ProviderError(dice.choice(KINDS), "The provider is not well.")
        if luck < 0.09:
            return  # the stream is cut
        if luck < 0.15:
            await anyio.sleep(2.0)
        rounds = sum(message.role == "tool" for message in request.messages[-6:])
        yield replace(self._answers.reply(may_call=rounds < 4 and bool(request.tools)), provider=self._reader)

    async def _look(self, request: ModelRequest) -> list[str]:
        wrong = list(check_shape(self.format, request.messages, provider=self._provider))
        sent = replace(request, model=self._name.partition(":")[2])
        body = self._http._encoder(request).encode(sent).body  # kept by conversation, as when it is really asked
        afresh = load_format(self.format).encoder(self._reader, self._facts).encode(sent).body
        if body != afresh:
            wrong.append(f"the bytes depend on what was encoded before: {body!r} and {afresh!r}")
        return [*wrong, *(f"{each}\n  {body.decode():.3000}" for each in broken(self.format, body, self._provider))]


KINDS: Final[tuple[ErrorKind, ...]] = ("rate_limit", "overloaded", "transport", "bad_request", "context_overflow")


@dataclass(eq=False)
class World:
    """One world."""

    seed: int
    acts: Sequence[str]
    wrong: list[str] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    processes: int = 0
    session_id: str = "history"
    said: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.universe = Universe(self.seed)
        self._left = list(self.acts)
        self._ledger = EffectLedger()
        self._living: set[str] = set()
        self._models = {name: NativeModel(name, self) for name in MODELS}

    async def happen(self) -> None:
        """Carry out the acts, by one process after the other."""
        store = await MemoryStore.open(clock=self.universe, is_dead=lambda owner: owner.id not in self._living)
        while self._left:
            await self._live(store, self._carry_out, mortal=True)
        await self._live(store, self._finish, mortal=False)
        for meta in await store.list(SessionQuery(include_children=True)):
            self.events.update(type(record.event).__name__ for record in (await store.read(meta.id)).records)
        await store.close()

    def text(self) -> str:
        """Something to say that was not said before."""
        self.said += 1
        return f"{self.said}: {PASTED if self.dice.random() < 0.15 else 'please'}"

    async def _live(self, store: EventStore, work: Callable[[Session], Awaitable[None]], *, mortal: bool) -> None:
        process = MortalProcess(f"process-{self.processes}")
        self.processes += 1
        dies = mortal and self.dice.random() < 0.5
        when = Blow(append=self.dice.randint(2, 14), when=self.dice.choice(("before", "after"))) if dies else None
        own = MortalStore(store, process, self._ledger, when)
        self._living.add(process.owner.id)
        fault = await process.live(lambda: self._open(own, process, work))
        self._living.discard(process.owner.id)
        if fault is not None:
            self.wrong.append(f"{fault.kind}: {fault.message}\n{fault.trace}")

    async def _open(
        self, store: MortalStore, process: MortalProcess, work: Callable[[Session], Awaitable[None]]
    ) -> None:
        known = await sessions.exists(store, self.session_id)
        chain = self.dice.sample(sorted(MODELS), 2)
        on_crash: OnCrash = "abandon" if self.dice.random() < 0.3 else "continue"
        options = Options(
            model=None if known else MortalModel(self._models[self.dice.choice(sorted(MODELS))], process),
            find=lambda name: MortalModel(self._models[name], process),
            fallback_models=[MortalModel(self._models[name], process) for name in chain],
            retries=Retries(attempts=2),
            resume=self.session_id if known else None,
            session_id=None if known else self.session_id,
            on_crash=on_crash,
            tools=[MortalTool(each, process) for each in TOOLS],
            only_tools=True,
            rules=(Rule.parse("deny", "forbidden"),),
            permission_mode="bypassPermissions",
            store=store,
            trace=NoTrace(),
            clock=self.universe,
            owner=process.owner,
            cwd="/",
            auto_compact=0.5,
            max_session_turns=10_000,
            max_rounds=6,
            system_prompt="Be brief.",
        )
        async with open_with(options) as session:
            await work(session)

    async def _carry_out(self, session: Session) -> None:
        while self._left and self.session_id == session.id:
            act = self._left.pop(0)
            if act == "leave":
                return
            try:
                await ACTS[act](self, session)
            except BackstayError as exc:
                if isinstance(exc, Bug):
                    raise

    async def _finish(self, session: Session) -> None:
        with suppress(BackstayError):
            await session.finish()
        for name in sorted(MODELS):
            with suppress(BackstayError):
                await session.set_model(name)
                await session.run(self.text())


# --- tools -----------------------------------------------------------------------------------------------------------------------


@tool(effect="pure")
async def look(n: int) -> str:
    """Look."""
    await anyio.sleep(n * 0.1)
    return " " if n == 2 else f"saw {n}"


@tool
async def pay(n: int) -> str:
    """Pay."""
    await anyio.sleep(0.3)
    return f"paid {n}" * 40


@tool(effect="idempotent")
async def put(n: int) -> str:
    """Put."""
    return ""


@tool
async def stumble(n: int) -> str:
    """Stumble."""
    raise ValueError(f"stumbled over {n}")


@tool(effect="pure")
async def photo(n: int) -> ToolOutput:
    """Take a picture."""
    return ToolOutput(text="here" if n == 1 else "", media=(InlineMedia(media_type="image/png", content=PNG),))


@tool
async def forbidden(n: int) -> str:
    """Do what is not allowed."""
    return "never"


TOOLS: Final[tuple[Tool, ...]] = (look, pay, put, stumble, photo, forbidden, child_tool())


# --- acts ------------------------------------------------------------------------------------------------------------------------


async def say(world: World, session: Session) -> None:
    """A turn."""
    await session.run(world.text())


async def show(world: World, session: Session) -> None:
    """A turn about media."""
    shown: tuple[InFlightPart, ...] = (
        Text(text=world.text()),
        InlineMedia(media_type=world.dice.choice(("image/png", "application/pdf", "audio/wav", "x/y")), content=PNG),
        MediaLink(url=world.dice.choice(("https://a.example/b.png", "file:f-1")), media_type="image/png"),
    )
    await session.run(shown)


async def interrupt(world: World, session: Session) -> None:
    """A turn that is stopped, and perhaps steered before."""

    async def meddle() -> None:
        await anyio.sleep(world.dice.random() * 0.8)
        if world.dice.random() < 0.5:
            await session.steer("and this")
            await anyio.sleep(world.dice.random())
        await session.abort("enough")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_borne, meddle)
        await _borne(lambda: session.run(world.text()))
        tasks.cancel_scope.cancel()


async def _borne(work: Callable[[], Awaitable[object]]) -> None:
    try:
        await work()
    except BackstayError as exc:
        if isinstance(exc, Bug):
            raise


async def inject(world: World, session: Session) -> None:
    """Words in somebody's mouth."""
    await session.inject(world.dice.choice(("user", "assistant", "assistant", "system")), "it was said")


async def fork(world: World, session: Session) -> None:
    """Go on in a copy, from some turn."""
    turns = [each.turn for each in session.turns]
    at = world.dice.choice(turns) if turns and world.dice.random() < 0.6 else ""
    world.session_id = (await session.fork(at=at)).id


async def rewind(world: World, session: Session) -> None:
    """Back to some turn of any path."""
    if session.turns:
        turn = world.dice.choice(session.turns).turn
        await (session.rewind(to=turn) if world.dice.random() < 0.5 else session.rewind(before=turn))


async def clear(world: World, session: Session) -> None:
    """A clean table."""
    await session.clear_history()


async def compact(world: World, session: Session) -> None:
    """Make it shorter."""
    await session.compact()


async def undo(world: World, session: Session) -> None:
    """Have the long one again."""
    await session.undo_compaction()


async def switch(world: World, session: Session) -> None:
    """Let another model answer."""
    await session.set_model(world.dice.choice(sorted(MODELS)))


async def leave(world: World, session: Session) -> None:
    """Close the session properly."""


ACTS: Final[dict[str, Act]] = {
    act.__name__: act for act in (say, show, interrupt, inject, fork, rewind, clear, compact, undo, switch, leave)
}
"""What may be done. Crashes come by themselves."""
OFTEN: Final = (*["say"] * 7, *["switch"] * 3, "interrupt", "interrupt", "rewind", *ACTS)
"""The same, with what happens often more often in it."""
