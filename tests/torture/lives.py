"""What a worker process does with its life."""

import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.lowlevel
import anyio.to_thread

from backstay.catalog.load import replay
from backstay.ports import Model, ModelReply, ModelRequest, Tool, ToolContext
from backstay.providers.scripted import ScriptedModel
from backstay.providers.wrapper import ModelAround
from backstay.session.assemble import open_session
from backstay.session.session import Session
from backstay.testing.checked_model import RULES, check_shape
from backstay.tools.define import tool
from backstay.vocab.deltas import Delta, Lagged, StoreWaiting
from backstay.vocab.errors import LeaseLost, SessionBusy, StoreError, TurnError
from backstay.vocab.event import Recorded
from tests.torture.orders import Order, Word

Say = Callable[[Word], None]
LONG: Final = 40_000
"""Characters of a tool's output that become a blob."""


async def talk(order: Order, say: Say) -> None:
    """Talk to a session, new or old, acknowledging every event to the driver, until killed or out of words."""
    chance = random.Random(order.seed)
    tools = make_tools(Path(order.folder), random.Random(order.seed))
    async with opened(order, say, tools) as session:
        if order.finish or chance.random() < 0.5:
            await _endured(session.finish)
        for turn in range(order.turns):
            await _turn(session, chance, f"message {turn} of life {order.life}")
        for drifted in await _drift(session):
            say(Word(life=order.life, kind="trouble", text=drifted))


async def hold(order: Order, say: Say) -> None:
    """Hold a session and talk until somebody else takes it over."""
    tools = make_tools(Path(order.folder), random.Random(order.seed))
    try:
        async with opened(order, say, tools) as session:
            for turn in range(order.turns):
                await session.run(f"message {turn} of life {order.life}")
    except LeaseLost as exc:
        say(Word(life=order.life, kind="lost", text=str(exc)))


async def take(order: Order, say: Say) -> None:
    """Take a session over as soon as its owner lets it, and finish what was begun."""
    tools = make_tools(Path(order.folder), random.Random(order.seed))
    while True:
        try:
            async with opened(order, say, tools) as session:
                await session.finish()
                await session.run(f"life {order.life} took over")
            return
        except SessionBusy as exc:
            say(Word(life=order.life, kind="waits", text=str(exc)))
        await anyio.sleep(order.ttl_s / 8)


async def join(order: Order, say: Say) -> None:
    """Open a session beside everybody else, and say what was heard when that is refused."""
    tools = make_tools(Path(order.folder), random.Random(order.seed))
    try:
        async with opened(order, say, tools) as session:
            for turn in range(order.turns):
                await session.run(f"message {turn}")
    except StoreError as exc:
        say(Word(life=order.life, kind="refused", text=f"{type(exc).__name__}: {exc}"))


LIVES: Final[Mapping[str, Callable[[Order, Say], Awaitable[None]]]] = {
    "talk": talk,
    "hold": hold,
    "take": take,
    "join": join,
}


@asynccontextmanager
async def opened(order: Order, say: Say, tools: list[Tool]) -> AsyncIterator[Session]:
    """The session of an order, with every committed event acknowledged."""
    model = Watched(ScriptedModel.of(REPLIES), lambda text: say(Word(life=order.life, kind="trouble", text=text)))
    async with open_session(
        model=model,
        store=order.url,
        session_id=order.session,
        cwd=order.folder,
        tools=tools,
        only_tools=True,
        lease_ttl_s=order.ttl_s,
    ) as session:
        for item in session.opened:
            if isinstance(item, Recorded):
                say(acknowledged(order, item))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_acknowledge, session, order, say)
            await anyio.lowlevel.checkpoint()
            failure: BaseException | None = None
            try:
                yield session
            except (StoreError, TurnError) as exc:
                failure = exc
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        say(Word(life=order.life, kind="end", seq=session.seq))


def acknowledged(order: Order, record: Recorded) -> Word:
    """An event that was published, and so is committed."""
    return Word(life=order.life, kind="event", seq=record.seq, id=record.id, text=type(record.event).__name__)


class Watched(ModelAround):
    """A model that looks at each request with the shape rules of all four formats before it passes it on."""

    def __init__(self, inner: Model, complain: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._complain = complain

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Check, then ask."""
        for format in RULES:
            for broken in check_shape(format, request.messages):
                self._complain(f"request for {format}: {broken}"[:2000])
        async with self._open_stream(request) as stream:
            async for item in stream:
                yield item


def make_tools(folder: Path, chance: random.Random) -> list[Tool]:
    """Tools of every effect. What they do is a line in the ledger, durable before they return, and they take their time."""

    async def act(effect: str, context: ToolContext) -> None:
        await anyio.sleep(chance.choice((0, 0.001, 0.004)))
        await anyio.to_thread.run_sync(enter, folder / "ledger", f"{effect} {context.key}")
        await anyio.sleep(chance.choice((0, 0.001, 0.004)))

    async def happened(number: int, context: ToolContext) -> str | None:
        return "placed before" if f"reconcilable {context.key}" in entries(folder / "ledger") else None

    @tool(effect="once")
    async def charge(number: int, context: ToolContext) -> str:
        """Charge a card."""
        await act("once", context)
        return f"charged {number}"

    @tool(effect="idempotent")
    async def store_file(number: int, context: ToolContext) -> str:
        """Put a file in its place."""
        await act("idempotent", context)
        return f"stored {number}"

    @tool(effect="reconcilable", check=happened)
    async def place_order(number: int, context: ToolContext) -> str:
        """Place an order."""
        await act("reconcilable", context)
        return f"placed {number}"

    @tool(effect="pure")
    async def look(number: int) -> str:
        """Look something up."""
        await anyio.sleep(chance.choice((0, 0.001, 0.004)))
        return f"seen {number} " + "x" * (LONG if number % 7 == 0 else 10)

    return [charge, store_file, place_order, look]


def enter(ledger: Path, line: str) -> None:
    """Add a line to a ledger, durably, with one call."""
    handle = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def entries(ledger: Path) -> list[str]:
    """The lines of a ledger."""
    return ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []


async def _turn(session: Session, chance: random.Random, prompt: str) -> None:
    """One turn, now and then with somebody speaking into it, stopping it, or going back before it."""
    what = chance.random()
    async with anyio.create_task_group() as tasks:
        if what < 0.2:
            tasks.start_soon(_later, chance.random() * 0.02, lambda: session.steer("and quickly"))
        elif what < 0.3:
            tasks.start_soon(_later, chance.random() * 0.02, lambda: session.abort("enough"))
        await _endured(lambda: session.run(prompt))
        tasks.cancel_scope.cancel()
    if session.is_running:
        await _endured(session.finish)
    if what > 0.9 and session.turns and not session.is_running:
        await session.rewind(before=session.turns[-1].turn)


async def _drift(session: Session) -> list[str]:
    """Where the live state is not the replayed state."""
    at, live = session.seq, session.plain_state()
    again = await replay(session.store, session.id, at)
    if session.seq != at:
        return []  # it moved on meanwhile: a drop or an answer that nobody waited for
    return [
        f"the live state is not the replayed state: {key}: {live.get(key)!r:.900} and {again.get(key)!r:.900}"
        for key in sorted(live.keys() | again.keys())
        if live.get(key) != again.get(key)
    ]


async def _later(seconds: float, act: Callable[[], Awaitable[None]]) -> None:
    await anyio.sleep(seconds)
    await act()


async def _endured(act: Callable[[], Awaitable[object]]) -> None:
    """Do something; a turn that was stopped or failed is no reason to stop."""
    try:
        await act()
    except TurnError:
        return


async def _acknowledge(session: Session, order: Order, say: Say) -> None:
    async for item in session.subscribe():
        if isinstance(item, Recorded):
            say(acknowledged(order, item))
        elif isinstance(item, StoreWaiting):
            say(Word(life=order.life, kind="waits", text=item.problem))
        elif isinstance(item, Lagged):
            say(Word(life=order.life, kind="trouble", text=f"lagged after {item.after}"))


def _call(name: str, number: int) -> dict[str, object]:
    return {"name": name, "args": {"number": number}}


def _replies(count: int) -> list[dict[str, object]]:
    """An endless conversation: plain answers, single calls, batches, in an order that only the position decides."""
    chance = random.Random(7)
    replies: list[dict[str, object]] = []
    for number in range(count):
        match chance.randrange(8):
            case 0 | 1:
                replies.append({"text": f"answer {number}"})
            case 2:
                replies.append({"text": "let me see", "calls": [_call("look", number + each) for each in range(3)]})
            case 3:
                mixed = ("look", "charge", "store_file", "place_order")
                replies.append({"calls": [_call(name, number) for name in mixed]})
            case choice:
                name = ("charge", "charge", "store_file", "place_order")[choice - 4]
                replies.append({"reasoning": "hm", "calls": [_call(name, number)]})
    return replies


def _short() -> list[dict[str, object]]:
    replies: list[dict[str, object]] = [
        {"text": "first", "calls": [_call("charge", 1), _call("look", 7)]},
        {"text": "done"},
    ]
    replies += [{"text": f"more {number}"} for number in range(50)]
    return replies


REPLIES: Final = _replies(3000)
"""The script of every life: how far it has come is in the log."""
SHORT: Final = _short()
"""One turn with two calls and a long result, then short answers."""
